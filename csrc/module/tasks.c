#include "module/tasks.h"

#include <Python.h>

#include <stddef.h>

#include "core/capture/tasks.h"
#include "py/task_offsets.h"

/* A key that lives for ever: the core knows it by its address. NULL: no memory. */
static PyObject *key(const char *text) {
    PyObject *known = PyUnicode_InternFromString(text);
    if (known == NULL) PyErr_Clear();
    return known;
}

static bool finds(PyObject *dict, PyObject *wanted, PyObject *value, bool both) {
    if (both && spp_task_found((uintptr_t)dict, (uintptr_t)wanted, true) != (uintptr_t)value) return false;
    return spp_task_found((uintptr_t)dict, (uintptr_t)wanted, false) == (uintptr_t)value;
}

/* Whether a value is found in a dict, not found when it is deleted, and found again: among few keys and many, the dict's others
 * being of the same type or not. Each deletion uses up an entry, so a small dict gets a new table meanwhile. */
#define ROUNDS 6
#define FEW 8
static bool proven_among(PyObject *wanted, bool texts, int others) {
    PyObject *dict = PyDict_New();
    bool right = dict != NULL;
    for (int i = 0; right && i < others; i++) {
        PyObject *other = texts ? PyUnicode_FromFormat("spprof.%d", i) : PyLong_FromLong(100000 + i);
        right = other != NULL && PyDict_SetItem(dict, other, Py_None) == 0;
        Py_XDECREF(other);
    }
    for (int left = others < FEW ? ROUNDS : 1; right && left-- > 0;) {
        bool last = left == 0; /* a read from outside takes a system call */
        right = finds(dict, wanted, NULL, last) && PyDict_SetItem(dict, wanted, dict) == 0 && finds(dict, wanted, dict, last) &&
                PyDict_SetItem(dict, wanted, Py_True) == 0 && finds(dict, wanted, Py_True, last) &&
                PyDict_DelItem(dict, wanted) == 0;
    }
    Py_XDECREF(dict);
    PyErr_Clear();
    return right;
}

static bool proven(PyObject *text) {
    static const int others[] = {0, 1, 5, 60};
    PyObject *object = PyLong_FromLong(1 << 20);
    bool right = object != NULL;
    for (size_t i = 0; right && i < sizeof others / sizeof *others; i++) {
        right = proven_among(text, true, others[i]) && proven_among(object, false, others[i]);
    }
    Py_XDECREF(object);
    return right;
}

void spp_tasks_enter(void) {
    static PyObject *asyncio, *task, *current, *loop;
    static bool known; /* how dicts are laid out: once a process */
    spp_task_forget();
    if (asyncio == NULL) {
        asyncio = key("_asyncio");
        task = key("Task");
        current = key("_current_tasks");
        loop = key("__asyncio_running_event_loop__");
    }
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
    if (asyncio == NULL || task == NULL || current == NULL || loop == NULL || modules == NULL || !PyDict_CheckExact(modules) ||
        (!known && !proven(loop)))
        return;
    known = true;
    spp_task_rule = (spp_task_rules) {
        .modules = (uintptr_t)modules, .asyncio = (uintptr_t)asyncio, .task = (uintptr_t)task, .current = (uintptr_t)current,
        .loop = (uintptr_t)loop, .tstate_dict = offsetof(PyThreadState, dict), .basicsize = offsetof(PyTypeObject, tp_basicsize),
        .base = offsetof(PyTypeObject, tp_base), .str = (uintptr_t)&PyUnicode_Type,
#if PY_VERSION_HEX >= 0x030C0000
        .integer = (uintptr_t)&PyLong_Type,
#endif
        .module = (uintptr_t)&PyModule_Type, .dict = (uintptr_t)&PyDict_Type, .type = (uintptr_t)&PyType_Type
    };
    spp_task_offsets(&spp_task_rule.tstate_loop, &spp_task_rule.tstate_task);
    spp_task_look();
}
