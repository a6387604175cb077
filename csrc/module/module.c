/* The `_core` extension: the only layer that builds Python objects and takes the GIL. Its Python
 * interface is described in src/spprof/_core.pyi. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <frameobject.h>
#include <string.h>
#include <time.h>

#include "core/resolve/resolve_code.h"
#include "core/run/events.h"
#include "core/run/run.h"
#include "core/run/tick_stats.h"
#include "module/beside.h"
#include "module/compat.h"
#include "module/functions.h"
#include "module/header.h"
#include "module/labels.h"
#include "module/output.h"
#include "module/profile.h"
#include "module/record.h"
#include "module/session.h"
#include "os/clock.h"
#include "os/objects.h"
#include "os/ticks.h"
#include "py/layout_proof.h"

/* ---- clocks */

static PyObject *choose_events(PyObject *self, PyObject *args) {
    (void)self;
    const char *events;
    spp_source_set sources;
    memset(&sources, 0, sizeof sources);
    if (!PyArg_ParseTuple(args, "s", &events) || spp_events_choose(events, &sources) != 0) return NULL;
    Py_RETURN_NONE;
}

/* Each source: name, unit, shortest period by itself or 0, what it counts, whether not within the kernel, errno and what was
 * refused. */
static PyObject *list_events(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    static const char example[] = SPP_TRACEPOINT "sched:sched_switch"; /* each kernel with tracepoints has it */
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i <= SPP_SOURCE_TRACEPOINT_1; i++) {
        const spp_source *of = &spp_sources[i];
        const char *why = "";
        spp_source_set alone;
        memset(&alone, 0, sizeof alone);
        alone.period[i] = 1;
        if (i == SPP_SOURCE_TRACEPOINT_1) memcpy(alone.names[0], example, sizeof example);
        int failed = spp_events_probe(&alone, &why) != 0 ? errno : 0;
        PyObject *user = failed == 0 && of->event != SPP_EVENT_NONE && spp_os_event_in_user(of->event) ? Py_True : Py_False;
        uint64_t period = of->from == SPP_FROM_HOOK ? 0 : of->period;
        PyObject *row = Py_BuildValue("(ssKsOis)", of->key, of->unit, (unsigned long long)period, of->weight, user, failed,
                                      failed != 0 ? why : "");
        if (row == NULL || PyList_Append(list, row) != 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *choose_clock(PyObject *self, PyObject *args) {
    (void)self;
    const char *name;
    const spp_clock *clock;
    if (!PyArg_ParseTuple(args, "s", &name) || spp_clock_choose(name, &clock) != 0) return NULL;
    return PyUnicode_FromString(clock->name);
}

/* ---- the interpreter's lock, for the clock that needs it */

#ifdef Py_GIL_DISABLED
#define GATED 0
#else
#define GATED 1
static PyGILState_STATE entered;

/* The sampler. Once the interpreter ends its lock is for nobody else. */
static bool enter(void) {
#if PY_VERSION_HEX >= 0x030D0000
    if (Py_IsFinalizing()) return false;
#endif
    entered = PyGILState_Ensure();
    return true;
}

static void leave(void) { PyGILState_Release(entered); }
#endif

static PyObject *run_pause(PyObject *self, PyObject *none) {
    (void)self;
    (void)none;
    spp_run_pause(true);
    Py_RETURN_NONE;
}

static PyObject *run_resume(PyObject *self, PyObject *none) {
    (void)self;
    (void)none;
    spp_run_pause(false);
    Py_RETURN_NONE;
}

/* GIL held: our threads never wait for it. */
static PyObject *run_rest(PyObject *self, PyObject *none) {
    (void)self;
    (void)none;
    spp_run_rest();
    Py_RETURN_NONE;
}

#if PY_VERSION_HEX >> 16 == 0x030D
/* Called by the main thread when it gets to it: the one that forked, as it was the only one. */
static int wake_later(void *unused) {
    (void)unused;
    spp_run_wake();
    return 0;
}
#endif

static PyObject *run_wake(PyObject *self, PyObject *none) {
    (void)self;
    (void)none;
#if PY_VERSION_HEX >> 16 == 0x030D
    /* 3.13.0 counts threads for its warning after it has called this, others before (warn_about_fork_with_threads). */
    if (Py_AddPendingCall(wake_later, NULL) == 0) Py_RETURN_NONE;
#endif
    spp_run_wake();
    Py_RETURN_NONE;
}

static PyObject *run_flush(PyObject *self, PyObject *none) {
    const spp_module_state *state = PyModule_GetState(self);
    (void)none;
    int error;
    Py_BEGIN_ALLOW_THREADS;
    error = spp_run_flush();
    Py_END_ALLOW_THREADS;
    if (error != 0) {
        errno = error;
        return PyErr_SetFromErrno(state->write_error);
    }
    Py_RETURN_NONE;
}

static PyObject *run_active(PyObject *self, PyObject *none) {
    (void)self;
    (void)none;
    spp_session_settle();
    return PyBool_FromLong(spp_run_active());
}

static PyObject *run_paused(PyObject *self, PyObject *none) {
    (void)self;
    (void)none;
    return PyBool_FromLong(spp_run_paused());
}

static PyObject *tick_stats(void) {
    PyObject *json = PyImport_ImportModule("json"); /* first: where it is new, it takes a hundred ticks */
    if (json == NULL) return NULL;
    spp_bytes text = {0};
    spp_run_tick_stats(&text);
    PyObject *dict = text.n ? PyObject_CallMethod(json, "loads", "s#", (char *)text.at, (Py_ssize_t)text.n) : NULL;
    bool none = text.n == 0;
    spp_bytes_free(&text);
    Py_DECREF(json);
    if (none) return PyDict_New();
    if (dict == NULL) return NULL;
    long error = PyLong_AsLong(PyDict_GetItemString(dict, "write_error"));
    PyObject *message = error ? PyUnicode_FromString(strerror((int)error)) : Py_NewRef(Py_None);
    if (message == NULL || PyDict_SetItemString(dict, "write_error", message) != 0) Py_CLEAR(dict);
    Py_XDECREF(message);
    return dict;
}

static PyObject *run_stats(PyObject *self, PyObject *none) {
    (void)self;
    (void)none;
    return tick_stats();
}

static PyObject *name_threads(PyObject *self, PyObject *names) {
    (void)self;
    PyObject *list = PySequence_Fast(names, "name_threads takes a sequence of (native id, name)");
    if (list == NULL) return NULL;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list); i++) {
        unsigned long long tid;
        PyObject *name;
        if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(list, i), "KU", &tid, &name)) goto failed;
        PyObject *utf8 = PyUnicode_AsEncodedString(name, "utf-8", "replace");
        if (utf8 == NULL) goto failed;
        /* macOS's ids have 64 bits, of which a tid has the lower ones. */
        if (spp_run_active()) spp_run_name((int32_t)(tid & INT32_MAX), PyBytes_AS_STRING(utf8));
        Py_DECREF(utf8);
    }
    Py_DECREF(list);
    Py_RETURN_NONE;
failed:
    Py_DECREF(list);
    return NULL;
}

/* GIL, any thread. The clocks as the system has them: a program may freeze or replace those of the module `time`. */
static PyObject *now_ns(PyObject *self, PyObject *none) {
    (void)self;
    (void)none;
    return PyLong_FromUnsignedLongLong(spp_os_now_ns());
}

static PyObject *unix_ns(PyObject *self, PyObject *none) {
    (void)self;
    (void)none;
    struct timespec now;
    (void)timespec_get(&now, TIME_UTC);
    return PyLong_FromUnsignedLongLong((unsigned long long)now.tv_sec * 1000000000u + (unsigned long long)now.tv_nsec);
}

static PyObject *handler_cycles(PyObject *self, PyObject *none) {
    (void)self;
    (void)none;
    uint64_t n = spp_cycles_count;
    if (n > SPP_CYCLES_KEPT) n = SPP_CYCLES_KEPT;
    if (spp_os_cycles() == 0 || spp_cycles == NULL) n = 0;
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (uint64_t i = 0; i < n && list != NULL; i++) {
        PyObject *value = PyLong_FromUnsignedLong(spp_cycles[i]);
        if (value == NULL) {
            Py_CLEAR(list);
        } else {
            PyList_SET_ITEM(list, (Py_ssize_t)i, value);
        }
    }
    return list;
}

/* ---- the module */

static PyMethodDef methods[] = {
    {"choose_events", choose_events, METH_VARARGS, "Whether start() could sample these."},
    {"list_events", list_events, METH_NOARGS, "Each event, and whether it can be sampled here."},
    {"choose_clock", choose_clock, METH_VARARGS, "The clock that start() would use."},
    {"pause", run_pause, METH_NOARGS, "Stops sampling for a while."},
    {"resume", run_resume, METH_NOARGS, "Goes on sampling."},
    {"rest", run_rest, METH_NOARGS, "Before a fork: no thread of the core's is left."},
    {"wake", run_wake, METH_NOARGS, "After it, in the parent."},
    {"flush", run_flush, METH_NOARGS, "Waits until what was sampled is in the file."},
    {"active", run_active, METH_NOARGS, "Between start and stop?"},
    {"paused", run_paused, METH_NOARGS, "Paused?"},
    {"stats", run_stats, METH_NOARGS, "The tick stats so far."},
    {"now_ns", now_ns, METH_NOARGS, "The monotonic clock of samples."},
    {"unix_ns", unix_ns, METH_NOARGS, "Nanoseconds since 1970, UTC."},
    {"name_threads", name_threads, METH_O, "Names threads by their OS ids."},
    {"handler_cycles", handler_cycles, METH_NOARGS, "Cycles of recent handler runs."},
    {"read", spp_profile_read, METH_O, "Reads a .spprof file."},
    {NULL, NULL, 0, NULL},
};

static PyObject *dict_of(const char *const *keys, const char *const *values, size_t n) {
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict != NULL && i < n; i++) {
        if (!spp_put(dict, keys[i], PyUnicode_FromString(values[i]))) Py_CLEAR(dict);
    }
    return dict;
}

static void learn_types(void) {
    spp_py.code_type = (uintptr_t)&PyCode_Type;
    spp_py.frame_type = (uintptr_t)&PyFrame_Type;
    spp_py.gen_type = (uintptr_t)&PyGen_Type;
    spp_py.coro_type = (uintptr_t)&PyCoro_Type;
    spp_py.async_gen_type = (uintptr_t)&PyAsyncGen_Type;
    spp_py.none = (uintptr_t)Py_None;
    spp_py_str_type = (uintptr_t)&PyUnicode_Type;
    spp_py_type_flags = offsetof(PyTypeObject, tp_flags);
    spp_py_bytes_type = (uintptr_t)&PyBytes_Type;
}

/* The least and the most of options that are numbers. */
static PyObject *limits(void) {
    return Py_BuildValue("{s(II)s(II)}", "interval_ns", SPP_INTERVAL_LEAST_NS, SPP_INTERVAL_MOST_NS, "max_depth", 1u,
                         (unsigned)SPP_DEPTH_MAX);
}

/* The names of the words that `start` takes. */
static PyObject *words(void) {
    static const char *const names[] = {
#define NAME(word, name) #name,
        SPP_OPTION_WORDS(NAME)
#undef NAME
    };
    PyObject *made = PyTuple_New(SPP_WORDS);
    for (int i = 0; made != NULL && i < SPP_WORDS; i++) {
        PyObject *name = PyUnicode_FromString(names[i]);
        if (name == NULL)
            Py_CLEAR(made);
        else
            PyTuple_SET_ITEM(made, i, name);
    }
    return made;
}

/* The clocks of this system and a line about each. */
static PyObject *clocks(void) {
    PyObject *dict = PyDict_New();
    for (const spp_clock *const *at = spp_os_clocks; dict != NULL && *at != NULL; at++) {
        if ((*at)->line == NULL || ((*at)->gated && !GATED)) continue;
        if (!spp_put(dict, (*at)->name, PyUnicode_FromString((*at)->line))) Py_CLEAR(dict);
    }
    return dict;
}

static int exec_module(PyObject *module) {
#if GATED
    spp_os_gate(enter, leave);
#endif
    learn_types();
    if (PyModule_AddFunctions(module, spp_session_methods) != 0) return -1;
    if (PyModule_AddFunctions(module, spp_functions_methods) != 0) return -1;
    if (PyModule_AddFunctions(module, spp_record_methods) != 0) return -1;
    if (PyModule_AddFunctions(module, spp_beside_methods) != 0) return -1;
    if (PyModule_AddFunctions(module, spp_label_methods) != 0) return -1;
    if (PyModule_AddFunctions(module, spp_output_methods) != 0) return -1;
    spp_module_state *state = PyModule_GetState(module);
    bool proven = spp_layout_prove(state->layout_error, sizeof state->layout_error);
    if (proven) spp_py.has_cached_chunk = spp_layout_has_cached_chunk();
    state->write_error = PyErr_NewExceptionWithDoc("spprof._core.WriteError", "The output takes no data.", PyExc_OSError, NULL);
    PyObject *error = proven ? Py_NewRef(Py_None) : PyUnicode_FromString(state->layout_error);
    PyObject *dict = PyModule_GetDict(module);
    return spp_put(dict, "Output", spp_output_type()) && spp_put(dict, "layout_error", error) &&
                   spp_put(dict, "WriteError", Py_XNewRef(state->write_error)) &&
                   spp_put(dict, "NATIVE", PyBool_FromLong(spp_os_native)) && spp_put(dict, "COLUMNS", spp_profile_columns()) &&
                   spp_put(dict, "REASONS", spp_profile_reasons()) &&
                   spp_put(dict, "LOSSES", dict_of(spp_loss_keys, spp_loss_titles, SPP_LOSS_COUNT)) &&
                   spp_put(dict, "LIMITS", limits()) && spp_put(dict, "WORDS", words()) && spp_put(dict, "CLOCKS", clocks())
               ? 0
               : -1;
}

static int traverse_module(PyObject *module, visitproc visit, void *arg) {
    spp_module_state *state = PyModule_GetState(module);
    if (state == NULL) return 0;
    Py_VISIT(state->write_error);
    return 0;
}

static int clear_module(PyObject *module) {
    spp_module_state *state = PyModule_GetState(module);
    if (state == NULL) return 0;
    Py_CLEAR(state->write_error);
    return 0;
}

static void free_module(void *module) { (void)clear_module(module); }

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)exec_module},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "spprof._core",
    .m_doc = "The C core of spprof. Private.",
    .m_size = sizeof(spp_module_state),
    .m_traverse = traverse_module,
    .m_clear = clear_module,
    .m_free = free_module,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
