#include "module/session.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "core/capture/capture.h"
#include "core/file/write.h"
#include "core/resolve/resolve.h"
#include "core/run/run.h"
#include "core/run/tick_stats.h"
#include "module/adaptive.h"
#include "module/calls.h"
#include "module/compat.h"
#include "module/exceptions.h"
#include "module/executions.h"
#include "module/functions.h"
#include "module/header.h"
#include "module/held.h"
#include "module/hooks.h"
#include "module/hot.h"
#include "module/imports.h"
#include "module/locks.h"
#include "module/names.h"
#include "module/note.h"
#include "module/output.h"
#include "module/spans.h"
#include "module/tasks.h"
#include "module/times.h"
#include "module/tstate.h"
#include "os/beside.h"
#include "os/clock.h"
#include "os/files.h"
#include "os/lock.h"
#include "os/objects.h"
#include "os/signals.h"

#define TURN_STEP_NS 500000u

/* ---- deaths of code objects */

static destructor code_dealloc;

/* GIL held, or attached on a free-threaded build; any interpreter. Runs before any field of the code object is touched. */
static void code_dies(PyObject *code) {
    if (spp_run_active()) {
        spp_os_lock();
        spp_resolve_death((uintptr_t)code);
        spp_os_unlock();
    }
    code_dealloc(code);
}

/* Other threads call it meanwhile: a thread that finds ours finds the one before it too. */
static _Atomic(destructor) *death(void) { return (_Atomic(destructor) *)&PyCode_Type.tp_dealloc; }

static void hook_deaths(void) {
    destructor now = atomic_load(death());
    if (now == code_dies) return;
    code_dealloc = now;
    atomic_store(death(), code_dies);
}

static void unhook_deaths(void) {
    destructor ours = code_dies;
    (void)atomic_compare_exchange_strong(death(), &ours, code_dealloc);
}

/* ---- garbage collections */

#if PY_VERSION_HEX >= 0x030D0000
#define IS_FINALIZING() Py_IsFinalizing()
#else
#define IS_FINALIZING() _Py_IsFinalizing()
#endif

/* GIL held. A callback of `gc.callbacks`: one collection at a time in the interpreter that has it. */
static PyObject *collection(PyObject *self, PyObject *args) {
    (void)self;
    static uint64_t began;
    static const char *const names[3] = {"generation", "collected", "uncollectable"};
    const char *phase;
    PyObject *about;
    uint64_t counts[3];
    if (!PyArg_ParseTuple(args, "sO!", &phase, &PyDict_Type, &about)) return NULL;
    if (IS_FINALIZING()) {
        spp_session_end();
        Py_RETURN_NONE;
    }
    if (strcmp(phase, "start") == 0) {
        began = spp_os_now_ns();
        Py_RETURN_NONE;
    }
    for (int i = 0; i < 3; i++) {
        PyObject *count = spp_held(about, names[i]);
        counts[i] = count != NULL && PyLong_Check(count) ? PyLong_AsUnsignedLongLongMask(count) : 0;
        Py_XDECREF(count);
    }
    if (began != 0 && spp_run_active()) spp_run_collection(began, counts);
    began = 0;
    Py_RETURN_NONE;
}

/* ---- what a run changes of the program's, beside `tp_dealloc` and method tables: all by C, in the call that starts or stops it.
 * No Python code runs here, so no signal handler comes between; but freed objects may have finalizers, so the state is right
 * first. */

static PyObject *home(void) { return PyInterpreterState_GetDict(PyInterpreterState_Get()); } /* borrowed; NULL: no memory */

/* `gc.callbacks`, a new reference; NULL without an exception if the program made it something else. It is kept once it is known:
 * an import may wait for another thread, and in a forked child of a parent where another thread imported gc, for ever. */
#define CALLBACKS "spprof.gc.callbacks"
static PyObject *gc_callbacks(bool may_import) {
    PyObject *list = spp_held(home(), CALLBACKS);
    if (list != NULL || !may_import) return list;
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
    bool known = modules != NULL && PyDict_Check(modules) && PyDict_GetItemString(modules, "gc") != NULL;
    PyObject *gc = PyImport_ImportModule("gc"); /* built in */
    /* What the program has not imported it does not find imported. */
    if (gc != NULL && !known && PyDict_Check(modules)) (void)PyDict_DelItemString(modules, "gc");
    list = gc != NULL ? PyObject_GetAttrString(gc, "callbacks") : NULL;
    Py_XDECREF(gc);
    if (list != NULL && !PyList_CheckExact(list)) Py_CLEAR(list);
    if (list != NULL && home() != NULL) (void)PyDict_SetItemString(home(), CALLBACKS, list);
    PyErr_Clear();
    return list;
}

static bool is_collection(PyObject *object) {
    return PyCFunction_CheckExact(object) && PyCFunction_GET_FUNCTION(object) == collection;
}

/* Without the GIL it may not be any more where it was, so the list finds it itself, which may ask objects of the program's. */
static void take_out(PyObject *list, Py_ssize_t at, PyObject *ours) {
#ifdef Py_GIL_DISABLED
    (void)at;
    Py_XDECREF(PyObject_CallMethod(list, "remove", "O", ours));
#else
    if (at < PyList_GET_SIZE(list) && PyList_GET_ITEM(list, at) == ours) PyList_SetSlice(list, at, at + 1, NULL);
#endif
    PyErr_Clear();
}

static void leave_gc(bool may_import) {
    PyObject *list = gc_callbacks(may_import), *copy = list != NULL ? PyList_GetSlice(list, 0, PY_SSIZE_T_MAX) : NULL;
    for (Py_ssize_t i = copy != NULL ? PyList_GET_SIZE(copy) : 0; i-- > 0;) {
        if (is_collection(PyList_GET_ITEM(copy, i))) take_out(list, i, PyList_GET_ITEM(copy, i));
    }
    Py_XDECREF(copy);
    Py_XDECREF(list);
    PyErr_Clear();
}

static int enter_gc(PyObject *module, PyObject *list) {
    PyObject *call = PyObject_GetAttrString(module, "collection");
    int failed = call == NULL || (list != NULL && PyList_Append(list, call) != 0);
    Py_XDECREF(call);
    return failed ? -1 : 0;
}

/* The session of this interpreter's run. The interpreter that started a run stops it, and nobody
 * may touch another interpreter's objects. It belongs to the interpreter and not to the module: a
 * program that `spprof run` records has no module of ours, and gets one only when it imports
 * spprof. */
#define SESSION "spprof.session"
static PyInterpreterState *owner; /* of the last one */

PyObject *spp_session_now(void) { return spp_held(home(), SESSION); }

static bool has_session(void) {
    PyObject *session = spp_session_now();
    Py_XDECREF(session);
    return session != NULL;
}

/* Undoes what `attach` did, in a forked child what its parent's did; and gives the session, a new reference or NULL. */
static PyObject *detach(void) {
    PyObject *session = spp_session_now();
    if (session != NULL) (void)PyDict_DelItemString(home(), SESSION);
    PyErr_Clear();
    leave_gc(session != NULL);
    spp_calling_leave();
    spp_hot_leave();
    spp_timing_leave();
    spp_executing_leave();
    spp_exceptions_leave();
    spp_importing_leave();
    spp_adapting_leave();
    return session;
}

static void let_go(void) {
    PyObject *session = detach();
    Py_XDECREF(session);
}

static int attach(PyObject *module, PyObject *session) {
    PyObject *dict = home();
    if (dict == NULL) return PyErr_NoMemory(), -1;
    if (has_session()) let_go(); /* of a process that was forked unseen by Python */
    owner = PyInterpreterState_Get();
    PyObject *list = gc_callbacks(true); /* before there is a session: a child that is forked meanwhile has nothing to import */
    int failed = PyDict_SetItemString(dict, SESSION, session) != 0 || enter_gc(module, list) != 0;
    Py_XDECREF(list);
    return failed ? -1 : 0;
}

/* ---- the end of the interpreter, or of the process
 *
 * Every trigger is to be disarmed before thread states are freed, and threads get their last names while `threading` is there.
 * So: by the collection of garbage with which the end begins, right after the exit handlers (`collection`); if the program has no
 * collections, with the interpreter's dict, which dies before its thread states; and if it leaves by exit() of C, then.
 * (PyUnstable_AtExit is no earlier than that dict.) */

/* No GIL, no Python: the file is finished all the same. */
static void finish_late(void) {
    if (!spp_run_turn(SPP_RUN_ACTIVE, SPP_RUN_STOPPING)) return;
    spp_run_stop();
    spp_run_turn(SPP_RUN_STOPPING, SPP_RUN_NONE);
}

/* What the thread that starts or stops a run has come to, without the GIL: it waits for that, and at the end of the interpreter
 * gets it no more. */
enum { WORKS, HAS_STARTED, HAS_NOT, HAS_STOPPED };
static _Atomic int waits_with = WORKS;

static void take_back(void) {
    unhook_deaths();
    spp_hooks_take_away(!spp_os_beside_waits());
}

/* At the end of the interpreter, by the thread that ends it: goes on in the place of one that waits so. False: none does, yet. */
static bool take_over(void) {
    int with = atomic_exchange(&waits_with, WORKS);
    if (with == WORKS) return false;
    if (with != HAS_STARTED) take_back();
    spp_run_take(with == HAS_STARTED ? SPP_RUN_ACTIVE : SPP_RUN_NONE);
    return true;
}

#define END "spprof.end"
static void stop(bool waits);

/* The interpreter's dict is cleared; modules are gone, and daemon threads wait for a GIL that they do not get any more. */
static void dict_dies(PyObject *capsule) {
    (void)capsule;
    if (owner != PyInterpreterState_Get()) return;
    for (bool mine; !spp_run_turn(SPP_RUN_ACTIVE, SPP_RUN_STOPPING);) {
        if (spp_run_phase_now(&mine) == SPP_RUN_NONE || mine || !IS_FINALIZING()) return;
        if (!take_over()) spp_os_sleep_until(spp_os_now_ns() + TURN_STEP_NS);
    }
    stop(false);
    spp_run_turn(SPP_RUN_STOPPING, SPP_RUN_NONE);
}

/* Once an interpreter. 0, or -1 with an exception. */
static int hook_end(void) {
    PyObject *dict = home();
    spp_os_at_exit(finish_late);
    if (dict == NULL) return PyErr_NoMemory(), -1;
    if (PyDict_GetItemString(dict, END) != NULL) return 0;
    PyObject *capsule = PyCapsule_New(&owner, END, dict_dies);
    int failed = capsule == NULL || PyDict_SetItemString(dict, END, capsule) != 0;
    Py_XDECREF(capsule);
    return failed ? -1 : 0;
}

static const spp_session_calls *calls_now; /* of the run */

static void *before_exec(PyObject **env) { return calls_now != NULL ? calls_now->exec(env) : NULL; }
static void after_exec(void *kept) {
    if (calls_now != NULL) calls_now->exec_failed(kept);
}

static int end_at_exit(int status);
static const spp_hooks_to hooks = {end_at_exit, before_exec, after_exec};

/* ---- the run */

/* Changes the phase; waits while another thread starts or stops. 1: done; 0: it is another phase, or this thread itself is within
 * start or stop, whose finalizer or audit hook calls this; -1: an exception. */
static int turn(spp_run_phase from, spp_run_phase to) {
    bool mine;
    spp_run_look_forked(); /* in a child nobody ends what a thread of its parent's does */
    while (!spp_run_turn(from, to)) {
        spp_run_phase phase = spp_run_phase_now(&mine);
        if (mine || phase == SPP_RUN_ACTIVE || phase == SPP_RUN_NONE) {
            if (phase == from) continue; /* just now */
            return 0;
        }
        if (IS_FINALIZING() && take_over()) continue;
        Py_BEGIN_ALLOW_THREADS;
        spp_os_sleep_until(spp_os_now_ns() + TURN_STEP_NS);
        Py_END_ALLOW_THREADS;
        if (PyErr_CheckSignals() != 0) return -1;
    }
    return 1;
}

/* The phase is STARTING. 0, or -1 with an exception. */
static int start(PyObject *module, spp_options *options, PyObject *output) {
    const spp_module_state *state = PyModule_GetState(module);
    const char *why = NULL;
    spp_thread_states states;
    const char *broken = spp_tstate_init(&states);
    spp_os_signals_wait_at((volatile int *)spp_note_find());
    spp_tasks_enter();
    spp_locks_enter();
    spp_spans_enter();
    if (broken != NULL) {
        PyErr_Format(PyExc_RuntimeError, "this interpreter's layout differs: %s", broken);
        return -1;
    }
    errno = spp_os_file_copy(&options->file, spp_output_fd(output));
    if (errno != 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    if (options->native != SPP_NATIVE_OFF) {
        uintptr_t evaluator = spp_os_symbol("_PyEval_EvalFrameDefault");
        int failed;
        Py_BEGIN_ALLOW_THREADS;
        failed = spp_run_native(evaluator, &why);
        atomic_store(&waits_with, HAS_NOT);
        Py_END_ALLOW_THREADS;
        atomic_store(&waits_with, WORKS);
        if (failed) {
            spp_os_file_close(&options->file);
            PyErr_Format(PyExc_RuntimeError, "%s", why);
            return -1;
        }
    }
    spp_run_ours_forget();
    options->may_trap = spp_hooks_put(&hooks);
    spp_names_ours();
    hook_deaths();
    spp_start_result result;
    Py_BEGIN_ALLOW_THREADS;
    errno = 0;
    result = spp_run_start(options, &states, &why);
    atomic_store(&waits_with, result == SPP_START_DONE ? HAS_STARTED : HAS_NOT);
    Py_END_ALLOW_THREADS;
    atomic_store(&waits_with, WORKS);
    if (result == SPP_START_DONE) return 0;
    take_back();
    if (errno != 0)
        PyErr_SetFromErrnoWithFilename(result == SPP_START_UNWRITTEN ? state->write_error : PyExc_OSError, why);
    else
        PyErr_Format(PyExc_RuntimeError, "%s", why);
    return -1;
}

int spp_session_begin(PyObject *module, PyObject *session, spp_options *options, PyObject *output,
                      const spp_session_calls *calls) {
    const spp_module_state *state = PyModule_GetState(module);
    spp_session_settle();
    if (*state->layout_error != 0) return PyErr_Format(PyExc_RuntimeError, "%s", state->layout_error), -1;
    if (options->clock->gated && (options->wall || options->native != SPP_NATIVE_OFF)) {
        PyErr_Format(PyExc_ValueError, "the clock 'gil' shows Python's CPU time only: no wall mode, no native frames");
        return -1;
    }
    if (options->interval_ns < SPP_INTERVAL_LEAST_NS || options->interval_ns > SPP_INTERVAL_MOST_NS || options->max_depth < 1 ||
        options->max_depth > SPP_DEPTH_MAX || (options->native != SPP_NATIVE_OFF && !spp_os_native)) {
        PyErr_Format(PyExc_ValueError, "start: bad interval, depth or native mode");
        return -1;
    }
    int turned = turn(SPP_RUN_NONE, SPP_RUN_STARTING);
    if (turned <= 0) return turned;
    calls_now = calls;
    if (hook_end() != 0 || attach(module, session) != 0 || spp_calling_enter((spp_calls_which)options->calls) != 0 ||
        spp_hot_enter(options->calls == SPP_CALLS_HOT) != 0 || spp_timing_enter(options->times) != 0 ||
        spp_executing_enter(options->lines) != 0 || spp_exceptions_enter(options->exceptions) != 0 ||
        spp_importing_enter(options->imports) != 0 || spp_adapting_enter(options->specialization) != 0 ||
        start(module, options, output) != 0) {
        PyObject *kind, *value, *traceback;
        PyErr_Fetch(&kind, &value, &traceback);
        let_go();
        spp_run_turn(SPP_RUN_STARTING, SPP_RUN_NONE);
        PyErr_Restore(kind, value, traceback);
        return -1;
    }
    spp_run_turn(SPP_RUN_STARTING, SPP_RUN_ACTIVE);
    spp_names_all(true);
    return 1;
}

/* The words of a tuple, for as long as it lives. 0, or -1 with an exception. */
static int words_of(PyObject *tuple, const char *words[SPP_WORDS]) {
    if (PyTuple_GET_SIZE(tuple) != SPP_WORDS) return PyErr_Format(PyExc_TypeError, "start: not %d words", SPP_WORDS), -1;
    for (int i = 0; i < SPP_WORDS; i++) {
        words[i] = PyUnicode_AsUTF8(PyTuple_GET_ITEM(tuple, i));
        if (words[i] == NULL) return -1;
    }
    return 0;
}

static PyObject *run_start(PyObject *self, PyObject *args) {
    const char *words[SPP_WORDS];
    PyObject *session, *output, *given;
    spp_bytes header = {0};
    spp_options options = {0};
    if (!PyArg_ParseTuple(args, "OOO!", &session, &output, &PyTuple_Type, &given)) return NULL;
    if (words_of(given, words) != 0 || spp_options_of_words(&options, words) != 0) return NULL;
    if (spp_header(&header, &options, words[SPP_WORD_NATIVE], "start", NULL, NULL) != 0) return NULL;
    options.header = header.at;
    options.header_n = header.n;
    int begun = spp_session_begin(self, session, &options, output, NULL);
    spp_bytes_free(&header);
    return begun < 0 ? NULL : PyBool_FromLong(begun);
}

/* The phase is STOPPING. `waits`: without the GIL meanwhile. */
static void stop(bool waits) {
    spp_adapting_ends();
    spp_calling_ends();
    if (waits) {
        Py_BEGIN_ALLOW_THREADS;
        spp_run_stop();
        atomic_store(&waits_with, HAS_STOPPED);
        Py_END_ALLOW_THREADS;
        atomic_store(&waits_with, WORKS);
    } else {
        spp_run_stop();
    }
    take_back();
}

static PyObject *run_stop(PyObject *self, PyObject *session) {
    (void)self;
    int turned = turn(SPP_RUN_ACTIVE, SPP_RUN_STOPPING);
    if (turned < 0) return NULL;
    if (turned == 0) Py_RETURN_FALSE;
    PyObject *now = spp_session_now();
    Py_XDECREF(now);      /* only compared: the caller holds its own */
    if (now != session) { /* another one has begun meanwhile */
        spp_run_turn(SPP_RUN_STOPPING, SPP_RUN_ACTIVE);
        Py_RETURN_FALSE;
    }
    stop(true);
    int error = spp_write_error();
    let_go();
    spp_run_turn(SPP_RUN_STOPPING, SPP_RUN_NONE);
    return Py_BuildValue("(Oz)", error == ETIMEDOUT ? Py_True : Py_False, error != 0 ? strerror(error) : NULL);
}

/* `otherwise`: the reason, if the session has none of its own. */
static void end_as(const char *otherwise) {
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    if (has_session() && turn(SPP_RUN_ACTIVE, SPP_RUN_STOPPING) == 1) {
        spp_names_all(false);
        spp_functions_name();
        const char *reason = calls_now != NULL ? calls_now->reason() : NULL;
        spp_run_reason(reason != NULL ? reason : otherwise);
        stop(true);
        let_go();
        spp_run_turn(SPP_RUN_STOPPING, SPP_RUN_NONE);
    }
    if (IS_FINALIZING() && has_session()) let_go(); /* of a start or stop that was ended in another thread's place */
    PyErr_Clear();
    PyErr_Restore(kind, value, traceback);
}

void spp_session_end(void) { end_as(NULL); }
static int end_at_exit(int status) {
    end_as("_exit");
    return spp_os_beside_wait(status);
}

void spp_session_settle(void) {
    if (spp_run_is_over()) spp_session_end();
}

static PyObject *run_session(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    bool mine;
    spp_run_phase phase = spp_run_phase_now(&mine);
    PyObject *session = phase == SPP_RUN_ACTIVE || phase == SPP_RUN_STOPPING ? spp_session_now() : NULL;
    return session != NULL ? session : Py_NewRef(Py_None);
}

/* In a forked child: lets go of the parent's, and gives it. What the program does there may have come first, and begun a profile
 * of the child's own: then that one stays. */
PyObject *spp_session_forget(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    spp_run_look_forked();
    if (!has_session() || !spp_run_turn(SPP_RUN_NONE, SPP_RUN_STARTING)) Py_RETURN_NONE;
    PyObject *session = detach(); /* nobody else attaches or detaches now */
    spp_run_turn(SPP_RUN_STARTING, SPP_RUN_NONE);
    if (session == NULL) Py_RETURN_NONE;
    return session;
}

static PyObject *time_calls(PyObject *self, PyObject *code) {
    (void)self;
    if (!PyCode_Check(code)) return PyErr_Format(PyExc_TypeError, "time_calls: a code object"), NULL;
    if (spp_timing_mark(code) != 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *name_all(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    spp_names_all(true);
    spp_functions_name();
    Py_RETURN_NONE;
}

PyMethodDef spp_session_methods[] = {
    {"start", run_start, METH_VARARGS, "Starts sampling every thread into a file."},
    {"stop", run_stop, METH_O, "Stops, and finishes the file."},
    {"session", run_session, METH_NOARGS, "What start() was given."},
    {"forget", spp_session_forget, METH_NOARGS, "Lets go of the parent's profile."},
    {"name_all", name_all, METH_NOARGS, "Names threads and native functions."},
    {"time_calls", time_calls, METH_O, "Times the calls of a code object in each run."},
    {"collection", collection, METH_VARARGS, "A callback for gc.callbacks."},
    {NULL, NULL, 0, NULL},
};
