/* CPython 3.12+: events of sys.monitoring that are armed in single code objects; other functions have none. Which these are
 * changes while the program runs. The drain thread has no GIL, so it asks CPython to call us back in whatever thread of the
 * interpreter next looks for pending calls. */
#include "module/hot.h"

#include <stdatomic.h>

#include "base/hints.h"
#include "core/run/hot.h"
#include "module/compat.h"
#include "module/held.h"
#include "module/monitor.h"

#if SPP_MONITORS

static PyInterpreterState *of; /* whose run it is; NULL: there is none */
static _Atomic bool asked_for; /* a pending call is on its way */
static spp_monitor monitor = SPP_MONITOR_NONE;

static PyObject *begins(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    (void)self, (void)n;
    spp_hot_count((uintptr_t)args[0]);
    Py_RETURN_NONE;
}

static PyMethodDef callbacks[] = {
    SPP_MONITOR_CALLBACK("PY_START", begins, "spprof counts a call."),
};

static spp_turn turn; /* one thread at a time arms and disarms */

static void disarm(uintptr_t code) { (void)spp_monitor_disarm(&monitor, (PyObject *)code); }

/* A pending call: in any thread of the interpreter, between two instructions; no exception is set. */
static int change(void *unused) {
    (void)unused;
    atomic_store(&asked_for, false);
    SPP_TURN_BEGINS(&turn);
    uintptr_t code;
    bool armed;
    while (of != NULL && spp_hot_next(spp_held_code, &code, &armed)) {
        int failed = armed ? spp_monitor_arm(&monitor, (PyObject *)code, 0) : spp_monitor_disarm(&monitor, (PyObject *)code);
        PyErr_Clear();
        spp_hot_done(code, armed, failed != 0);
    }
    SPP_TURN_ENDS(&turn);
    return 0;
}

/* CPython's own way to let any thread of an interpreter, not only the main one, make a pending call. It is exported, but in no
 * public header. The result is 0 if it will. */
PyAPI_FUNC(int) _PyEval_AddPendingCall(PyInterpreterState *interpreter, int (*call)(void *), void *argument, int flags);

/* The drain thread; takes CPython's lock of its pending calls, as signals from other threads do. */
static void ask(void) {
    if (!atomic_exchange(&asked_for, true) && _PyEval_AddPendingCall(of, change, NULL, 0) != 0) atomic_store(&asked_for, false);
}

int spp_hot_enter(bool asked) {
    if (!asked) return 0;
    if (spp_hot_start(ask) != 0) return PyErr_NoMemory(), -1;
    of = PyInterpreterState_Get();
    atomic_store(&asked_for, false);
    if (spp_monitor_enter(&monitor, callbacks, 1, 0, "calls cannot be counted") == 0) return 0;
    spp_hot_leave();
    return -1;
}

void spp_hot_leave(void) {
    if (of == NULL) return;
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    SPP_TURN_BEGINS(&turn);
    of = NULL;
    spp_hot_each(disarm);
    spp_monitor_leave(&monitor);
    spp_hot_stop(spp_held_release);
    SPP_TURN_ENDS(&turn);
    PyErr_Clear();
    PyErr_Restore(kind, value, traceback);
}

#else

int spp_hot_enter(bool asked) {
    if (!asked) return 0;
    PyErr_SetString(PyExc_RuntimeError, "calls of the hottest functions only cannot be counted before Python 3.12, which has "
                                        "sys.monitoring: run the program with 3.12 or later, or count all calls");
    return -1;
}

void spp_hot_leave(void) {}

#endif
