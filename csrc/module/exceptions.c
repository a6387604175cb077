/* CPython 3.12+: events of sys.monitoring, whose callbacks are functions in C. Before there is none of an exception that is
 * caught: a trace function is called for raises alone, and makes each line slower. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "module/exceptions.h"

#include "base/hints.h"
#include "base/sample.h"
#include "core/capture/frames.h"
#include "core/run/raises.h"
#include "module/compat.h"
#include "module/held.h"
#include "module/monitor.h"

static bool heard;

#if SPP_MONITORS

/* ---- names of types, without running anything of the program's */

#define NAME_MOST 512

static const char *text_of(PyObject *text) {
    const char *utf8 = text != NULL && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : NULL;
    PyErr_Clear();
    return utf8;
}

/* `ValueError`, `decimal.InvalidOperation`. */
static SPP_COLD void name_type(PyTypeObject *type) {
    char full[2 * NAME_MOST];
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    if (PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) {
        PyObject *dict = PyType_GetDict(type), *module = spp_held(dict, "__module__"), *name = PyType_GetQualName(type);
        const char *home = text_of(module), *own = text_of(name);
        bool at_home = home == NULL || strcmp(home, "builtins") == 0;
        PyOS_snprintf(full, sizeof full, "%.*s%s%.*s", NAME_MOST - 2, at_home ? "" : home, at_home ? "" : ".", NAME_MOST,
                      own != NULL ? own : type->tp_name);
        Py_XDECREF(name);
        Py_XDECREF(module);
        Py_XDECREF(dict);
    } else {
        PyOS_snprintf(full, sizeof full, "%.*s", NAME_MOST, type->tp_name);
    }
    PyErr_Clear();
    PyErr_Restore(kind, value, traceback);
    spp_raises_name((uintptr_t)type, full);
}

/* ---- callbacks: code object, offset, exception. They raise nothing. CPython calls none for what runs within one. */

static void hold(uintptr_t object) { Py_INCREF((PyObject *)object); }

typedef void happens(const spp_flight_at *now);

/* The innermost frame, or its caller, is where the exception is now. `at`: the instruction, unless it is the frame's own. */
static inline PyObject *hear(PyObject *const *args, Py_ssize_t n, bool in_caller, PyObject *at, happens *what) {
    uintptr_t thread = (uintptr_t)PyThreadState_Get();
    if (spp_rare(n < 3 || !atomic_load_explicit(&spp_raises_on, memory_order_relaxed))) Py_RETURN_NONE;
    spp_flight_at now = {.thread = thread, .exception = (uintptr_t)args[2], .type = (uintptr_t)Py_TYPE(args[2])};
    do {
        now.at = SPP_OFFSET_NONE;
        now.frame = spp_frames_here(thread, in_caller, &now.code, &now.at);
        if (now.frame == 0) now.code = 0;
    } while (now.frame != 0 && spp_rare(spp_monitor_is_init_cleanup((PyObject *)now.code)));
    /* A frame between a caller and an `__init__` is no frame of the program's. */
    if (spp_rare((uintptr_t)args[0] == atomic_load_explicit(&spp_py.init_cleanup, memory_order_relaxed))) Py_RETURN_NONE;
    if (at != NULL) now.at = (uint32_t)PyLong_AsLong(at);
    what(&now);
    Py_RETURN_NONE;
}

static PyObject *raised(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    (void)self;
    if (spp_rare(n >= 3 && !spp_raises_knows((uintptr_t)Py_TYPE(args[2])))) name_type(Py_TYPE(args[2]));
    return hear(args, n, false, NULL, spp_raises_raised);
}

static PyObject *leaves(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    (void)self;
    return hear(args, n, true, NULL, spp_raises_left);
}

static PyObject *handled(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    (void)self;
    return hear(args, n, false, n >= 3 ? args[1] : NULL, spp_raises_handled);
}

static PyObject *again(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    (void)self;
    return hear(args, n, false, NULL, spp_raises_again);
}

static PyMethodDef callbacks[] = {
    SPP_MONITOR_CALLBACK("RAISE", raised, "spprof counts an exception."),
    SPP_MONITOR_CALLBACK("PY_UNWIND", leaves, "spprof counts an exception."),
    SPP_MONITOR_CALLBACK("EXCEPTION_HANDLED", handled, "spprof counts an exception."),
    SPP_MONITOR_CALLBACK("RERAISE", again, "spprof counts an exception."),
};

#define EVENTS (sizeof callbacks / sizeof *callbacks)

static spp_monitor monitor = SPP_MONITOR_NONE;

static int arm(void) {
    spp_raises_start(hold);
    return spp_monitor_enter(&monitor, callbacks, EVENTS, EVENTS, "exceptions cannot be counted");
}

static void disarm(void) {
    spp_monitor_leave(&monitor);
    spp_raises_stop(spp_held_release);
}

#else

static int arm(void) {
    PyErr_SetString(PyExc_RuntimeError, "exceptions cannot be counted before Python 3.12, which has no sys.monitoring: run the "
                                        "program with 3.12 or later, or without that");
    return -1;
}

static void disarm(void) {}

#endif

int spp_exceptions_enter(bool asked) {
    if (!asked) return 0;
    heard = true;
    if (arm() == 0) return 0;
    spp_exceptions_leave();
    return -1;
}

void spp_exceptions_leave(void) {
    if (!heard) return;
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    heard = false;
    disarm();
    PyErr_Clear();
    PyErr_Restore(kind, value, traceback);
}
