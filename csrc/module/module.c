/* The `_core` extension: the only room that builds Python objects and takes the GIL. Its Python face is described in
 * src/spprof/_core.pyi. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <frameobject.h>
#include <stdatomic.h>
#include <string.h>

#include "core/arm.h"
#include "core/capture.h"
#include "core/resolve.h"
#include "core/resolve_code.h"
#include "module/labels.h"
#include "module/profile.h"
#include "module/tstate.h"
#include "py/layout_proof.h"

#if PY_VERSION_HEX < 0x030A0000
#define Py_NewRef(object) (Py_INCREF(object), (PyObject *)(object))
#endif

static const char *layout_error;

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

/* ---- exec */

/* GIL held. CPython tells of each os.exec* before it happens (PEP 578). */
static int audit(const char *event, PyObject *args, void *unused) {
    (void)args, (void)unused;
    if (event[0] == 'o' && strcmp(event, "os.exec") == 0) spp_run_exec();
    return 0;
}

/* Hooks cannot be taken away again, so there is one for the life of the process. False: another hook refused it. */
static bool hook_exec(void) {
    static bool hooked;
    if (!hooked && PySys_AddAuditHook(audit, NULL) != 0)
        PyErr_Clear();
    else
        hooked = true;
    return hooked;
}

/* The interpreter is gone, and the program had cleared its exit handlers, the profiler's with them: the file is finished all the
 * same. No GIL, no Python. */
static bool end_hooked;

static void finish_late(void) {
    end_hooked = false; /* another runtime may follow in an embedding program */
    spp_run_stop();
}

static void hook_end(void) {
    if (!end_hooked) end_hooked = Py_AtExit(finish_late) == 0; /* not if all 32 places are taken */
}

/* ---- clocks */

static int clock_of_name(const char *name) {
    for (int i = 0; i < SPP_CLOCK_COUNT; i++) {
        if (strcmp(name, spp_clock_names[i]) == 0) return i;
    }
    return -1;
}

static PyObject *choose_clock(PyObject *self, PyObject *args) {
    (void)self;
    const char *name, *why = NULL;
    int error = 0;
    if (!PyArg_ParseTuple(args, "s", &name)) return NULL;
    bool automatic = strcmp(name, "auto") == 0;
    int chosen = clock_of_name(name);
    if (!automatic && chosen < 0)
        return PyErr_Format(PyExc_ValueError, "no clock '%s': auto, perf, perf-user, timer, suspend, gil", name);
    int first = automatic ? (int)spp_os_clock_first : chosen, last = automatic ? (int)spp_os_clock_last : chosen;
    for (int clock = first; clock <= last; clock++) {
        if (spp_os_clock_probe((spp_clock)clock, &why, &error) == 0) return PyUnicode_FromString(spp_clock_names[clock]);
    }
    errno = error;
    return PyErr_SetFromErrnoWithFilename(PyExc_OSError, why);
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

/* ---- the run */

static PyObject *run_start(PyObject *self, PyObject *args) {
    (void)self;
    int fd, wall, native = SPP_NATIVE_OFF, full = 0;
    const char *name, *header, *why = NULL;
    unsigned long long interval_ns;
    unsigned int max_depth;
    Py_ssize_t header_n;
    if (!PyArg_ParseTuple(args, "ispKIy#|ip", &fd, &name, &wall, &interval_ns, &max_depth, &header, &header_n, &native, &full)) {
        return NULL;
    }
    int clock = clock_of_name(name);
    if (layout_error != NULL) return PyErr_Format(PyExc_RuntimeError, "%s", layout_error);
    if (spp_run_active()) return PyErr_Format(PyExc_RuntimeError, "a run is active already");
    if (clock == SPP_CLOCK_GIL && (wall || native != SPP_NATIVE_OFF)) {
        return PyErr_Format(PyExc_ValueError, "the clock 'gil' shows Python's CPU time only: no wall mode, no native frames");
    }
    if (clock < 0 || interval_ns < 50000 || interval_ns > 1000000000 || max_depth < 1 || max_depth > SPP_DEPTH_MAX ||
        header_n < 3 || header[header_n - 1] != '}' || native < SPP_NATIVE_OFF || native > SPP_NATIVE_ALL ||
        (native != SPP_NATIVE_OFF && !spp_os_native)) {
        return PyErr_Format(PyExc_ValueError, "start: bad clock, interval, depth or header");
    }
    spp_thread_states states;
    const char *broken = spp_tstate_init(&states);
    if (broken != NULL) return PyErr_Format(PyExc_RuntimeError, "this interpreter's layout differs: %s", broken);
    int own_fd = spp_os_file_copy(fd);
    if (own_fd < 0) return PyErr_SetFromErrno(PyExc_OSError);
    spp_options options = {
        .fd = own_fd,
        .clock = (spp_clock)clock,
        .wall = wall != 0,
        .interval_ns = interval_ns,
        .max_depth = max_depth,
        .header = header,
        .header_n = (size_t)header_n,
        .may_trap = hook_exec(),
        .native = native,
        .native_full = full != 0,
    };
    hook_end();
    if (native != SPP_NATIVE_OFF) {
        int failed;
        uintptr_t evaluator = spp_os_symbol("_PyEval_EvalFrameDefault");
        Py_BEGIN_ALLOW_THREADS;
        failed = spp_run_native(evaluator, &why);
        Py_END_ALLOW_THREADS;
        if (failed) {
            spp_os_file_close(own_fd);
            return PyErr_Format(PyExc_RuntimeError, "%s", why);
        }
    }
    hook_deaths();
    errno = 0;
    if (spp_run_start(&options, &states, &why) != 0) {
        unhook_deaths();
        if (errno != 0) return PyErr_SetFromErrnoWithFilename(PyExc_OSError, why);
        return PyErr_Format(PyExc_RuntimeError, "%s", why);
    }
    Py_RETURN_NONE;
}

static PyObject *account(void) {
    spp_bytes text = {0};
    spp_run_account(&text);
    if (text.n == 0) {
        spp_bytes_free(&text);
        return PyDict_New();
    }
    PyObject *json = PyImport_ImportModule("json");
    PyObject *dict = json ? PyObject_CallMethod(json, "loads", "s#", (char *)text.at, (Py_ssize_t)text.n) : NULL;
    spp_bytes_free(&text);
    Py_XDECREF(json);
    if (dict == NULL) return NULL;
    long error = PyLong_AsLong(PyDict_GetItemString(dict, "write_error"));
    PyObject *message = error ? PyUnicode_FromString(strerror((int)error)) : Py_NewRef(Py_None);
    if (message == NULL || PyDict_SetItemString(dict, "write_error", message) != 0) Py_CLEAR(dict);
    Py_XDECREF(message);
    return dict;
}

static PyObject *run_stop(PyObject *self, PyObject *none) {
    (void)self;
    (void)none;
    if (!spp_run_active()) return PyErr_Format(PyExc_RuntimeError, "no run is active");
    Py_BEGIN_ALLOW_THREADS;
    spp_run_stop();
    Py_END_ALLOW_THREADS;
    unhook_deaths();
    return account();
}

/* ---- names of C functions */

static PyObject *native_functions(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    spp_vec64 found = spp_run_native_functions();
    PyObject *dict = PyDict_New();
    for (size_t i = 0; i + 1 < found.n && dict != NULL; i += 2) {
        PyObject *address = PyLong_FromUnsignedLongLong(found.at[i]), *code = PyLong_FromUnsignedLongLong(found.at[i + 1]);
        if (address == NULL || code == NULL || PyDict_SetItem(dict, address, code) != 0) Py_CLEAR(dict);
        Py_XDECREF(address);
        Py_XDECREF(code);
    }
    spp_vec64_free(&found);
    return dict;
}

static PyObject *function_address(PyObject *self, PyObject *object) {
    (void)self;
    const PyTypeObject *type = Py_TYPE(object);
    uintptr_t address = 0;
    if (type == &PyCFunction_Type)
        address = (uintptr_t)((PyCFunctionObject *)object)->m_ml->ml_meth;
    else if (type == &PyMethodDescr_Type || type == &PyClassMethodDescr_Type)
        address = (uintptr_t)((PyMethodDescrObject *)object)->d_method->ml_meth;
    else if (type == &PyWrapperDescr_Type)
        address = (uintptr_t)((PyWrapperDescrObject *)object)->d_wrapped;
    return PyLong_FromUnsignedLongLong(address);
}

static PyObject *name_native(PyObject *self, PyObject *text) {
    (void)self;
    if (!PyBytes_Check(text)) return PyErr_Format(PyExc_TypeError, "name_native takes bytes");
    spp_run_native_names(PyBytes_AS_STRING(text), (size_t)PyBytes_GET_SIZE(text));
    Py_RETURN_NONE;
}

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

static PyObject *run_flush(PyObject *self, PyObject *none) {
    (void)self;
    (void)none;
    int error;
    Py_BEGIN_ALLOW_THREADS;
    error = spp_run_flush();
    Py_END_ALLOW_THREADS;
    if (error != 0) {
        errno = error;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    Py_RETURN_NONE;
}

static PyObject *run_active(PyObject *self, PyObject *none) {
    (void)self;
    (void)none;
    return PyBool_FromLong(spp_run_active());
}

static PyObject *run_paused(PyObject *self, PyObject *none) {
    (void)self;
    (void)none;
    return PyBool_FromLong(spp_run_paused());
}

static PyObject *run_stats(PyObject *self, PyObject *none) {
    (void)self;
    (void)none;
    return account();
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

/* ---- the module */

static PyMethodDef methods[] = {
    {"choose_clock", choose_clock, METH_VARARGS, "The clock that start() would use."},
    {"start", run_start, METH_VARARGS, "Starts sampling every thread into a file."},
    {"stop", run_stop, METH_NOARGS, "Stops, finishes the file, returns the account."},
    {"pause", run_pause, METH_NOARGS, "Stops sampling for a while."},
    {"resume", run_resume, METH_NOARGS, "Goes on sampling."},
    {"flush", run_flush, METH_NOARGS, "Waits until what was sampled is in the file."},
    {"active", run_active, METH_NOARGS, "Between start and stop?"},
    {"paused", run_paused, METH_NOARGS, "Paused?"},
    {"stats", run_stats, METH_NOARGS, "The account of ticks so far."},
    {"name_threads", name_threads, METH_O, "Names threads by their OS ids."},
    {"native_functions", native_functions, METH_NOARGS, "Native functions sampled so far."},
    {"function_address", function_address, METH_O, "Where the C function behind a callable begins."},
    {"name_native", name_native, METH_O, "Names of native functions in Python."},
    {"handler_cycles", handler_cycles, METH_NOARGS, "Cycles of recent handler runs."},
    {"read", spp_profile_read, METH_O, "Reads a .spprof file."},
    {"collection", collection, METH_VARARGS, "A callback for gc.callbacks."},
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

static int exec_module(PyObject *module) {
    static const char *const clock_lines[SPP_CLOCK_COUNT] = {
        "perf task-clock with kernel samples: exact, any rate; needs perf_event_paranoid <= 1 or CAP_PERFMON",
        "perf task-clock for user time and a thread-CPU timer for the kernel's remainder; needs perf_event_paranoid <= 2",
        "thread-CPU timers: right shares anywhere, but no more samples than the kernel's tick (CONFIG_HZ)",
        "a thread of spprof's suspends those that run, one at a time, for as long as it walks their stacks",
        "a thread of spprof's takes the GIL and walks the stacks of those that ran: no native code, and only when asked for",
    };
    size_t first = spp_os_clock_first, clocks = spp_os_clock_last - first + 1u;
    if (spp_os_clock_last == SPP_CLOCK_SUSPEND) clocks += GATED;
#if GATED
    spp_os_gate(enter, leave);
#endif
    learn_types();
    if (PyModule_AddFunctions(module, spp_label_methods) != 0) return -1;
    layout_error = spp_layout_prove();
    spp_py.has_cached_chunk = layout_error == NULL && spp_layout_has_cached_chunk();
    PyObject *error = layout_error ? PyUnicode_FromString(layout_error) : Py_NewRef(Py_None);
    PyObject *dict = PyModule_GetDict(module);
    return spp_put(dict, "layout_error", error) && spp_put(dict, "NATIVE", PyBool_FromLong(spp_os_native)) &&
                   spp_put(dict, "LOSSES", dict_of(spp_loss_keys, spp_loss_titles, SPP_LOSS_COUNT)) &&
                   spp_put(dict, "CLOCKS", dict_of(spp_clock_names + first, clock_lines + first, clocks))
               ? 0
               : -1;
}

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
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
