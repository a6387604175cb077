/* CPython 3.12+: events of sys.monitoring, whose callbacks are functions in C. Before: an evaluator of frames (PEP 523), which is
 * called where each function begins or goes on. A profile function would do, too, but while there is one each instruction is
 * slower. Only calls of functions in C need one. A thread has only one: if the program sets its own, calls are not counted
 * any more, and the profile says so.
 */
#include "module/calls.h"

#include <stdbool.h>

#include "base/hints.h"
#include "base/sample.h"
#include "core/capture/frames.h"
#include "core/run/calls.h"
#include "module/compat.h"
#include "module/held.h"
#include "module/monitor.h"
#include "os/context.h"
#include "py/layout.h"

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
#include <opcode.h>
#endif

static struct {
    spp_calls_which which; /* NO: nothing is armed */
    uint64_t number;       /* of this run */
} heard;

static inline bool counts(void) { return atomic_load_explicit(&spp_calls_on, memory_order_relaxed); }

/* ---- tables: one of all threads where they take turns, else one each */

#ifdef Py_GIL_DISABLED

/* A thread's table goes to another one when it has ended. */
typedef struct spare {
    struct spare *next;
    spp_calls *table;
} spare;

static _Thread_local struct {
    spp_calls *table;
    uint64_t number;
} own;

static PyMutex spares_lock;
static spare *spares;
static uint64_t spares_number; /* of their run */

/* Under the lock. */
static void forget_spares(void) {
    while (spares != NULL) {
        spare *gone = spares;
        spares = gone->next;
        PyMem_RawFree(gone);
    }
}

#define OWNED "spprof.calls"

/* With the thread's dict, at its end. */
static void thread_ends(PyObject *capsule) {
    spare *made = PyMem_RawMalloc(sizeof *made);
    spp_calls *table = PyCapsule_GetPointer(capsule, OWNED);
    uint64_t number = (uint64_t)(uintptr_t)PyCapsule_GetContext(capsule);
    PyMutex_Lock(&spares_lock);
    if (made != NULL && number == spares_number && heard.which != SPP_CALLS_NO) {
        *made = (spare){spares, table};
        spares = made;
        made = NULL;
    }
    PyMutex_Unlock(&spares_lock);
    PyMem_RawFree(made);
    if (own.number == number && own.table == table) own.number = 0; /* another thread's may end here, or one that was replaced */
}

static SPP_COLD spp_calls *claim(void) {
    PyMutex_Lock(&spares_lock);
    if (spares_number != heard.number) forget_spares();
    spares_number = heard.number;
    spare *found = spares;
    if (found != NULL) spares = found->next;
    PyMutex_Unlock(&spares_lock);
    spp_calls *table = found != NULL ? found->table : spp_calls_table();
    PyMem_RawFree(found);
    own.table = table;
    own.number = heard.number;
    PyObject *dict = table != NULL ? PyThreadState_GetDict() : NULL; /* borrowed */
    PyObject *capsule = dict != NULL ? PyCapsule_New(table, OWNED, thread_ends) : NULL;
    if (capsule != NULL) {
        (void)PyCapsule_SetContext(capsule, (void *)(uintptr_t)heard.number);
        if (PyDict_SetItemString(dict, OWNED, capsule) != 0) PyErr_Clear();
    }
    Py_XDECREF(capsule);
    PyErr_Clear();
    return counts() ? table : NULL; /* the run may have ended while this thread waited: its tables are gone */
}

static inline spp_calls *table_now(void) { return spp_usual(own.number == heard.number) ? own.table : claim(); }

static int make_tables(void) { return 0; }

static void forget_tables(void) {
    PyMutex_Lock(&spares_lock);
    heard.number++;
    forget_spares();
    PyMutex_Unlock(&spares_lock);
}

#else

static spp_calls *own;
static inline spp_calls *table_now(void) { return own; }

static int make_tables(void) {
    own = spp_calls_table();
    if (own == NULL) PyErr_NoMemory();
    return own != NULL ? 0 : -1;
}

static void forget_tables(void) { own = NULL; }

#endif

/* ---- counting */

static SPP_COLD void count_first(spp_calls *t, uintptr_t callee, uintptr_t caller, uint32_t at, spp_call_kind kind,
                                 const char *name) {
    if (!spp_calls_add(t, callee, caller, at, kind, name)) return;
    if (kind != SPP_CALL_C) Py_INCREF((PyObject *)callee);
    if (caller != 0) Py_INCREF((PyObject *)caller);
}

/* One that began, or goes on. `runs`: its frame is the thread's innermost one, else its caller's is. */
static inline void count_python(uintptr_t callee, spp_call_kind kind, bool runs) {
    uintptr_t caller, state = (uintptr_t)PyThreadState_Get();
    uint32_t at;
    spp_calls *t = table_now();
    if (spp_rare(t == NULL)) return;
    for (;;) {
        if (spp_rare(!spp_frames_here(state, runs, &caller, &at))) caller = 0, at = SPP_OFFSET_NONE;
        if (spp_usual(spp_calls_count(t, callee, caller, at, kind))) return;
        if (caller == 0 || !spp_monitor_is_init_cleanup((PyObject *)caller)) break;
    }
    count_first(t, callee, caller, at, kind, NULL);
}

#define NAME_MOST 512

/* The type that has this method, which its subclasses share: a name must not depend on whose was called first. NULL: none. */
static const PyTypeObject *owner_of(const PyMethodDef *def, const PyTypeObject *type) {
    PyObject *order = type->tp_mro;
    for (Py_ssize_t i = 0; order != NULL && i < PyTuple_GET_SIZE(order); i++) {
        const PyTypeObject *one = (const PyTypeObject *)PyTuple_GET_ITEM(order, i);
        for (const PyMethodDef *has = one->tp_methods; has != NULL && has->ml_name != NULL; has++) {
            if (has == def) return one;
        }
    }
    return NULL;
}

/* `self` is a type for methods of classes, but also for those of a metaclass. `__new__` of all types has one definition, which
 * none of them has. */
static const char *home_of(const PyMethodDef *def, PyObject *self) {
    const PyTypeObject *owner = PyType_Check(self) ? owner_of(def, (PyTypeObject *)self) : NULL;
    if (owner == NULL) owner = owner_of(def, Py_TYPE(self));
    return owner != NULL ? owner->tp_name : "";
}

/* MODULE-OR-TYPE and NAME of a function in C, without running anything of the program's. */
static void name_of(char *to, const PyMethodDef *def, PyObject *self, PyObject *module) {
    const char *home = "";
    if (self != NULL && PyModule_Check(self))
        home = PyModule_GetName(self);
    else if (self != NULL)
        home = home_of(def, self);
    if (home != NULL && *home == 0 && module != NULL && PyUnicode_Check(module)) home = PyUnicode_AsUTF8(module);
    if (home == NULL) PyErr_Clear();
    int n = PyOS_snprintf(to, NAME_MOST / 2, "%s", home != NULL ? home : "");
    if (n >= NAME_MOST / 2) n = NAME_MOST / 2 - 1;
    PyOS_snprintf(to + n + 1, NAME_MOST / 2, "%s", def->ml_name != NULL ? def->ml_name : "");
}

static SPP_COLD void count_first_c(spp_calls *t, const PyMethodDef *def, uintptr_t caller, uint32_t at, PyObject *self,
                                   PyObject *module) {
    char name[NAME_MOST + 2];
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    name_of(name, def, self, module);
    PyErr_Restore(kind, value, traceback);
    if (counts()) count_first(t, (uintptr_t)def, caller, at, SPP_CALL_C, name);
}

/* By its definition, which all bound methods share. */
static inline void count_c(const PyMethodDef *def, uintptr_t caller, uint32_t at, PyObject *self, PyObject *module) {
    spp_calls *t = table_now();
    if (spp_rare(t == NULL || def == NULL)) return;
    if (spp_rare(!spp_calls_count(t, (uintptr_t)def, caller, at, SPP_CALL_C))) count_first_c(t, def, caller, at, self, module);
}

#if SPP_MONITORS /* ---- 3.12+ */

/* Callbacks: code object, offset, and what the event has more. They raise nothing. CPython calls none for what runs within one.
 */
static PyObject *begins(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    (void)self, (void)n;
    if (spp_usual(counts())) count_python((uintptr_t)args[0], SPP_CALL_PYTHON, true);
    Py_RETURN_NONE;
}

static PyObject *goes_on(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    (void)self, (void)n;
    if (spp_usual(counts())) count_python((uintptr_t)args[0], SPP_CALL_RESUME, true);
    Py_RETURN_NONE;
}

static PyObject *missing; /* sys.monitoring.MISSING, which lives as long as its interpreter */

static PyObject *calls(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    (void)self;
    if (spp_rare(!counts() || n < 4)) Py_RETURN_NONE;
    PyObject *called = args[2];
    uintptr_t caller = (uintptr_t)args[0];
#if PY_VERSION_HEX >= 0x030D0000
    /* types.MethodType(len, x)(): before, not each way of calling it has an event. */
    if (PyMethod_Check(called) && PyCFunction_Check(PyMethod_GET_FUNCTION(called))) called = PyMethod_GET_FUNCTION(called);
#endif
    if (PyCFunction_Check(called)) {
        const PyCFunctionObject *function = (PyCFunctionObject *)called;
        uint32_t at = (uint32_t)PyLong_AsLong(args[1]);
        count_c(function->m_ml, caller, at, PyCFunction_GET_SELF(called), function->m_module);
    } else if (Py_IS_TYPE(called, &PyMethodDescr_Type) && args[3] != missing) {
        uint32_t at = (uint32_t)PyLong_AsLong(args[1]);
        count_c(((PyMethodDescrObject *)called)->d_method, caller, at, (PyObject *)PyDescr_TYPE(called), NULL);
    }
    Py_RETURN_NONE;
}

static PyMethodDef callbacks[] = {
    SPP_MONITOR_CALLBACK("PY_START", begins, "spprof counts a call."),
    SPP_MONITOR_CALLBACK("PY_RESUME", goes_on, "spprof counts a resume."),
    SPP_MONITOR_CALLBACK("PY_THROW", goes_on, "spprof counts a resume."),
    SPP_MONITOR_CALLBACK("CALL", calls, "spprof counts a call of a function in C."),
};
#define EVENTS (sizeof callbacks / sizeof *callbacks)

static spp_monitor monitor = SPP_MONITOR_NONE;

static void disarm(void) { spp_monitor_leave(&monitor); }

static int arm(void) {
    missing = spp_monitor_sign("MISSING");
    size_t n = heard.which == SPP_CALLS_OF_ALL ? EVENTS : EVENTS - 1;
    return spp_monitor_enter(&monitor, callbacks, n, n, "calls cannot be counted");
}

void spp_calling_ends(void) {}

#else /* ---- 3.9 to 3.11: functions in Python */

static _PyFrameEvalFunction evaluator; /* whose place ours has taken */

static PyInterpreterState *interpreter(void) { return PyThreadState_GET()->interp; }

#if PY_VERSION_HEX >= 0x030B0000

typedef struct _PyInterpreterFrame any_frame;

/* Whether the call that comes is refused (RecursionError), so that nothing of the function runs. */
static inline bool is_too_deep(const PyThreadState *state) {
    return spp_rare(state->recursion_remaining <= 0) && state->recursion_headroom == 0;
}

/* What the evaluator is called for. False: it only makes a generator. */
static inline bool kind_of(const PyCodeObject *code, const any_frame *frame, bool throws, spp_call_kind *kind) {
    *kind = SPP_CALL_PYTHON;
    if (spp_usual((code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) == 0)) return true;
    const uint8_t *before = *(const uint8_t *const *)((uintptr_t)frame + SPP_L_FRAME_INSTR);
    if (before < (const uint8_t *)code + SPP_L_CODE_BYTECODE) return false;
    if (throws || *before != RETURN_GENERATOR) *kind = SPP_CALL_RESUME;
    return true;
}

static PyObject *evaluate(PyThreadState *state, any_frame *frame, int throws);

/* CPython itself calls functions in Python without using the C stack, which may be too small for as many calls as a program may
 * make. Near its end all calls are left to CPython until the frame returns, and are not counted. */
static int flat;
static _Thread_local uintptr_t stack_low, stack_spare; /* the last quarter; 0: not known yet */

static SPP_COLD void find_stack(void) {
    spp_os_stack stack = spp_os_stack_limits();
    stack_low = stack.low;
    stack_spare = stack.end > stack.low ? (stack.end - stack.low) / 4 : 1;
}

static void exchange(PyInterpreterState *of, _PyFrameEvalFunction from, _PyFrameEvalFunction to) {
    if (_PyInterpreterState_GetEvalFrameFunc(of) == from) _PyInterpreterState_SetEvalFrameFunc(of, to);
}

static SPP_COLD PyObject *evaluate_flat(PyThreadState *state, any_frame *frame, int throws) {
    if (flat++ == 0 && counts()) spp_calls_taken();
    exchange(state->interp, evaluate, evaluator);
    PyObject *result = evaluator(state, frame, throws);
    if (--flat == 0 && heard.which != SPP_CALLS_NO) exchange(state->interp, evaluator, evaluate);
    return result;
}

static inline bool is_nearly_full(void) {
    if (spp_rare(stack_spare == 0)) find_stack();
    return (uintptr_t)__builtin_frame_address(0) - stack_low < stack_spare; /* huge on another stack, such as a coroutine's */
}

#else

typedef PyFrameObject any_frame;
static const int flat;

static inline bool is_too_deep(const PyThreadState *state) {
    if (spp_usual(state->recursion_depth < Py_GetRecursionLimit())) return false;
#if PY_VERSION_HEX >= 0x030A0000
    return state->recursion_headroom == 0;
#else
    return !state->overflowed && !state->recursion_critical;
#endif
}

static inline bool kind_of(const PyCodeObject *code, const any_frame *frame, bool throws, spp_call_kind *kind) {
    (void)code, (void)throws;
    *kind = *(const int *)((uintptr_t)frame + SPP_L_FRAME_INSTR) < 0 ? SPP_CALL_PYTHON : SPP_CALL_RESUME;
    return true;
}

#endif

/* For each frame that begins or goes on. Attached; an exception may be set, and stays. Its caller's frame is the innermost one.
 * What a trace or profile function calls is not counted, as sys.monitoring calls nobody within a callback. */
static PyObject *evaluate(PyThreadState *state, any_frame *frame, int throws) {
    spp_call_kind kind;
    const PyCodeObject *code = *(const PyCodeObject *const *)((uintptr_t)frame + SPP_L_FRAME_CODE);
    if (spp_usual(counts()) && state->tracing == 0 && !is_too_deep(state) && kind_of(code, frame, throws != 0, &kind))
        count_python((uintptr_t)code, kind, false);
#if PY_VERSION_HEX >= 0x030B0000
    if (spp_rare(is_nearly_full())) return evaluate_flat(state, frame, throws);
#endif
    return evaluator(state, frame, throws);
}

static bool is_replaced(void) { return flat == 0 && _PyInterpreterState_GetEvalFrameFunc(interpreter()) != evaluate; }

void spp_calling_ends(void) {
    if (heard.which != SPP_CALLS_NO && is_replaced()) spp_calls_taken();
}

static bool buried; /* the one that took our place may call ours */

static int take_place(void) {
    _PyFrameEvalFunction now = _PyInterpreterState_GetEvalFrameFunc(interpreter());
    if (buried && now != evaluate && now != _PyEval_EvalFrameDefault) {
        PyErr_SetString(PyExc_RuntimeError, "calls cannot be counted: another evaluator of frames (PEP 523) has taken our place");
        return -1;
    }
    buried = false;
    if (now != evaluate) {
        evaluator = now;
        _PyInterpreterState_SetEvalFrameFunc(interpreter(), evaluate);
    }
    return 0;
}

static void give_place(void) {
    if (_PyInterpreterState_GetEvalFrameFunc(interpreter()) == evaluate)
        _PyInterpreterState_SetEvalFrameFunc(interpreter(), evaluator);
    else if (evaluator != NULL && flat == 0)
        buried = true;
}

/* ---- functions in C */

#define THREAD "spprof.calls"

static uint64_t births; /* as many thread states were made when our function was in all */
static bool disarming;

static uint64_t births_now(void) {
    return *(const volatile uint64_t *)((uintptr_t)PyThreadState_GET()->interp + SPP_L_INTERP_NEXT_UNIQUE_ID);
}

static int hear(PyObject *object, PyFrameObject *frame, int what, PyObject *arg);
static PyObject *hear_again(PyObject *self, PyObject *args);
static PyMethodDef again = {"spprof_calls", hear_again, METH_VARARGS, "spprof counts calls."};

/* With the function that a thread has of us: at its end, at ours, or when the program has set another one. */
static void thread_gone(PyObject *capsule) {
    (void)capsule;
    if (!disarming && PyThreadState_GET() != NULL && PyEval_GetFrame() != NULL) spp_calls_taken();
}

/* The object beside our function is what sys.getprofile() gives. As a profile function in Python it puts ours back, so a program
 * may set it again. */
static int hear_thread(PyThreadState *state) {
    PyObject *capsule = PyCapsule_New(&births, THREAD, thread_gone);
    PyObject *object = capsule != NULL ? PyCFunction_New(&again, capsule) : NULL;
    Py_XDECREF(capsule);
    int failed = object == NULL || _PyEval_SetProfile(state, hear, object) != 0;
    Py_XDECREF(object);
    return failed ? -1 : 0;
}

static int hear_all(void) {
    uint64_t now = births_now();
    for (PyThreadState *t = PyInterpreterState_ThreadHead(PyThreadState_GET()->interp); t != NULL; t = PyThreadState_Next(t)) {
        if (t->c_profilefunc == NULL && hear_thread(t) != 0) return -1;
    }
    births = now;
    return 0;
}

static SPP_COLD void hear_new(void) {
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    (void)hear_all();
    PyErr_Clear();
    PyErr_Restore(kind, value, traceback);
}

static int hear(PyObject *object, PyFrameObject *frame, int what, PyObject *arg) {
    (void)object, (void)frame;
    if (spp_rare(births_now() != births)) hear_new();
    if (what != PyTrace_C_CALL || !counts() || !PyCFunction_Check(arg)) return 0;
    uintptr_t code = 0;
    uint32_t at = SPP_OFFSET_NONE;
    if (!spp_frames_here((uintptr_t)PyThreadState_GET(), false, &code, &at)) return 0;
    const PyCFunctionObject *function = (PyCFunctionObject *)arg;
    count_c(function->m_ml, code, at, PyCFunction_GET_SELF(arg), function->m_module);
    return 0;
}

static PyObject *hear_again(PyObject *self, PyObject *args) {
    (void)self, (void)args;
    PyThreadState *state = PyThreadState_GET();
    if (heard.which != SPP_CALLS_OF_ALL)
        PyEval_SetProfile(NULL, NULL);
    else if (hear_thread(state) != 0)
        return NULL;
    Py_RETURN_NONE;
}

static void disarm(void) {
    give_place();
    disarming = true;
    for (PyThreadState *t = PyInterpreterState_ThreadHead(PyThreadState_GET()->interp); t != NULL; t = PyThreadState_Next(t)) {
        if (t->c_profilefunc == hear && _PyEval_SetProfile(t, NULL, NULL) != 0) PyErr_Clear();
    }
    disarming = false;
}

static int arm(void) {
    if (take_place() != 0) return -1;
    if (heard.which != SPP_CALLS_OF_ALL) return 0;
    for (PyThreadState *t = PyInterpreterState_ThreadHead(PyThreadState_GET()->interp); t != NULL; t = PyThreadState_Next(t)) {
        if (t->c_profilefunc != NULL) spp_calls_taken();
    }
    return hear_all();
}

#endif

/* ---- a run */

int spp_calling_enter(spp_calls_which which) {
    if (which == SPP_CALLS_NO || which == SPP_CALLS_HOT) return 0;
    heard.which = which;
    heard.number++;
    spp_calls_start();
    if (make_tables() == 0 && arm() == 0) return 0;
    spp_calling_leave();
    return -1;
}

void spp_calling_leave(void) {
    if (heard.which == SPP_CALLS_NO) return;
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    atomic_store(&spp_calls_on, false);
    disarm(); /* without the GIL this stops all threads: none is in a callback any more */
    heard.which = SPP_CALLS_NO;
    forget_tables();
    spp_calls_stop(spp_held_release);
    PyErr_Clear();
    PyErr_Restore(kind, value, traceback);
}
