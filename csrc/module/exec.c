/* `posix.execv` and `posix.execve`, to which all of os.exec* come, are replaced where CPython keeps their C functions: in the
 * method table that all interpreters share. An audit hook would hear of them too, but can never be taken away again, and with
 * one every audited call of the program costs more for ever (`id()` 24 ns, and then 51). */
#include "module/exec.h"

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "core/run.h"

typedef PyObject *(*plain_call)(PyObject *, PyObject *const *, Py_ssize_t);
typedef PyObject *(*keyword_call)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

/* Found once, and never changed: a thread may still be in the replacement of a run that has ended. */
static PyMethodDef *execv_def, *execve_def;
static plain_call old_execv;
static keyword_call old_execve;

/* GIL held, or attached on a free-threaded build; any interpreter. */
static PyObject *execv_called(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    spp_run_exec();
    return old_execv(module, args, n);
}

static PyObject *execve_called(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    spp_run_exec();
    return old_execve(module, args, n, names);
}

/* The table's entry of a built-in function that is called with these flags; or NULL, without an exception. */
static PyMethodDef *entry_of(PyObject *module, const char *name, int flags) {
    PyObject *function = PyObject_GetAttrString(module, name);
    PyMethodDef *entry = NULL;
    if (function != NULL && PyCFunction_CheckExact(function)) entry = ((PyCFunctionObject *)function)->m_ml;
    if (entry != NULL && entry->ml_flags != flags) entry = NULL;
    Py_XDECREF(function);
    PyErr_Clear();
    return entry;
}

#define AS_ENTRY(function) ((PyCFunction)(void (*)(void))(function))

/* The functions stand in the table as the type of the commonest ones (CPython's own cast). */
static PyCFunction function_of(PyMethodDef *entry) { return __atomic_load_n(&entry->ml_meth, __ATOMIC_ACQUIRE); }
static void put(PyMethodDef *entry, PyCFunction function) { __atomic_store_n(&entry->ml_meth, function, __ATOMIC_RELEASE); }

static bool find(void) {
    PyObject *module = PyImport_ImportModule("posix"); /* built in */
    if (module == NULL) {
        PyErr_Clear();
        return false;
    }
    PyMethodDef *plain = entry_of(module, "execv", METH_FASTCALL);
    PyMethodDef *keywords = entry_of(module, "execve", METH_FASTCALL | METH_KEYWORDS);
    Py_DECREF(module);
    if (plain == NULL || keywords == NULL) return false;
    old_execv = (plain_call)(void (*)(void))function_of(plain);
    old_execve = (keyword_call)(void (*)(void))function_of(keywords);
    execv_def = plain;
    execve_def = keywords;
    return true;
}

bool spp_exec_hook(void) {
    if (execv_def == NULL && !find()) return false;
    /* A forked child has ours from its parent. Somebody else's is left alone: it may call an old one that is ours. */
    PyCFunction plain = function_of(execv_def), keywords = function_of(execve_def);
    if (plain != AS_ENTRY(old_execv) && plain != AS_ENTRY(execv_called)) return false;
    if (keywords != AS_ENTRY(old_execve) && keywords != AS_ENTRY(execve_called)) return false;
    put(execv_def, AS_ENTRY(execv_called));
    put(execve_def, AS_ENTRY(execve_called));
    return true;
}

void spp_exec_unhook(void) {
    if (execv_def == NULL) return;
    if (function_of(execv_def) == AS_ENTRY(execv_called)) {
        put(execv_def, AS_ENTRY(old_execv));
    }
    if (function_of(execve_def) == AS_ENTRY(execve_called)) {
        put(execve_def, AS_ENTRY(old_execve));
    }
}
