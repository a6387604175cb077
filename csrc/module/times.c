/* CPython 3.12+: events of sys.monitoring. The beginning of every function is reported once, and never again unless it is
 * chosen. So other functions cost nothing; but before 3.15 the events of exceptions that leave a function come
 * for all functions, because they cannot be armed for one.
 *
 * Before 3.12 there is but a profile function, which would make each call of each function slower: it is refused. */
#include "module/times.h"

#include <stdbool.h>
#include <string.h>

#include "base/hints.h"
#include "base/sample.h"
#include "core/capture/frames.h"
#include "core/capture/labels.h"
#include "core/run/times.h"
#include "module/chosen.h"
#include "module/compat.h"
#include "module/held.h"
#include "module/monitor.h"

#if SPP_MONITORS

#define EVERYWHERE (PY_VERSION_HEX >= 0x030F0000 ? 1u : 3u) /* the first so many events */

static struct {
    bool armed;
    spp_chosen chosen;
} heard;

static spp_monitor monitor = SPP_MONITOR_NONE;
static PyObject *never; /* sys.monitoring.DISABLE, which lives as long as its interpreter */

/* Only functions: not the bodies of modules and classes. */
static bool is_timed(const PyCodeObject *code) {
    return (code->co_flags & CO_OPTIMIZED) != 0 && spp_chosen_has(&heard.chosen, code);
}

/* ---- callbacks: code object, offset, and what the event has more. They raise nothing. CPython calls none for what runs within
 * one. The frame is that of the function. */

static inline uintptr_t frame_here(void) {
    uintptr_t code;
    uint32_t offset;
    return spp_frames_here((uintptr_t)PyThreadState_Get(), false, &code, &offset);
}

/* The first call of a function, or of what is none of the chosen. It is armed before others find it: else a thread without the
 * GIL would see a call begin and not end. So two threads may arm it, the second one for nothing. */
static SPP_COLD PyObject *begins_first(PyObject *code) {
    if (!atomic_load(&spp_times_open)) Py_RETURN_NONE;
    if (!is_timed((PyCodeObject *)code)) return Py_NewRef(never);
    bool added, steps = (((PyCodeObject *)code)->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0;
    bool armed = spp_monitor_arm(&monitor, code, EVERYWHERE) == 0;
    spp_timed *function = armed ? spp_times_add((uintptr_t)code, steps, &added) : NULL;
    if (armed && function == NULL) (void)spp_monitor_disarm(&monitor, code);
    PyErr_Clear();
    if (function == NULL) return Py_NewRef(never);
    if (added) Py_INCREF(code);
    if (atomic_load(&spp_times_on)) spp_times_begin(function, frame_here());
    Py_RETURN_NONE;
}

static PyObject *begins(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    (void)self, (void)n;
    if (spp_rare(!atomic_load_explicit(&spp_times_open, memory_order_relaxed))) Py_RETURN_NONE;
    spp_timed *function = spp_times_find((uintptr_t)args[0]);
    if (spp_rare(function == NULL)) return begins_first(args[0]);
    if (spp_usual(atomic_load_explicit(&spp_times_on, memory_order_relaxed))) spp_times_begin(function, frame_here());
    Py_RETURN_NONE;
}

static inline bool hears(PyObject *code) {
    return atomic_load_explicit(&spp_times_open, memory_order_relaxed) && spp_times_find((uintptr_t)code) != NULL;
}

static PyObject *goes_on(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    (void)self, (void)n;
    if (hears(args[0])) spp_times_resume(frame_here());
    Py_RETURN_NONE;
}

static PyObject *waits(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    (void)self, (void)n;
    if (hears(args[0])) spp_times_suspend(frame_here());
    Py_RETURN_NONE;
}

/* Keeps what a stack names, and leaves out what it cannot. */
static uint32_t name_frames(spp_frame *frames, uint32_t n) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        PyObject *code = (PyObject *)spp_frame_code(frames[i]);
        bool added;
        if (spp_monitor_is_init_cleanup(code) || !spp_times_name((uintptr_t)code, &added)) continue;
        if (added) Py_INCREF(code);
        frames[kept++] = frames[i];
    }
    return kept;
}

static SPP_COLD void keep_slow(PyObject *code, const spp_timed_call *call) {
    spp_frame frames[SPP_SLOW_DEPTH];
    uintptr_t state = (uintptr_t)PyThreadState_Get();
    bool more;
    uint32_t n = name_frames(frames, spp_frames_all(state, frames, SPP_SLOW_DEPTH, &more));
    uint64_t labels = atomic_load(&spp_labels.used) ? spp_label_own(state) : 0;
    spp_times_slow(spp_times_find((uintptr_t)code), call, frames, n, more, labels);
}

static inline PyObject *end(PyObject *code, bool raised) {
    spp_timed_call call;
    if (hears(code) && spp_rare(spp_times_end(frame_here(), raised, &call))) keep_slow(code, &call);
    Py_RETURN_NONE;
}

static PyObject *returns(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    (void)self, (void)n;
    return end(args[0], false);
}

static PyObject *unwinds(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    (void)self, (void)n;
    return end(args[0], true);
}

#define CALLBACK(event, function, does) \
    { event, (PyCFunction)(void (*)(void))function, METH_FASTCALL, does }
static PyMethodDef callbacks[] = {
    CALLBACK("PY_START", begins, "spprof times a call."),
    CALLBACK("PY_THROW", goes_on, "spprof times a call that goes on."),
    CALLBACK("PY_UNWIND", unwinds, "spprof times a call that ends."),
    CALLBACK("PY_RESUME", goes_on, "spprof times a call that goes on."),
    CALLBACK("PY_YIELD", waits, "spprof times a call that waits."),
    CALLBACK("PY_RETURN", returns, "spprof times a call that ends."),
};
#define EVENTS (sizeof callbacks / sizeof *callbacks)

/* ---- a run */

static int arm(void) {
    PyObject *module = spp_held_by_module("sys", "monitoring"), *sign = NULL;
    if (module != NULL) sign = PyObject_GetAttrString(module, "DISABLE");
    PyErr_Clear();
    never = sign;
    Py_XDECREF(module);
    Py_XDECREF(sign);
    if (spp_monitor_enter(&monitor, callbacks, EVENTS, EVERYWHERE, "calls cannot be timed") != 0) return -1;
    return spp_monitor_restart();
}

int spp_timing_enter(const char *what) {
    if (*what == 0) return 0;
    bool cpu = strncmp(what, "cpu,", 4) == 0;
    if (cpu) what += 4;
    if (spp_chosen_set(&heard.chosen, what) != 0) return -1;
    if (spp_times_start(cpu) != 0) {
        spp_chosen_free(&heard.chosen);
        PyErr_NoMemory();
        return -1;
    }
    heard.armed = true;
    if (arm() == 0) return 0;
    spp_timing_leave();
    return -1;
}

static void disarm(uintptr_t code) {
    if (monitor.tool >= 0 && spp_monitor_disarm(&monitor, (PyObject *)code) != 0) PyErr_Clear();
}

static void release(uintptr_t code) { Py_DECREF((PyObject *)code); }

void spp_timing_leave(void) {
    if (!heard.armed) return;
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    heard.armed = false;
    spp_times_close();
    spp_times_each(disarm);
    spp_monitor_leave(&monitor);
    spp_times_stop(release);
    spp_chosen_free(&heard.chosen);
    PyErr_Clear();
    PyErr_Restore(kind, value, traceback);
}

#else

int spp_timing_enter(const char *what) {
    if (*what == 0) return 0;
    PyErr_SetString(PyExc_RuntimeError, "calls cannot be timed exactly before Python 3.12, which has sys.monitoring");
    return -1;
}

void spp_timing_leave(void) {}

#endif
