/* Counts calls by a profile function in C: the oracle that `python -m tests.torture.counts` holds spprof's counts to. It shares
 * nothing with spprof. An extension module: begin(), end(), and wrap(f), which is f with the profile function in its thread.
 * From 3.12 on also pass_on(f, begins) and passed_on(): what cProfile gets, and what it makes of that.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>
#include <stdbool.h>
#include <stddef.h>

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

#if PY_VERSION_HEX >= 0x030C0000
/* Events of one code object that cProfile gets. It counts ends, while its stack of calls is not empty. */
typedef struct {
    PyObject *code;
    unsigned long long began, refused, ended; /* calls; those whose event cProfile refused; ends that it counts */
} heard;

static heard codes[ROOM];
static size_t *stack; /* as cProfile's: of what began, in all threads together */
static size_t depth, space;

typedef struct {
    PyObject ob_base;
    vectorcallfunc vectorcall;
    PyObject *callback;
    bool begins;
} listener;

static size_t place_of(PyObject *code) {
    size_t at = ((uintptr_t)code >> 4) * 2654435761u % ROOM;
    while (codes[at].code != NULL && codes[at].code != code) at = (at + 1) % ROOM;
    if (codes[at].code == NULL) {
        if (++used > ROOM / 2) Py_FatalError("the oracle's table is full");
        codes[at].code = Py_NewRef(code);
    }
    return at;
}

static void note(PyObject *code, bool begins, bool passed) {
    LOCK();
    size_t at = place_of(code);
    if (begins) {
        codes[at].began++;
        if (!passed) codes[at].refused++;
    }
    if (begins && passed) {
        if (depth == space) {
            space = space * 2 + 1000;
            stack = realloc(stack, space * sizeof *stack);
            if (stack == NULL) Py_FatalError("no memory for the oracle's stack");
        }
        stack[depth++] = at;
    } else if (passed && depth > 0) {
        depth--; /* whatever is on top */
        if (codes[at].began > codes[at].refused) codes[at].ended++;
    }
    UNLOCK();
}

/* Has no use for the depth that C code has, which a built-in function takes one of: where that ends, cProfile's is refused. */
static PyObject *listen(PyObject *self, PyObject *const *arguments, size_t n, PyObject *names) {
    listener *one = (listener *)self;
    PyObject *result = PyObject_Vectorcall(one->callback, arguments, n, names);
    note(arguments[0], one->begins, result != NULL);
    return result;
}

static void forget(PyObject *self) {
    Py_DECREF(((listener *)self)->callback);
    PyObject_Free(self);
}

static PyTypeObject listeners = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "counter.listener",
    .tp_basicsize = sizeof(listener),
    .tp_dealloc = forget,
    .tp_call = PyVectorcall_Call,
    .tp_vectorcall_offset = offsetof(listener, vectorcall),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
};

static PyObject *pass_on(PyObject *self, PyObject *arguments) {
    (void)self;
    PyObject *callback;
    int begins;
    if (!PyArg_ParseTuple(arguments, "Op", &callback, &begins) || PyType_Ready(&listeners) != 0) return NULL;
    listener *made = PyObject_New(listener, &listeners);
    if (made == NULL) return NULL;
    made->vectorcall = listen;
    made->callback = Py_NewRef(callback);
    made->begins = begins;
    return (PyObject *)made;
}

/* [(code object, began, refused, ended)]. What is left on the stack counts as ended, as when cProfile is disabled. */
static PyObject *passed_on(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    while (depth > 0) codes[stack[--depth]].ended++;
    PyObject *found = PyList_New(0);
    for (size_t i = 0; found != NULL && i < ROOM; i++) {
        if (codes[i].code == NULL) continue;
        PyObject *one = Py_BuildValue("(OKKK)", codes[i].code, codes[i].began, codes[i].refused, codes[i].ended);
        if (one == NULL || PyList_Append(found, one) != 0) Py_CLEAR(found);
        Py_XDECREF(one);
    }
    return found;
}
#endif

static PyMethodDef functions[] = {
    {"begin", begin, METH_NOARGS, "Begins to count, in this thread and wrapped functions."},
    {"end", end, METH_NOARGS, "What was counted."},
    {"wrap", wrap, METH_O, "A function that counts in its thread."},
#if PY_VERSION_HEX >= 0x030C0000
    {"pass_on", pass_on, METH_VARARGS, "A callback of sys.monitoring that calls another, and counts."},
    {"passed_on", passed_on, METH_NOARGS, "What was counted so."},
#endif
    {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "counter", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_counter(void) {
    PyObject *made = PyModule_Create(&module);
#ifdef Py_GIL_DISABLED
    if (made != NULL) PyUnstable_Module_SetGIL(made, Py_MOD_GIL_NOT_USED);
#endif
    return made;
}
