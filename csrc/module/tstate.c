#include "module/tstate.h"

#include <Python.h>
#include <string.h>

#include "base/hints.h"
#include "base/map.h"
#include "base/vec.h"
#include "module/current.h"
#include "module/gil.h"
#include "os/context.h"
#include "os/lock.h"
#include "os/memory.h"
#include "os/slots.h"
#include "os/threads.h"
#include "os/ticks.h"
#include "py/layout.h"

#define LIST_MAX 100000 /* thread states looked at in one interpreter */
#define INTERPS_MAX 64
#define READINGS 8
#define PROOFS 100
#define FEW_STATES 64u /* this many are read under the drain lock */

/* CPython keeps a thread's state in a thread-specific slot; read directly it costs half of PyGILState_GetThisThreadState, which
 * looks at the runtime's own cache lines first. Which slot is found out at start. */
static uint32_t key;
static bool key_is_known;

/* Handler: both functions read one variable. A program may have cleared its exit handlers, which
 * would have stopped the run earlier. */
#if PY_VERSION_HEX >= 0x030D0000
#define IS_FINALIZING Py_IsFinalizing
#else
#define IS_FINALIZING _Py_IsFinalizing
#endif

PyAPI_DATA(char) _PyRuntime[]; /* not declared in the public headers */

/* Where the runtime keeps the thread that finalizes it. Python's function for that reads the same
 * word, but in a handler the call takes 60 cycles more, since its code and data have left the
 * first-level cache since the last tick. NULL: unknown. */
static const volatile uintptr_t *ender;

/* Since 3.13 the runtime begins with a table for debuggers, of which this is the fifth word; versions before will not change. */
static void find_ender(void) {
    uintptr_t runtime = (uintptr_t)_PyRuntime, offset = PY_VERSION_HEX >= 0x030B0000 ? 24 : 16;
#if PY_VERSION_HEX >= 0x030D0000
    bool named = memcmp((const void *)runtime, "xdebugpy", 8) == 0;
    offset = named ? (uintptr_t)((const uint64_t *)runtime)[4] : 0;
#endif
    const volatile uintptr_t *at = (const volatile uintptr_t *)(runtime + offset);
    ender = offset != 0 && !IS_FINALIZING() && *at == 0 ? at : NULL;
}

/* Handler. */
static inline bool is_ending(void) { return ender != NULL ? *ender != 0 : IS_FINALIZING() != 0; }

static uint32_t count_of(uintptr_t value, uint32_t from, uint32_t to) {
    uint32_t found = 0;
    for (uint32_t k = from; k < to; k++) {
        if (spp_os_slot(k) != value) continue;
        key = k;
        found++;
    }
    return found;
}

/* With the GIL, in a thread that has a state. CPython 3.15 has a thread-local variable instead: one
 * for the state that a thread keeps while it has released the GIL, not the one for the current
 * state. */
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

/* Handler. For a suspended thread: the state in its own slot, as above. A thread empties its slot
 * before its state is freed, so the state exists; but another thread may be freeing it (at exit),
 * so the thread id in the state must match. */
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
    if (spp_rare(is_ending())) return 0; /* states are being freed, other threads' first */
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

/* Up to 3.11 a starting thread's state is made by its creator, and has the creator's id until the
 * new thread runs. */
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

/* ---- which thread each state belongs to, from the lists of states. CPython inserts a new state at
 * the head of its list, so on a later reading only the states before the first known one are read.
 * On the sampler alone. */

static spp_vec64 states;       /* those read */
static spp_map state_of_tid;   /* their places in `states` */
static spp_map tid_of_settled; /* by the state: this one and all behind it belonged to threads when the list was read */
static uint64_t read_at;       /* the value of `stamp` before the last complete reading of all lists */
static bool all_have_threads;  /* ... and no state waited for its thread then */
static bool just_read;         /* in the current look of the sampler */
static bool want_more;         /* more states came than could be read under the lock */
static uintptr_t asked_state;  /* the one whose thread was asked for last in this look; 0: none, as is its tid */
static int32_t asked_tid;

static int32_t tid_of(uintptr_t state) {
    unsigned long thread = 0; /* as CPython declares it */
    if (spp_os_read(&thread, state + SPP_L_TS_THREAD_ID, sizeof thread) != 0 || thread == 0) return -1;
    return spp_os_tid_of_pthread(thread);
}

static bool belongs(uintptr_t state, int32_t tid) { return tid_of(state) == tid; }

/* Changes with each new state and interpreter. Updates the list of interpreters. */
static uint64_t stamp(void) {
    uint64_t all = 1;
    interps_n = spp_current_interps(interps, INTERPS_MAX);
    for (size_t i = 0; i < interps_n; i++) {
        all = all * 31 + interps[i];
        all = all * 31 + word(interps[i] + SPP_L_INTERP_THREADS_HEAD);
        all = all * 31 + word(interps[i] + SPP_L_INTERP_NEXT_UNIQUE_ID);
    }
    return all;
}

static void set(spp_map *map, uint64_t at, uint32_t value) {
    (void)spp_map_remove(map, at, 0);
    (void)spp_map_add(map, at, 0, value); /* no memory: read again next time */
}

static uintptr_t found(int32_t tid) {
    uint32_t at = spp_map_get(&state_of_tid, (uint64_t)tid, 0);
    return at != SPP_MAP_NONE && belongs(states.at[at], tid) ? states.at[at] : 0;
}

/* Drain lock held, for a fork may come; if it was taken for this alone, others may have it between. `list` as read from its head
 * on: states, and then whether they were born and their tids. */
static void keep(const spp_vec64 *list, const spp_vec64 *tids, bool main, bool lets_go) {
    bool settled = true;
    for (size_t i = list->n; i-- > 0;) {
        if (lets_go && i % FEW_STATES == 0) {
            spp_os_unlock();
            spp_os_lock();
        }
        int32_t tid = (int32_t)(tids->at[i] >> 1);
        bool born = tids->at[i] & 1;
        settled = settled && born;
        /* A state whose stack is empty may be of a thread that its maker is about to start, but there may be no other. And one
         * of a subinterpreter goes before the thread's own does. */
        if (tid <= 0 || ((!born || !main) && found(tid) != 0) || spp_vec64_push(&states, list->at[i]) != 0) continue;
        set(&state_of_tid, (uint64_t)tid, (uint32_t)(states.n - 1));
        if (settled) set(&tid_of_settled, list->at[i], (uint32_t)tid);
    }
    all_have_threads = all_have_threads && settled;
}

/* Reads a list up to the first known state. A state that ends meanwhile can cut the reading short;
 * a reading that reached a known state, or two equal ones, are complete. False: there was no
 * complete one, or there are more than `most` states. */
static bool read_list(uintptr_t interp, size_t most, spp_vec64 *list) {
    uint64_t before = 0;
    for (int n = 0; n < READINGS; n++) {
        uint64_t all = 1;
        uintptr_t state = word(interp + SPP_L_INTERP_THREADS_HEAD);
        for (list->n = 0; state != 0; state = word(state + SPP_L_TS_NEXT)) {
            uint32_t tid = spp_map_get(&tid_of_settled, state, 0);
            if (tid != SPP_MAP_NONE && belongs(state, (int32_t)tid)) return true;
            if (list->n == most || spp_vec64_push(list, state) != 0) return false;
            all = all * 31 + state;
        }
        if (n > 0 && all == before) return true;
        before = all;
    }
    return false;
}

/* `locked`: the drain lock is held. */
static bool read_lists(size_t most, bool locked) {
    uint64_t now = stamp();
    bool whole = true;
    spp_vec64 list = {0}, tids = {0};
    all_have_threads = true;
    for (size_t i = 0; i < interps_n && whole; i++) { /* the main interpreter is the last */
        whole = read_list(interps[i], most, &list) && spp_vec64_reserve(&tids, list.n) == 0;
        tids.n = 0;
        for (size_t k = 0; whole && k < list.n; k++) {
            int32_t tid = tid_of(list.at[k]);
            bool born = tid > 0 && !unborn(list.at[k]);
            spp_vec64_push(&tids, tid > 0 ? (uint64_t)tid << 1 | born : 0);
        }
        if (!locked) spp_os_lock();
        if (whole) keep(&list, &tids, i + 1 == interps_n, !locked);
        if (!locked) spp_os_unlock();
    }
    spp_vec64_free(&list);
    spp_vec64_free(&tids);
    if (whole) read_at = now;
    want_more = !whole;
    return whole;
}

static void forget_states(void) {
    spp_vec64_free(&states);
    spp_map_free(&state_of_tid);
    spp_map_free(&tid_of_settled);
    read_at = 0;
    want_more = true;
    just_read = all_have_threads = false;
}

/* The sampler, without the drain lock: reading a list takes 1 us for each thread. */
static void look(void) {
    static size_t least = FEW_STATES;
    asked_state = 0;
    asked_tid = 0;
    if (states.n > 2 * least) { /* of threads that ended, most likely */
        spp_os_lock();
        forget_states();
        spp_os_unlock();
    }
    bool whole_list = states.n == 0;
    just_read = want_more && read_lists(LIST_MAX, false);
    if (whole_list) least = states.n > FEW_STATES ? states.n : FEW_STATES;
}

/* Drain lock held. Any thread, no GIL: the lists may change during the walk, so every read is
 * guarded and the result is checked against the thread id in the state. Only used for blocked
 * threads, whose own state cannot go away. */
static uintptr_t of_thread(int32_t tid, uintptr_t last) {
    if (last != 0 && belongs(last, tid)) return last;
    uintptr_t state = found(tid);
    if ((state != 0 && !unborn(state)) || ((all_have_threads || just_read) && read_at == stamp())) return state;
    return read_lists(FEW_STATES, true) ? found(tid) : SPP_STATE_UNKNOWN;
}

/* The sampler. Many threads may wait for one at a look, so the last answer is kept for its duration. 0: nobody, or unknown, as a
 * state of a subinterpreter is whose thread id is its creator's (up to 3.12) and which another thread runs. */
static int32_t gil_holder(uintptr_t state) {
    uintptr_t holder = spp_gil_holder(state);
    if (holder != asked_state) {
        int32_t tid = holder != 0 ? tid_of(holder) : 0;
        asked_tid = tid > 0 && spp_current_state(tid, holder, 0) == holder ? tid : 0;
        asked_state = holder;
    }
    return asked_tid;
}

/* Compares the result with the interpreter's own functions, for states that cannot go away
 * meanwhile. NULL, or what differs. */
static const char *prove_lists(void) {
    PyThreadState *mine = PyThreadState_Get();
    PyInterpreterState *interp = PyInterpreterState_Get();
    if (word((uintptr_t)interp + SPP_L_INTERP_THREADS_HEAD) != (uintptr_t)PyInterpreterState_ThreadHead(interp)) {
        return "interpreter: list of threads";
    }
    if (word((uintptr_t)mine + SPP_L_TS_NEXT) != (uintptr_t)PyThreadState_Next(mine)) return "thread state: next";
    bool needed = !spp_os_suspends;
    if (needed && word((uintptr_t)interp + SPP_L_INTERP_NEXT) != (uintptr_t)PyInterpreterState_Next(interp)) {
        return "interpreter: next";
    }
    return NULL;
}

const char *spp_tstate_init(spp_thread_states *to) {
    const char *differs = prove_lists();
    /* Threads of other interpreters, and those that have no GIL, come and go meanwhile. */
    for (int n = 1; differs != NULL && n < PROOFS; n++) differs = prove_lists();
    if (differs != NULL) return differs;
    find_key();
    find_ender();
    if (!key_is_known && spp_os_suspends) return "thread state: the slot that holds it";
    spp_current_init();
    spp_gil_init();
    forget_states();
    to->own = own;
    to->of_thread = of_thread;
    to->look = look;
    to->current = spp_current_state;
    to->is_gil = spp_gil_is;
    to->gil_holder = gil_holder;
    to->holds_gil = spp_gil_holds;
    to->births = (uint64_t *)((uintptr_t)PyInterpreterState_Main() + SPP_L_INTERP_NEXT_UNIQUE_ID);
    return NULL;
}
