#include "core/run/watch.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "base/json.h"
#include "base/map.h"
#include "base/utf8.h"
#include "core/capture/weigh.h"
#include "core/file/writer.h"
#include "core/resolve/resolve.h"
#include "core/run/events.h"
#include "core/run/state.h"
#include "core/run/tick_stats.h"
#include "os/clock.h"
#include "os/lock.h"
#include "os/threads.h"
#include "os/ticks.h"
#include "os/worker.h"

/* Names given before their thread was found: under the drain lock. */
#define NAME_BYTES 128
typedef struct {
    int32_t tid;
    char name[NAME_BYTES];
} early_name;
static early_name *early;
static uint32_t early_n, early_room;
static spp_map early_of_tid;
static spp_map slot_of_tid; /* under the drain lock */
static uint32_t free_from;  /* no slot below is free */

#define TEXT_MOST ((size_t)8 << 20) /* as much as SPP_THREADS_MAX threads with long names have; it waits for a slow output */

/* Drain lock held. Of threads that are beyond that the file tells no name. */
static void say_thread(uint32_t id, int32_t tid, const char *name) {
    spp_bytes *to = &spp_run_state.thread_text;
    if (to->n > TEXT_MOST) return;
    spp_json_next(to);
    spp_json_raw(to, "{");
    spp_json_key(to, "id");
    spp_json_number(to, id);
    spp_json_key(to, "tid");
    spp_json_number(to, (uint64_t)(uint32_t)tid);
    spp_json_key(to, "name");
    spp_json_string(to, name);
    spp_json_raw(to, "}");
}

uint32_t spp_watch_slot(int32_t tid) { return spp_map_get(&slot_of_tid, (uint64_t)tid, 0); }

/* Drain lock held. The name waits until the thread is found; no memory, or no slot for it: it keeps the system's. */
static void keep_early(int32_t tid, const char *name) {
    uint32_t at = spp_map_get(&early_of_tid, (uint64_t)tid, 0);
    if (at == SPP_MAP_NONE && early_n == early_room) {
        uint32_t room = early_room ? early_room * 2 : 64;
        early_name *more = room <= SPP_THREADS_MAX ? spp_realloc(early, room * sizeof *early) : NULL;
        if (more == NULL) return;
        early = more;
        early_room = room;
    }
    if (at == SPP_MAP_NONE) {
        if (spp_map_add(&early_of_tid, (uint64_t)tid, 0, early_n) != 0) return;
        at = early_n++;
    }
    early[at].tid = tid;
    snprintf(early[at].name, NAME_BYTES, "%s", name);
    spp_utf8_trim(early[at].name);
}

/* Drain lock held. */
static void forget_early(void) {
    early_n = 0;
    spp_map_free(&early_of_tid);
}

/* By one taking of the lock: of thousands each would wait for its turn with who looks at all of them. */
void spp_watch_names(const int32_t *tids, const char *const *names, uint32_t n) {
    bool early_one = false;
    spp_os_lock();
    for (uint32_t i = 0; i < n; i++) {
        uint32_t slot = spp_watch_slot(tids[i]);
        if (slot != SPP_MAP_NONE) {
            say_thread(spp_threads[slot].id, tids[i], names[i]);
            spp_threads[slot].watch.unnamed = false;
        } else {
            keep_early(tids[i], names[i]);
            early_one = true;
        }
    }
    spp_os_unlock();
    if (early_one) spp_os_bell_ring(&spp_cap.bell); /* a thread that was just born is found at once */
}

void spp_watch_ends(int32_t tid) {
    uint64_t cpu;
    if (spp_os_thread_cpu_ns(tid, &cpu) != 0) return;
    spp_os_lock();
    uint32_t slot = spp_watch_slot(tid);
    if (slot != SPP_MAP_NONE) {
        spp_threads[slot].watch.ends = true;
        spp_threads[slot].watch.ends_cpu = cpu;
    }
    spp_os_unlock();
}

/* Drain lock held. From here on who has the thread's id is somebody else. */
static void forget_id(spp_thread *t) {
    t->watch.gone = true;
    if (spp_watch_slot(t->tid) == (uint32_t)(t - spp_threads)) (void)spp_map_remove(&slot_of_tid, (uint64_t)t->tid, 0);
}

/* Not every thread that is known at its birth is another one: it may have been found before Python told of it. */
void spp_watch_born(int32_t tid) {
    spp_os_lock();
    uint32_t slot = spp_watch_slot(tid);
    if (slot != SPP_MAP_NONE && spp_threads[slot].watch.ends) forget_id(&spp_threads[slot]);
    spp_os_unlock();
}

/* Slots of ended threads serve again once their last samples were stored; called right after that, and
 * before a run's first scan. */
static void free_ended(void) {
    uint32_t used = spp_threads_used;
    for (uint32_t i = 0; i < used; i++) {
        if (spp_threads[i].state == SPP_THREAD_ENDED) atomic_store(&spp_threads[i].state, SPP_THREAD_FREE);
    }
    free_from = 0;
}

static spp_thread *free_slot(void) {
    uint32_t used = spp_threads_used;
    for (; free_from < used; free_from++) {
        if (spp_threads[free_from].state == SPP_THREAD_FREE) return &spp_threads[free_from];
    }
    if (used == SPP_THREADS_MAX) return NULL;
    atomic_store_explicit(&spp_threads_used, used + 1, memory_order_release);
    return &spp_threads[used];
}

/* Drain lock held. False: it has no name from Python. */
static bool introduce(spp_thread *t) {
    uint32_t at = spp_map_get(&early_of_tid, (uint64_t)t->tid, 0);
    spp_map_add(&slot_of_tid, (uint64_t)t->tid, 0, (uint32_t)(t - spp_threads));
    t->watch.unnamed = at == SPP_MAP_NONE;
    t->watch.asked = false;
    if (!t->watch.unnamed) say_thread(t->id, t->tid, early[at].name);
    return !t->watch.unnamed;
}

/* A thread inherits the name of who made it, and a library's takes its own after it was born: it is asked again when it has run
 * for a while, and at the end. */
static void ask_again(spp_thread *t, bool last) {
    char name[64];
    if (!t->watch.unnamed || (t->watch.asked && !last) || spp_os_thread_name(t->tid, name, sizeof name) != 0) return;
    spp_os_lock();
    if (t->watch.unnamed) say_thread(t->id, t->tid, name);
    t->watch.asked = true;
    spp_os_unlock();
}

static bool has_time(void) { return spp_run_state.sources.period[SPP_SOURCE_TIME] != 0; }

/* Drain lock held, or nobody knows the thread yet: opening what there are many of may wait for the kernel. */
static int arm_trigger(spp_thread *t) {
    t->wall.stands = false; /* told by the trigger before */
    /* Left to the resuming, and to check_exec_disarmed if it does not replace the program. */
    if (spp_run_state.paused || t->watch.exec_disarmed_ns != 0) return 0;
    int failed = has_time() && spp_os_trigger_arm(&t->trigger, t->clock, t->tid, t->tick.period_ns, t);
    if (failed && t->clock != spp_os_clock_last) { /* out of descriptors, most likely: a timer needs none */
        t->clock = spp_os_clock_last;
        failed = spp_os_trigger_arm(&t->trigger, t->clock, t->tid, t->tick.period_ns, t) != 0;
    }
    if (failed) return -1;
    spp_events_arm(t, &spp_run_state.sources);
    return 0;
}

/* Drain lock held. */
static void watch_runs(spp_thread *t) {
    if (spp_run_state.wall) spp_os_trigger_watch(&t->trigger);
    t->wall.first_run = t->trigger.runs != NULL ? *t->trigger.runs : 0;
}

void spp_watch_disarm(spp_thread *t) {
    spp_os_trigger_disarm(&t->trigger);
    spp_events_stop(t);
}

void spp_watch_settle(spp_thread *t, bool exact) {
    uint64_t cpu = 0;
    while (atomic_load_explicit(&t->tick.busy, memory_order_seq_cst)) spp_os_sleep_until(spp_os_now_ns() + 20000);
    bool known = !t->watch.gone && spp_os_thread_cpu_ns(t->tid, &cpu) == 0;
    if (!known) cpu = t->watch.ends ? t->watch.ends_cpu : UINT64_MAX;
    exact = exact && (known || t->watch.ends) && t->watch.exec_disarmed_ns == 0 && !spp_run_state.paused;
    t->tick.given_ns += (uint64_t)spp_resolve_settle(t, spp_weigh_open(t, cpu, exact));
    spp_events_settle(t);
}

int spp_watch_begin(spp_thread *t) {
    uint64_t cpu, from = t->watch.cpu_start, missed = atomic_load(&t->tick.owed);
    spp_watch_disarm(t);
    if (spp_os_thread_cpu_ns(t->tid, &cpu) != 0) return -1;
    if (t->wall.due_ns > 0) missed += (uint64_t)t->wall.due_ns / spp_run_state.interval_ns;
    atomic_fetch_add(&t->tick.losses[SPP_LOSS_overrun], missed);
    spp_resolve_flush(t);
    spp_threads_begin(t, cpu);
    spp_run_state.ended_cpu += t->watch.cpu_start - from; /* in nobody's ticks, and not lost */
    if (arm_trigger(t) != 0) return -1;
    watch_runs(t);
    return 0;
}

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
    spp_thread *t = free_slot();
    if (t == NULL || spp_threads_prepare(t, tid, spp_run_state.next_id, spp_run_state.clock) != 0) return;
    if (!first && has_time()) {
        /* What it ran before it was found is known exactly: its clock began at 0. It is lost, but in a pause nothing is. */
        if (spp_run_state.paused)
            spp_run_state.ended_cpu += t->watch.cpu_start;
        else if (!spp_threads_from_birth(t))
            t->tick.losses[SPP_LOSS_before_found] = t->watch.cpu_start / spp_run_state.interval_ns;
    }
    if (arm_trigger(t) != 0) return; /* out of timers too: tried anew by each scan, and said only when there is one */
    spp_os_lock();
    atomic_store_explicit(&t->state, SPP_THREAD_ARMED, memory_order_release);
    t->watch.counted = true;
    watch_runs(t);
    bool named = introduce(t);
    spp_run_state.next_id++;
    bool paused = spp_run_state.paused;
    spp_os_unlock();
    if (!first && !paused) spp_events_from_birth(t);
    if (named) return;
    /* Once it is armed: to ask for a name may take milliseconds where no processor is free. */
    char name[64] = "";
    (void)spp_os_thread_name(tid, name, sizeof name);
    spp_os_lock();
    if (t->watch.unnamed) say_thread(t->id, t->tid, name);
    spp_os_unlock();
}

static void arm_thread(int32_t tid, bool first) {
    atomic_store(&arming, tid); /* before the question: who says that it calls exec waits for this to be over */
    spp_os_lock();
    bool leaves = calls_exec(tid);
    spp_os_unlock();
    if (!leaves) arm_new(tid, first);
    atomic_store(&arming, 0);
}

/* Between two threads of many: who forks does not wait for all. */
static void step(void) {
    spp_os_work_end();
    spp_os_work_begin();
}

/* The thread is gone, or is to be left alone. Its trigger goes first, then its queue is read to the end. */
static void end_thread(spp_thread *t) {
    spp_os_lock();
    atomic_store_explicit(&t->state, SPP_THREAD_ENDED, memory_order_seq_cst);
    spp_watch_disarm(t);
    spp_os_unlock();
    while (atomic_load_explicit(&t->tick.busy, memory_order_seq_cst)) spp_os_sleep_until(spp_os_now_ns() + 20000);
    spp_os_lock();
    spp_resolve_flush(t);
    spp_resolve_queue(t);
    spp_watch_settle(t, true);
    if (!t->watch.gone) (void)spp_map_remove(&slot_of_tid, (uint64_t)t->tid, 0);
    spp_tick_stats_end(t);
    spp_os_unlock();
}

static void see_thread(void *arg, int32_t tid) {
    const bool *first = arg;
    if (spp_run_state.drain && tid == spp_os_worker_tid(spp_run_state.drain)) return; /* ours */
    if (spp_writer_is(tid)) return;
    if (spp_run_state.sampler && tid == spp_os_worker_tid(spp_run_state.sampler)) return;
    spp_os_lock();
    uint32_t slot = spp_watch_slot(tid);
    spp_os_unlock();
    if (slot != SPP_MAP_NONE) {
        spp_threads[slot].watch.seen = true;
        return;
    }
    arm_thread(tid, *first);
    step();
    spp_os_lock();
    slot = spp_watch_slot(tid);
    spp_os_unlock();
    if (slot != SPP_MAP_NONE) spp_threads[slot].watch.seen = true;
}

/* Those whose id another thread has, before that is found. */
static void end_replaced(uint32_t used) {
    for (uint32_t i = 0; i < used; i++) {
        if (spp_threads[i].state == SPP_THREAD_ARMED && spp_threads[i].watch.gone) end_thread(&spp_threads[i]);
    }
}

/* What a thread ran before it was found is told by its clock, but what it did otherwise is in no known stack. So where events are
 * counted it waits for the next scan. Bounded: the drain thread may wait for the loader, which may wait for this thread. */
#define BIRTH_MOST_NS 100000000u
static _Atomic uint32_t scans_begun, scans_done;

/* A new thread, not in a handler; without the GIL. */
static void await_scan(void) {
    uint64_t until = spp_os_now_ns() + BIRTH_MOST_NS;
    uint32_t next = atomic_load(&scans_begun) + 1;
    spp_os_bell_ring(&spp_cap.bell);
    while ((int32_t)(atomic_load(&scans_done) - next) < 0 && atomic_load(&spp_run_state.active) &&
           !atomic_load(&spp_run_state.stopping) && spp_os_now_ns() < until)
        spp_os_sleep_until(spp_os_now_ns() + 50000);
}

void spp_watch_births(bool wanted) {
    spp_os_event_births(wanted && spp_source_others(&spp_run_state.sources) ? await_scan : NULL);
}

static void see_those_named(void) {
    bool first = false;
    for (uint32_t i = 0;; i++) {
        spp_os_lock();
        int32_t tid = i < early_n ? early[i].tid : 0;
        spp_os_unlock();
        if (tid == 0) break;
        see_thread(&first, tid);
    }
}

/* A list alone does not tell: Linux goes through threads by their number in line, so one whose predecessors die while it
 * lists is passed over (measured: 1275 of 4.9 million living ones, among 256 that lived 10 ms each). And one that is seen may be
 * another one: the system gives ids again as soon as it has come to the last (32,768 by default, on small machines). */
static bool is_gone(spp_thread *t) {
    uint64_t cpu;
    if (t->watch.gone || (t->watch.seen && !t->watch.ends)) return t->watch.gone;
    if (spp_os_thread_cpu_ns(t->tid, &cpu) != 0) return true;
    /* Not what samples stand for: that may be ahead of its clock. */
    if (!t->watch.ends || cpu >= t->watch.ends_cpu) return false;
    spp_os_lock();
    forget_id(t);
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
    uint32_t used = spp_threads_used, kept = 0, scan = atomic_fetch_add(&scans_begun, 1) + 1;
    for (uint32_t i = 0; i < used; i++) spp_threads[i].watch.seen = false;
    if (first) {
        free_ended();
        spp_os_lock();
        forget_early();
        spp_map_free(&slot_of_tid);
        spp_os_unlock();
    }
    if (!first) end_replaced(used);
    if (spp_os_threads(see_thread, &first) != 0) { /* the system lists none (no /proc): the one that starts, and those named */
        if (first) see_thread(&first, spp_os_tid());
        see_those_named();
    }
    end_those_gone(used);
    /* Threads that were found have their names; one that is not gone may still be to come. */
    spp_os_lock();
    uint32_t named = early_n;
    if (named > 0) forget_early();
    for (uint32_t i = 0; i < named; i++) {
        uint64_t cpu;
        bool found = spp_watch_slot(early[i].tid) != SPP_MAP_NONE;
        if (found || spp_os_thread_cpu_ns(early[i].tid, &cpu) != 0) continue;
        early[kept] = early[i];
        if (spp_map_add(&early_of_tid, (uint64_t)early[kept].tid, 0, kept) == 0) kept++;
    }
    early_n = kept;
    spp_os_unlock();
    atomic_store(&scans_done, scan);
}

/* Neither its handler nor the sampler may meet a trigger in the making. */
static void rearm(spp_thread *t, const spp_clock *clock) {
    spp_os_lock();
    atomic_store_explicit(&t->state, SPP_THREAD_ENDED, memory_order_seq_cst);
    spp_watch_disarm(t);
    spp_watch_settle(t, false);
    t->clock = clock;
    (void)spp_watch_begin(t);
    atomic_store_explicit(&t->state, SPP_THREAD_ARMED, memory_order_seq_cst);
    spp_os_unlock();
}

/* All that a thread ran without a tick is lost, for that reason. How many ticks it has now. */
static uint64_t count_lost(spp_thread *t, uint64_t cpu, enum spp_loss reason) {
    uint64_t ticks = t->tick.ticks, due = (cpu - t->watch.cpu_start) / spp_run_state.interval_ns;
    if (due <= ticks) return ticks;
    atomic_fetch_add(&t->tick.losses[reason], due - ticks);
    atomic_fetch_add(&t->tick.ticks, due - ticks);
    atomic_store(&t->tick.owed, 0); /* they are among these */
    atomic_store(&t->tick.given_ns, cpu);
    atomic_store(&t->tick.spread_cpu, cpu);
    return due;
}

#define UNBLOCKED_NS 1000000000u /* whether a thread still blocks its ticks is asked this often: it opens a file */

/* The last clock's ticks may come by a signal that the thread does not block, if coarser than the run's. */
static void check_blocked(spp_thread *t) {
    uint64_t now = spp_os_now_ns();
    if (t->watch.blocked_ns == 0) {
        if (t->clock == spp_os_clock_last || spp_os_thread_blocks(t->tid, spp_os_clock_last)) return;
        t->watch.blocked_ns = now;
        rearm(t, spp_os_clock_last);
    } else if (now - t->watch.blocked_ns > UNBLOCKED_NS) {
        bool blocks = spp_os_thread_blocks(t->tid, spp_run_state.clock);
        t->watch.blocked_ns = blocks ? now : 0;
        if (!blocks) rearm(t, spp_run_state.clock);
    }
}

/* Threads that block the signal get no tick, nor do those whose trigger the program closed: told by a clock that moves while
 * no tick comes. */
static void check_silent(spp_thread *t) {
    uint64_t cpu, ticks = t->tick.ticks;
    if (spp_run_state.paused || t->watch.exec_disarmed_ns != 0 || spp_os_thread_cpu_ns(t->tid, &cpu) != 0) return;
    if (cpu < t->watch.last_cpu) { /* another thread got its id: found anew by the next scan */
        spp_os_lock();
        forget_id(t);
        spp_os_unlock();
        end_thread(t);
        return;
    }
    spp_events_care(t, &spp_run_state.sources);
    if (!has_time()) {
        t->watch.last_cpu = cpu;
        return;
    }
    bool silent = ticks == t->watch.last_ticks && cpu - t->watch.last_cpu > 20 * spp_run_state.interval_ns + 50000000;
    if (silent && spp_os_trigger_orphan(&t->trigger)) {
        spp_os_lock();
        forget_id(t);
        spp_os_unlock();
        end_thread(t);
        return;
    }
    /* An event whose page is mapped goes on when the program closes its descriptor. */
    if ((silent || t->trigger.runs != NULL) && !spp_os_trigger_alive(&t->trigger)) {
        if (silent) ticks = count_lost(t, cpu, SPP_LOSS_no_trigger);
        rearm(t, t->clock);
    } else if (spp_os_trigger_gave_up(&t->trigger)) {
        rearm(t, spp_os_clock_last);
    } else if (silent && spp_os_thread_blocks(t->tid, t->clock)) {
        ticks = count_lost(t, cpu, SPP_LOSS_signals_blocked);
        check_blocked(t);
    } else if (t->watch.blocked_ns != 0 && ticks != t->watch.last_ticks) {
        check_blocked(t);
    }
    if (silent || ticks != t->watch.last_ticks) {
        t->watch.last_cpu = cpu;
        t->watch.last_ticks = ticks;
    }
}

void spp_watch_last(void) {
    uint32_t used = spp_threads_used;
    for (uint32_t i = 0; i < used && !spp_run_state.paused && has_time(); i++) {
        spp_thread *t = &spp_threads[i];
        uint64_t cpu;
        if (t->state != SPP_THREAD_ARMED || t->watch.exec_disarmed_ns != 0 || spp_os_thread_cpu_ns(t->tid, &cpu) != 0) continue;
        if (!spp_os_trigger_alive(&t->trigger)) (void)count_lost(t, cpu, SPP_LOSS_no_trigger);
        /* What it ran since it was looked at last was not enough to tell until now. */
        if (t->tick.ticks == t->watch.last_ticks && cpu > t->watch.last_cpu + 2 * spp_run_state.interval_ns &&
            spp_os_thread_blocks(t->tid, t->clock)) {
            (void)count_lost(t, cpu, SPP_LOSS_signals_blocked);
        }
    }
}

#define EXEC_WAITS_NS 100000000u

/* Drain lock held. Whether the watch knows the thread. */
static bool disarm_known(int32_t tid) {
    uint32_t slot = spp_watch_slot(tid);
    if (slot == SPP_MAP_NONE) return false;
    if (spp_threads[slot].state == SPP_THREAD_ARMED) {
        spp_threads[slot].watch.exec_disarmed_ns = spp_os_now_ns();
        spp_watch_disarm(&spp_threads[slot]);
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
        if (arm_trigger(t) == 0) watch_runs(t);
    }
    spp_os_unlock();
}

void spp_watch_rearm(void) {
    uint32_t used = spp_threads_used;
    for (uint32_t i = 0; i < used; i++) {
        spp_thread *t = &spp_threads[i];
        if (t->state == SPP_THREAD_ARMED) rearm(t, t->clock);
    }
}

void spp_watch_care(void) {
    uint32_t used = spp_threads_used;
    free_ended();
    for (uint32_t i = 0; i < used; i++) {
        spp_thread *t = &spp_threads[i];
        if (t->state != SPP_THREAD_ARMED) continue;
        check_exec_disarmed(t);
        ask_again(t, false);
        check_silent(t);
    }
}

void spp_watch_abandon(void) {
    spp_watch_births(false);
    early = NULL;
    early_n = early_room = free_from = execs_n = 0;
    memset(&early_of_tid, 0, sizeof early_of_tid);
    memset(&slot_of_tid, 0, sizeof slot_of_tid);
    memset(execs, 0, sizeof execs);
    atomic_store(&arming, 0);
}

void spp_watch_disarm_all(void) {
    uint32_t used = spp_threads_used;
    for (uint32_t i = 0; i < used; i++) {
        if (spp_threads[i].state != SPP_THREAD_ARMED) continue;
        check_silent(&spp_threads[i]);
        ask_again(&spp_threads[i], true);
    }
    for (uint32_t i = 0; i < used; i++) {
        if (spp_threads[i].state != SPP_THREAD_ARMED) continue;
        end_thread(&spp_threads[i]);
        step();
    }
}
