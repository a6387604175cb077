/* Counts calls by a profile function in C: the oracle that `python -m tests.torture.counts` holds spprof's counts to. It shares
 * nothing with spprof. An extension module: begin(), end(), and wrap(f), which is f with the profile function in its thread.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>
#include <stdbool.h>

typedef struct {
    const void *key;
    PyObject *what; /* a code object, or the name of a function in C */
    unsigned long long n;
} entry;

#define ROOM (1 << 18)
static entry table[ROOM];
static size_t used;
static volatile bool on;

#ifdef Py_GIL_DISABLED
static PyMutex lock;
#define LOCK() PyMutex_Lock(&lock)
#define UNLOCK() PyMutex_Unlock(&lock)
#else
#define LOCK() (void)0
#define UNLOCK() (void)0
#endif

static entry *find(const void *key) {
    size_t at = ((uintptr_t)key >> 4) * 2654435761u % ROOM;
    while (table[at].key != NULL && table[at].key != key) at = (at + 1) % ROOM;
    return &table[at];
}

static void count(const void *key, PyObject *code, PyObject *function) {
    LOCK();
    entry *one = find(key);
    if (one->key == NULL) {
        if (++used > ROOM / 2) Py_FatalError("the oracle's table is full");
        one->key = key;
        one->what = code != NULL ? code : PyUnicode_FromString(((PyCFunctionObject *)function)->m_ml->ml_name);
        Py_XINCREF(code);
    }
    one->n++;
    UNLOCK();
}

static int hear(PyObject *self, PyFrameObject *frame, int what, PyObject *arg) {
    (void)self;
    if (!on) return 0;
    if (what == PyTrace_CALL) {
        PyObject *code = (PyObject *)PyFrame_GetCode(frame);
        count(code, code, NULL);
        Py_DECREF(code);
    } else if (what == PyTrace_C_CALL && PyCFunction_Check(arg)) {
        count(((PyCFunctionObject *)arg)->m_ml, NULL, arg);
    }
    return 0;
}

static PyObject *begin(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    memset(table, 0, sizeof table);
    used = 0;
    on = true;
    PyEval_SetProfile(hear, NULL);
    Py_RETURN_NONE;
}

/* [(code object or name, calls)] */
static PyObject *end(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    on = false;
    PyEval_SetProfile(NULL, NULL);
    PyObject *found = PyList_New(0);
    for (size_t i = 0; found != NULL && i < ROOM; i++) {
        if (table[i].key == NULL) continue;
        PyObject *one = Py_BuildValue("(NK)", table[i].what, table[i].n);
        if (one == NULL || PyList_Append(found, one) != 0) Py_CLEAR(found);
        Py_XDECREF(one);
    }
    return found;
}

static PyObject *enter(PyObject *function, PyObject *arguments, PyObject *named) {
    if (on) PyEval_SetProfile(hear, NULL);
    PyObject *result = PyObject_Call(function, arguments, named);
    PyEval_SetProfile(NULL, NULL);
    return result;
}

static PyMethodDef entering = {"enter", (PyCFunction)(void (*)(void))enter, METH_VARARGS | METH_KEYWORDS, "A thread begins."};

static PyObject *wrap(PyObject *self, PyObject *function) {
    (void)self;
    return PyCFunction_New(&entering, function);
}

static PyMethodDef functions[] = {{"begin", begin, METH_NOARGS, "Begins to count, in this thread and wrapped functions."},
                                  {"end", end, METH_NOARGS, "What was counted."},
                                  {"wrap", wrap, METH_O, "A function that counts in its thread."},
                                  {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "counter", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_counter(void) {
    PyObject *made = PyModule_Create(&module);
#ifdef Py_GIL_DISABLED
    if (made != NULL) PyUnstable_Module_SetGIL(made, Py_MOD_GIL_NOT_USED);
#endif
    return made;
}
