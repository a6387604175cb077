/* CPython 3.11+ replaces instructions by forms that are specialized for what it sees. Each that it may specialize has a counter
 * behind it. In the general form it counts down to the next attempt, and after each that fails it begins twice as high (3.15:
 * four times); the low bits say how often that was. In a specialized form it counts down by each run that the form did not fit,
 * and at zero the instruction is specialized again. So one look at the end says which instructions run in the general form, and
 * at least how long they have. (InternalDocs/interpreter.md, pycore_backoff.h.)
 *
 * The compiled instructions say where a counter is: CPython gives them with all counters zero. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "module/adaptive.h"

#include "core/run/adaptive.h"
#include "module/compat.h"
#include "module/held.h"

/* Free-threaded builds: 3.13 specializes nothing, and later ones keep instructions for each thread apart. */
#if PY_VERSION_HEX >= 0x030B0000 && !defined(Py_GIL_DISABLED)

#include <opcode.h>
#include <string.h>

#include "core/run/run.h"

#define UNIT 2           /* bytes of a code unit */
#define CODES_MOST 4096u /* are read */
#define RUNS_LEAST 30u   /* in the general form: what has run less may be specialized yet */

typedef struct {
    uint8_t compiled, general;
    const char *name;
} kind;

/* Those of other versions have no counter. */
#if PY_VERSION_HEX >= 0x030C0000
#define KIND(name) \
    { name, name, #name }
#else
#define KIND(name) \
    { name, name##_ADAPTIVE, #name }
#endif
static const kind kinds[] = {
    KIND(BINARY_OP),       KIND(CALL),
    KIND(COMPARE_OP),      KIND(LOAD_ATTR),
    KIND(LOAD_GLOBAL),     KIND(STORE_ATTR),
    KIND(UNPACK_SEQUENCE), KIND(STORE_SUBSCR),
#ifdef BINARY_SUBSCR
    KIND(BINARY_SUBSCR),
#endif
#if PY_VERSION_HEX < 0x030C0000
    KIND(LOAD_METHOD),     {PRECALL, PRECALL_ADAPTIVE, "CALL"}, /* see is_same_call */
#else
    KIND(CONTAINS_OP),     KIND(FOR_ITER),     KIND(GET_ITER),   KIND(LOAD_SUPER_ATTR), KIND(SEND),        KIND(CALL_FUNCTION_EX),
#endif
#ifdef TO_BOOL
    KIND(TO_BOOL),
#endif
#ifdef CALL_KW
    KIND(CALL_KW),
#endif
};

/* ---- counters: the attempt that comes next in the low bits, above them the runs until then */

#if PY_VERSION_HEX >= 0x030F0000
#define ATTEMPT_BITS 3
/* Of each attempt; the last one's is longer from the second time on. */
static const uint16_t first_of[] = {0, 1, 6, 30, 126, 508, 2052, 8190};
static uint32_t attempt_of(uint32_t number, uint32_t left) { return number == 6 && left > first_of[6] ? 7 : number; }
#else
#define ATTEMPT_BITS 4
static const uint16_t first_of[] = {0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2047, 4095};
static uint32_t attempt_of(uint32_t number, uint32_t left) { return (void)left, number; }
#endif
#define ATTEMPTS (sizeof first_of / sizeof *first_of)

/* At least so many runs in the general form. */
static uint32_t runs_of(uint16_t counter) {
    uint32_t left = counter >> ATTEMPT_BITS, last = attempt_of(counter & ((1u << ATTEMPT_BITS) - 1), left), runs = 0;
    if (last >= ATTEMPTS) return 0;
    for (uint32_t i = 1; i < last; i++) runs += first_of[i]; /* a run that attempts in vain counts for the next */
    return left < first_of[last] ? runs + first_of[last] - left : runs;
}

/* Runs that a specialized form did not fit, since it was chosen. */
static uint32_t misses_of(uint16_t counter) {
#if PY_VERSION_HEX >= 0x030C0000
    uint32_t left = counter >> ATTEMPT_BITS, all = (counter & ((1u << ATTEMPT_BITS) - 1)) == 0 ? 52 : 0;
#else
    uint32_t left = counter, all = 53;
#endif
    return left < all ? all - left : 0;
}

/* ---- code objects */

static const kind *kind_of(uint8_t compiled) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (kinds[i].compiled == compiled) return &kinds[i];
    }
    return NULL;
}

/* Whether somebody listens for events of it: then its form is none of these. */
static bool is_instrumented(uint8_t now) {
#ifdef MIN_INSTRUMENTED_OPCODE
    return now >= MIN_INSTRUMENTED_OPCODE;
#else
    return (void)now, false;
#endif
}

/* False: it is specialized and fits, or has run too seldom. `now`: an instruction as it is, with its counter. */
static bool judge(const kind *of, uint8_t compiled, const unsigned char *now, spp_adaptive_instruction *found) {
    uint16_t counter;
    memcpy(&counter, now + UNIT, sizeof counter);
    if (is_instrumented(*now)) return false;
    found->name = of->name;
    found->missed = *now != of->general;
    /* On 3.11 one that has not run often is as compiled. */
    if (found->missed) return *now != compiled && (found->runs = misses_of(counter)) > 0;
    return (found->runs = runs_of(counter)) >= RUNS_LEAST;
}

/* On 3.11 a call is two instructions, PRECALL and CALL, each of which may be specialized: one row. `first`: the instruction that
 * was found before. */
static bool is_same_call(const unsigned char *compiled, uint32_t first, uint32_t offset) {
#if PY_VERSION_HEX < 0x030C0000
    return compiled[first] == PRECALL && compiled[offset] == CALL && offset - first == 2 * UNIT; /* a counter is between */
#else
    return (void)compiled, (void)first, (void)offset, false;
#endif
}

/* `compiled`: the code object's instructions with counters zero. */
static void look_at(PyObject *code, PyObject *compiled) {
    const unsigned char *at = (const unsigned char *)PyBytes_AS_STRING(compiled);
    const unsigned char *now = (const unsigned char *)((PyCodeObject *)code)->co_code_adaptive;
    size_t n = (size_t)PyBytes_GET_SIZE(compiled) / UNIT;
    spp_adaptive_instruction *found = PyMem_RawMalloc((n + 1) * sizeof *found);
    uint32_t found_n = 0;
    for (size_t i = 0; found != NULL && i + 1 < n; i++) {
        const kind *of = at[UNIT * (i + 1)] == CACHE ? kind_of(at[UNIT * i]) : NULL;
        if (of == NULL || !judge(of, at[UNIT * i], now + UNIT * i, &found[found_n])) continue;
        found[found_n].offset = (uint32_t)(UNIT * i);
        if (found_n > 0 && is_same_call(at, found[found_n - 1].offset, found[found_n].offset)) {
            if (found[found_n].runs > found[found_n - 1].runs) found[found_n - 1] = found[found_n];
        } else {
            found_n++;
        }
    }
    if (found_n > 0) spp_adaptive_add((uintptr_t)code, found, found_n);
    PyMem_RawFree(found);
}

/* ---- a run */

static bool asked_for;

int spp_adapting_enter(bool asked) {
    if (asked) spp_adaptive_start();
    asked_for = asked;
    return 0;
}

void spp_adapting_ends(void) {
    if (!asked_for || spp_run_is_over()) return;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    uintptr_t *codes = PyMem_RawMalloc(CODES_MOST * sizeof *codes);
    uint32_t n = codes != NULL ? spp_adaptive_codes(codes, CODES_MOST, spp_held_code) : 0;
    for (uint32_t i = 0; i < n; i++) {
        PyObject *code = (PyObject *)codes[i], *compiled = PyCode_GetCode((PyCodeObject *)code);
        if (compiled != NULL) look_at(code, compiled);
        PyErr_Clear();
        Py_XDECREF(compiled);
        Py_DECREF(code);
    }
    PyMem_RawFree(codes);
    if (codes != NULL) spp_adaptive_done();
    PyErr_Restore(type, value, traceback);
}

void spp_adapting_leave(void) {
    if (asked_for) spp_adaptive_stop();
    asked_for = false;
}

#else

int spp_adapting_enter(bool asked) {
    if (!asked) return 0;
    PyErr_SetString(PyExc_RuntimeError,
                    "this interpreter does not show which instructions it specializes: CPython 3.11 and later "
                    "do, but for free-threaded builds");
    return -1;
}

void spp_adapting_ends(void) {}
void spp_adapting_leave(void) {}

#endif
