/* Start, stop, and the drain thread. */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/native.h"
#include "core/resolve.h"
#include "core/run.h"
#include "core/store.h"
#include "core/write.h"

#define LOOK_NS 10000000u  /* the watch looks for new threads this often */
#define WRITE_NS 85000000u /* a block is written this often: kill -9 costs less than 100 ms */
#define ACCOUNT_NS 2000000000u
#define FLUSH_STEP_NS 200000u

spp_run spp_now;
const char *const spp_clock_names[SPP_CLOCK_COUNT] = {"perf", "perf-user", "timer", "suspend", "gil"};

static spp_resolved resolved; /* the drain thread's side of the swap */
static spp_columns columns;
/* Flushes asked for, and those done, of all runs: each asker waits for its own number. The error is that of the latest. */
static _Atomic uint32_t flush_asked, flush_done;
static _Atomic int flush_error;

/* Drain thread: empties the queues under the lock, then stores and writes without it. */
static void drain(void) {
    spp_bytes threads = {0};
    spp_os_lock();
    spp_resolve_sure();
    spp_resolve_swap(&resolved);
    threads = spp_now.thread_text;
    memset(&spp_now.thread_text, 0, sizeof spp_now.thread_text);
    spp_os_unlock();
    if (threads.n > 0) {
        spp_bytes text = {0};
        spp_bytes_append(&text, "[", 1);
        spp_bytes_append(&text, threads.at, threads.n);
        spp_bytes_append(&text, "]", 1);
        spp_write_block('T', text.at, text.n);
        spp_bytes_free(&text);
    }
    spp_bytes_free(&threads);
    spp_bytes objects = spp_native_news();
    if (objects.n > 0) spp_write_block('O', objects.at, objects.n);
    spp_bytes_free(&objects);
    /* Definitions without samples too: were they kept, they would come after what needs them. */
    if (resolved.sample_count + resolved.string_len.n + resolved.code_line.n + resolved.frame_code.n > 0) {
        spp_store_add(&resolved, &columns);
        spp_write_samples(&resolved, &columns);
        spp_columns_clear(&columns);
    }
    if (resolved.collections.n > 0) spp_write_collections(&resolved);
    spp_resolved_clear(&resolved);
}

static void write_account(void) {
    spp_bytes text = {0};
    spp_run_account(&text);
    spp_write_block('A', text.at, text.n);
    spp_bytes_free(&text);
}

/* Disarms everything and finishes the file. By the drain thread, so that nothing else touches the store. */
static void finish(const char *reason) {
    char text[96];
    spp_watch_last();
    atomic_store(&spp_cap.active, 0);
    spp_watch_disarm_all();
    spp_now.stop_ns = spp_os_now_ns();
    spp_account_unseen();
    spp_now.cpu_ns = spp_os_process_cpu_ns() - spp_now.start_process_cpu;
    drain();
    spp_os_lock();
    spp_bytes names = spp_now.names;
    memset(&spp_now.names, 0, sizeof spp_now.names);
    spp_os_unlock();
    if (names.n > 0) spp_write_block('N', names.at, names.n);
    spp_bytes_free(&names);
    write_account();
    int n = snprintf(text, sizeof text, "{\"stop_ns\":%llu,\"reason\":\"%s\"}", (unsigned long long)spp_now.stop_ns, reason);
    spp_write_block('E', text, (size_t)n);
}

/* Drain thread. What standing threads have not written yet: their ticks of less than 80 ms. */
static void flush_standing(void) {
    uint32_t used = spp_threads_used;
    spp_os_lock();
    for (uint32_t i = 0; i < used; i++) {
        if (spp_threads[i].state == SPP_THREAD_ARMED) spp_resolve_flush(&spp_threads[i]);
    }
    spp_os_unlock();
}

static void flushed(uint32_t asked) {
    atomic_store(&flush_error, spp_write_error());
    atomic_store(&flush_done, asked);
}

/* Pausing takes the triggers off, so that a paused program pays nothing; resuming forgets the time between. */
static void turn(bool pause) {
    if (pause) atomic_store(&spp_cap.active, 2);
    spp_now.paused = pause;
    uint32_t used = spp_threads_used;
    for (uint32_t i = 0; i < used; i++) {
        spp_thread *t = &spp_threads[i];
        uint64_t cpu;
        if (t->state != SPP_THREAD_ARMED) continue;
        spp_os_lock();
        if (pause) {
            spp_os_trigger_disarm(&t->trigger);
            spp_resolve_flush(t);
        } else if (spp_os_thread_cpu_ns(t->tid, &cpu) == 0) {
            uint64_t from = cpu - t->ticks * spp_now.interval_ns;
            spp_now.ended_cpu += from - t->cpu_start; /* what it ran in the pause is in nobody's ticks, and not lost */
            t->cpu_start = from;
            t->watched_cpu = cpu;
            t->period_ns = spp_now.interval_ns;
            atomic_fetch_add(&t->losses[SPP_LOSS_overrun], atomic_exchange(&t->owed, 0));
            t->given_ns = t->look_cpu = cpu;
            t->look_ns = t->written_ns = spp_os_now_ns();
            t->off_ns = 0;
            if (t->due_ns > 0) atomic_fetch_add(&t->losses[SPP_LOSS_overrun], (uint64_t)t->due_ns / spp_now.interval_ns);
            t->due_ns = 0;
            (void)spp_watch_arm(t);
        }
        spp_os_unlock();
    }
    if (!pause) {
        uint32_t was = 2;
        if (!spp_now.pause_wanted) atomic_compare_exchange_strong(&spp_cap.active, &was, 1);
        if (spp_now.pause_wanted) atomic_store(&spp_cap.active, 2); /* again, meanwhile */
    }
}

static void pause_or_resume(void) {
    bool refused = atomic_load(&spp_cap.active) == 2; /* before the wish: a pause that comes between is a new one */
    bool pause = spp_now.pause_wanted;
    /* Paused and resumed since the last look: handlers refuse still, as spp_run_pause told them. */
    bool both = refused && !pause && !spp_now.paused;
    if (both) turn(true);
    if (both || pause != spp_now.paused) turn(pause);
}

static void look_for_objects(void) {
    if (spp_cap.native == SPP_NATIVE_OFF) return;
    spp_os_loader_begin();
    spp_native_look();
    spp_os_loader_end();
}

static void drain_body(void *unused) {
    (void)unused;
    uint64_t written = spp_os_now_ns(), accounted = written, count = spp_os_thread_count();
    while (!atomic_load(&spp_now.stopping) && !atomic_load(&spp_now.terminating)) {
        bool rung = spp_os_bell_wait(&spp_cap.bell, spp_os_now_ns() + LOOK_NS);
        uint32_t asked = atomic_load(&flush_asked); /* first: who asks from here on waits for the next turn */
        bool flush = asked != atomic_load(&flush_done);
        look_for_objects();
        spp_os_work_begin();
        uint64_t now = spp_os_now_ns(), threads = spp_os_thread_count();
        pause_or_resume();
        if (spp_os_signal_taken()) spp_watch_rearm();
        bool due = flush || now - written >= WRITE_NS;
        if (due || rung || threads != count || threads == 0) spp_watch_scan(false);
        count = threads;
        if (flush) flush_standing();
        if (due) {
            drain();
            spp_watch_care();
            written = now;
        } else if (rung) { /* a queue is half full, say; small blocks take more room, so none is written yet */
            spp_os_lock();
            spp_resolve_sure();
            spp_os_unlock();
        }
        if (flush || now - accounted >= ACCOUNT_NS) {
            write_account();
            accounted = now;
        }
        if (flush) flushed(asked);
        spp_os_work_end();
    }
    if (spp_now.sampler != NULL) {
        atomic_store(&spp_now.stopping, 1);
        spp_os_worker_join(spp_now.sampler);
        spp_now.sampler = NULL;
    }
    uint32_t asked = atomic_load(&flush_asked);
    look_for_objects();
    spp_os_work_begin();
    finish(atomic_load(&spp_now.terminating) ? "SIGTERM" : "stop");
    flushed(asked);
    spp_os_work_end();
    atomic_store(&spp_now.over, true);
    if (atomic_load(&spp_now.terminating)) spp_os_term_now();
}

/* A forked child has none of the threads: everything is forgotten without being touched. */
static void in_child(void) {
    if (!atomic_exchange(&spp_now.active, false)) return;
    atomic_store(&spp_cap.active, 0);
    uint32_t used = spp_threads_used;
    for (uint32_t i = 0; i < used; i++) {
        if (spp_threads[i].state == SPP_THREAD_ARMED) spp_os_trigger_drop(&spp_threads[i].trigger);
        spp_threads[i].state = SPP_THREAD_FREE;
        spp_threads[i].busy = 0;
    }
    spp_write_abandon();
    spp_store_abandon();
    spp_native_abandon();
    memset(&resolved, 0, sizeof resolved);
    memset(&columns, 0, sizeof columns);
    spp_now.drain = spp_now.sampler = NULL;
    spp_os_term_restore();
}

static int refuse(const char **why, const char *reason) {
    *why = reason;
    return -1;
}

int spp_run_prepare(const char **why) {
    static bool once;
    if (once) return 0;
    if (spp_os_memory_init() != 0) return refuse(why, "no way to probe memory safely works here");
    if (spp_capture_init() != 0 || spp_os_lock_init(in_child) != 0) return refuse(why, "no memory");
    once = true;
    return 0;
}

typedef struct {
    uintptr_t evaluator;
    int failed;
} tables_job;

static void make_tables(void *job) {
    tables_job *j = job;
    j->failed = spp_native_start(j->evaluator);
}

int spp_run_native(uintptr_t evaluator, const char **why) {
    tables_job job = {evaluator, -1};
    if (spp_run_prepare(why) != 0) return -1;
    /* Some 50 ms of reading, which is the profiler's CPU time and not the program's. */
    spp_os_worker *worker = spp_os_worker_start("spprof-tables", false, make_tables, &job);
    if (worker == NULL) return refuse(why, "a thread cannot be started");
    spp_os_worker_join(worker);
    return job.failed == 0 ? 0 : refuse(why, "no memory");
}

static int set_up(const spp_options *o, const spp_thread_states *states, const char **why) {
    if (spp_run_prepare(why) != 0) return -1;
    memset(&spp_now.start_ns, 0, sizeof spp_now - offsetof(spp_run, start_ns));
    spp_now.clock = o->clock;
    spp_now.wall = o->wall;
    spp_now.interval_ns = o->interval_ns;
    spp_now.states = *states;
    uint64_t rate = 1000000000u / o->interval_ns;
    spp_cap.max_depth = o->max_depth;
    spp_cap.native = (spp_native_mode)o->native;
    spp_cap.native_full = o->native_full;
    spp_cap.interval_ns = o->interval_ns;
    /* Changing a period costs two settings of the hardware timer, 15 us on a virtual machine: at 10 kHz one tick in 64. */
    spp_cap.group = rate < 64 ? 1 : rate > 4096 ? 64 : (uint32_t)(rate / 64);
    spp_cap.thread_state = states->own;
    spp_cap.births = states->births;
    spp_cap.births_seen = states->births ? *states->births : 0;
    if (spp_os_signal_install(spp_capture_tick, spp_capture_valid, o->may_trap) != 0) {
        return refuse(why, "the program handles SIGURG, SIGPROF and SIGSTKFLT itself, and spprof needs one of them");
    }
    spp_now.start_ns = spp_os_now_ns();
    spp_now.start_process_cpu = spp_os_process_cpu_ns();
    spp_os_lock(); /* code objects and sets of labels die meanwhile */
    int failed = spp_resolve_start();
    spp_os_unlock();
    if (failed != 0 || spp_store_start(spp_now.start_ns) != 0) return refuse(why, "no memory");
    return 0;
}

int spp_run_start(const spp_options *o, const spp_thread_states *states, const char **why) {
    *why = NULL;
    if (set_up(o, states, why) != 0) {
        spp_native_stop();
        spp_os_signal_remove(); /* if it was taken */
        spp_os_file_close(o->fd);
        return -1;
    }
    /* The caller's header is a JSON object; the instant from which the file counts goes in last, so it wins. */
    spp_bytes header = {0};
    char tail[64];
    int n = snprintf(tail, sizeof tail, ",\"start_ns\":%llu}", (unsigned long long)spp_now.start_ns);
    spp_bytes_append(&header, o->header, o->header_n - 1);
    spp_bytes_append(&header, tail, (size_t)n);
    int failed = spp_write_start(o->fd, header.at, header.n);
    spp_bytes_free(&header);
    if (failed) {
        spp_native_stop();
        spp_write_stop();
        spp_os_signal_remove();
        return refuse(why, "the profile cannot be written");
    }
    if (o->wall) {
        spp_now.sampler = spp_os_worker_start("spprof-sampler", true, spp_wall_body, NULL);
    }
    spp_watch_scan(true); /* before anything of this call costs the program time */
    /* Prompt: a thread that was just born rings, and runs unseen until the drain thread gets a processor (260 us on two that were
     * busy, and less than a tick at 10 kHz so). */
    spp_now.drain = spp_os_worker_start("spprof-drain", true, drain_body, NULL);
    if (spp_now.drain == NULL || (o->wall && spp_now.sampler == NULL)) {
        atomic_store(&spp_now.stopping, 1);
        if (spp_now.sampler) spp_os_worker_join(spp_now.sampler);
        if (spp_now.drain) spp_os_worker_join(spp_now.drain);
        spp_watch_disarm_all();
        spp_native_stop();
        spp_write_stop();
        spp_os_signal_remove();
        return refuse(why, "a thread cannot be started");
    }
    atomic_store(&spp_now.active, true);
    atomic_store(&spp_cap.active, 1);
    spp_os_term_catch(&spp_cap.bell, &spp_now.terminating);
    return 0;
}

void spp_run_stop(void) {
    if (!atomic_load(&spp_now.active)) return;
    spp_os_term_restore();
    atomic_store(&spp_now.stopping, 1);
    spp_os_bell_ring(&spp_cap.bell);
    spp_os_worker_join(spp_now.drain);
    spp_now.drain = NULL;
    spp_os_signal_remove();
    spp_write_stop();
    spp_store_stop();
    spp_os_lock(); /* code objects die meanwhile */
    spp_resolve_stop();
    spp_os_unlock();
    spp_native_stop();
    spp_columns_free(&columns);
    spp_resolved_free(&resolved);
    atomic_store(&spp_now.active, false);
}

void spp_run_pause(bool paused) {
    if (!atomic_load(&spp_now.active)) return;
    atomic_store(&spp_now.pause_wanted, paused);
    if (paused) atomic_store(&spp_cap.active, 2); /* at once; the drain thread takes the triggers off */
    spp_os_bell_ring(&spp_cap.bell);
}

int spp_run_flush(void) {
    if (!atomic_load(&spp_now.active)) return 0;
    uint32_t mine = atomic_fetch_add(&flush_asked, 1) + 1;
    spp_os_bell_ring(&spp_cap.bell);
    /* The drain thread takes some hundred microseconds. The bell is for one who waits, and here several may. */
    while ((int32_t)(atomic_load(&flush_done) - mine) < 0 && atomic_load(&spp_now.active) && !atomic_load(&spp_now.over)) {
        spp_os_sleep_until(spp_os_now_ns() + FLUSH_STEP_NS);
    }
    return atomic_load(&flush_error);
}

void spp_run_collection(uint64_t began_ns, const uint64_t counts[3]) {
    uint64_t took = spp_os_now_ns() - began_ns;
    spp_os_lock();
    if (atomic_load(&spp_cap.active) == 1) spp_resolve_collection(spp_os_tid(), began_ns, took, counts);
    spp_os_unlock();
}

spp_vec64 spp_run_native_functions(void) {
    spp_vec64 found = {0};
    spp_os_lock();
    if (atomic_load(&spp_now.active) && spp_cap.native != SPP_NATIVE_OFF) {
        spp_resolve_sure();
        spp_resolve_native_codes(&found);
    }
    spp_os_unlock();
    return found;
}

void spp_run_native_names(const char *text, size_t n) {
    if (!atomic_load(&spp_now.active)) return;
    spp_os_lock();
    spp_now.names.n = 0;
    (void)spp_bytes_append(&spp_now.names, text, n); /* no memory: the functions keep their own names */
    spp_os_unlock();
}

bool spp_run_active(void) { return atomic_load(&spp_now.active); }
bool spp_run_paused(void) { return atomic_load(&spp_now.active) && atomic_load(&spp_now.pause_wanted); }
