/* The sampler thread of wall mode. Wall time is time on the CPU, which the thread's own ticks sample as in CPU mode, and time off
 * it, which is sampled here: a thread that stands still is walked from outside, between two equal readings of its CPU clock
 * (or while the system holds it), and the time that passed without moving that clock goes to the stack; while it does not move
 * at all the stack is the same, and ticks repeat it. No signal is sent: no sleeping call is woken. */
#include <stdatomic.h>
#include <stdlib.h>

#include "core/labels.h"
#include "core/resolve.h"
#include "core/run.h"

#define REPEATS_NS 80000000u /* repeats are written at least this often, for readers of an unfinished file */

#define BATCH 32u /* threads that are looked at without giving the lock back */
/* A CPU clock may gain on the clock of the day (100 ppm on one virtual machine: nobody disciplines it), 0.4 s in an hour of
 * computing. More than this is not taken off the next sleep; less may be a reading that was interrupted, made good by the next.
 */
#define AHEAD_NS 10000000
/* Ticks are as many as the time off the CPU has intervals. One that is due and finds the thread running waits for a look that
 * finds it standing; SPP_OWED_MOST may wait, and what is beyond is lost. And so many may be taken before they are due: each look
 * that finds a thread standing is one of a random instant, and none the less for the one before. */
#define EARLY_MOST 2

static spp_frame *stack;
static spp_native_room *room; /* with native frames */
static bool pages_move;       /* this kernel's events count in their pages when their threads begin to run: seen in this run */

/* Whether a thread's newest Python frames are those that `walk` found. Its CPU clock alone does not tell that it stood: time
 * stolen from a virtual machine is taken off it, all of what it ran if need be (update_rq_clock_task in Linux's
 * kernel/sched/core.c). */
static bool same_leaves(const spp_walk *walk, const spp_frame *frames, uint32_t depth) {
    spp_frame leaves[SPP_LEAVES] = {0};
    spp_walk again = {.tstate = walk->tstate, .out = leaves, .max = walk->max < SPP_LEAVES ? walk->max : SPP_LEAVES};
    (void)spp_frames_other(&again);
    if (again.depth != (depth < again.max ? depth : again.max)) return false;
    for (uint32_t i = 0; i < again.depth; i++) {
        if (leaves[i] != frames[i]) return false;
    }
    return true;
}

/* While it is held: for moved_by_hold. */
static void keep_leaves(spp_thread *t, const spp_walk *walk) {
    spp_walk leaves = {.tstate = walk->tstate, .sp = walk->sp, .stack_end = walk->stack_end};
    if (spp_os_stop_ns() == 0) return;
    leaves.out = t->held_leaves;
    leaves.max = SPP_LEAVES;
    (void)spp_frames_own(&leaves);
    t->held_depth = leaves.depth;
}

/* Drain lock held. Whether a thread's clock moved only because it was held at an earlier look: that would have it held and walked
 * at each look of its sleep. But a thread may run as shortly for itself, and then stand elsewhere: that its frames tell. */
static bool moved_by_hold(spp_thread *t, uint64_t moved, uint64_t passed) {
    const spp_walk walk = {.tstate = t->tstate, .max = SPP_LEAVES};
    bool held = t->held;
    if (moved == 0) return false;
    t->held = false;
    return held && moved < spp_os_stop_ns() && moved < passed / 4 && same_leaves(&walk, t->held_leaves, t->held_depth);
}

/* Drain lock held. Walks a thread that the system holds meanwhile: nothing is allocated, nothing waited for. What spp_os_hold
 * says. */
static int walk_held(spp_thread *t, spp_walk *walk, enum spp_loss *loss, uint64_t *label) {
    spp_os_context context;
    int held = spp_os_hold(&t->trigger, &context);
    if (held != 0) return held;
    walk->tstate = spp_cap.thread_state(context.subject);
    walk->sp = context.sp - SPP_RED_ZONE;
    walk->stack_end = atomic_load_explicit(&t->stack_end, memory_order_relaxed);
    uintptr_t low = atomic_load_explicit(&t->stack_low, memory_order_relaxed);
    if (walk->stack_end == 0) atomic_store_explicit(&t->stack_sp, context.sp, memory_order_relaxed);
    *loss = room == NULL ? spp_frames_own(walk) : spp_frames_native_own(room, walk, &context, low, spp_cap.native);
    *label = atomic_load_explicit(&spp_labels.used, memory_order_relaxed) ? spp_label_own(walk->tstate) : 0;
    keep_leaves(t, walk);
    spp_os_let_go(&t->trigger);
    atomic_store_explicit(&t->tstate, walk->tstate, memory_order_relaxed);
    return 0;
}

/* Drain lock held. Walks a thread that may go on meanwhile; -1 if it did, or may have. */
static int walk_free(spp_thread *t, spp_walk *walk, enum spp_loss *loss, uint64_t *label) {
    uint64_t after;
    uintptr_t last = atomic_load_explicit(&t->tstate, memory_order_relaxed);
    walk->tstate = spp_now.states.of_thread(t->tid, last);
    if (walk->tstate == SPP_STATE_UNKNOWN || (walk->tstate == 0 && last != 0)) { /* or it has just let go of its state */
        atomic_fetch_add_explicit(&t->losses[SPP_LOSS_moved], 1, memory_order_relaxed);
        return -1;
    }
    atomic_store_explicit(&t->tstate, walk->tstate, memory_order_relaxed);
    uintptr_t pc;
    bool native = false;
    if (room == NULL) {
        *loss = spp_frames_other(walk);
    } else if (spp_os_thread_where(t->tid, &pc, &walk->sp) == 0) {
        walk->stack_end = atomic_load_explicit(&t->stack_end, memory_order_relaxed);
        *loss = spp_frames_native_other(room, walk, pc, spp_cap.native);
        native = true;
    } else { /* it waits for a processor, and only the kernel knows its registers */
        *loss = spp_frames_other(walk);
        walk->marks |= SPP_SAMPLE_GAP;
    }
    *label = atomic_load_explicit(&spp_labels.used, memory_order_relaxed) ? spp_label_other(walk->tstate) : 0;
    bool same = native ? same_leaves(walk, room->python, room->python_n) : same_leaves(walk, walk->out, walk->depth);
    return same && spp_os_thread_cpu_ns(t->tid, &after) == 0 && after == t->look_cpu ? 0 : -1;
}

/* Drain lock held. Walks a thread that seems to stand, unless it moved meanwhile. */
static void walk_standing(spp_thread *t) {
    uint64_t label;
    spp_walk walk = {.out = stack, .max = spp_cap.max_depth};
    enum spp_loss loss;
    int held = walk_held(t, &walk, &loss, &label);
    if (held < 0 || (held > 0 && walk_free(t, &walk, &loss, &label) != 0)) return;
    if (loss != SPP_LOSS_NONE) {
        atomic_fetch_add_explicit(&t->losses[loss], 1, memory_order_relaxed);
        return;
    }
    spp_resolve_stood(t, &walk, label);
    atomic_fetch_add_explicit(&t->stood, 1, memory_order_relaxed);
    if (walk.marks & SPP_SAMPLE_TRUNCATED) atomic_fetch_add_explicit(&t->truncated, 1, memory_order_relaxed);
    if (walk.marks & SPP_SAMPLE_UNPAIRED) atomic_fetch_add_explicit(&t->unpaired, 1, memory_order_relaxed);
    if (walk.marks & SPP_SAMPLE_GAP) atomic_fetch_add_explicit(&t->gaps, 1, memory_order_relaxed);
    t->due_ns -= (int64_t)spp_now.interval_ns;
    t->repeats = 1; /* written when it has moved, or after a while */
    t->written_ns = t->look_ns;
    t->stands = true;
    t->held = held == 0;
}

/* Whether a tick is due to a thread that stood less than half an interval in all: not if it waits for a processor, most likely
 * for ours. That stack would get what it sleeps before the next look. */
static bool asleep_and_due(const spp_thread *t, bool still) {
    uintptr_t pc, sp;
    if (t->off_ns < 0 || t->due_ns <= -EARLY_MOST * (int64_t)spp_now.interval_ns) return false;
    return still || spp_os_thread_where(t->tid, &pc, &sp) == 0;
}

/* Drain lock held. */
static void look_at(spp_thread *t) {
    const int64_t interval = (int64_t)spp_now.interval_ns;
    uint64_t cpu = t->look_cpu, again, now = spp_os_now_ns();
    const volatile uint32_t *runs = t->trigger.runs;
    uint32_t run = runs != NULL ? *runs : 0;
    /* The cheap answer, for most threads of most programs at most ticks; asked anew before what it gave is written. */
    if (runs != NULL && run != t->first_run) pages_move = true;
    bool slept_on = pages_move && t->stands && runs != NULL && run == t->look_run && now - t->written_ns < REPEATS_NS;
    if (!slept_on && spp_os_thread_cpu_ns(t->tid, &cpu) != 0) return; /* gone; the watch will see */
    t->look_run = run;
    uint64_t passed = now - t->look_ns;
    int64_t off = (int64_t)passed - (int64_t)(cpu - t->look_cpu);
    /* It did not run, or its clock goes in steps. */
    bool still = cpu == t->look_cpu || (t->stands && moved_by_hold(t, cpu - t->look_cpu, passed));
    t->due_ns += off;
    if (t->stands && still && spp_os_clock_tells()) { /* all the time since the last look */
        uint32_t ticks = t->due_ns > 0 ? (uint32_t)(t->due_ns / interval) : 0;
        t->off_ns += off;
        t->look_ns = now;
        t->look_cpu = cpu;
        t->due_ns -= ticks * interval;
        t->repeats += ticks;
        atomic_fetch_add_explicit(&t->repeated, ticks, memory_order_relaxed);
        if (now - t->written_ns >= REPEATS_NS) spp_resolve_flush(t);
        return;
    }
    /* What it stood after the last look belongs to the stack that stood then. Were it given to the next one that is met, it would
     * go to where this thread of ours, by running, puts off the one that it looks at. */
    t->off_ns += off;
    if (t->off_ns < -AHEAD_NS) t->off_ns = -AHEAD_NS;
    if (t->due_ns < -AHEAD_NS) t->due_ns = -AHEAD_NS;
    spp_resolve_flush(t);
    if (t->due_ns >= (SPP_OWED_MOST + 1) * interval) {
        int64_t lost = t->due_ns / interval - SPP_OWED_MOST;
        t->due_ns -= lost * interval;
        atomic_fetch_add_explicit(&t->losses[SPP_LOSS_overrun], (uint64_t)lost, memory_order_relaxed);
    }
    t->look_ns = now;
    t->look_cpu = cpu;
    t->stands = false;
    if (t->off_ns < interval / 2 && !asleep_and_due(t, still)) return;
    if (spp_os_thread_cpu_ns(t->tid, &again) == 0 && again == cpu) walk_standing(t);
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
    uint64_t due = spp_os_now_ns(), late = 0;
    pages_move = false;
    stack = calloc(spp_cap.max_depth + SPP_NATIVE_MAX, sizeof *stack);
    room = spp_cap.native != SPP_NATIVE_OFF ? spp_os_pages(sizeof *room) : NULL;
    if (room != NULL) room->most = spp_native_most(interval);
    /* The step to the next look is drawn for itself, from half an interval to one and a half; shorter ones make up for looks that
     * came to nothing because we could not run. */
    while (stack != NULL && !atomic_load(&spp_now.stopping)) {
        uint64_t step = interval / 2 + ((draw(&random) * interval) >> 32), faster = step / 5 < late ? step / 5 : late;
        late -= faster;
        due += step - faster;
        spp_os_sleep_until(due);
        uint64_t missed = (spp_os_now_ns() - due) / interval; /* whole intervals */
        uint32_t used = atomic_load_explicit(&spp_threads_used, memory_order_acquire);
        for (uint32_t i = 0; i < used;) {
            spp_os_lock(); /* for some at a time: 0.3 us each */
            for (uint32_t end = i + BATCH < used ? i + BATCH : used; i < end; i++) {
                spp_thread *t = &spp_threads[i];
                if (t->state == SPP_THREAD_ARMED && atomic_load(&spp_cap.active) == 1) look_at(t);
            }
            spp_os_unlock();
        }
        due += missed * interval;
        late += missed * interval;
        if (late > SPP_OWED_MOST * interval) late = SPP_OWED_MOST * interval;
    }
    free(stack);
    stack = NULL;
    spp_os_pages_free(room, sizeof *room);
    room = NULL;
    spp_now.sampler_cpu = spp_os_own_cpu_ns();
}
