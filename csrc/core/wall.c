/* The sampler thread of wall mode. A thread that stands still is walked from outside, between two equal readings of its
 * CPU clock; one whose clock did not move since its last sample has the same stack still, and the tick repeats it. Only a
 * thread seen running is signalled: no sleeping call is woken. */
#include <stdatomic.h>
#include <stdlib.h>

#include "core/resolve.h"
#include "core/run.h"

#define REPEATS_NS 80000000u /* repeats are written at least this often, for readers of an unfinished file */

#define LEAVES 4u /* frames that are read twice */

static spp_frame *stack;

/* Drain lock held. */
static void flush_repeats(spp_thread *t) {
    if (t->repeats == 0) return;
    uint64_t until = atomic_load_explicit(&t->given_ns, memory_order_relaxed);
    spp_resolve_emit_stood(t, until, until - t->written_ns, t->repeats);
    t->written_ns = until;
    t->repeats = 0;
}

/* Whether a thread's newest frames are what `walk` found. Its CPU clock alone does not tell that it stood: time stolen from
 * a virtual machine is taken off it, all of what it ran if need be (update_rq_clock_task in Linux's kernel/sched/core.c). */
static bool same_leaves(const spp_walk *walk) {
    spp_frame leaves[LEAVES] = {0};
    spp_walk again = {.tstate = walk->tstate, .out = leaves, .max = walk->max < LEAVES ? walk->max : LEAVES};
    (void)spp_frames_other(&again);
    if (again.depth != (walk->depth < again.max ? walk->depth : again.max)) return false;
    for (uint32_t i = 0; i < again.depth; i++) {
        if (leaves[i] != walk->out[i]) return false;
    }
    return true;
}

/* Drain lock held. Walks a thread that seems to stand; false if it moved meanwhile. */
static bool walk_standing(spp_thread *t, uint64_t cpu, uint64_t now) {
    uint64_t after;
    spp_walk walk = {.out = stack, .max = spp_cap.max_depth};
    uintptr_t last = atomic_load_explicit(&t->tstate, memory_order_relaxed);
    walk.tstate = spp_now.states.of_thread(t->tid, last);
    if (walk.tstate == 0 && last != 0) { /* the list of thread states changed while it was read */
        atomic_fetch_add_explicit(&t->losses[SPP_LOSS_moved], 1, memory_order_relaxed);
        return true;
    }
    atomic_store_explicit(&t->tstate, walk.tstate, memory_order_relaxed);
    enum spp_loss loss = spp_frames_other(&walk);
    if (!same_leaves(&walk) || spp_os_thread_cpu_ns(t->tid, &after) != 0 || after != cpu) return false;
    if (loss != SPP_LOSS_NONE) {
        atomic_fetch_add_explicit(&t->losses[loss], 1, memory_order_relaxed);
        return true;
    }
    uint64_t from = atomic_load_explicit(&t->given_ns, memory_order_relaxed);
    if (now < from) now = from;
    spp_resolve_stood(t, &walk);
    spp_resolve_emit_stood(t, now, now - from, 1);
    atomic_store_explicit(&t->given_ns, now, memory_order_relaxed);
    atomic_fetch_add_explicit(&t->stood, 1, memory_order_relaxed);
    if (walk.marks & SPP_SAMPLE_TRUNCATED) atomic_fetch_add_explicit(&t->truncated, 1, memory_order_relaxed);
    t->written_ns = now;
    t->stood_cpu = cpu;
    return true;
}

/* Drain lock held. The time since the last look is the asked tick's, however late it comes: what stands then is not charged. */
static void ask(spp_thread *t, uint64_t now) {
    uint64_t from = atomic_load_explicit(&t->given_ns, memory_order_relaxed);
    if (now > from) {
        atomic_fetch_add_explicit(&t->owed_ns, now - from, memory_order_relaxed);
        atomic_store_explicit(&t->given_ns, now, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&t->asked, 1, memory_order_relaxed);
    if (atomic_exchange(&t->pending, 1)) return; /* the tick on its way answers this one too, and the account says so */
    int failed = spp_os_trigger_ask(&t->trigger, t->tid, t);
    if (failed && !spp_os_trigger_alive(&t->trigger)) {
        spp_os_trigger_disarm(&t->trigger);
        failed = spp_os_trigger_arm(&t->trigger, t->clock, t->tid, t->period_ns, t) || spp_os_trigger_ask(&t->trigger, t->tid, t);
    }
    if (failed) {
        atomic_store(&t->pending, 0);
        atomic_fetch_add_explicit(&t->losses[SPP_LOSS_gone], 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&t->ticks, 1, memory_order_relaxed);
    }
}

static void look_at(spp_thread *t, uint64_t now) {
    uint64_t cpu, again;
    if (spp_os_thread_cpu_ns(t->tid, &cpu) != 0) return; /* gone; the watch will see */
    if (cpu == t->stood_cpu) {
        t->repeats++;
        atomic_store_explicit(&t->given_ns, now, memory_order_relaxed);
        atomic_fetch_add_explicit(&t->repeated, 1, memory_order_relaxed);
        if (now - t->written_ns >= REPEATS_NS) {
            spp_os_lock();
            if (t->state == SPP_THREAD_ARMED) flush_repeats(t);
            spp_os_unlock();
        }
        return;
    }
    spp_os_lock();
    if (t->state != SPP_THREAD_ARMED) {
        spp_os_unlock();
        return;
    }
    flush_repeats(t);
    t->stood_cpu = UINT64_MAX;
    bool stands = spp_os_thread_cpu_ns(t->tid, &again) == 0 && again == cpu && walk_standing(t, cpu, now);
    if (!stands) ask(t, now);
    spp_os_unlock();
}

/* xorshift64 (Marsaglia 2003), for the jitter. */
static uint64_t draw(uint64_t *random) {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random >> 32;
}

void spp_wall_body(void *unused) {
    (void)unused;
    uint64_t interval = spp_now.interval_ns, random = spp_os_now_ns() | 1u;
    uint64_t due = spp_os_now_ns();
    stack = calloc(spp_cap.max_depth, sizeof *stack);
    /* The step to the next tick is drawn for itself, from half an interval to one and a half. A sample's weight is the time
     * since the one before: were ticks drawn within fixed intervals, the late ones would weigh more than the early ones. */
    while (stack != NULL && !atomic_load(&spp_now.stopping)) {
        due += interval / 2 + ((draw(&random) * interval) >> 32);
        spp_os_sleep_until(due);
        uint64_t missed = (spp_os_now_ns() - due) / interval; /* whole ticks that passed while we could not run */
        bool sampling = atomic_load(&spp_cap.active) == 1;
        uint32_t used = atomic_load_explicit(&spp_threads_used, memory_order_acquire);
        for (uint32_t i = 0; i < used && sampling; i++) {
            spp_thread *t = &spp_threads[i];
            if (atomic_load_explicit(&t->state, memory_order_acquire) != SPP_THREAD_ARMED) continue;
            if (missed) atomic_fetch_add_explicit(&t->losses[SPP_LOSS_overrun], missed, memory_order_relaxed);
            look_at(t, spp_os_now_ns());
        }
        due += missed * interval;
    }
    free(stack);
    stack = NULL;
}
