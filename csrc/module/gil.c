#include "py/internals.h"

#include "module/gil.h"

#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>

#include "base/peek.h"
#include "os/memory.h"
#include "py/layout.h"

/* Conditions and mutexes alone: what else is in the struct no thread waits for. */
#define LOCKS_AT offsetof(struct _gil_runtime_state, cond)
#define LOCKS_END sizeof(struct _gil_runtime_state)
#define HOLDER_AT offsetof(struct _gil_runtime_state, last_holder)
#define LOCKED_AT offsetof(struct _gil_runtime_state, locked)
_Static_assert(LOCKED_AT == HOLDER_AT + sizeof(uintptr_t), "they are read at once");

static uintptr_t main_gil; /* 0: the proof failed */

static uintptr_t word(uintptr_t at) {
    uintptr_t value;
    return spp_os_read(&value, at, sizeof value) == 0 ? value : 0;
}

/* Up to 3.11 all interpreters have one. */
static uintptr_t gil_of(uintptr_t interp) {
#if PY_VERSION_HEX >= 0x030C0000
    return word(interp + offsetof(PyInterpreterState, ceval.gil));
#else
    (void)interp;
    return (uintptr_t)&_PyRuntime.ceval.gil;
#endif
}

/* Another patch release may have moved it. The caller holds it, which a wrong place would hardly say. */
static bool holds(uintptr_t gil) {
    int locked;
    uintptr_t holder = word(gil + offsetof(struct _gil_runtime_state, last_holder));
    return gil != 0 && holder == (uintptr_t)PyThreadState_Get() &&
           spp_os_read(&locked, gil + offsetof(struct _gil_runtime_state, locked), sizeof locked) == 0 && locked == 1;
}

#ifdef Py_GIL_DISABLED
/* There is none unless the program, or a module of it, has asked for it. */
static bool is_absent(uintptr_t gil) {
    int enabled;
    return spp_os_read(&enabled, gil + offsetof(struct _gil_runtime_state, enabled), sizeof enabled) == 0 && enabled == 0;
}
#else
static bool is_absent(uintptr_t gil) {
    (void)gil;
    return false;
}
#endif

void spp_gil_init(void) {
    uintptr_t own = gil_of((uintptr_t)PyInterpreterState_Get());
    main_gil = holds(own) || is_absent(own) ? gil_of((uintptr_t)PyInterpreterState_Main()) : 0;
}

/* That of a state's interpreter. */
static uintptr_t gil_of_state(uintptr_t state) {
#if PY_VERSION_HEX >= 0x030C0000
    if (state != 0 && main_gil != 0) return gil_of(word(state + SPP_L_TS_INTERP));
#else
    (void)state;
#endif
    return main_gil;
}

int spp_gil_is(uintptr_t state, uintptr_t address) {
    uintptr_t gil = gil_of_state(state);
    if (main_gil == 0) return -1;
    return gil != 0 && address - (gil + LOCKS_AT) < LOCKS_END - LOCKS_AT;
}

/* The last holder, and whether it still holds it, in one read. */
uintptr_t spp_gil_holder(uintptr_t state) {
    struct {
        uintptr_t last_holder;
        int locked;
    } is;
    uintptr_t gil = gil_of_state(state);
    if (gil == 0 || spp_os_read(&is, gil + HOLDER_AT, sizeof is) != 0) return 0;
    return is.locked == 1 ? is.last_holder : 0;
}

bool spp_gil_holds(uintptr_t state) {
    if (main_gil == 0 || state == 0) return false;
#if PY_VERSION_HEX >= 0x030C0000
    uintptr_t gil =
        (uintptr_t)spp_peek64((uintptr_t)spp_peek64(state + SPP_L_TS_INTERP) + offsetof(PyInterpreterState, ceval.gil));
    if (gil == 0) return false;
#else
    uintptr_t gil = main_gil;
#endif
    return (uintptr_t)spp_peek64(gil + HOLDER_AT) == state && spp_peek32(gil + LOCKED_AT) == 1;
}
