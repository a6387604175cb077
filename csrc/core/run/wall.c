/* The sampler thread of wall mode. Wall time is time on the CPU, which the thread's own ticks
 * sample as in CPU mode, plus time off it, which is sampled here. A blocked thread is walked from
 * outside, between two equal readings of its CPU clock (or while the system holds it), and the time
 * that passed without moving the clock goes to that stack. While the clock does not move at all,
 * the stack is the same, and ticks repeat it. No signal is sent, so no sleeping call is woken. */
#include <stdatomic.h>
#include <string.h>

#include "base/heap.h"
#include "base/random.h"
#include "core/capture/labels.h"
#include "core/capture/spans.h"
#include "core/capture/tasks.h"
#include "core/resolve/resolve.h"
#include "core/run/holders.h"
#include "core/run/roster.h"
#include "core/run/state.h"
#include "core/run/task_rounds.h"
#include "core/run/wall.h"
#include "os/clock.h"
#include "os/context.h"
#include "os/files.h"
#include "os/lock.h"
#include "os/memory.h"
#include "os/threads.h"
#include "os/ticks.h"
#include "os/waits.h"
#include "os/worker.h"

#define REPEATS_NS 80000000u /* repeats are written at least this often, for readers of an unfinished file */

#define LOOKS_REPORTED 64 /* after so many looks the sampler reports its CPU time, which costs 0.2 us */
#define BATCH 32u         /* threads that are looked at without giving the lock back */
/* Looks at a crowd take no more than a part of a processor: they come more rarely, but not for one that took much by itself. */
#define CROWD 64u
#define CROWD_PART 8u
#define CROWD_REST_NS 20000000u
/* A CPU clock may gain on the clock of the day (100 ppm on one virtual machine: nobody disciplines it), 0.4 s in an hour of
 * computing. More than this is not taken off the next sleep; less may be a reading that was interrupted, made good by the next.
 */
#define AHEAD_NS 10000000
/* Ticks are as many as the time off the CPU has intervals. One that is due and finds the thread running waits for a look that
 * finds it off-CPU; SPP_OWED_MOST may wait, and what is beyond is lost. And so many may be taken before they are due: each look
 * that finds a thread off-CPU is one of a random instant, and none the less for the one before. */
#define EARLY_MOST 2
#define UNHELD_MOST 64u /* looks */

static spp_frame *stack;
static spp_native_scratch *scratch; /* with native frames */
static bool pages_move; /* this kernel's events count in their pages when their threads begin to run: seen in this run */

/* Whether a thread's newest Python frames are those that `walk` found. An unchanged CPU clock does
 * not prove that the thread was blocked: time stolen from a virtual machine is subtracted from it,
 * up to all of what it ran (update_rq_clock_task in Linux's kernel/sched/core.c). */
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

/* Drain lock held. A tick that came to nothing: it is no longer due. */
static void lose(spp_thread *t, enum spp_loss reason) {
    atomic_fetch_add_explicit(&t->tick.losses[reason], 1, memory_order_relaxed);
    t->wall.due_ns -= (int64_t)spp_run_state.interval_ns;
}

/* While it is held: for moved_by_hold. */
static void keep_leaves(spp_thread *t, const spp_walk *walk) {
    spp_walk leaves = {.tstate = walk->tstate, .sp = walk->sp, .stack_low = walk->stack_low, .stack_end = walk->stack_end};
    if (spp_os_stop_ns() == 0) return;
    leaves.out = t->wall.held_leaves;
    leaves.max = SPP_LEAVES;
    (void)spp_frames_own(&leaves);
    t->wall.held_depth = leaves.depth;
}

/* Drain lock held. Whether a thread's clock moved only because we held it at an earlier look:
 * otherwise it would be held and walked at each look of its sleep. But a thread may also run for
 * that short a time by itself and then block elsewhere, which its frames show. */
static bool moved_by_hold(spp_thread *t, uint64_t moved, uint64_t passed) {
    const spp_walk walk = {.tstate = t->tick.tstate, .max = SPP_LEAVES};
    bool held = t->wall.held;
    if (moved == 0) return false;
    t->wall.held = false;
    return held && moved < spp_os_stop_ns() && moved < passed / 4 && same_leaves(&walk, t->wall.held_leaves, t->wall.held_depth);
}

/* Drain lock held. Walks a thread that the system holds meanwhile: nothing is allocated, nothing waited for. What spp_os_hold
 * says. */
static int walk_held(spp_thread *t, spp_walk *walk, enum spp_loss *loss, uint64_t *label, spp_task *task, spp_trace_ids *span) {
    spp_os_context context;
    int held = spp_os_hold(&t->trigger, &context);
    if (held != 0) return held;
    walk->tstate = spp_cap.thread_state(context.subject);
    spp_capture_stack(t, &context, walk);
    *loss = scratch == NULL ? spp_frames_own(walk) : spp_frames_native_own(scratch, walk, &context, spp_cap.native);
    *label = atomic_load_explicit(&spp_labels.used, memory_order_relaxed) ? spp_label_own(walk->tstate) : 0;
    bool known = atomic_load_explicit(&spp_task_type, memory_order_acquire) == 0 || spp_task_own(walk->tstate, task);
    if (*loss == SPP_LOSS_NONE && !known) *loss = SPP_LOSS_task_changed;
    if (atomic_load_explicit(&spp_span_variable, memory_order_acquire) != 0) spp_span_own(walk->tstate, span);
    keep_leaves(t, walk);
    spp_os_let_go(&t->trigger);
    atomic_store_explicit(&t->tick.tstate, walk->tstate, memory_order_relaxed);
    return 0;
}

/* Drain lock held. Walks a thread that may go on meanwhile; -1 if it did, or may have, or if its task cannot be known now. */
static int walk_free(spp_thread *t, spp_walk *walk, enum spp_loss *loss, uint64_t *label, spp_task *task, spp_trace_ids *span,
                     spp_os_wait *wait) {
    uint64_t after;
    uintptr_t last = atomic_load_explicit(&t->tick.tstate, memory_order_relaxed);
    walk->tstate = spp_run_state.states.of_thread(t->tid, last);
    if (walk->tstate == SPP_STATE_UNKNOWN || (walk->tstate == 0 && last != 0)) { /* or it has just let go of its state */
        if (walk->tstate == 0) atomic_store_explicit(&t->tick.tstate, 0, memory_order_relaxed); /* next time that is so */
        lose(t, SPP_LOSS_moved);
        return -1;
    }
    walk->tstate =
        spp_run_state.states.current(t->tid, walk->tstate, atomic_load_explicit(&t->tick.stack_end, memory_order_relaxed));
    atomic_store_explicit(&t->tick.tstate, walk->tstate, memory_order_relaxed);
    bool native = false;
    *wait = spp_os_thread_waits(t->tid);
    if (scratch == NULL) {
        *loss = spp_frames_other(walk);
    } else if (wait->pc != 0) {
        walk->sp = wait->sp;
        *loss = spp_frames_native_other(scratch, walk, wait->pc, spp_cap.native);
        native = true;
    } else { /* it waits for a processor, and only the kernel knows its registers */
        *loss = spp_frames_other(walk);
        walk->flags |= SPP_SAMPLE_GAP;
    }
    *label = atomic_load_explicit(&spp_labels.used, memory_order_relaxed) ? spp_label_other(walk->tstate) : 0;
    bool known = atomic_load_explicit(&spp_task_type, memory_order_acquire) == 0 || spp_task_other(walk->tstate, task);
    if (atomic_load_explicit(&spp_span_variable, memory_order_acquire) != 0) spp_span_other(walk->tstate, span);
    bool same = native ? same_leaves(walk, scratch->python, scratch->python_n) : same_leaves(walk, walk->out, walk->depth);
    return same && known && spp_os_thread_cpu_ns(t->tid, &after) == 0 && after == t->wall.look_cpu ? 0 : -1;
}

/* Drain lock held. Which thread holds the GIL that one with this state waits for, as in resolved.h. */
static uint32_t gil_held_by(const spp_thread *t, uintptr_t tstate) {
    int32_t tid = spp_run_state.states.gil_holder != NULL ? spp_run_state.states.gil_holder(tstate) : 0;
    uint32_t slot = tid > 0 && tid != t->tid ? spp_roster_slot(tid) : SPP_MAP_NONE;
    return slot != SPP_MAP_NONE ? spp_threads[slot].id + 1 : 0;
}

/* Drain lock held. Names what a thread waits for. Whether it is a socket that listens, perhaps one of several: a server that
 * waits for work. */
static bool waits_at_server(const spp_thread *t, const spp_os_wait *wait, char name[SPP_OS_DESCRIPTOR]) {
    static const char server[] = "server ";
    const int *fds = wait->fd >= 0 ? &wait->fd : wait->several;
    unsigned n = wait->fd >= 0 ? 1 : wait->several_n;
    for (unsigned i = 0; i < n; i++) {
        spp_os_descriptor(t->tid, fds[i], name);
        if (strncmp(name, server, sizeof server - 1) == 0) return true;
    }
    if (n != 1) name[0] = 0;
    return false;
}

/* Drain lock held. What a thread with this state waits for; `name` is space for it, *lock for a lock of Python's. */
static spp_waiting waiting_for(const spp_thread *t, const spp_os_wait *wait, uintptr_t tstate, char name[SPP_OS_DESCRIPTOR],
                               spp_awaited *lock) {
    spp_waiting waiting = {.reason = wait->reason, .on = name};
    name[0] = 0;
    if (waits_at_server(t, wait, name)) waiting.reason = SPP_REASON_idle;
    if (wait->address != 0 && spp_run_state.states.is_gil != NULL) {
        int is_gil = spp_run_state.states.is_gil(tstate, wait->address);
        if (is_gil != 0) waiting.reason = is_gil > 0 ? SPP_REASON_gil : SPP_REASON_running; /* the latter: unknown */
    }
    if (waiting.reason == SPP_REASON_gil) waiting.held_by = gil_held_by(t, tstate);
    if (waiting.reason == SPP_REASON_lock && wait->address != 0) *lock = spp_lock_awaited(tstate, wait->address);
    if (lock->key != 0) waiting.held_by = spp_holders_of(t, lock);
    return waiting;
}

/* Drain lock held. Whether a thread that is off the CPU holds the GIL: it waits for something else with it. */
static bool holds_gil(const spp_thread *t, uintptr_t tstate) {
    return tstate != 0 && spp_run_state.states.gil_holder != NULL && spp_run_state.states.gil_holder(tstate) == t->tid;
}

/* Drain lock held. Whether to ask which thread holds the lock that one still waits for. If none was known to, more and more
 * rarely: a pool's threads may wait for one that has no holder. */
static bool asks_again(spp_thread *t) {
    if (t->wall.held_by != 0) return true;
    uint32_t n = ++t->wall.unheld;
    return n < UNHELD_MOST ? (n & (n - 1)) == 0 : n % UNHELD_MOST == 0;
}

/* Drain lock held. Before the sample of a wait that is over is written: how long the thread was ready since the last such look. A
 * wait for the GIL is one for all its time: the thread looks after it every few milliseconds, and would go on waiting if it had a
 * processor. One that did not run meanwhile was not ready either: its clock stood still. */
static void see_ready(spp_thread *t) {
    uint64_t all, times, before = t->wall.ready_times;
    if (t->wall.repeats == 0 && before != 0 && t->wall.reason != SPP_REASON_gil) return;
    if (spp_os_thread_ready(t->tid, &all, &times) != 0) return;
    t->wall.ready_read = before != 0 && times > before && all >= t->wall.ready_seen;
    t->wall.ready_ns = t->wall.ready_read ? all - t->wall.ready_seen : 0;
    t->wall.ready_seen = all;
    t->wall.ready_times = times;
}

/* Drain lock held. A thread that still waits for the GIL or a lock: if another one holds it by now, the time so far is in a
 * sample with the one that did. If nobody does, the thread may have been woken, and wait for a processor. A tick is taken for
 * that before it is due, but no more than any look may. */
static void follow_holder(spp_thread *t) {
    if (t->wall.lock.key != 0 && !asks_again(t)) return;
    uint32_t held_by = t->wall.lock.key != 0 ? spp_holders_of(t, &t->wall.lock)
                                             : gil_held_by(t, atomic_load_explicit(&t->tick.tstate, memory_order_relaxed));
    bool may_be_ready = held_by == 0 && (t->wall.held_by != 0 || t->wall.reason == SPP_REASON_gil);
    bool ready = may_be_ready && spp_os_thread_waits(t->tid).reason == SPP_REASON_ready;
    if (held_by == t->wall.held_by && !ready) return;
    if (t->wall.repeats == 0 && t->wall.due_ns > -EARLY_MOST * (int64_t)spp_run_state.interval_ns) {
        t->wall.due_ns -= (int64_t)spp_run_state.interval_ns;
        t->wall.repeats = 1;
        atomic_fetch_add_explicit(&t->wall.repeated, 1, memory_order_relaxed);
    }
    if (ready) see_ready(t);
    spp_resolve_flush(t);
    t->wall.held_by = held_by;
    t->wall.unheld = 0;
    if (!ready) return;
    t->wall.reason = SPP_REASON_ready;
    t->wall.lock.key = 0;
}

/* Drain lock held. Walks a thread that seems blocked, unless it moved meanwhile. */
static void walk_off_cpu(spp_thread *t) {
    uint64_t label;
    spp_task task;
    spp_trace_ids span = {0};
    spp_os_wait wait = {.fd = -1};
    char name[SPP_OS_DESCRIPTOR];
    spp_walk walk = {.out = stack, .max = spp_cap.max_depth};
    enum spp_loss loss;
    task.bytes = 0;
    int held = walk_held(t, &walk, &loss, &label, &task, &span);
    if (held < 0 || (held > 0 && walk_free(t, &walk, &loss, &label, &task, &span, &wait) != 0)) return;
    if (loss != SPP_LOSS_NONE) {
        lose(t, loss);
        return;
    }
    spp_awaited lock = {0};
    const spp_waiting waiting = waiting_for(t, &wait, walk.tstate, name, &lock);
    if (waiting.reason != SPP_REASON_gil && holds_gil(t, walk.tstate)) walk.flags |= SPP_SAMPLE_GIL;
    if (!spp_resolve_blocked(t, &walk, label, &task, &span, &waiting)) return; /* a later look finds it done */
    atomic_fetch_add_explicit(&t->wall.walked, 1, memory_order_relaxed);
    if (walk.flags & SPP_SAMPLE_TRUNCATED)
        atomic_fetch_add_explicit(&t->tick.counters[SPP_COUNTER_truncated], 1, memory_order_relaxed);
    if (walk.flags & SPP_SAMPLE_UNPAIRED)
        atomic_fetch_add_explicit(&t->tick.counters[SPP_COUNTER_unpaired], 1, memory_order_relaxed);
    if (walk.flags & SPP_SAMPLE_GAP) atomic_fetch_add_explicit(&t->tick.counters[SPP_COUNTER_gaps], 1, memory_order_relaxed);
    t->wall.due_ns -= (int64_t)spp_run_state.interval_ns;
    t->wall.repeats = 1; /* written when it has moved, or after a while */
    t->wall.written_ns = t->wall.look_ns;
    t->wall.blocked = true;
    t->wall.lock = lock;
    t->wall.unheld = 0;
    t->wall.held = held == 0;
}

/* Whether a tick is due to a thread that was off-CPU for less than half an interval in total. Not
 * if it waits for a processor, most likely for ours: that stack would get the time that the thread
 * sleeps before the next look. */
static bool asleep_and_due(const spp_thread *t, bool still) {
    uintptr_t pc, sp;
    if (t->wall.off_ns < 0 || t->wall.due_ns <= -EARLY_MOST * (int64_t)spp_run_state.interval_ns) return false;
    return still || spp_os_thread_where(t->tid, &pc, &sp) == 0;
}

/* Drain lock held. Counts so many ticks as lost: for that long no look found the thread blocked.
 * The sampler may have been held itself, with the rest of the process. Nobody knows where that time
 * went, so it is not given to the next blocked stack. */
static void lose_row(spp_thread *t, int64_t lost) {
    spp_frame unknown = SPP_UNKNOWN_STACK;
    const spp_walk walk = {.out = &unknown, .depth = 1};
    const spp_waiting waiting = {.on = ""};
    const spp_task none = {.bytes = 0};
    const spp_trace_ids no_span = {0};
    int64_t time = lost * (int64_t)spp_run_state.interval_ns, rest = t->wall.off_ns - time;
    t->wall.due_ns -= time;
    if (rest >= 0 && spp_resolve_blocked(t, &walk, 0, &none, &no_span, &waiting)) {
        t->wall.off_ns = time;
        t->wall.repeats = 1;
        spp_resolve_flush(t);
        t->wall.off_ns += rest;
        atomic_fetch_add_explicit(&t->wall.walked, 1, memory_order_relaxed);
        lost--;
    }
    atomic_fetch_add_explicit(&t->tick.losses[SPP_LOSS_overrun], (uint64_t)lost, memory_order_relaxed);
}

/* Drain lock held. */
static void look_at(spp_thread *t) {
    const int64_t interval = (int64_t)spp_run_state.interval_ns;
    uint64_t cpu = t->wall.look_cpu, again, now = spp_os_now_ns();
    const volatile uint32_t *runs = t->trigger.runs;
    uint32_t run = runs != NULL ? *runs : 0;
    /* The cheap answer, for most threads of most programs at most ticks; checked again before what it gave is written. */
    if (runs != NULL && run != t->wall.first_run) pages_move = true;
    bool slept_on =
        pages_move && t->wall.blocked && runs != NULL && run == t->wall.look_run && now - t->wall.written_ns < REPEATS_NS;
    if (!slept_on && spp_os_thread_cpu_ns(t->tid, &cpu) != 0) return; /* gone; the watch will see */
    t->wall.look_run = run;
    uint64_t passed = now - t->wall.look_ns;
    int64_t off = (int64_t)passed - (int64_t)(cpu - t->wall.look_cpu);
    /* It did not run, or its clock goes in steps. */
    bool still = cpu == t->wall.look_cpu || (t->wall.blocked && moved_by_hold(t, cpu - t->wall.look_cpu, passed));
    t->wall.due_ns += off;
    if (t->wall.blocked && still && spp_os_clock_is_exact()) { /* all the time since the last look */
        uint32_t ticks = t->wall.due_ns > 0 ? (uint32_t)(t->wall.due_ns / interval) : 0;
        t->wall.off_ns += off;
        t->wall.look_ns = now;
        t->wall.look_cpu = cpu;
        t->wall.due_ns -= ticks * interval;
        t->wall.repeats += ticks;
        atomic_fetch_add_explicit(&t->wall.repeated, ticks, memory_order_relaxed);
        if (t->wall.reason == SPP_REASON_gil || t->wall.lock.key != 0) follow_holder(t);
        if (now - t->wall.written_ns >= REPEATS_NS) spp_resolve_flush(t);
        return;
    }
    /* Off-CPU time after the last look belongs to the stack of that look. Otherwise the time would
     * go to the place where our own sampler preempted the thread. */
    t->wall.off_ns += off;
    if (t->wall.off_ns < -AHEAD_NS) t->wall.off_ns = -AHEAD_NS;
    if (t->wall.due_ns < -AHEAD_NS) t->wall.due_ns = -AHEAD_NS;
    see_ready(t);
    spp_resolve_flush(t);
    t->wall.look_ns = now;
    t->wall.look_cpu = cpu;
    t->wall.blocked = false;
    if (t->wall.due_ns >= (SPP_OWED_MOST + 1) * interval) lose_row(t, t->wall.due_ns / interval - SPP_OWED_MOST);
    if (t->wall.off_ns < interval / 2 && !asleep_and_due(t, still)) return;
    if (spp_os_thread_cpu_ns(t->tid, &again) == 0 && again == cpu) walk_off_cpu(t);
}

/* When the next look at a crowd is due in the mean at the earliest, after one that took so much CPU time. */
static uint64_t rested(uint64_t cost) {
    uint64_t rest = (CROWD_PART - 1) * cost;
    return spp_os_now_ns() + (rest < CROWD_REST_NS ? rest : CROWD_REST_NS);
}

static void report_cpu(void) { atomic_store(&spp_run_state.sampler_cpu, spp_run_state.sampler_before + spp_os_own_cpu_ns()); }

void spp_wall_body(void *unused) {
    (void)unused;
    (void)spp_os_own_files(-1);
    uint64_t interval = spp_run_state.interval_ns, random = spp_os_now_ns() | 1u;
    uint64_t due = spp_os_now_ns(), late = 0, looks = 0;
    pages_move = false;
    spp_task_rounds_begin();
    stack = spp_alloc_zeroed(spp_cap.max_depth + SPP_NATIVE_MAX, sizeof *stack);
    scratch = spp_cap.native != SPP_NATIVE_OFF ? spp_os_pages(sizeof *scratch) : NULL;
    if (scratch != NULL) scratch->most = spp_native_most(interval);
    /* The step to the next look is drawn for itself, from half an interval to one and a half; shorter ones make up for looks that
     * came to nothing because we could not run. */
    while (stack != NULL && !atomic_load(&spp_run_state.stopping)) {
        uint64_t step = interval / 2 + spp_random_below(&random, interval), faster = step / 5 < late ? step / 5 : late;
        late -= faster;
        due += step - faster;
        if (spp_os_may_rest)
            (void)spp_os_bell_wait(&spp_run_state.sampler_bell, due);
        else
            spp_os_sleep_until(due);
        if (spp_rest_begins(&spp_run_state.sampler_rest)) break;
        uint64_t missed = (spp_os_now_ns() - due) / interval; /* whole intervals */
        uint32_t used = atomic_load_explicit(&spp_threads_used, memory_order_acquire);
        uint64_t own = used > CROWD ? spp_os_own_cpu_ns() : 0;
        if (spp_run_state.states.look != NULL) spp_run_state.states.look();
        spp_holders_look();
        for (uint32_t i = 0; i < used;) {
            spp_os_lock(); /* for some at a time: 0.3 us each */
            for (uint32_t end = i + BATCH < used ? i + BATCH : used; i < end; i++) {
                spp_thread *t = &spp_threads[i];
                if (t->state == SPP_THREAD_ARMED && atomic_load(&spp_cap.active) == 1) look_at(t);
            }
            spp_os_unlock();
        }
        spp_task_rounds_turn();
        due += missed * interval;
        late += missed * interval;
        if (used > CROWD) {
            uint64_t next = rested(spp_os_own_cpu_ns() - own);
            if (due + interval < next) due = next - interval;
        }
        if (late > SPP_OWED_MOST * interval) late = SPP_OWED_MOST * interval;
        if (++looks % LOOKS_REPORTED == 0) report_cpu();
    }
    spp_task_rounds_end();
    spp_free(stack);
    stack = NULL;
    spp_os_pages_free(scratch, sizeof *scratch);
    scratch = NULL;
    report_cpu();
    if (spp_rest_is(&spp_run_state.sampler_rest)) spp_run_state.sampler_before += spp_os_own_cpu_ns();
}
