#include "module/session.h"

#include <errno.h>
#include <string.h>

#include "core/capture.h"
#include "core/resolve.h"
#include "core/run.h"
#include "core/tick_stats.h"
#include "core/write.h"
#include "module/exec.h"
#include "module/note.h"
#include "module/output.h"
#include "module/tstate.h"

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

static void hook_deaths(void) {
    if (PyCode_Type.tp_dealloc == code_dies) return;
    code_dealloc = PyCode_Type.tp_dealloc;
    PyCode_Type.tp_dealloc = code_dies;
}

static void unhook_deaths(void) {
    if (PyCode_Type.tp_dealloc == code_dies) PyCode_Type.tp_dealloc = code_dealloc;
}

/* ---- the end */

/* The interpreter is gone, and the program had cleared its exit handlers, the profiler's with them: the file is finished all the
 * same. No GIL, no Python. */
static bool end_hooked;

static void finish_late(void) {
    end_hooked = false; /* another runtime may follow in an embedding program */
    if (!spp_run_turn(SPP_RUN_ACTIVE, SPP_RUN_STOPPING)) return;
    spp_run_stop();
    spp_run_turn(SPP_RUN_STOPPING, SPP_RUN_NONE);
}

static void hook_end(void) {
    if (!end_hooked) end_hooked = Py_AtExit(finish_late) == 0; /* not if all 32 places are taken */
}

/* ---- garbage collections */

/* GIL held. A callback of `gc.callbacks`: one collection at a time in the interpreter that has it. */
static PyObject *collection(PyObject *self, PyObject *args) {
    (void)self;
    static uint64_t began;
    static const char *const names[3] = {"generation", "collected", "uncollectable"};
    const char *phase;
    PyObject *about;
    uint64_t counts[3];
    if (!PyArg_ParseTuple(args, "sO!", &phase, &PyDict_Type, &about)) return NULL;
    if (strcmp(phase, "start") == 0) {
        began = spp_os_now_ns();
        Py_RETURN_NONE;
    }
    for (int i = 0; i < 3; i++) {
        PyObject *count = PyDict_GetItemString(about, names[i]);
        counts[i] = count != NULL && PyLong_Check(count) ? PyLong_AsUnsignedLongLongMask(count) : 0;
    }
    if (began != 0 && spp_run_active()) spp_run_collection(began, counts);
    began = 0;
    Py_RETURN_NONE;
}

int spp_clock_of_name(const char *name) {
    for (int i = 0; i < SPP_CLOCK_COUNT; i++) {
        if (strcmp(name, spp_clock_names[i]) == 0) return i;
    }
    return -1;
}

/* ---- what a run changes of the program's, beside `tp_dealloc` and os.exec*: all by C, in the call that starts or stops it. No
 * Python code runs here, so no signal handler comes between; but freed objects may have finalizers, so the state is right first.
 */

/* `gc.callbacks`, a new reference; NULL without an exception if the program made it something else. */
static PyObject *gc_callbacks(void) {
    PyObject *gc = PyImport_ImportModule("gc"); /* built in */
    PyObject *list = gc != NULL ? PyObject_GetAttrString(gc, "callbacks") : NULL;
    Py_XDECREF(gc);
    if (list != NULL && !PyList_CheckExact(list)) Py_CLEAR(list);
    PyErr_Clear();
    return list;
}

static bool is_collection(PyObject *object) {
    return PyCFunction_CheckExact(object) && PyCFunction_GET_FUNCTION(object) == collection;
}

static void leave_gc(void) {
    PyObject *list = gc_callbacks();
    for (Py_ssize_t i = list != NULL ? PyList_GET_SIZE(list) : 0; i-- > 0;) {
        if (i < PyList_GET_SIZE(list) && is_collection(PyList_GET_ITEM(list, i))) PyList_SetSlice(list, i, i + 1, NULL);
    }
    Py_XDECREF(list);
    PyErr_Clear();
}

static int enter_gc(PyObject *module) {
    PyObject *list = gc_callbacks(), *call = PyObject_GetAttrString(module, "collection");
    int failed = call == NULL || (list != NULL && PyList_Append(list, call) != 0);
    Py_XDECREF(list);
    Py_XDECREF(call);
    return failed ? -1 : 0;
}

/* A type's attribute, by a patch; a replacement of somebody else's stays. */
static void unpatch(PyObject *patch) {
    PyObject *type, *name, *ours, *original, *now;
    if (patch == NULL || !PyArg_ParseTuple(patch, "OOOO", &type, &name, &ours, &original)) {
        PyErr_Clear();
        return;
    }
    now = PyObject_GetAttr(type, name);
    if (now == ours) (void)PyObject_SetAttr(type, name, original);
    Py_XDECREF(now);
    PyErr_Clear();
}

static int apply(PyObject *patch) {
    PyObject *type, *name, *ours, *original;
    if (!PyArg_ParseTuple(patch, "OOOO", &type, &name, &ours, &original)) return -1;
    return PyObject_SetAttr(type, name, ours);
}

/* Undoes what `attach` did, in a forked child what its parent's did. */
static void detach(PyObject *module) {
    spp_module_state *state = PyModule_GetState(module);
    PyObject *session, *patch;
    Py_BEGIN_CRITICAL_SECTION(module);
    session = state->session;
    patch = state->patch;
    state->session = state->patch = NULL;
    Py_END_CRITICAL_SECTION();
    leave_gc();
    unpatch(patch);
    Py_XDECREF(patch);
    Py_XDECREF(session);
}

static int attach(PyObject *module, PyObject *session, PyObject *patch) {
    spp_module_state *state = PyModule_GetState(module);
    if (state->session != NULL) detach(module); /* of a process that was forked unseen by Python */
    Py_BEGIN_CRITICAL_SECTION(module);
    state->session = Py_NewRef(session);
    state->patch = Py_NewRef(patch);
    Py_END_CRITICAL_SECTION();
    return apply(patch) == 0 && enter_gc(module) == 0 ? 0 : -1;
}

/* ---- the run */

/* Changes the phase; waits while another thread starts or stops. 1: done; 0: it is another phase, or this thread itself is within
 * start or stop, whose finalizer or audit hook calls this; -1: an exception. */
static int turn(spp_run_phase from, spp_run_phase to) {
    bool mine;
    while (!spp_run_turn(from, to)) {
        spp_run_phase phase = spp_run_phase_now(&mine);
        if (mine || phase == SPP_RUN_ACTIVE || phase == SPP_RUN_NONE) {
            if (phase == from) continue; /* just now */
            return 0;
        }
        Py_BEGIN_ALLOW_THREADS;
        spp_os_sleep_until(spp_os_now_ns() + TURN_STEP_NS);
        Py_END_ALLOW_THREADS;
        if (PyErr_CheckSignals() != 0) return -1;
    }
    return 1;
}

/* The phase is STARTING. 0, or -1 with an exception. */
static int start(const spp_module_state *state, spp_options *options, PyObject *output) {
    const char *why = NULL;
    spp_thread_states states;
    const char *broken = spp_tstate_init(&states);
    spp_os_signals_wait_at((volatile int *)spp_note_find());
    if (broken != NULL) {
        PyErr_Format(PyExc_RuntimeError, "this interpreter's layout differs: %s", broken);
        return -1;
    }
    errno = spp_os_file_copy(&options->file, spp_output_fd(output));
    if (errno != 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    hook_end();
    if (options->native != SPP_NATIVE_OFF) {
        uintptr_t evaluator = spp_os_symbol("_PyEval_EvalFrameDefault");
        int failed;
        Py_BEGIN_ALLOW_THREADS;
        failed = spp_run_native(evaluator, &why);
        Py_END_ALLOW_THREADS;
        if (failed) {
            spp_os_file_close(&options->file);
            PyErr_Format(PyExc_RuntimeError, "%s", why);
            return -1;
        }
    }
    options->may_trap = spp_exec_hook();
    hook_deaths();
    spp_start_result result;
    Py_BEGIN_ALLOW_THREADS;
    errno = 0;
    result = spp_run_start(options, &states, &why);
    Py_END_ALLOW_THREADS;
    if (result == SPP_START_DONE) return 0;
    unhook_deaths();
    spp_exec_unhook();
    if (errno != 0)
        PyErr_SetFromErrnoWithFilename(result == SPP_START_UNWRITTEN ? state->write_error : PyExc_OSError, why);
    else
        PyErr_Format(PyExc_RuntimeError, "%s", why);
    return -1;
}

static PyObject *run_start(PyObject *self, PyObject *args) {
    int wall, native = SPP_NATIVE_OFF, full = 0;
    const char *name, *header;
    unsigned long long interval_ns;
    unsigned int max_depth;
    Py_ssize_t header_n;
    PyObject *session, *output, *patch;
    if (!PyArg_ParseTuple(args, "OOO!spKIy#|ip", &session, &output, &PyTuple_Type, &patch, &name, &wall, &interval_ns, &max_depth,
                          &header, &header_n, &native, &full)) {
        return NULL;
    }
    int clock = spp_clock_of_name(name);
    const spp_module_state *state = PyModule_GetState(self);
    if (*state->layout_error != 0) return PyErr_Format(PyExc_RuntimeError, "%s", state->layout_error);
    if (clock == SPP_CLOCK_GIL && (wall || native != SPP_NATIVE_OFF)) {
        return PyErr_Format(PyExc_ValueError, "the clock 'gil' shows Python's CPU time only: no wall mode, no native frames");
    }
    if (clock < 0 || interval_ns < 50000 || interval_ns > 1000000000 || max_depth < 1 || max_depth > SPP_DEPTH_MAX ||
        header_n < 3 || header[header_n - 1] != '}' || native < SPP_NATIVE_OFF || native > SPP_NATIVE_ALL ||
        (native != SPP_NATIVE_OFF && !spp_os_native)) {
        return PyErr_Format(PyExc_ValueError, "start: bad clock, interval, depth or header");
    }
    spp_options options = {
        .clock = (spp_clock)clock,
        .wall = wall != 0,
        .interval_ns = interval_ns,
        .max_depth = max_depth,
        .header = header,
        .header_n = (size_t)header_n,
        .native = native,
        .native_full = full != 0,
    };
    int turned = turn(SPP_RUN_NONE, SPP_RUN_STARTING);
    if (turned < 0) return NULL;
    if (turned == 0) Py_RETURN_FALSE;
    if (attach(self, session, patch) != 0 || start(state, &options, output) != 0) {
        PyObject *kind, *value, *traceback;
        PyErr_Fetch(&kind, &value, &traceback);
        detach(self);
        spp_run_turn(SPP_RUN_STARTING, SPP_RUN_NONE);
        PyErr_Restore(kind, value, traceback);
        return NULL;
    }
    spp_run_turn(SPP_RUN_STARTING, SPP_RUN_ACTIVE);
    Py_RETURN_TRUE;
}

static PyObject *run_stop(PyObject *self, PyObject *session) {
    spp_module_state *state = PyModule_GetState(self);
    int turned = turn(SPP_RUN_ACTIVE, SPP_RUN_STOPPING);
    if (turned < 0) return NULL;
    if (turned == 0) Py_RETURN_FALSE;
    if (state->session != session) { /* another one has begun meanwhile */
        spp_run_turn(SPP_RUN_STOPPING, SPP_RUN_ACTIVE);
        Py_RETURN_FALSE;
    }
    Py_BEGIN_ALLOW_THREADS;
    spp_run_stop();
    Py_END_ALLOW_THREADS;
    unhook_deaths();
    spp_exec_unhook();
    int error = spp_write_error();
    detach(self);
    spp_run_turn(SPP_RUN_STOPPING, SPP_RUN_NONE);
    return Py_BuildValue("(Oz)", error == ETIMEDOUT ? Py_True : Py_False, error != 0 ? strerror(error) : NULL);
}

static PyObject *run_session(PyObject *self, PyObject *none) {
    spp_module_state *state = PyModule_GetState(self);
    (void)none;
    bool mine;
    spp_run_phase phase = spp_run_phase_now(&mine);
    if (phase != SPP_RUN_ACTIVE && phase != SPP_RUN_STOPPING) Py_RETURN_NONE;
    PyObject *session;
    Py_BEGIN_CRITICAL_SECTION(self);
    session = Py_NewRef(state->session != NULL ? state->session : Py_None);
    Py_END_CRITICAL_SECTION();
    return session;
}

/* In a forked child: lets go of the parent's, and gives it. What the program does there may have come first, and begun a profile
 * of the child's own: then that one stays. */
static PyObject *run_forget(PyObject *self, PyObject *none) {
    spp_module_state *state = PyModule_GetState(self);
    (void)none;
    spp_run_look_forked();
    if (state->session == NULL || !spp_run_turn(SPP_RUN_NONE, SPP_RUN_STARTING)) Py_RETURN_NONE;
    PyObject *session = Py_NewRef(state->session != NULL ? state->session : Py_None); /* nobody else attaches or detaches now */
    detach(self);
    spp_run_turn(SPP_RUN_STARTING, SPP_RUN_NONE);
    return session;
}

PyMethodDef spp_session_methods[] = {
    {"start", run_start, METH_VARARGS, "Starts sampling every thread into a file."},
    {"stop", run_stop, METH_O, "Stops, and finishes the file."},
    {"session", run_session, METH_NOARGS, "What start() was given."},
    {"forget", run_forget, METH_NOARGS, "Lets go of the parent's profile."},
    {"collection", collection, METH_VARARGS, "A callback for gc.callbacks."},
    {NULL, NULL, 0, NULL},
};
