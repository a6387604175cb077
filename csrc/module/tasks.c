#include "module/tasks.h"

#include <Python.h>

#include <stdatomic.h>
#include <stddef.h>

#include "base/peek.h"
#include "core/capture/coroutines.h"
#include "core/capture/tasks.h"
#include "module/compat.h"
#include "module/held.h"
#include "py/layout.h"
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

/* ---- whether tasks are as the layout says: by what they say of themselves */

static _Atomic bool asked_for; /* a pending call is on its way */
static _Atomic bool is_proven; /* by at least one task */

static PyObject *field(PyObject *task, uintptr_t offset) { return (PyObject *)spp_peek64((uintptr_t)task + offset); }

/* Whether a field is what the task says of it. On a free-threaded build the task may move meanwhile: then it was so before or
 * after, or the field has changed and proves nothing. */
static bool same(PyObject *task, uintptr_t offset, const char *name, bool is_method) {
    PyObject *before = field(task, offset);
    PyObject *said = is_method ? PyObject_CallMethod(task, name, NULL) : PyObject_GetAttrString(task, name);
    PyObject *after = field(task, offset), *wanted = said != Py_None ? said : NULL;
    bool right = before != after || after == said || after == wanted;
    Py_XDECREF(said);
    return right;
}

static bool is_pending(PyObject *task) { return spp_peek32((uintptr_t)task + SPP_L_FUTURE_STATE) == 0; }

/* A subclass may answer anything. */
static bool agrees(PyObject *task) {
    if ((uintptr_t)Py_TYPE(task) != atomic_load(&spp_task_type)) return true;
    bool before = is_pending(task);
    PyObject *state = PyObject_GetAttrString(task, "_state");
    bool pending = state != NULL && PyUnicode_Check(state) && PyUnicode_CompareWithASCIIString(state, "PENDING") == 0;
    bool right = (pending == before || before != is_pending(task)) && same(task, SPP_L_TASK_NAME, "get_name", true) &&
                 same(task, SPP_L_TASK_NAME - 8, "get_coro", true) && same(task, SPP_L_TASK_NAME - 16, "_fut_waiter", false) &&
                 same(task, SPP_L_OB_TYPE + 8, "get_loop", true);
    Py_XDECREF(state);
    atomic_store(&is_proven, true);
    return right;
}

/* The set in a WeakSet of all tasks, borrowed; NULL: there is none (3.14+). What a module lacks it would look for by code in
 * Python, which counts of calls would hear. */
static PyObject *all_tasks(void) {
    PyObject *all = spp_held_by_module("_asyncio", "_scheduled_tasks");
    if (all == NULL) all = spp_held_by_module("_asyncio", "_all_tasks");
    PyObject *set = all != NULL ? PyObject_GetAttrString(all, "data") : NULL;
    PyErr_Clear();
    Py_XDECREF(all); /* the module has it, and it has the set */
    if (set != NULL && !Py_IS_TYPE(set, &PySet_Type)) Py_CLEAR(set);
    Py_XDECREF(set);
    return set;
}

#define COMPARED 8 /* tasks, at the most */

static bool some_agree(PyObject *set) {
    PyObject *each, *references = PyObject_GetIter(set);
    bool right = true;
    for (int i = 0; references != NULL && i < COMPARED && right && (each = PyIter_Next(references)) != NULL; i++) {
        PyObject *task = PyWeakref_Check(each) ? PyObject_CallNoArgs(each) : NULL;
        right = task == NULL || task == Py_None || agrees(task);
        Py_XDECREF(task);
        Py_DECREF(each);
    }
    Py_XDECREF(references);
    return right;
}

/* 3.14+: that of this thread, if one runs. A function of the program's in its place says nothing. */
static bool current_agrees(void) {
    PyObject *function = spp_held_by_module("_asyncio", "current_task");
    PyObject *task = function != NULL && PyCFunction_CheckExact(function) ? PyObject_CallNoArgs(function) : NULL;
    Py_XDECREF(function);
    bool right = task == NULL || task == Py_None || agrees(task);
    Py_XDECREF(task);
    return right;
}

/* A pending call: on the main thread, with the GIL, between two instructions. */
static int check(void *unused) {
    (void)unused;
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    if ((uintptr_t)PyImport_GetModuleDict() == spp_task_rule.modules && atomic_load(&spp_task_type) != 0) {
        PyObject *set = all_tasks();
        if (set != NULL ? !some_agree(set) : !current_agrees())
            spp_task_refuse();
        else
            atomic_store_explicit(&spp_coroutine_all, (uintptr_t)set, memory_order_release);
    }
    PyErr_Clear();
    PyErr_Restore(kind, value, traceback);
    atomic_store(&asked_for, false);
    return 0;
}

/* Without the GIL. */
static void ask(void) {
    if (atomic_load(&is_proven) || atomic_exchange(&asked_for, true)) return;
    if (Py_AddPendingCall(check, NULL) != 0) atomic_store(&asked_for, false);
}

static void give_rules(PyObject *parent) {
    const spp_generator_offsets of = spp_generators();
    spp_coroutine_rule = (spp_coroutine_rules){.frame = of.frame,
                                               .top = of.top,
                                               .base = of.base,
                                               .depth = of.depth,
                                               .by_state = of.by_state,
                                               .above = of.above,
                                               .awaits = of.awaits,
                                               .awaits_too = of.awaits_too,
                                               .set_used = offsetof(PySetObject, used),
                                               .set_mask = offsetof(PySetObject, mask),
                                               .set_table = offsetof(PySetObject, table),
                                               .task_node = SPP_L_TASK_SIZE - 16,
                                               .weakref_object = offsetof(PyWeakReference, wr_object),
                                               .builtin_self = offsetof(PyCFunctionObject, m_self),
                                               .function_code = offsetof(PyFunctionObject, func_code),
                                               .list_items = offsetof(PyListObject, ob_item),
                                               .function_closure = offsetof(PyFunctionObject, func_closure),
                                               .cell_content = offsetof(PyCellObject, ob_ref),
                                               .method_self = offsetof(PyMethodObject, im_self),
                                               .set = (uintptr_t)&PySet_Type,
                                               .list = (uintptr_t)&PyList_Type,
                                               .tuple = (uintptr_t)&PyTuple_Type,
                                               .builtin = (uintptr_t)&PyCFunction_Type,
                                               .function = (uintptr_t)&PyFunction_Type,
                                               .method = (uintptr_t)&PyMethod_Type,
                                               .parent = (uintptr_t)parent};
    atomic_store(&spp_coroutine_all, 0);
    atomic_store(&is_proven, false);
    atomic_store(&asked_for, false);
}

void spp_tasks_enter(void) {
    static PyObject *asyncio, *task, *future, *current, *loop, *parent;
    static bool known; /* how dicts are laid out: once a process */
    spp_task_forget();
    if (asyncio == NULL) {
        asyncio = key("_asyncio");
        task = key("Task");
        future = key("Future");
        current = key("_current_tasks");
        loop = key("__asyncio_running_event_loop__");
        parent = key("_parent_task");
    }
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
    if (asyncio == NULL || task == NULL || future == NULL || current == NULL || loop == NULL || parent == NULL ||
        modules == NULL || !PyDict_CheckExact(modules) || (!known && !proven(loop)))
        return;
    known = true;
    spp_task_rule = (spp_task_rules) {
        .modules = (uintptr_t)modules, .asyncio = (uintptr_t)asyncio, .task = (uintptr_t)task, .future = (uintptr_t)future,
        .current = (uintptr_t)current, .loop = (uintptr_t)loop, .tstate_dict = offsetof(PyThreadState, dict),
        .tstate_version = offsetof(PyThreadState, context_ver), .basicsize = offsetof(PyTypeObject, tp_basicsize),
        .base = offsetof(PyTypeObject, tp_base), .str = (uintptr_t)&PyUnicode_Type,
#if PY_VERSION_HEX >= 0x030C0000
        .integer = (uintptr_t)&PyLong_Type,
#endif
        .module = (uintptr_t)&PyModule_Type, .dict = (uintptr_t)&PyDict_Type, .type = (uintptr_t)&PyType_Type, .check = ask
    };
    spp_task_offsets(&spp_task_rule.tstate_loop, &spp_task_rule.tstate_task, &spp_task_rule.tstate_tasks);
    give_rules(parent);
    spp_task_look();
}
