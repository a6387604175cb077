/* CPython 3.12+: events of sys.monitoring. The first start of each code object is seen everywhere, and never again if it is not
 * chosen; the other events are armed in the chosen ones alone. So other code costs nothing.
 *
 * Executions are what sys.settrace reports as lines: events LINE, and jumps back within a line. Without an event PY_START armed
 * CPython 3.13 and later give no LINE to a line that begins with the function (`def f(x): return x`), because its instruction
 * RESUME has another opcode then. So starts of chosen functions are seen each time, and counted. */
#include "module/executions.h"

#include <stdbool.h>

#include "base/hints.h"
#include "core/run/executions.h"
#include "module/chosen.h"
#include "module/compat.h"
#include "module/held.h"
#include "module/monitor.h"

#if SPP_MONITORS

#include <opcode.h>

#define EVERYWHERE 1u /* the first so many events */
#define UNIT 2        /* bytes of a code unit */

static struct {
    bool armed;
    spp_chosen chosen;
} counted;

static spp_monitor monitor = SPP_MONITOR_NONE;
static PyObject *never; /* sys.monitoring.DISABLE, which lives as long as its interpreter */

/* ---- lines of instructions */

/* Reads one of co_lines(): false: with an exception. */
static bool put_range(PyObject *range, uint32_t *line_of, uint32_t n) {
    if (!PyTuple_Check(range) || PyTuple_GET_SIZE(range) != 3) return false;
    long begin = PyLong_AsLong(PyTuple_GET_ITEM(range, 0)), end = PyLong_AsLong(PyTuple_GET_ITEM(range, 1));
    PyObject *number = PyTuple_GET_ITEM(range, 2);
    long line = number == Py_None ? 0 : PyLong_AsLong(number);
    if (PyErr_Occurred() != NULL) return false;
    for (long at = begin / UNIT; line > 0 && at < end / UNIT && at < (long)n; at++) line_of[at] = (uint32_t)line;
    return true;
}

/* Of each of a code object's instructions; 0: it has none. NULL with an exception. */
static uint32_t *lines_of(PyObject *code, uint32_t n) {
    uint32_t *line_of = PyMem_RawCalloc(n, sizeof *line_of);
    PyObject *ranges = line_of != NULL ? PyObject_CallMethod(code, "co_lines", NULL) : PyErr_NoMemory(), *range;
    bool good = ranges != NULL;
    while (good && (range = PyIter_Next(ranges)) != NULL) {
        good = put_range(range, line_of, n);
        Py_DECREF(range);
    }
    Py_XDECREF(ranges);
    if (good && PyErr_Occurred() == NULL) return line_of;
    PyMem_RawFree(line_of);
    return NULL;
}

/* A code object's instructions as compiled: without events of anybody. A new reference; NULL with an exception. */
static PyObject *compiled(PyObject *code) { return PyCode_GetCode((PyCodeObject *)code); }

/* The first instruction that executes a line: what is before RESUME is not seen, and RESUME has the function's own line. */
static uint32_t first_of(const PyCodeObject *code, const unsigned char *at, uint32_t n) {
    uint32_t first = (uint32_t)code->_co_firsttraceable + 1;
    while (first < n && at[UNIT * first] == CACHE) first++;
    return first;
}

static spp_executions *add(PyObject *code, bool *added) {
    uint32_t n = (uint32_t)Py_SIZE(code);
    PyObject *bytes = compiled(code);
    uint32_t *line_of = bytes != NULL ? lines_of(code, n) : NULL;
    spp_executions *of = NULL;
    if (line_of != NULL) {
        uint32_t first = first_of((PyCodeObject *)code, (const unsigned char *)PyBytes_AS_STRING(bytes), n);
        of = spp_executions_add((uintptr_t)code, line_of, n, first, added);
    }
    PyMem_RawFree(line_of);
    Py_XDECREF(bytes);
    return of;
}

/* ---- where a branch goes on */

/* Whether an instruction is a branch. Of what ends an `async for` CPython 3.14 and later report one from various instructions,
 * and 3.12 and 3.13 none, so it is none. */
static bool decides(unsigned char opcode) {
    return opcode == POP_JUMP_IF_FALSE || opcode == POP_JUMP_IF_TRUE || opcode == POP_JUMP_IF_NONE ||
           opcode == POP_JUMP_IF_NOT_NONE || opcode == FOR_ITER;
}

/* Whether it is not known here what comes next. */
static bool ends(unsigned char opcode) {
#ifdef RETURN_CONST
    if (opcode == RETURN_CONST) return true;
#endif
    return decides(opcode) || opcode == SEND || opcode == END_ASYNC_FOR || opcode == RAISE_VARARGS || opcode == RERAISE ||
           opcode == RETURN_VALUE;
}

/* The first line other than the branch's that comes after an instruction; or the branch's own, if its line decides once more or
 * the function ends there. */
static uint32_t goes_on_at(const unsigned char *code, uint32_t n, const spp_executions *of, uint32_t from, uint32_t at) {
    uint32_t own = spp_executions_at(of, from), wide = 0;
    for (uint32_t steps = 0; steps < n && at < n; steps++) {
        uint32_t line = spp_executions_at(of, at), argument = wide << 8 | code[UNIT * at + 1];
        if (line != 0 && line != own) return line;
        unsigned char opcode = code[UNIT * at];
        if (ends(opcode)) break;
        wide = opcode == EXTENDED_ARG ? argument : 0;
        do at++;
        while (at < n && code[UNIT * at] == CACHE);
        if (opcode == JUMP_FORWARD) at += argument;
        if (opcode == JUMP_BACKWARD || opcode == JUMP_BACKWARD_NO_INTERRUPT) at = argument <= at ? at - argument : n;
    }
    return own;
}

/* False: it is no branch. */
static SPP_COLD bool add_way(PyObject *code, spp_executions *of, uint32_t from, uint32_t to) {
    PyObject *bytes = compiled(code);
    if (bytes == NULL) return PyErr_Clear(), true;
    const unsigned char *at = (const unsigned char *)PyBytes_AS_STRING(bytes);
    uint32_t n = (uint32_t)PyBytes_GET_SIZE(bytes) / UNIT;
    bool is = from < n && decides(at[UNIT * from]);
    if (is) spp_executions_add_way(of, from, to, goes_on_at(at, n, of, from, to));
    Py_DECREF(bytes);
    return is;
}

/* ---- callbacks. They raise nothing. CPython calls none for what runs within one. */

static inline bool counts(void) { return atomic_load_explicit(&spp_executions_on, memory_order_relaxed); }

/* The first start of a code object. It is armed before other threads find it: else one without the GIL would have a call without
 * lines. So two threads may arm it, the second one for nothing. */
static SPP_COLD PyObject *begins_first(PyObject *code) {
    bool added = false;
    if (!spp_chosen_has(&counted.chosen, (PyCodeObject *)code)) return Py_NewRef(never);
    bool armed = spp_monitor_arm(&monitor, code, EVERYWHERE) == 0;
    spp_executions *of = armed ? add(code, &added) : NULL;
    if (armed && of == NULL) (void)spp_monitor_disarm(&monitor, code);
    PyErr_Clear();
    if (added) Py_INCREF(code);
    if (of == NULL) return Py_NewRef(never);
    if (counts()) spp_executions_call(of);
    Py_RETURN_NONE;
}

/* Code object, offset. */
static PyObject *begins(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    (void)self, (void)n;
    if (spp_rare(!atomic_load_explicit(&spp_executions_open, memory_order_relaxed))) Py_RETURN_NONE;
    spp_executions *of = spp_executions_find((uintptr_t)args[0]);
    if (spp_rare(of == NULL)) return begins_first(args[0]);
    if (spp_usual(counts())) spp_executions_call(of);
    Py_RETURN_NONE;
}

/* The counts of the code object that an event is of; NULL: it is not counted now. */
static inline spp_executions *counts_of(PyObject *code) {
    return spp_usual(counts()) ? spp_executions_find((uintptr_t)code) : NULL;
}

/* Code object, line. */
static PyObject *line_begins(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    (void)self, (void)n;
    spp_executions *of = counts_of(args[0]);
    if (spp_usual(of != NULL)) spp_executions_line(of, (uint32_t)PyLong_AsLong(args[1]));
    Py_RETURN_NONE;
}

static inline uint32_t instruction_of(PyObject *offset) { return (uint32_t)PyLong_AsLong(offset) / UNIT; }

/* Code object, offset, offset of the destination. */
static PyObject *jumps(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    (void)self, (void)n;
    spp_executions *of = counts_of(args[0]);
    if (of != NULL && !spp_executions_jump(of, instruction_of(args[1]), instruction_of(args[2]))) return Py_NewRef(never);
    Py_RETURN_NONE;
}

/* Likewise. */
static PyObject *branches(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    (void)self, (void)n;
    spp_executions *of = counts_of(args[0]);
    if (spp_rare(of == NULL)) Py_RETURN_NONE;
    uint32_t from = instruction_of(args[1]), to = instruction_of(args[2]);
    if (spp_rare(!spp_executions_branch(of, from, to))) {
        if (!add_way(args[0], of, from, to)) return Py_NewRef(never);
        (void)spp_executions_branch(of, from, to);
    }
    Py_RETURN_NONE;
}

static PyMethodDef callbacks[] = {
    SPP_MONITOR_CALLBACK("PY_START", begins, "spprof counts a call."),
    SPP_MONITOR_CALLBACK("LINE", line_begins, "spprof counts an execution of a line."),
    SPP_MONITOR_CALLBACK("JUMP", jumps, "spprof counts an execution of a line."),
#if PY_VERSION_HEX >= 0x030E0000
    SPP_MONITOR_CALLBACK("BRANCH_LEFT", branches, "spprof counts a branch."),
    SPP_MONITOR_CALLBACK("BRANCH_RIGHT", branches, "spprof counts a branch."),
#else
    SPP_MONITOR_CALLBACK("BRANCH", branches, "spprof counts a branch."),
#endif
};
#define EVENTS (sizeof callbacks / sizeof *callbacks)

/* ---- a run */

static int arm(void) {
    never = spp_monitor_sign("DISABLE");
    if (spp_monitor_enter(&monitor, callbacks, EVENTS, EVERYWHERE, "lines cannot be counted") != 0) return -1;
    return spp_monitor_restart();
}

int spp_executing_enter(const char *what) {
    if (*what == 0) return 0;
    if (spp_chosen_set(&counted.chosen, what) != 0) return -1;
    if (spp_executions_start() != 0) {
        spp_chosen_free(&counted.chosen);
        PyErr_NoMemory();
        return -1;
    }
    counted.armed = true;
    if (arm() == 0) return 0;
    spp_executing_leave();
    return -1;
}

static void disarm(uintptr_t code) { (void)spp_monitor_disarm(&monitor, (PyObject *)code); }

void spp_executing_leave(void) {
    if (!counted.armed) return;
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    counted.armed = false;
    spp_executions_close();
    spp_executions_each(disarm);
    spp_monitor_leave(&monitor);
    spp_executions_stop(spp_held_release);
    spp_chosen_free(&counted.chosen);
    PyErr_Clear();
    PyErr_Restore(kind, value, traceback);
}

#else

int spp_executing_enter(const char *what) {
    if (*what == 0) return 0;
    PyErr_SetString(PyExc_RuntimeError, "lines cannot be counted exactly before Python 3.12, which has sys.monitoring");
    return -1;
}

void spp_executing_leave(void) {}

#endif
