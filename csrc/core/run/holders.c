/* A thread that did not run since its stack was read is still in the same `with` blocks, so at a look only the stacks of those
 * that ran are read, and only if one waits for a lock without an owner. */
#include "core/run/holders.h"

#include "core/run/roster.h"
#include "core/run/state.h"
#include "os/clock.h"
#include "os/threads.h"
#include "os/ticks.h"

#define HELD_MOST 512u /* locks with a holder that are known at a time */
#define TRIES 3        /* to read the stack of a thread that runs */

static bool collected; /* in this look */
static struct {
    uintptr_t key;
    uint32_t id; /* of the thread, + 1 */
} held[HELD_MOST];
static uint32_t held_n;

void spp_holders_look(void) { collected = false; }

/* Drain lock held. Reads which blocks a thread is in. */
static void enter(spp_thread *t) {
    spp_entered *entered = &t->wall.entered;
    uint64_t cpu;
    bool same = entered->id == t->id + 1 && spp_os_clock_is_exact();
    if (spp_os_thread_cpu_ns(t->tid, &cpu) != 0) cpu = UINT64_MAX;
    if (same && cpu == entered->cpu) return;
    entered->id = t->id + 1;
    uintptr_t state = spp_run_state.states.of_thread(t->tid, atomic_load_explicit(&t->tick.tstate, memory_order_relaxed));
    bool known = state != 0 && state != SPP_STATE_UNKNOWN;
    if (known)
        state = spp_run_state.states.current(t->tid, state, atomic_load_explicit(&t->tick.stack_end, memory_order_relaxed));
    entered->n = 0;
    for (int tries = known ? TRIES : 0; tries > 0; tries--) {
        entered->n = spp_locks_entered(state, entered->keys);
        if (entered->n != SPP_LOCKS_UNREADABLE) break;
    }
    entered->cpu = entered->n != SPP_LOCKS_UNREADABLE ? cpu : UINT64_MAX;
    if (entered->n == SPP_LOCKS_UNREADABLE) entered->n = 0;
}

/* Drain lock held. */
static void collect(void) {
    uint32_t used = atomic_load_explicit(&spp_threads_used, memory_order_acquire);
    collected = true;
    held_n = 0;
    for (uint32_t i = 0; i < used; i++) {
        spp_thread *t = &spp_threads[i];
        if (t->state != SPP_THREAD_ARMED) continue;
        enter(t);
        for (uint32_t k = 0; k < t->wall.entered.n && held_n < HELD_MOST; k++) {
            held[held_n].key = t->wall.entered.keys[k];
            held[held_n++].id = t->id + 1;
        }
    }
}

/* Drain lock held. */
static uint32_t in_block_of(uintptr_t key) {
    uint32_t found = 0;
    if (!collected) collect();
    for (uint32_t i = 0; i < held_n; i++) {
        if (held[i].key != key) continue;
        if (found != 0 && found != held[i].id) return 0;
        found = held[i].id;
    }
    return found;
}

uint32_t spp_holders_of(const spp_thread *t, const spp_awaited *lock) {
    uint32_t found;
    if (lock->key == 0) return 0;
    if (lock->rlock != 0) {
        uintptr_t owner = spp_lock_owner(lock);
        int32_t tid = owner != 0 ? spp_os_tid_of_pthread(owner) : 0;
        uint32_t slot = tid > 0 ? spp_roster_slot(tid) : SPP_MAP_NONE;
        found = slot != SPP_MAP_NONE ? spp_threads[slot].id + 1 : 0;
    } else {
        found = in_block_of(lock->key);
    }
    return found != t->id + 1 ? found : 0;
}
