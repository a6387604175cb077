/* The functions are replaced where CPython keeps them: in the method tables of built-in modules, which all interpreters share,
 * and every reference to such a function leads to its entry. An audit hook would see some too, but can never be taken
 * away again, and with one every audited call of the program costs more for ever (`id()` 24 ns, and then 51).
 *
 * `posix.execv` and `posix.execve`: all of os.exec* come to them. `posix._exit`: the way out on which nothing of Python's runs.
 * `_thread.get_native_id`: `threading` calls it in each new thread; `_thread.get_ident`: at the end of each, too. */
#include "module/hooks.h"

#include "core/run/run.h"
#include "module/names.h"
#include "os/process.h"

typedef void (*any_call)(void); /* of no type */
typedef PyObject *(*plain_call)(PyObject *, PyObject *);
typedef PyObject *(*fast_call)(PyObject *, PyObject *const *, Py_ssize_t);
typedef PyObject *(*keyword_call)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);

typedef struct {
    const char *module, *name; /* NULL: the system's module, as os.name has it */
    int flags;
    any_call ours, old;
    PyMethodDef *entry; /* found once, and never changed: a thread may still be in the replacement of a run that has ended */
} hook;

enum { EXECV, EXECVE, EXIT, NATIVE_ID, IDENT, HOOKS };
static hook hooks[HOOKS];
static const spp_hooks_to *callbacks;

/* ---- ours. GIL held, or attached on a free-threaded build; any interpreter */

static PyObject *execv_called(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    void *kept = callbacks != NULL ? callbacks->exec(NULL) : NULL;
    spp_run_exec();
    PyObject *result = ((fast_call)hooks[EXECV].old)(module, args, n);
    if (callbacks != NULL) callbacks->exec_failed(kept);
    return result;
}

/* The position of the argument `env`; -1: it has none. */
static Py_ssize_t env_at(Py_ssize_t n, PyObject *names) {
    if (n > 2) return 2;
    for (Py_ssize_t i = 0; names != NULL && i < PyTuple_GET_SIZE(names); i++) {
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), "env") == 0) return n + i;
    }
    return -1;
}

#define ARGS_MOST 8

static PyObject *execve_called(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    PyObject *changed[ARGS_MOST], *env = NULL;
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0), at = env_at(n, names);
    void *kept = NULL;
    if (at >= 0 && all <= ARGS_MOST && callbacks != NULL) {
        for (Py_ssize_t i = 0; i < all; i++) changed[i] = args[i];
        Py_INCREF(args[at]);
        env = args[at];
        kept = callbacks->exec(&env);
        changed[at] = env;
        args = changed;
    }
    spp_run_exec();
    PyObject *result = ((keyword_call)hooks[EXECVE].old)(module, args, n, names);
    if (env != NULL) callbacks->exec_failed(kept);
    Py_XDECREF(env);
    return result;
}

static PyObject *exit_called(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    PyObject *changed = NULL;
    if (callbacks != NULL && n + (names != NULL ? PyTuple_GET_SIZE(names) : 0) == 1) {
        int status = (int)PyLong_AsLong(args[0]);
        PyErr_Clear(); /* what is wrong with it is for the call to say */
        int end = callbacks->exit(status);
        if (end != status) changed = PyLong_FromLong(end);
    }
    return ((keyword_call)hooks[EXIT].old)(module, changed != NULL ? &changed : args, n, names);
}

static PyObject *native_id_called(PyObject *module, PyObject *none) {
    PyObject *id = ((plain_call)hooks[NATIVE_ID].old)(module, none);
    if (id != NULL) spp_names_born(id);
    return id;
}

static PyObject *ident_called(PyObject *module, PyObject *none) {
    if (spp_run_active()) spp_names_ended();
    return ((plain_call)hooks[IDENT].old)(module, none);
}

/* ---- the tables */

/* The table holds functions as the most common type (CPython's own cast). */
#define ANY(function) ((any_call)(function))

static hook hooks[HOOKS] = {
    [EXECV] = {NULL, "execv", METH_FASTCALL, ANY(execv_called), NULL, NULL},
    [EXECVE] = {NULL, "execve", METH_FASTCALL | METH_KEYWORDS, ANY(execve_called), NULL, NULL},
    [EXIT] = {NULL, "_exit", METH_FASTCALL | METH_KEYWORDS, ANY(exit_called), NULL, NULL},
    [NATIVE_ID] = {"_thread", "get_native_id", METH_NOARGS, ANY(native_id_called), NULL, NULL},
    [IDENT] = {"_thread", "get_ident", METH_NOARGS, ANY(ident_called), NULL, NULL},
};

static any_call function_of(PyMethodDef *entry) { return ANY(__atomic_load_n(&entry->ml_meth, __ATOMIC_ACQUIRE)); }
static void set(PyMethodDef *entry, any_call function) {
    __atomic_store_n(&entry->ml_meth, (PyCFunction)function, __ATOMIC_RELEASE);
}

/* The table's entry of a built-in function that is called with these flags; or NULL, without an exception. */
static PyMethodDef *entry_of(const hook *h) {
    PyObject *module = PyImport_ImportModule(h->module != NULL ? h->module : spp_os_family); /* built in */
    PyObject *function = module != NULL ? PyObject_GetAttrString(module, h->name) : NULL;
    PyMethodDef *entry = NULL;
    if (function != NULL && PyCFunction_CheckExact(function)) entry = ((PyCFunctionObject *)function)->m_ml;
    if (entry != NULL && entry->ml_flags != h->flags) entry = NULL;
    Py_XDECREF(function);
    Py_XDECREF(module);
    PyErr_Clear();
    return entry;
}

/* Somebody else's is left alone: it may call an old one that is ours. A forked child has ours from its parent. */
static bool put(hook *h) {
    if (h->entry == NULL) {
        PyMethodDef *entry = entry_of(h);
        if (entry == NULL) return false;
        h->old = function_of(entry);
        h->entry = entry;
    }
    any_call now = function_of(h->entry);
    if (now != h->old && now != h->ours) return false;
    set(h->entry, h->ours);
    return true;
}

bool spp_hooks_put(const spp_hooks_to *to) {
    callbacks = to;
    bool exec = put(&hooks[EXECV]);
    exec = put(&hooks[EXECVE]) && exec;
    (void)put(&hooks[EXIT]);
    (void)put(&hooks[NATIVE_ID]);
    (void)put(&hooks[IDENT]);
    return exec && spp_os_forks; /* else nothing is armed that an exec would have to disarm */
}

void spp_hooks_take_away(bool exit_too) {
    for (int i = 0; i < HOOKS; i++) {
        if (i == EXIT && !exit_too) continue;
        if (hooks[i].entry != NULL && function_of(hooks[i].entry) == hooks[i].ours) set(hooks[i].entry, hooks[i].old);
    }
}
