#include "module/current.h"

#include <Python.h>
#include <stdbool.h>

#include "os/memory.h"
#include "os/slots.h"
#include "os/threads.h"
#include "py/layout.h"

#define INTERPS_MAX 64
#define LIST_MAX 100000 /* thread states looked at in one interpreter */

static uintptr_t word(uintptr_t at) {
    uintptr_t value;
    return spp_os_read(&value, at, sizeof value) == 0 ? value : 0;
}

size_t spp_current_interps(uintptr_t *to, size_t most) {
    size_t n = 0;
    uintptr_t at = (uintptr_t)PyInterpreterState_Head(); /* in every version it reads one word, and no more */
    for (; at != 0 && n < most; at = word(at + SPP_L_INTERP_NEXT)) to[n++] = at;
    return n;
}

#if PY_VERSION_HEX < 0x030C0000
/* The state of the same thread in the main interpreter, whose code called the others'; `any` if it has none. */
static uintptr_t in_main(uintptr_t main, uintptr_t any) {
    uintptr_t thread = word(any + SPP_L_TS_THREAD_ID), state = word(main + SPP_L_INTERP_THREADS_HEAD);
    if (word(any + SPP_L_TS_INTERP) == main) return any;
    for (int n = 0; state != 0 && n < LIST_MAX; n++) {
        if (word(state + SPP_L_TS_THREAD_ID) == thread) return state;
        state = word(state + SPP_L_TS_NEXT);
    }
    return any;
}
#endif

#if PY_VERSION_HEX >= 0x030C0000

/* A thread keeps the state that it was given last in a word of its own, and still has it there when it has let go of the GIL. How
 * far that word lies from its pthread_t; 0: not known. */
static intptr_t place;

void spp_current_init(void) {
    uintptr_t mine = (uintptr_t)PyGILState_GetThisThreadState();
    place = 0;
    if (mine == 0) return;
    Py_BEGIN_ALLOW_THREADS; /* what else it keeps there, such as the current state, is empty meanwhile */
    place = spp_os_own_place(mine);
    Py_END_ALLOW_THREADS;
}

/* That word needs no check against the thread id in the state: in 3.12 a subinterpreter's state has
 * the id of the thread that made it, whichever thread runs it. The walk proves that its frames lie
 * on this stack. */
uintptr_t spp_current_state(int32_t tid, uintptr_t any, uintptr_t stack_end) {
    unsigned long pthread = 0;
    (void)tid;
    (void)stack_end;
    if (place == 0 || any == 0) return any;
    if (spp_os_read(&pthread, any + SPP_L_TS_THREAD_ID, sizeof pthread) != 0 || pthread == 0) return any;
    if (spp_os_tid_of_pthread(pthread) != tid) return any;
    uintptr_t now = word((uintptr_t)((intptr_t)pthread + place));
    return now != 0 && word(now + SPP_L_TS_INTERP) != 0 ? now : any;
}

#elif PY_VERSION_HEX >= 0x030A0000

void spp_current_init(void) {}

/* Where the newest evaluator of a state has its C frame; in the state itself if it has none. */
static uintptr_t evaluator_of(uintptr_t state) { return word(state + offsetof(PyThreadState, cframe)); }

/* The newest evaluator on this thread's stack decides. The thread id in a state does not: a
 * subinterpreter's first state has the id of the thread that made it, whichever thread runs it. */
static uintptr_t newest_on(uintptr_t interp, uintptr_t sp, uintptr_t *end) {
    uintptr_t found = 0, state = word(interp + SPP_L_INTERP_THREADS_HEAD);
    for (int n = 0; state != 0 && n < LIST_MAX; n++) {
        uintptr_t at = evaluator_of(state);
        if (at >= sp && at < *end) {
            found = state;
            *end = at;
        }
        state = word(state + SPP_L_TS_NEXT);
    }
    return found;
}

uintptr_t spp_current_state(int32_t tid, uintptr_t any, uintptr_t stack_end) {
    uintptr_t interps[INTERPS_MAX], pc, sp;
    size_t n = spp_current_interps(interps, INTERPS_MAX);
    if (n < 2 || any == 0) return any;
    if (spp_os_thread_where(tid, &pc, &sp) != 0) return in_main(interps[n - 1], any);
    if (stack_end == 0) { /* this thread has had no tick yet */
        uintptr_t low;
        if (spp_os_regions(&sp, &low, &stack_end, 1) != 0 || stack_end == 0) return in_main(interps[n - 1], any);
    }
    uintptr_t at = evaluator_of(any), found = at >= sp && at < stack_end ? any : 0;
    if (found != 0) stack_end = at;
    /* The main interpreter's states, which may be many, come last, and are needed only if no other was found. */
    for (size_t i = 0; i < n - 1 || (i < n && found == 0); i++) {
        uintptr_t newer = newest_on(interps[i], sp, &stack_end);
        if (newer != 0) found = newer;
    }
    return found != 0 ? found : any;
}

#else

void spp_current_init(void) {}

#define STATES_MAX 64u
#define STACK_MAX (1u << 20) /* bytes that are searched */

typedef struct {
    uintptr_t state, frame;
} running;

/* Those of an interpreter's states that run Python code, with their newest frames. */
static size_t running_in(uintptr_t interp, running *to, size_t most) {
    size_t found = 0;
    uintptr_t state = word(interp + SPP_L_INTERP_THREADS_HEAD);
    for (int n = 0; state != 0 && n < LIST_MAX && found < most; n++) {
        to[found] = (running){state, word(state + SPP_L_TS_FRAME)};
        found += to[found].frame != 0;
        state = word(state + SPP_L_TS_NEXT);
    }
    return found;
}

/* On 3.9 an evaluator leaves nothing of its own on the stack. But its caller keeps the frame, in a
 * register that the evaluator saves or on the stack, to release it afterwards. So the state whose
 * newest frame is found first on this thread's stack is the one that runs here. */
static uintptr_t first_on(const running *all, size_t n, uintptr_t sp, uintptr_t end) {
    uintptr_t words[512];
    if (end - sp > STACK_MAX) end = sp + STACK_MAX;
    for (size_t bytes; sp < end; sp += bytes) {
        bytes = sizeof words - sp % sizeof words; /* up to the end of a page */
        if (bytes > end - sp) bytes = end - sp;
        if (spp_os_read(words, sp, bytes) != 0) return 0;
        for (size_t i = 0; i < bytes / sizeof words[0]; i++) {
            for (size_t k = 0; k < n; k++) {
                if (words[i] == all[k].frame) return all[k].state;
            }
        }
    }
    return 0;
}

uintptr_t spp_current_state(int32_t tid, uintptr_t any, uintptr_t stack_end) {
    uintptr_t interps[INTERPS_MAX], pc, sp;
    running all[STATES_MAX];
    size_t n = spp_current_interps(interps, INTERPS_MAX), found = 0;
    for (size_t i = 0; i + 1 < n; i++) found += running_in(interps[i], all + found, STATES_MAX - found);
    if (found == 0 || any == 0) return any;
    if (spp_os_thread_where(tid, &pc, &sp) != 0) return in_main(interps[n - 1], any);
    if (stack_end == 0) { /* this thread has had no tick yet */
        uintptr_t low;
        if (spp_os_regions(&sp, &low, &stack_end, 1) != 0 || stack_end == 0) return in_main(interps[n - 1], any);
    }
    uintptr_t state = first_on(all, found, sp & ~(uintptr_t)7, stack_end & ~(uintptr_t)7);
    return state != 0 ? state : in_main(interps[n - 1], any);
}

#endif
