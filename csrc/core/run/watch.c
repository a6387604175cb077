#include "core/run/watch.h"

#include <stdatomic.h>
#include <string.h>

#include "base/map.h"
#include "base/patience.h"
#include "core/capture/capture.h"
#include "core/resolve/resolve.h"
#include "core/run/arm.h"
#include "core/run/events.h"
#include "core/run/ours.h"
#include "core/run/roster.h"
#include "core/run/silent.h"
#include "core/run/state.h"
#include "core/run/thread_names.h"
#include "core/run/tick_stats.h"
#include "os/clock.h"
#include "os/lock.h"
#include "os/threads.h"
#include "os/ticks.h"

/* Threads that called exec before they were found: nothing of ours may reach the new program. Under the drain lock. */
#define EXECS 16
#define EXEC_TAKES_NS 1000000000u /* a thread that is still there after that did not replace the program */
static struct {
    int32_t tid;
    uint64_t since_ns;
} execs[EXECS];
static uint32_t execs_n;       /* the oldest is replaced first */
static _Atomic int32_t arming; /* the thread that is just being armed; 0: none */

/* Drain lock held. */
static bool calls_exec(int32_t tid) {
    uint64_t now = spp_os_now_ns();
    for (uint32_t i = 0; i < EXECS; i++) {
        if (execs[i].tid == tid && now - execs[i].since_ns < EXEC_TAKES_NS) return true;
    }
    return false;
}

static void arm_new(int32_t tid, bool first) {
    spp_thread *t = spp_roster_free_slot();
    if (t == NULL || spp_threads_prepare(t, tid, spp_run_state.next_id, spp_run_state.clock) != 0) return;
    t->trigger.older = first;
    if (!first && spp_arm_has_time()) {
        /* What it ran before it was found is known exactly: its clock began at 0. It is lost, but in a pause nothing is. */
        if (spp_run_state.paused)
            spp_run_state.ended_cpu += t->watch.cpu_start;
        else if (!spp_threads_from_birth(t))
            t->tick.losses[SPP_LOSS_before_found] = t->watch.cpu_start / spp_run_state.interval_ns;
    }
    if (spp_arm(t) != 0) return; /* out of timers too: each scan tries again, and reports it once there is one */
    spp_os_lock();
    atomic_store_explicit(&t->state, SPP_THREAD_ARMED, memory_order_release);
    t->watch.counted = true;
    spp_arm_watch(t);
    spp_roster_enter(t);
    bool named = spp_thread_names_introduce(t);
    spp_run_state.next_id++;
    bool paused = spp_run_state.paused;
    spp_os_unlock();
    if (!first && !paused) spp_events_from_birth(t);
    if (!named) spp_thread_names_ask(t); /* once it is armed: that may take milliseconds where no processor is free */
}

static void arm_thread(int32_t tid, bool first) {
    atomic_store(&arming, tid); /* before the question: a thread that is about to call exec waits until this is 0 */
    spp_os_lock();
    bool leaves = calls_exec(tid);
    spp_os_unlock();
    if (!leaves) arm_new(tid, first);
    atomic_store(&arming, 0);
}

/* Between two threads of many: a fork does not wait for all. */
static void step(void) {
    spp_os_work_end();
    spp_os_work_begin();
}

/* The thread is gone, or is to be left alone. Its trigger goes first, then its queue is read to the end. */
static void end_thread(spp_thread *t) {
    spp_os_lock();
    atomic_store_explicit(&t->state, SPP_THREAD_ENDED, memory_order_seq_cst);
    spp_arm_disarm(t);
    spp_os_unlock();
    while (atomic_load_explicit(&t->tick.busy, memory_order_seq_cst)) spp_os_sleep_until(spp_os_now_ns() + 20000);
    spp_os_lock();
    spp_resolve_flush(t);
    spp_resolve_queue(t);
    spp_arm_settle(t, true);
    spp_roster_leave(t);
    spp_tick_stats_end(t);
    spp_os_unlock();
}

static void see_thread(void *arg, int32_t tid) {
    const bool *first = arg;
    bool may_be_ours = spp_ours_are_born();
    spp_os_lock();
    uint32_t slot = spp_roster_slot(tid);
    spp_os_unlock();
    if (spp_ours_is(tid)) {
        if (slot != SPP_MAP_NONE) end_thread(&spp_threads[slot]); /* one of the program's that runs our code for a while */
        return;
    }
    if (slot != SPP_MAP_NONE) {
        spp_threads[slot].watch.seen = true;
        return;
    }
    if (may_be_ours && !*first) return; /* a later scan finds it, if it is the program's */
    arm_thread(tid, *first);
    step();
    spp_os_lock();
    slot = spp_roster_slot(tid);
    spp_os_unlock();
    if (slot != SPP_MAP_NONE) spp_threads[slot].watch.seen = true;
}

/* Those whose id another thread has, before that is found. */
static void end_replaced(uint32_t used) {
    for (uint32_t i = 0; i < used; i++) {
        if (spp_threads[i].state == SPP_THREAD_ARMED && spp_threads[i].watch.gone) end_thread(&spp_threads[i]);
    }
}

/* A thread's clock shows what it ran before it was found, but its events until then are of no known stack. So where events are
 * counted it waits for the next scan. Bounded: the drain thread may wait for the loader, which may wait for this thread. */
#define BIRTH_MOST_NS 100000000u
static _Atomic uint32_t scans_begun, scans_done;

/* A new thread, not in a handler; without the GIL. */
static void await_scan(void) {
    spp_patience left = BIRTH_MOST_NS;
    uint32_t next = atomic_load(&scans_begun) + 1;
    spp_os_bell_ring(&spp_cap.bell);
    while ((int32_t)(atomic_load(&scans_done) - next) < 0 && atomic_load(&spp_run_state.active) &&
           !atomic_load(&spp_run_state.stopping) && spp_patience_sleep(&left, 50000)) {}
}

void spp_watch_births(bool wanted) {
    spp_os_event_births(wanted && spp_source_others(&spp_run_state.sources) ? await_scan : NULL);
}

static void see_those_named(void) {
    bool first = false;
    for (uint32_t i = 0;; i++) {
        int32_t tid = spp_thread_names_waiting(i);
        if (tid == 0) break;
        see_thread(&first, tid);
    }
}

/* A list alone proves nothing: Linux goes through threads by their number in line, so one whose predecessors die while it
 * lists is passed over (measured: 1275 of 4.9 million living ones, among 256 that lived 10 ms each). And one that is seen may be
 * another one: the system gives ids again as soon as it has come to the last (32,768 by default, on small machines). */
static bool is_gone(spp_thread *t) {
    uint64_t cpu;
    if (t->watch.gone || (t->watch.seen && !t->watch.ends)) return t->watch.gone;
    if (spp_os_thread_cpu_ns(t->tid, &cpu) != 0) return true;
    /* Not what samples stand for: that may be ahead of its clock. */
    if (!t->watch.ends || cpu >= t->watch.ends_cpu) return false;
    spp_os_lock();
    spp_roster_gone(t);
    spp_os_unlock();
    return true;
}

static void end_those_gone(uint32_t used) {
    for (uint32_t i = 0; i < used; i++) {
        if (spp_threads[i].state != SPP_THREAD_ARMED || !is_gone(&spp_threads[i])) continue;
        end_thread(&spp_threads[i]);
        step();
    }
}

void spp_watch_named(void) {
    end_replaced(spp_threads_used);
    see_those_named();
}

void spp_watch_scan(bool first) {
    uint32_t used = spp_threads_used, scan = atomic_fetch_add(&scans_begun, 1) + 1;
    for (uint32_t i = 0; i < used; i++) spp_threads[i].watch.seen = false;
    if (first) {
        spp_roster_free_ended();
        spp_os_lock();
        spp_thread_names_forget();
        spp_roster_clear();
        spp_os_unlock();
    }
    if (!first) end_replaced(used);
    if (spp_os_threads(see_thread, &first) != 0) { /* the system lists none (no /proc): the one that starts, and those named */
        if (first) see_thread(&first, spp_os_tid());
        see_those_named();
    }
    end_those_gone(used);
    spp_thread_names_scanned();
    atomic_store(&scans_done, scan);
}

#define EXEC_WAITS_NS 100000000u

/* Drain lock held. Whether the watch knows the thread. */
static bool disarm_known(int32_t tid) {
    uint32_t slot = spp_roster_slot(tid);
    if (slot == SPP_MAP_NONE) return false;
    if (spp_threads[slot].state == SPP_THREAD_ARMED) {
        spp_threads[slot].watch.exec_disarmed_ns = spp_os_now_ns();
        spp_arm_disarm(&spp_threads[slot]);
    }
    return true;
}

/* Without the lock the thread's event goes with the program. */
void spp_watch_exec(void) {
    int32_t tid = spp_os_tid();
    uint64_t until = spp_os_now_ns() + EXEC_WAITS_NS;
    if (!spp_os_lock_until(until)) return;
    bool known = disarm_known(tid);
    if (!known) {
        execs[execs_n % EXECS].tid = tid;
        execs[execs_n++ % EXECS].since_ns = spp_os_now_ns();
    }
    spp_os_unlock();
    if (known) return;
    while (atomic_load(&arming) == tid && spp_os_now_ns() < until) spp_os_sleep_until(spp_os_now_ns() + 20000);
    if (!spp_os_lock_until(until)) return;
    (void)disarm_known(tid);
    spp_os_unlock();
}

static void check_exec_disarmed(spp_thread *t) {
    uint64_t since = t->watch.exec_disarmed_ns;
    if (since == 0 || spp_os_now_ns() - since < EXEC_TAKES_NS) return;
    spp_os_lock();
    if (t->watch.exec_disarmed_ns == since) {
        t->watch.exec_disarmed_ns = 0; /* its clock went on: the next sample stands for what it ran meanwhile */
        if (spp_arm(t) == 0) spp_arm_watch(t);
    }
    spp_os_unlock();
}

void spp_watch_rearm(void) {
    uint32_t used = spp_threads_used;
    for (uint32_t i = 0; i < used; i++) {
        spp_thread *t = &spp_threads[i];
        if (t->state == SPP_THREAD_ARMED) spp_arm_again(t, t->clock);
    }
}

void spp_watch_care(void) {
    uint32_t used = spp_threads_used;
    spp_roster_free_ended();
    for (uint32_t i = 0; i < used; i++) {
        spp_thread *t = &spp_threads[i];
        if (t->state != SPP_THREAD_ARMED) continue;
        check_exec_disarmed(t);
        spp_thread_names_ask_again(t, false);
        if (spp_silent_check(t)) end_thread(t);
    }
}

void spp_watch_abandon(void) {
    spp_watch_births(false);
    spp_roster_abandon();
    spp_thread_names_abandon();
    execs_n = 0;
    memset(execs, 0, sizeof execs);
    atomic_store(&arming, 0);
}

void spp_watch_disarm_all(void) {
    uint32_t used = spp_threads_used;
    for (uint32_t i = 0; i < used; i++) {
        if (spp_threads[i].state != SPP_THREAD_ARMED) continue;
        if (spp_silent_check(&spp_threads[i])) end_thread(&spp_threads[i]);
        spp_thread_names_ask_again(&spp_threads[i], true);
    }
    for (uint32_t i = 0; i < used; i++) {
        if (spp_threads[i].state != SPP_THREAD_ARMED) continue;
        end_thread(&spp_threads[i]);
        step();
    }
}
