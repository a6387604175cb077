#include "module/monitor.h"

#include <stdatomic.h>
#include <string.h>

#include "core/capture/frames.h"
#include "module/compat.h"
#include "module/held.h"

bool spp_monitor_is_init_cleanup(PyObject *object) {
    /* No code of a program is named and filed like it. */
    const PyCodeObject *code = (PyCodeObject *)object;
    bool is = PyUnicode_CompareWithASCIIString(code->co_filename, "__init__") == 0 &&
              PyUnicode_CompareWithASCIIString(code->co_name, "__init__") == 0;
    if (is) atomic_store(&spp_py.init_cleanup, (uintptr_t)code);
    return is;
}

#if SPP_MONITORS

/* One for each of calls, times, lines and exceptions. First those that have no name, then OPTIMIZER_ID, which nothing of
 * CPython's takes; PROFILER_ID comes last, as cProfile takes it. Debuggers and coverage keep theirs. */
static const int ids[] = {4, 3, 5, 2};

static PyObject *monitoring(void) { return spp_held_by_module("sys", "monitoring"); }

PyObject *spp_monitor_sign(const char *name) {
    PyObject *module = monitoring(), *sign = module != NULL ? PyObject_GetAttrString(module, name) : NULL;
    PyErr_Clear();
    Py_XDECREF(module);
    Py_XDECREF(sign);
    return sign;
}

static int done(PyObject *result) {
    Py_XDECREF(result);
    return result != NULL ? 0 : -1;
}

static int take_id(spp_monitor *monitor, PyObject *module, const char *what) {
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        if (done(PyObject_CallMethod(module, "use_tool_id", "is", ids[i], "spprof")) == 0) {
            monitor->tool = ids[i];
            return 0;
        }
        if (!PyErr_ExceptionMatches(PyExc_ValueError)) return -1;
        PyErr_Clear();
    }
    PyObject *owners[sizeof ids / sizeof *ids] = {NULL};
    for (size_t i = 0; i < sizeof ids / sizeof *ids && !PyErr_Occurred(); i++)
        owners[i] = PyObject_CallMethod(module, "get_tool", "i", ids[i]);
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_RuntimeError, "%s: the ids 2 to 5 of sys.monitoring are taken (%S, %S, %S, %S)", what, owners[3],
                     owners[1], owners[0], owners[2]);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) Py_XDECREF(owners[i]);
    return -1;
}

/* The numbers of some events together; -1 with an exception. */
static long events_of(const spp_monitor *monitor, PyObject *module, size_t from, size_t to) {
    PyObject *names = PyObject_GetAttrString(module, "events");
    long all = 0;
    for (size_t i = from; names != NULL && i < to && all >= 0; i++) {
        PyObject *number = PyObject_GetAttrString(names, monitor->callbacks[i].ml_name);
        long event = number != NULL ? PyLong_AsLong(number) : -1;
        Py_XDECREF(number);
        all = event >= 0 ? all | event : -1;
    }
    Py_XDECREF(names);
    return names != NULL ? all : -1;
}

/* In place of CPython's own, which raises RecursionError where C code has used up its depth, and so in a function whose call
 * would have succeeded. */
static PyObject *call(PyObject *callback, PyObject *const *args, size_t n, PyObject *names) {
    (void)names;
    PyObject *(*function)(PyObject *, PyObject *const *, Py_ssize_t);
    PyCFunction given = PyCFunction_GET_FUNCTION(callback);
    memcpy(&function, &given, sizeof function);
    return function(NULL, args, PyVectorcall_NARGS(n));
}

static PyObject *callable(PyMethodDef *def) {
    PyObject *made = PyCFunction_New(def, NULL);
    if (made != NULL) ((PyCFunctionObject *)made)->vectorcall = call;
    return made;
}

/* Registers our callbacks, or takes them away. */
static int set_callbacks(const spp_monitor *monitor, PyObject *module, bool ours) {
    int failed = 0;
    for (size_t i = 0; i < monitor->n; i++) {
        long event = events_of(monitor, module, i, i + 1);
        PyObject *callback = ours ? callable(&monitor->callbacks[i]) : Py_NewRef(Py_None);
        failed |= event < 0 || callback == NULL ||
                  done(PyObject_CallMethod(module, "register_callback", "ilO", monitor->tool, event, callback)) != 0;
        Py_XDECREF(callback);
    }
    return failed;
}

int spp_monitor_enter(spp_monitor *monitor, PyMethodDef *callbacks, size_t n, size_t everywhere, const char *what) {
    PyObject *module = monitoring();
    if (module == NULL) return PyErr_Format(PyExc_RuntimeError, "%s: there is no sys.monitoring", what), -1;
    monitor->callbacks = callbacks;
    monitor->n = n;
    long all = events_of(monitor, module, 0, everywhere);
    int failed = all < 0 || take_id(monitor, module, what) != 0 || set_callbacks(monitor, module, true) != 0 ||
                 done(PyObject_CallMethod(module, "set_events", "il", monitor->tool, all)) != 0;
    Py_DECREF(module);
    return failed ? -1 : 0;
}

int spp_monitor_restart(void) {
    PyObject *module = monitoring();
    int failed = module == NULL || done(PyObject_CallMethod(module, "restart_events", NULL)) != 0;
    Py_XDECREF(module);
    return failed ? -1 : 0;
}

static int set_local(const spp_monitor *monitor, PyObject *code, bool armed, size_t from) {
    PyObject *module = monitoring();
    long all = module == NULL ? -1 : armed ? events_of(monitor, module, from, monitor->n) : 0;
    int failed = all < 0 || done(PyObject_CallMethod(module, "set_local_events", "iOl", monitor->tool, code, all)) != 0;
    Py_XDECREF(module);
    return failed ? -1 : 0;
}

int spp_monitor_arm(const spp_monitor *monitor, PyObject *code, size_t from) { return set_local(monitor, code, true, from); }

int spp_monitor_disarm(const spp_monitor *monitor, PyObject *code) {
    int failed = monitor->tool >= 0 ? set_local(monitor, code, false, 0) : 0;
    PyErr_Clear();
    return failed;
}

void spp_monitor_leave(spp_monitor *monitor) {
    PyObject *module = monitor->tool >= 0 ? monitoring() : NULL;
    if (module != NULL) {
        (void)done(PyObject_CallMethod(module, "set_events", "ii", monitor->tool, 0));
        PyErr_Clear();
        (void)set_callbacks(monitor, module, false);
        PyErr_Clear();
        (void)done(PyObject_CallMethod(module, "free_tool_id", "i", monitor->tool));
    }
    PyErr_Clear();
    monitor->tool = -1;
    Py_XDECREF(module);
}

#endif
