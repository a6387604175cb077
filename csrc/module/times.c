/* CPython 3.12+: events of sys.monitoring. If functions are chosen by patterns, the beginning of every function is reported once,
 * and never again unless it is chosen. So other functions cost nothing; but before 3.15 the events of exceptions that leave a
 * function come for all functions, because they cannot be armed for one. Functions that the program has marked need no pattern:
 * they are armed at the start, or when they are marked.
 *
 * Before 3.12 there is but a profile function, which would make each call of each function slower: it is refused. */
#include "module/times.h"

#include <stdbool.h>
#include <string.h>

#include "base/hints.h"
#include "base/sample.h"
#include "core/capture/frames.h"
#include "core/capture/labels.h"
#include "core/run/run.h"
#include "core/run/times.h"
#include "module/chosen.h"
#include "module/compat.h"
#include "module/held.h"
#include "module/monitor.h"

#if SPP_MONITORS

static struct {
    PyInterpreterState *of; /* whose run it is; NULL: there is none */
    bool armed, arming;
    size_t everywhere; /* the first so many events are of all functions */
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

/* A function is armed before others find it: else a thread without the GIL would see a call begin and not end. So two threads may
 * arm it, the second one for nothing. NULL: it cannot be timed. */
static SPP_COLD spp_timed *choose(PyObject *code) {
    bool added, steps = (((PyCodeObject *)code)->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0;
    bool armed = spp_monitor_arm(&monitor, code, heard.everywhere) == 0;
    spp_timed *function = armed ? spp_times_add((uintptr_t)code, steps, &added) : NULL;
    if (armed && function == NULL) (void)spp_monitor_disarm(&monitor, code);
    PyErr_Clear();
    if (function != NULL && added) Py_INCREF(code);
    return function;
}

/* The first call of a function, or of what is none of the chosen. */
static SPP_COLD PyObject *begins_first(PyObject *code) {
    if (!atomic_load(&spp_times_open)) Py_RETURN_NONE;
    spp_timed *function = is_timed((PyCodeObject *)code) ? choose(code) : NULL;
    if (function == NULL) return Py_NewRef(never);
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

#define OF_EXCEPTIONS                                                               \
    SPP_MONITOR_CALLBACK("PY_THROW", goes_on, "spprof times a call that goes on."), \
        SPP_MONITOR_CALLBACK("PY_UNWIND", unwinds, "spprof times a call that ends.")
#define LOCAL_EXCEPTIONS (PY_VERSION_HEX >= 0x030F0000)

/* Those first that are of all functions: always, or for patterns. */
static PyMethodDef callbacks[] = {
#if !LOCAL_EXCEPTIONS
    OF_EXCEPTIONS,
#endif
    SPP_MONITOR_CALLBACK("PY_START", begins, "spprof times a call."),
#if LOCAL_EXCEPTIONS
    OF_EXCEPTIONS,
#endif
    SPP_MONITOR_CALLBACK("PY_RESUME", goes_on, "spprof times a call that goes on."),
    SPP_MONITOR_CALLBACK("PY_YIELD", waits, "spprof times a call that waits."),
    SPP_MONITOR_CALLBACK("PY_RETURN", returns, "spprof times a call that ends."),
};
#define EVENTS (sizeof callbacks / sizeof *callbacks)

/* ---- functions that the program has marked: weak references to their code objects, as long as their interpreter lives */

#define MARKS "spprof.timed"

/* Borrowed; NULL: there is none, or no memory. */
static PyObject *marks(bool make) {
    PyObject *dict = PyInterpreterState_GetDict(PyInterpreterState_Get());
    PyObject *list = dict != NULL ? PyDict_GetItemString(dict, MARKS) : NULL;
    if (list != NULL || dict == NULL || !make) return list;
    list = PyList_New(0);
    if (list != NULL && PyDict_SetItemString(dict, MARKS, list) != 0) Py_CLEAR(list);
    Py_XDECREF(list);
    return list;
}

/* A new reference; NULL: it is dead. */
static PyObject *marked_at(PyObject *list, Py_ssize_t i) {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *code = NULL;
    (void)PyWeakref_GetRef(PyList_GET_ITEM(list, i), &code);
    return code;
#else
    PyObject *code = PyWeakref_GetObject(PyList_GET_ITEM(list, i));
    return code != Py_None ? Py_NewRef(code) : NULL;
#endif
}

/* Forgets dead ones. 1: this one is among the others; 0: it is not; -1 with an exception. */
static int look_for(PyObject *list, PyObject *wanted) {
    int known = 0;
    for (Py_ssize_t i = PyList_GET_SIZE(list); i-- > 0;) {
        PyObject *code = marked_at(list, i);
        known |= code != NULL && code == wanted;
        if (code == NULL && PyList_SetSlice(list, i, i + 1, NULL) != 0) return -1;
        Py_XDECREF(code);
    }
    return known;
}

static int add_mark(PyObject *code) {
    PyObject *list = marks(true), *reference = NULL;
    if (list == NULL) return PyErr_NoMemory(), -1;
    int known = look_for(list, code);
    if (known == 0) reference = PyWeakref_NewRef(code, NULL);
    int failed = known < 0 || (known == 0 && (reference == NULL || PyList_Append(list, reference) != 0));
    Py_XDECREF(reference);
    return failed ? -1 : 0;
}

static void choose_marked(void) {
    PyObject *list = marks(false);
    for (Py_ssize_t i = 0; list != NULL && i < PyList_GET_SIZE(list); i++) {
        PyObject *code = marked_at(list, i);
        if (code != NULL) (void)choose(code);
        Py_XDECREF(code);
    }
}

/* ---- a run. One thread at a time starts or stops it, or marks a function */

static spp_turn turn;

static int arm(void) {
    never = spp_monitor_sign("DISABLE");
    heard.everywhere = (LOCAL_EXCEPTIONS ? 0u : 2u) + (*heard.chosen.patterns != 0 ? 1u : 0u);
    if (spp_monitor_enter(&monitor, callbacks, EVENTS, heard.everywhere, "calls cannot be timed") != 0) return -1;
    return spp_monitor_restart();
}

/* `what`: as for spp_timing_enter. 0, or -1 with an exception. */
static int listen(const char *what) {
    bool cpu = strncmp(what, "cpu,", 4) == 0;
    if (cpu) what += 4;
    if (spp_chosen_set(&heard.chosen, what) != 0) return -1;
    if (spp_times_start(cpu) != 0) {
        spp_chosen_free(&heard.chosen);
        return PyErr_NoMemory(), -1;
    }
    heard.armed = heard.arming = true;
    int failed = arm();
    heard.arming = false;
    if (failed == 0) choose_marked();
    return failed;
}

static void disarm(uintptr_t code) { (void)spp_monitor_disarm(&monitor, (PyObject *)code); }

/* An exception that there is stays. */
static void end_all(void) {
    if (!heard.armed) return;
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    heard.armed = false;
    spp_times_close();
    spp_times_each(disarm);
    spp_monitor_leave(&monitor);
    spp_times_stop(spp_held_release);
    spp_chosen_free(&heard.chosen);
    PyErr_Clear();
    PyErr_Restore(kind, value, traceback);
}

int spp_timing_enter(const char *what) {
    SPP_TURN_BEGINS(&turn);
    heard.of = PyInterpreterState_Get();
    PyObject *list = marks(false);
    int failed = list != NULL && look_for(list, NULL) < 0 ? -1 : 0;
    if (!failed && (*what != 0 || (list != NULL && PyList_GET_SIZE(list) > 0))) failed = listen(what);
    SPP_TURN_ENDS(&turn);
    if (failed) spp_timing_leave();
    return failed;
}

void spp_timing_leave(void) {
    SPP_TURN_BEGINS(&turn);
    heard.of = NULL;
    if (!heard.arming) end_all();
    SPP_TURN_ENDS(&turn);
}

/* A function is marked while a run goes on. */
static int join(PyObject *code) {
    bool first = !heard.armed;
    int failed = first ? listen("") : 0;
    if (failed || heard.of == NULL) { /* the run ended meanwhile */
        end_all();
        return failed;
    }
    if (!first) (void)choose(code);
    if (first && spp_run_active()) {
        bool paused;
        do {
            paused = spp_run_paused();
            spp_times_follow(paused);
        } while (paused != spp_run_paused());
    }
    /* It may have been called before, and been none of the chosen. */
    return !first && *heard.chosen.patterns != 0 ? spp_monitor_restart() : 0;
}

int spp_timing_mark(PyObject *code) {
    SPP_TURN_BEGINS(&turn);
    int failed = add_mark(code);
    if (failed == 0 && heard.of == PyInterpreterState_Get() && !heard.arming) failed = join(code);
    SPP_TURN_ENDS(&turn);
    return failed;
}

#else

int spp_timing_enter(const char *what) {
    if (*what == 0) return 0;
    PyErr_SetString(PyExc_RuntimeError, "calls cannot be timed exactly before Python 3.12, which has sys.monitoring");
    return -1;
}

void spp_timing_leave(void) {}

int spp_timing_mark(PyObject *code) {
    (void)code;
    return 0;
}

#endif
