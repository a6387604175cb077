#include "module/tstate.h"

#include <Python.h>

#include "base/hints.h"
#include "os/os.h"
#include "py/layout.h"

#define LIST_MAX 100000 /* thread states looked at in one interpreter */
#define INTERPS_MAX 64
#define READINGS 8

/* CPython keeps a thread's state in a thread-specific slot; read directly it costs half of PyGILState_GetThisThreadState, which
 * looks at the runtime's own cache lines first. Which slot is found out at start. */
static uint32_t key;
static bool key_is_known;

static uint32_t count_of(uintptr_t value, uint32_t from, uint32_t to) {
    uint32_t found = 0;
    for (uint32_t k = from; k < to; k++) {
        if (spp_os_slot(k) != value) continue;
        key = k;
        found++;
    }
    return found;
}

/* With the GIL, in a thread that has a state. CPython 3.15 has a thread-local variable instead; what is a thread's state still
 * when it has let go of the GIL is that one, and not the one of the current state. */
static void find_key(void) {
    uintptr_t mine = (uintptr_t)PyGILState_GetThisThreadState();
    uint32_t found = mine != 0 ? count_of(mine, 0, spp_os_slots()) : 0;
    if (mine != 0 && found == 0 && spp_os_words() > spp_os_slots()) {
        Py_BEGIN_ALLOW_THREADS;
        found = count_of(mine, spp_os_slots(), spp_os_words());
        Py_END_ALLOW_THREADS;
    }
    key_is_known = found == 1;
}

/* Handler. Of a suspended thread: what its own slot names, as above. A thread empties its slot before its state is freed, so what
 * a suspended thread's slot names is there; but another thread may end it (at exit), so it must say that it is that thread's. */
static SPP_COLD uintptr_t of_suspended(const spp_os_subject *subject) {
    uintptr_t state = key_is_known ? spp_os_slot_of(subject, key) : 0;
    uintptr_t field = state + (SPP_L_TS_NATIVE_ID >= 0 ? (uintptr_t)SPP_L_TS_NATIVE_ID : SPP_L_TS_THREAD_ID);
    if (state == 0 || !spp_os_readable(field)) return 0;
    unsigned long id = *(volatile unsigned long *)field;
    /* macOS's ids have 64 bits, of which a tid has the lower ones. */
    if (SPP_L_TS_NATIVE_ID >= 0) return (id & INT32_MAX) == (unsigned long)subject->tid ? state : 0;
    return spp_os_tid_of_pthread(id) == subject->tid ? state : 0;
}

/* Handler. Of the calling thread, also while it has released the GIL; 0: it runs no Python. Up to 3.11 the thread-specific
 * slot knows only the main interpreter's states: in a subinterpreter the current one is taken if it says it is ours. */
static SPP_HOT uintptr_t own(const spp_os_subject *subject) {
    if (spp_rare(subject != NULL)) return of_suspended(subject);
    PyThreadState *mine = key_is_known ? (PyThreadState *)spp_os_slot(key) : PyGILState_GetThisThreadState();
#if PY_VERSION_HEX < 0x030C0000
    PyThreadState *current = _PyThreadState_UncheckedGet();
    if (mine != NULL && current != NULL && current != mine) {
        uintptr_t field = (uintptr_t)current + SPP_L_TS_THREAD_ID;
        if (spp_os_readable(field) && *(volatile unsigned long *)field == PyThread_get_thread_ident()) mine = current;
    }
#endif
    return (uintptr_t)mine;
}

static uintptr_t interps[INTERPS_MAX];
static size_t interps_n;

static uintptr_t word(uintptr_t at) {
    uintptr_t value;
    return spp_os_read(&value, at, sizeof value) == 0 ? value : 0;
}

static bool belongs(uintptr_t tstate, int32_t tid) {
    unsigned long thread = 0; /* as CPython declares it */
    if (spp_os_read(&thread, tstate + SPP_L_TS_THREAD_ID, sizeof thread) != 0) return false;
    return thread != 0 && spp_os_tid_of_pthread(thread) == tid;
}

/* Up to 3.11 a thread makes the state of a thread that it starts, and that has its id until the new one runs. */
static bool unborn(uintptr_t state) {
#if PY_VERSION_HEX >= 0x030C0000
    (void)state;
    return false;
#elif PY_VERSION_HEX >= 0x030B0000
    return word(word(state + SPP_L_TS_FRAME) + SPP_L_CFRAME_CURRENT) == 0;
#else
    return word(state + SPP_L_TS_FRAME) == 0;
#endif
}

/* Any thread, no GIL: the list may change under the walk, so every read is guarded and the answer is checked by what the
 * state itself says of its thread. Only used for threads that stand still, whose own state cannot go away. */
static uintptr_t of_thread(int32_t tid, uintptr_t last) {
    if (last != 0 && belongs(last, tid)) return last;
    /* A state that ends while the list is read cuts it short; two readings that are the same were not cut. */
    uintptr_t before = 0, perhaps = 0;
    for (int reading = 0; reading < READINGS; reading++) {
        uintptr_t all = 1;
        perhaps = 0;
        for (size_t i = 0; i < interps_n; i++) {
            uintptr_t state = word(interps[i] + SPP_L_INTERP_THREADS_HEAD);
            for (int n = 0; state != 0 && n < LIST_MAX; n++) {
                if (belongs(state, tid)) {
                    if (!unborn(state)) return state;
                    perhaps = state; /* or its stack is empty: then there is no other */
                }
                all = all * 31 + state;
                state = word(state + SPP_L_TS_NEXT);
            }
        }
        if (reading > 0 && all == before) return perhaps;
        before = all;
    }
    return SPP_STATE_UNKNOWN;
}

const char *spp_tstate_init(spp_thread_states *states) {
    interps_n = 0;
    for (PyInterpreterState *i = PyInterpreterState_Head(); i != NULL && interps_n < INTERPS_MAX;
         i = PyInterpreterState_Next(i)) {
        uintptr_t at = (uintptr_t)i;
        PyThreadState *first = PyInterpreterState_ThreadHead(i);
        if (word(at + SPP_L_INTERP_THREADS_HEAD) != (uintptr_t)first) return "interpreter: list of threads";
        if (first && word((uintptr_t)first + SPP_L_TS_NEXT) != (uintptr_t)PyThreadState_Next(first)) {
            return "thread state: next";
        }
        interps[interps_n++] = at;
    }
    find_key();
    if (!key_is_known && spp_os_clock_first == SPP_CLOCK_SUSPEND) return "thread state: the slot that holds it";
    states->own = own;
    states->of_thread = of_thread;
    states->births = (uint64_t *)((uintptr_t)PyInterpreterState_Main() + SPP_L_INTERP_NEXT_UNIQUE_ID);
    return NULL;
}
