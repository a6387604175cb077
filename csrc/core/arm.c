/* Finding threads and arming them, from outside: no thread registers itself. All by the drain thread. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "core/resolve.h"
#include "core/run.h"

/* Names given before their thread was found. */
#define EARLY_NAMES 256
static struct {
    int32_t tid;
    char name[128];
} early[EARLY_NAMES];
static uint32_t early_n;
static spp_map slot_of_tid; /* under the drain lock */

/* Appends `text` as the inside of a JSON string; bytes that are not ASCII go through as they are. */
static void append_json(spp_bytes *to, const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        char escaped[8];
        int n = c == '"' || c == '\\' ? snprintf(escaped, sizeof escaped, "\\%c", c)
                : c < 0x20            ? snprintf(escaped, sizeof escaped, "\\u%04x", c)
                                      : snprintf(escaped, sizeof escaped, "%c", c);
        spp_bytes_append(to, escaped, (size_t)n);
    }
}

/* Drain lock held. */
static void say_thread(uint32_t id, int32_t tid, const char *name) {
    char head[80];
    spp_bytes *to = &spp_now.thread_text;
    int n = snprintf(head, sizeof head, "%s{\"id\":%u,\"tid\":%d,\"name\":\"", to->n ? "," : "", id, tid);
    spp_bytes_append(to, head, (size_t)n);
    append_json(to, name);
    spp_bytes_append(to, "\"}", 2);
}

void spp_run_name(int32_t tid, const char *name) {
    spp_os_lock();
    uint32_t slot = spp_map_get(&slot_of_tid, (uint64_t)tid, 0);
    if (slot != SPP_MAP_NONE) {
        say_thread(spp_threads[slot].id, tid, name);
    } else if (early_n < EARLY_NAMES) {
        early[early_n].tid = tid;
        snprintf(early[early_n].name, sizeof early[early_n].name, "%s", name);
        early_n++;
    }
    spp_os_unlock();
    spp_os_bell_ring(&spp_cap.bell); /* a thread that was just born is found at once */
}

/* Slots of ended threads serve again once their last samples were stored; called right after that, and
 * before a run's first scan. */
static void free_ended(void) {
    uint32_t used = spp_threads_used;
    for (uint32_t i = 0; i < used; i++) {
        if (spp_threads[i].state == SPP_THREAD_ENDED) atomic_store(&spp_threads[i].state, SPP_THREAD_FREE);
    }
}

static spp_thread *free_slot(void) {
    uint32_t used = spp_threads_used;
    for (uint32_t i = 0; i < used; i++) {
        if (spp_threads[i].state == SPP_THREAD_FREE) return &spp_threads[i];
    }
    if (used == SPP_THREADS_MAX) return NULL;
    atomic_store_explicit(&spp_threads_used, used + 1, memory_order_release);
    return &spp_threads[used];
}

/* Drain lock held. */
static void introduce(spp_thread *t) {
    char name[64] = "";
    spp_map_add(&slot_of_tid, (uint64_t)t->tid, 0, (uint32_t)(t - spp_threads));
    (void)spp_os_thread_name(t->tid, name, sizeof name);
    const char *best = name;
    for (uint32_t i = 0; i < early_n; i++) {
        if (early[i].tid == t->tid) best = early[i].name;
    }
    say_thread(t->id, t->tid, best);
}

int spp_watch_arm(spp_thread *t) {
    spp_os_trigger_disarm(&t->trigger);
    t->stands = false; /* told by the trigger before */
    /* Left to the resuming, and to care_bare if it does not replace the program. */
    if (spp_now.paused || t->bare_ns != 0) return 0;
    int failed = spp_os_trigger_arm(&t->trigger, t->clock, t->tid, t->period_ns, t);
    if (failed && t->clock != spp_os_clock_last) { /* out of descriptors, most likely: a timer needs none */
        t->clock = spp_os_clock_last;
        failed = spp_os_trigger_arm(&t->trigger, t->clock, t->tid, t->period_ns, t);
    }
    if (failed) return -1;
    if (spp_now.wall) spp_os_trigger_watch(&t->trigger);
    t->first_run = t->trigger.runs != NULL ? *t->trigger.runs : 0;
    return 0;
}

static void arm_thread(int32_t tid, bool first) {
    spp_thread *t = free_slot();
    if (t == NULL || spp_capture_prepare(t, tid, spp_now.next_id, spp_now.clock) != 0) return;
    if (!first) {
        /* What it ran before it was found is known exactly: its clock began at 0. It is lost, but in a pause nothing is. */
        if (spp_now.paused)
            spp_now.ended_cpu += t->cpu_start;
        else
            t->losses[SPP_LOSS_before_found] = t->cpu_start / spp_now.interval_ns;
    }
    spp_os_lock();
    atomic_store_explicit(&t->state, SPP_THREAD_ARMED, memory_order_release);
    if (spp_watch_arm(t) == 0) {
        introduce(t);
        spp_now.next_id++;
    } else { /* out of timers too: tried anew by each scan, and said only when there is one */
        atomic_store_explicit(&t->state, SPP_THREAD_FREE, memory_order_release);
    }
    spp_os_unlock();
}

/* The thread is gone, or is to be left alone. Its trigger goes first, then its queue is read to the end. */
static void end_thread(spp_thread *t) {
    spp_os_lock();
    atomic_store_explicit(&t->state, SPP_THREAD_ENDED, memory_order_seq_cst);
    spp_os_trigger_disarm(&t->trigger);
    spp_os_unlock();
    while (atomic_load_explicit(&t->busy, memory_order_seq_cst)) spp_os_sleep_until(spp_os_now_ns() + 20000);
    spp_os_lock();
    spp_resolve_flush(t);
    spp_resolve_queue(t);
    (void)spp_map_remove(&slot_of_tid, (uint64_t)t->tid, 0);
    spp_os_unlock();
    spp_account_end(t);
}

static void see_thread(void *arg, int32_t tid) {
    const bool *first = arg;
    /* Ours: the drain thread is the one that looks (`start` looks before it exists). */
    if ((!*first && tid == spp_os_tid()) || (spp_now.sampler && tid == spp_os_worker_tid(spp_now.sampler))) return;
    spp_os_lock();
    uint32_t slot = spp_map_get(&slot_of_tid, (uint64_t)tid, 0);
    spp_os_unlock();
    if (slot != SPP_MAP_NONE) {
        spp_threads[slot].seen = true;
        return;
    }
    arm_thread(tid, *first);
    spp_os_lock();
    slot = spp_map_get(&slot_of_tid, (uint64_t)tid, 0);
    spp_os_unlock();
    if (slot != SPP_MAP_NONE) spp_threads[slot].seen = true;
}

/* The system lists no threads (no /proc): the one that starts, and those that Python named. */
static void see_those_known(bool first) {
    if (first) see_thread(&first, spp_os_tid());
    for (uint32_t i = 0; i < early_n; i++) see_thread(&first, early[i].tid);
}

/* A list alone does not tell: Linux goes through threads by their number in line, so one whose predecessors die while it
 * lists is passed over (measured: 1275 of 4.9 million living ones, among 256 that lived 10 ms each). */
static bool is_gone(const spp_thread *t) {
    uint64_t cpu;
    return !t->seen && spp_os_thread_cpu_ns(t->tid, &cpu) != 0;
}

void spp_watch_scan(bool first) {
    uint32_t used = spp_threads_used, kept = 0;
    for (uint32_t i = 0; i < used; i++) spp_threads[i].seen = false;
    if (first) {
        free_ended();
        early_n = 0;
        spp_map_free(&slot_of_tid);
    }
    if (spp_os_threads(see_thread, &first) != 0) see_those_known(first);
    for (uint32_t i = 0; i < used; i++) {
        if (spp_threads[i].state == SPP_THREAD_ARMED && is_gone(&spp_threads[i])) end_thread(&spp_threads[i]);
    }
    /* Threads that were found have their names; one that is not gone may still be to come. */
    spp_os_lock();
    for (uint32_t i = 0; i < early_n; i++) {
        uint64_t cpu;
        bool found = spp_map_get(&slot_of_tid, (uint64_t)early[i].tid, 0) != SPP_MAP_NONE;
        if (!found && spp_os_thread_cpu_ns(early[i].tid, &cpu) == 0) early[kept++] = early[i];
    }
    early_n = kept;
    spp_os_unlock();
}

/* Neither its handler nor the sampler may meet a trigger in the making. */
static void rearm(spp_thread *t) {
    spp_os_lock();
    atomic_store_explicit(&t->state, SPP_THREAD_ENDED, memory_order_seq_cst);
    spp_os_trigger_disarm(&t->trigger);
    while (atomic_load_explicit(&t->busy, memory_order_seq_cst)) spp_os_sleep_until(spp_os_now_ns() + 20000);
    (void)spp_watch_arm(t);
    atomic_store_explicit(&t->state, SPP_THREAD_ARMED, memory_order_seq_cst);
    spp_os_unlock();
}

/* All that a thread ran without a tick is lost, and this is why. How many ticks it has now. */
static uint64_t count_blocked(spp_thread *t, uint64_t cpu) {
    uint64_t ticks = t->ticks, due = (cpu - t->cpu_start) / spp_now.interval_ns;
    if (due <= ticks) return ticks;
    atomic_fetch_add(&t->losses[SPP_LOSS_signals_blocked], due - ticks);
    atomic_fetch_add(&t->ticks, due - ticks);
    atomic_store(&t->owed, 0); /* they are among these */
    atomic_store(&t->given_ns, cpu);
    return due;
}

/* Threads that block the signal get no tick, nor do those whose trigger the program closed: told by a clock that moves while
 * no tick comes. */
static void care_silent(spp_thread *t) {
    uint64_t cpu, ticks = t->ticks;
    if (spp_now.paused || spp_os_thread_cpu_ns(t->tid, &cpu) != 0) return;
    if (cpu < t->watched_cpu) { /* another thread got its id: found anew by the next scan */
        end_thread(t);
        return;
    }
    bool silent = ticks == t->watched_ticks && cpu - t->watched_cpu > 20 * spp_now.interval_ns + 50000000;
    /* An event whose page is mapped goes on when the program closes its descriptor. */
    if ((silent || t->trigger.runs != NULL) && !spp_os_trigger_alive(&t->trigger)) {
        rearm(t);
    } else if (silent && spp_os_thread_blocks(t->tid)) {
        ticks = count_blocked(t, cpu);
    }
    if (silent || ticks != t->watched_ticks) {
        t->watched_cpu = cpu;
        t->watched_ticks = ticks;
    }
}

void spp_watch_last(void) {
    uint32_t used = spp_threads_used;
    for (uint32_t i = 0; i < used && !spp_now.paused; i++) {
        spp_thread *t = &spp_threads[i];
        uint64_t cpu;
        if (t->state != SPP_THREAD_ARMED || t->ticks != t->watched_ticks || spp_os_thread_cpu_ns(t->tid, &cpu) != 0) continue;
        /* What it ran since it was looked at last was not enough to tell until now. */
        if (cpu > t->watched_cpu + 2 * spp_now.interval_ns && spp_os_thread_blocks(t->tid)) (void)count_blocked(t, cpu);
    }
}

void spp_run_exec(void) {
    if (!spp_run_active()) return;
    spp_os_lock();
    uint32_t slot = spp_map_get(&slot_of_tid, (uint64_t)spp_os_tid(), 0);
    if (slot != SPP_MAP_NONE && spp_threads[slot].state == SPP_THREAD_ARMED) {
        spp_threads[slot].bare_ns = spp_os_now_ns();
        spp_os_trigger_disarm(&spp_threads[slot].trigger);
    }
    spp_os_unlock();
}

/* A thread that is still there a second after it called exec did not replace the program. */
static void care_bare(spp_thread *t) {
    uint64_t since = t->bare_ns;
    if (since == 0 || spp_os_now_ns() - since < 1000000000u) return;
    spp_os_lock();
    if (t->bare_ns == since) {
        t->bare_ns = 0;
        (void)spp_watch_arm(t);
    }
    spp_os_unlock();
}

void spp_watch_rearm(void) {
    uint32_t used = spp_threads_used;
    for (uint32_t i = 0; i < used; i++) {
        spp_thread *t = &spp_threads[i];
        if (t->state == SPP_THREAD_ARMED) rearm(t);
    }
}

void spp_watch_care(void) {
    enum { BATCH = 64 };
    uintptr_t sps[BATCH], lows[BATCH], ends[BATCH];
    spp_thread *who[BATCH];
    size_t n = 0;
    uint32_t used = spp_threads_used;
    free_ended();
    for (uint32_t i = 0; i < used; i++) {
        spp_thread *t = &spp_threads[i];
        if (t->state != SPP_THREAD_ARMED) continue;
        care_bare(t);
        uintptr_t sp = t->stack_sp;
        if (sp != 0 && t->stack_end == 0 && n < BATCH) {
            sps[n] = sp;
            who[n++] = t;
        }
        care_silent(t);
    }
    if (n > 0 && spp_os_regions(sps, lows, ends, n) == 0) {
        for (size_t i = 0; i < n; i++) {
            atomic_store(&who[i]->stack_low, lows[i]);
            atomic_store(&who[i]->stack_end, ends[i]);
        }
    }
}

void spp_watch_disarm_all(void) {
    uint32_t used = spp_threads_used;
    for (uint32_t i = 0; i < used; i++) {
        if (spp_threads[i].state == SPP_THREAD_ARMED) care_silent(&spp_threads[i]);
    }
    for (uint32_t i = 0; i < used; i++) {
        if (spp_threads[i].state == SPP_THREAD_ARMED) end_thread(&spp_threads[i]);
    }
}
