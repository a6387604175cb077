#include "core/run/run.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "core/file/write.h"
#include "core/file/writer.h"
#include "core/native/native.h"
#include "core/resolve/resolve.h"
#include "core/resolve/store.h"
#include "core/run/state.h"
#include "core/run/tick_stats.h"
#include "core/run/wall.h"
#include "core/run/watch.h"
#include "os/clock.h"
#include "os/lock.h"
#include "os/memory.h"
#include "os/process.h"
#include "os/signals.h"
#include "os/threads.h"
#include "os/worker.h"

#define LOOK_NS 10000000u  /* the watch looks for new threads this often */
#define WRITE_NS 85000000u /* a block is written this often: kill -9 costs less than 100 ms */
#define TICK_STATS_NS 2000000000u
#define FLUSH_STEP_NS 200000u
#define LEAVE_MOST_NS 1000000000u /* a thread that ends the process may hold what the drain thread needs */
#define DRAIN_NAME "spprof-drain"
#define SAMPLER_NAME "spprof-sampler"
/* For a thread of ours to come to where it may be left: before a fork, of which Python would only warn; before a call that fails
 * if it does not. */
#define REST_MOST_NS 50000000u
#define ALONE_MOST_NS 1000000000u
#define REST_STEP_NS 20000u
#define PREPARE_STEP_NS 20000u

static spp_resolved resolved; /* the drain thread's side of the swap */
static spp_columns columns;
/* Flushes asked for, and those done, of all runs: each asker waits for its own number. The error is that of the latest. */
static _Atomic uint32_t flush_asked, flush_done;
static _Atomic int flush_error;

/* Drain thread: empties the queues under the lock, then stores and writes without it. What threads are called waits too while the
 * output takes nothing, but the `last` time. */
static void drain(bool last) {
    spp_bytes threads = {0};
    bool behind = spp_writer_behind();
    spp_os_lock();
    if (!behind) spp_resolve_hold(false);
    spp_resolve_sure();
    spp_resolve_hold(behind);
    spp_resolve_swap(&resolved);
    if (!behind || last) {
        threads = spp_run_state.thread_text;
        memset(&spp_run_state.thread_text, 0, sizeof spp_run_state.thread_text);
    }
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
    const spp_vec64 *defined = resolved.columns.of;
    if (resolved.sample_count + defined[SPP_COL_STRING_LEN].n + defined[SPP_COL_CODE_LINE].n + defined[SPP_COL_FRAME_CODE].n >
        0) {
        spp_store_add(&resolved, &columns);
        spp_write_samples(&resolved, &columns);
        spp_write_values(&columns);
        spp_columns_clear(&columns);
    }
    if (resolved.collections.n > 0) spp_write_collections(&resolved);
    spp_resolved_clear(&resolved);
}

static void write_tick_stats(bool last) {
    spp_bytes text = {0};
    spp_tick_stats_text(&text);
    if (last)
        spp_write_last('A', text.at, text.n);
    else
        spp_write_block('A', text.at, text.n);
    spp_bytes_free(&text);
}

/* Drain thread. A program that is killed later has said in its file why that ends here. */
static void look_at_error(void) {
    int error = spp_write_error();
    if (error == 0 || error == spp_run_state.told_error) return;
    spp_run_state.told_error = error;
    write_tick_stats(true);
}

/* Whether and why the file has not all of the run is known when what was given to the writer is written. (An output that may
 * block is not cut, and not waited for.) */
static int settle(void) {
    if (spp_writer_cuts()) (void)spp_writer_wait();
    return spp_write_error();
}

/* Drain thread. Blocks A and E; once more, if it was they that did not fit: then there is room for them. */
static void write_end(const char *reason) {
    char text[192], why[64];
    int error = settle(), before;
    do {
        before = error;
        write_tick_stats(true);
        why[0] = 0;
        if (error != 0) {
            snprintf(why, sizeof why, ",\"write_error\":%d,\"unwritten\":%llu", error, (unsigned long long)spp_writer_lost());
        }
        int n = snprintf(text, sizeof text, "{\"stop_ns\":%llu,\"reason\":\"%.64s\"%s}",
                         (unsigned long long)spp_run_state.stop_ns, reason, why);
        spp_write_last('E', text, (size_t)n);
        error = settle();
    } while (error != before);
}

static void tell_cpu(void) {
    atomic_store(&spp_run_state.drain_cpu, spp_run_state.drain_before + spp_os_own_cpu_ns() + spp_writer_cpu_ns());
}

/* Disarms everything and finishes the file. By the drain thread, so that nothing else touches the store. */
static void finish(const char *reason) {
    spp_watch_last();
    atomic_store(&spp_cap.active, 0);
    spp_watch_disarm_all();
    tell_cpu();
    spp_run_state.cpu_ns = spp_tick_stats_cpu();
    spp_run_state.stop_ns = spp_os_now_ns();
    spp_tick_stats_unseen();
    drain(true);
    spp_os_lock();
    spp_bytes names = spp_run_state.names;
    memset(&spp_run_state.names, 0, sizeof spp_run_state.names);
    spp_os_unlock();
    if (names.n > 0) spp_write_block('N', names.at, names.n);
    spp_bytes_free(&names);
    write_end(reason);
}

/* Drain thread. What off-CPU threads have not written yet: their ticks of less than 80 ms. */
static void flush_off_cpu(void) {
    uint32_t used = spp_threads_used;
    for (uint32_t i = 0; i < used; i++) {
        if (spp_threads[i].state != SPP_THREAD_ARMED) continue;
        spp_os_lock();
        spp_resolve_flush(&spp_threads[i]);
        spp_os_unlock();
    }
}

static void flushed(uint32_t asked, int error) {
    atomic_store(&flush_error, error != 0 ? error : spp_write_error());
    atomic_store(&flush_done, asked);
}

/* Drain thread. A flush whose samples are with the writer: it is done when those are written, or when they are for too long. */
static struct {
    bool waits;
    uint32_t asked;
    uint64_t moved, until_ns;
} flushing;

static void look_at_flush(void) {
    if (!flushing.waits) return;
    uint64_t now = spp_os_now_ns(), moved = spp_writer_moved();
    if (moved != flushing.moved) flushing.until_ns = now + SPP_WRITER_STUCK_NS;
    flushing.moved = moved;
    bool late = now > flushing.until_ns;
    if (!spp_writer_idle(true) && !late) return;
    flushing.waits = false;
    flushed(flushing.asked, late ? ETIMEDOUT : 0);
}

/* Pausing takes the triggers off, so that a paused program pays nothing; resuming forgets the time between. */
static void turn(bool pause) {
    if (pause) atomic_store(&spp_cap.active, 2);
    spp_run_state.paused = pause;
    uint32_t used = spp_threads_used;
    for (uint32_t i = 0; i < used; i++) {
        spp_thread *t = &spp_threads[i];
        if (t->state != SPP_THREAD_ARMED) continue;
        spp_os_lock();
        if (pause) {
            spp_watch_disarm(t);
            spp_resolve_flush(t);
            spp_watch_settle(t, false);
        } else {
            (void)spp_watch_begin(t);
        }
        spp_os_unlock();
    }
    if (!pause) {
        uint32_t was = 2;
        if (!spp_run_state.pause_wanted) atomic_compare_exchange_strong(&spp_cap.active, &was, 1);
        if (spp_run_state.pause_wanted) atomic_store(&spp_cap.active, 2); /* again, meanwhile */
    }
}

static void pause_or_resume(void) {
    bool refused = atomic_load(&spp_cap.active) == 2; /* before the wish: a pause that comes between is a new one */
    bool pause = spp_run_state.pause_wanted;
    /* Paused and resumed since the last look: handlers refuse still, as spp_run_pause told them. */
    bool both = refused && !pause && !spp_run_state.paused;
    if (both) turn(true);
    if (both || pause != spp_run_state.paused) turn(pause);
}

static void look_for_objects(void) {
    spp_os_loader_begin();
    spp_os_signal_look();
    if (spp_cap.native != SPP_NATIVE_OFF) spp_native_look();
    spp_os_loader_end();
}

/* Drain thread. What was to happen at an instant. False: the run is over. */
static bool look_at_clock(uint64_t now) {
    if (spp_run_state.resume_at_ns != 0 && now >= spp_run_state.resume_at_ns) {
        spp_run_state.resume_at_ns = 0;
        spp_run_pause(false);
    }
    return spp_run_state.end_at_ns == 0 || now < spp_run_state.end_at_ns;
}

/* Why the drain thread stopped turning. */
typedef enum { TURNS_REST, TURNS_STOP, TURNS_DURATION } turns_end;

static turns_end drain_turns(void) {
    bool in_time = true;
    while (in_time && !atomic_load(&spp_run_state.stopping) && !atomic_load(&spp_run_state.terminating) &&
           !atomic_load(&spp_run_state.confined)) {
        bool rung = spp_os_bell_wait(&spp_cap.bell, spp_os_now_ns() + LOOK_NS);
        if (spp_rest_begins(&spp_run_state.drain_rest)) return TURNS_REST;
        if (rung) {
            spp_os_work_begin();
            spp_watch_named();
            spp_os_work_end();
        }
        look_at_flush();
        uint32_t asked = atomic_load(&flush_asked); /* first: who asks from here on waits for the next turn */
        bool flush = asked != atomic_load(&flush_done) && !flushing.waits;
        look_for_objects();
        spp_os_work_begin();
        uint64_t now = spp_os_now_ns(), threads = spp_os_thread_count();
        in_time = look_at_clock(now);
        pause_or_resume();
        if (spp_os_signal_taken()) spp_watch_rearm();
        spp_os_signals_care();
        bool due = flush || now - spp_run_state.written_ns >= WRITE_NS;
        if (due || rung || threads != spp_run_state.count || threads == 0) spp_watch_scan(false);
        spp_run_state.count = threads;
        if (flush) flush_off_cpu();
        if (due) {
            drain(false);
            spp_watch_care();
            spp_run_state.written_ns = now;
        } else if (rung) { /* a queue is half full, say; small blocks take more room, so none is written yet */
            spp_os_lock();
            spp_resolve_sure();
            spp_os_unlock();
        }
        tell_cpu();
        look_at_error();
        if (flush || (now - spp_run_state.stats_ns >= TICK_STATS_NS && !spp_writer_behind())) {
            write_tick_stats(false);
            spp_run_state.stats_ns = now;
        }
        if (flush) {
            flushing.waits = true;
            flushing.asked = asked;
            flushing.until_ns = spp_os_now_ns() + SPP_WRITER_STUCK_NS;
        }
        spp_os_work_end();
        if (flush) look_at_flush();
    }
    return in_time && !atomic_load(&spp_run_state.confined) ? TURNS_STOP : TURNS_DURATION;
}

/* The file is told how it ended: by whom the process was ended, too. */
static const char *why_over(bool in_time) {
    if (atomic_load(&spp_run_state.leaving)) return "_exit";
    if (atomic_load(&spp_run_state.terminating)) return "SIGTERM";
    const char *reason = atomic_load(&spp_run_state.reason);
    if (reason != NULL) return reason;
    return in_time ? "stop" : "duration";
}

static void end_run(bool in_time) {
    if (spp_run_state.sampler != NULL) {
        atomic_store(&spp_run_state.stopping, 1);
        spp_os_bell_ring(&spp_run_state.sampler_bell);
        spp_os_worker_join(spp_run_state.sampler);
        spp_run_state.sampler = NULL;
    }
    uint32_t asked = atomic_load(&flush_asked);
    look_for_objects();
    spp_os_work_begin();
    if (spp_os_thread_count() != spp_run_state.count)
        spp_watch_scan(false); /* they began since: what they ran is counted, and they have names */
    finish(why_over(in_time));
    spp_os_work_end();
    flushed(asked, spp_writer_wait()); /* a fork need not wait for this */
    atomic_store(&spp_run_state.over, true);
    if (!in_time) { /* whoever waits for the file need not wait for the main thread, which may be in a long call of C */
        spp_write_stop();
        if (spp_run_state.ended != NULL && !atomic_load(&spp_run_state.confined)) spp_run_state.ended();
    }
    if (atomic_load(&spp_run_state.terminating)) spp_os_term_now();
}

/* Threads rest, or are about to. From when the drain thread rests to when that has begun all others anew. */
static _Atomic bool resting;

/* The drain thread, before it looks for threads: it must know which are ours. The program's thread does not wait for this: so
 * soon after a fork each page that is written is copied first. Those that cannot be started are tried again after the next rest.
 */
static void wake_others(void) {
    spp_os_signal_wake();
    (void)spp_writer_wake();
    if (spp_rest_is(&spp_run_state.sampler_rest) && !atomic_load(&spp_run_state.stopping)) {
        spp_run_state.sampler = spp_os_worker_start(SAMPLER_NAME, true, spp_wall_body, NULL);
        if (spp_run_state.sampler != NULL) spp_rest_over(&spp_run_state.sampler_rest);
    }
    atomic_store(&resting, false);
}

/* The drain thread; begun anew after a rest. Or who stops a run whose drain thread could not be. */
static void drain_body(void *unused) {
    (void)unused;
    while (!atomic_load(&spp_run_state.begun)) { /* the start may fail yet: nothing is written before */
        if (atomic_load(&spp_run_state.stopping) && !atomic_load(&spp_run_state.begun))
            return; /* not a stop at once after the start */
        spp_os_bell_wait(&spp_cap.bell, spp_os_now_ns() + LOOK_NS);
    }
    if (spp_run_state.written_ns == 0) {
        flushing.waits = false;
        spp_run_state.written_ns = spp_run_state.stats_ns = spp_os_now_ns();
        spp_run_state.count = spp_os_thread_count();
    }
    if (atomic_load(&resting)) wake_others();
    turns_end end = drain_turns();
    if (end == TURNS_REST)
        spp_run_state.drain_before += spp_os_own_cpu_ns();
    else
        end_run(end == TURNS_STOP);
}

static uint64_t ours(void) { return 2u + (spp_run_state.sampler != NULL) + spp_os_signal_threads(); }

static void rest_until(uint64_t until) {
    bool mine;
    if (!spp_os_may_rest || spp_run_phase_now(&mine) != SPP_RUN_ACTIVE || !spp_run_active() || spp_run_state.drain == NULL)
        return;
    if (atomic_load(&spp_run_state.stopping) || atomic_load(&spp_run_state.terminating)) return;
    while (atomic_load(&resting)) { /* the fork before this one was a moment ago */
        if (spp_os_now_ns() >= until) return;
        spp_os_sleep_until(spp_os_now_ns() + REST_STEP_NS);
    }
    if (!spp_os_threads_at_most(ours() + 1) || !spp_os_may_start()) return;
    spp_rest_ask(&spp_run_state.drain_rest, &spp_cap.bell);
    if (!spp_rest_await(&spp_run_state.drain_rest, &spp_run_state.drain, until)) return;
    atomic_store(&resting, true);
    bool samples = spp_run_state.sampler != NULL;
    if (samples) spp_rest_ask(&spp_run_state.sampler_rest, &spp_run_state.sampler_bell);
    bool all = !samples || spp_rest_await(&spp_run_state.sampler_rest, &spp_run_state.sampler, until);
    if (!spp_writer_rest(until) || !all) return;
    spp_os_signal_rest();
    /* A thread lets go of its stack, for which the C library waits, a little before it leaves its process. */
    while (!spp_os_threads_at_most(1) && spp_os_now_ns() < until) spp_os_sleep_until(spp_os_now_ns() + REST_STEP_NS);
}

void spp_run_rest(void) { rest_until(spp_os_now_ns() + REST_MOST_NS); }
static void rest_alone(void) { rest_until(spp_os_now_ns() + ALONE_MOST_NS); }

void spp_run_wake(void) {
    if (!spp_run_active() || !spp_rest_is(&spp_run_state.drain_rest)) return; /* or a child, which forgets */
    spp_run_state.drain = spp_os_worker_start(DRAIN_NAME, true, drain_body, NULL);
    if (spp_run_state.drain != NULL) spp_rest_over(&spp_run_state.drain_rest);
}

/* A forked child has none of the threads. Nothing of the parent's may be left in anything that a run of its own reads, and all of
 * it is forgotten here. What another thread may have been changing at a fork that was not announced is not touched. */
static void in_child(void) {
    spp_heap_child();
    spp_os_signal_child();
    if (atomic_exchange(&spp_run_state.phase, SPP_RUN_NONE) == SPP_RUN_NONE) return; /* or another thread starts or stops */
    atomic_store(&spp_run_state.active, false);
    spp_capture_child();
    atomic_store(&resting, false);
    spp_watch_abandon();
    spp_resolve_abandon();
    spp_write_abandon();
    spp_store_abandon();
    spp_native_abandon();
    memset(&resolved, 0, sizeof resolved);
    memset(&columns, 0, sizeof columns);
    memset(&spp_run_state.start_ns, 0, sizeof spp_run_state - offsetof(spp_run, start_ns));
    atomic_store(&flush_done, atomic_load(&flush_asked));
    spp_os_term_restore();
}

void spp_run_look_forked(void) {
    if (spp_os_forked_unseen()) spp_os_fork_seen();
}

#define BARRED "a filter of the program's (seccomp) does not allow the system calls of spprof's threads"

static int refuse(const char **why, const char *reason) {
    *why = reason;
    return -1;
}

static int prepare(const char **why) {
    if (spp_os_memory_init() != 0) return refuse(why, "no way to probe memory safely works here");
    if (spp_capture_init() != 0 || spp_os_lock_init(in_child) != 0) return refuse(why, "no memory");
    return 0;
}

/* By one thread: a fork that hears of itself twice waits for the locks that it has. (Without a GIL two threads may be here.) */
int spp_run_prepare(const char **why) {
    enum { OPEN, TAKEN, DONE };
    static _Atomic uint32_t state;
    for (uint32_t was = OPEN; !atomic_compare_exchange_strong(&state, &was, TAKEN); was = OPEN) {
        if (was == DONE) return 0;
        spp_os_sleep_until(spp_os_now_ns() + PREPARE_STEP_NS);
    }
    int failed = prepare(why);
    atomic_store(&state, failed ? OPEN : DONE);
    return failed;
}

typedef struct {
    uintptr_t evaluator;
    int failed;
} tables_job;

static void make_tables(void *job) {
    static const spp_native_users users = {spp_resolve_queues, spp_resolve_forget_native, spp_capture_wait};
    tables_job *j = job;
    spp_os_loader_begin(); /* a child forked meanwhile would have the loader's own lock, for ever */
    j->failed = spp_native_start(j->evaluator, &users);
    spp_os_loader_end();
}

int spp_run_native(uintptr_t evaluator, const char **why) {
    tables_job job = {evaluator, -1};
    if (spp_os_barred()) return refuse(why, BARRED);
    if (spp_run_prepare(why) != 0) return -1;
    /* Some 50 ms of reading, which is the profiler's CPU time and not the program's. */
    spp_os_worker *worker = spp_os_worker_start("spprof-tables", false, make_tables, &job);
    if (worker == NULL) return refuse(why, "a thread cannot be started");
    spp_os_worker_join(worker);
    return job.failed == 0 ? 0 : refuse(why, "no memory");
}

/* What came before the start takes no part of the window. */
static void move_window(spp_options *o) {
    uint64_t late = o->counted_ns != 0 ? spp_run_state.start_ns - o->counted_ns : 0;
    if (o->resume_at_ns != 0) spp_run_state.resume_at_ns = o->resume_at_ns += late;
    if (o->end_at_ns != 0) spp_run_state.end_at_ns = o->end_at_ns += late;
}

static int set_up(spp_options *o, const spp_thread_states *states, const char **why) {
    if (spp_os_barred()) return refuse(why, BARRED);
    if (spp_run_prepare(why) != 0) return -1;
    memset(&spp_run_state.start_ns, 0, sizeof spp_run_state - offsetof(spp_run, start_ns));
    spp_run_state.clock = o->clock;
    spp_run_state.wall = o->wall;
    spp_run_state.interval_ns = o->interval_ns;
    spp_run_state.sources = o->sources;
    spp_run_state.states = *states;
    spp_run_state.resume_at_ns = o->resume_at_ns;
    spp_run_state.end_at_ns = o->end_at_ns;
    spp_run_state.ended = o->ended;
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
    if (spp_os_signal_install(spp_capture_tick, spp_capture_valid, o->clock, o->may_trap) != 0) {
        return refuse(why, "the program handles SIGURG and SIGWINCH itself, and spprof needs one of them");
    }
    spp_run_state.start_ns = spp_os_now_ns();
    move_window(o);
    spp_os_lock(); /* code objects and sets of labels die meanwhile */
    int failed = spp_resolve_start();
    spp_os_unlock();
    if (failed != 0 || spp_store_start(spp_run_state.start_ns) != 0) return refuse(why, "no memory");
    return 0;
}

static void undo_start(void) {
    atomic_store(&spp_run_state.stopping, 1);
    spp_os_bell_ring(&spp_run_state.sampler_bell);
    if (spp_run_state.sampler != NULL) spp_os_worker_join(spp_run_state.sampler);
    if (spp_run_state.drain != NULL) spp_os_worker_join(spp_run_state.drain);
    spp_run_state.sampler = spp_run_state.drain = NULL;
    spp_os_signal_remove();
    spp_store_stop();
    spp_os_lock(); /* code objects die meanwhile */
    spp_resolve_stop();
    spp_os_unlock();
    spp_native_stop();
}

/* The caller's header is a JSON object; the instant from which the file counts goes in last, so it wins. */
static int write_header(spp_options *o) {
    spp_bytes header = {0};
    char tail[64];
    int n = snprintf(tail, sizeof tail, ",\"start_ns\":%llu}", (unsigned long long)spp_run_state.start_ns);
    spp_bytes_append(&header, o->header, o->header_n - 1);
    spp_bytes_append(&header, tail, (size_t)n);
    int failed = spp_write_start(&o->file, header.at, header.n);
    spp_bytes_free(&header);
    return failed;
}

static spp_start_result start(spp_options *o, const spp_thread_states *states, const char **why) {
    *why = NULL;
    if (set_up(o, states, why) != 0) {
        spp_native_stop();
        spp_os_signal_remove(); /* if it was taken */
        spp_os_file_close(&o->file);
        return SPP_START_REFUSED;
    }
    /* The threads first: what was in the file is gone before the first write, and nothing may fail then but the write itself. */
    if (o->wall) spp_run_state.sampler = spp_os_worker_start(SAMPLER_NAME, true, spp_wall_body, NULL);
    /* Prompt: a thread that was just born rings, and runs unseen until the drain thread gets a processor (260 us on two that were
     * busy, and less than a tick at 10 kHz so). */
    spp_run_state.drain = spp_os_worker_start(DRAIN_NAME, true, drain_body, NULL);
    if (spp_run_state.drain == NULL || (o->wall && spp_run_state.sampler == NULL)) {
        undo_start();
        spp_os_file_close(&o->file);
        (void)refuse(why, "a thread cannot be started");
        return SPP_START_REFUSED;
    }
    if (write_header(o) != 0) {
        int error = errno;
        undo_start();
        spp_write_stop();
        (void)refuse(why, "the profile cannot be written");
        errno = error;
        return SPP_START_UNWRITTEN;
    }
    spp_run_state.start_process_cpu = spp_os_process_cpu_ns();
    spp_watch_scan(true);
    atomic_store(&spp_run_state.active, true);
    if (o->resume_at_ns != 0) spp_run_state.pause_ns = spp_run_state.start_ns; /* with no CPU time so far */
    atomic_store(&spp_run_state.pause_wanted, o->resume_at_ns != 0);
    atomic_store(&spp_cap.active, o->resume_at_ns != 0 ? 2 : 1);
    atomic_store(&spp_run_state.begun, 1);
    spp_os_bell_ring(&spp_cap.bell);
    spp_os_term_catch(&spp_cap.bell, &spp_run_state.terminating);
    return SPP_START_DONE;
}

/* A bell for the drain thread, and what it is to do may wait for what the caller holds: not for long. */
static void await_until(uint64_t until_ns, bool (*done)(uint32_t which), uint32_t which) {
    spp_os_bell_ring(&spp_cap.bell);
    while (!done(which) && spp_os_now_ns() < until_ns) spp_os_sleep_until(spp_os_now_ns() + FLUSH_STEP_NS);
}

static bool is_flushed(uint32_t which) {
    return (int32_t)(atomic_load(&flush_done) - which) >= 0 || atomic_load(&spp_run_state.over);
}

static bool is_over(uint32_t unused) {
    (void)unused;
    return atomic_load(&spp_run_state.over);
}

/* A thread that blocks the ticks' signal has one pending when the run is over, too. What was sampled is in the file then: the new
 * program knows nothing of it. */
void spp_run_exec(void) {
    if (spp_run_active()) spp_watch_exec();
    spp_os_signal_take_back();
    if (spp_run_active() && atomic_load(&spp_run_state.begun) && spp_run_state.drain != NULL)
        await_until(spp_os_now_ns() + LEAVE_MOST_NS, is_flushed, atomic_fetch_add(&flush_asked, 1) + 1);
}

void spp_run_leave(void) {
    if (!spp_run_active() || !atomic_load(&spp_run_state.begun) || spp_os_forked_unseen() || spp_run_state.drain == NULL) return;
    atomic_store(&spp_run_state.leaving, 1);
    atomic_store(&spp_run_state.stopping, 1);
    await_until(spp_os_now_ns() + LEAVE_MOST_NS, is_over, 0);
}

/* Whoever starts or stops a run meanwhile does so first. */
void spp_run_confined(void) {
    uint64_t until = spp_os_now_ns() + LEAVE_MOST_NS;
    bool mine;
    while (!spp_run_turn(SPP_RUN_ACTIVE, SPP_RUN_STOPPING)) {
        if (spp_run_phase_now(&mine) == SPP_RUN_NONE || mine || spp_os_now_ns() >= until) return;
        spp_os_sleep_until(spp_os_now_ns() + REST_STEP_NS);
    }
    if (spp_run_state.drain != NULL && !spp_os_forked_unseen()) {
        atomic_store(&spp_run_state.confined, 1);
        spp_run_reason("seccomp");
        spp_os_bell_ring(&spp_cap.bell);
        spp_os_worker_join(spp_run_state.drain);
        spp_run_state.drain = NULL;
        spp_os_signal_remove();
    }
    spp_run_turn(SPP_RUN_STOPPING, SPP_RUN_ACTIVE);
}

spp_start_result spp_run_start(spp_options *o, const spp_thread_states *states, const char **why) {
    spp_os_loader_begin();
    spp_os_exec_tell(spp_run_exec);
    spp_os_leave_tell(spp_run_leave);
    spp_os_confine_tell(spp_run_confined);
    spp_os_alone_tell(rest_alone, spp_run_wake);
    spp_os_signal_look();
    spp_os_loader_end();
    spp_os_work_begin();
    spp_start_result result = start(o, states, why);
    int error = errno;
    spp_os_work_end();
    errno = error;
    return result;
}

void spp_run_stop(void) {
    if (!atomic_load(&spp_run_state.active)) return;
    spp_os_term_restore();
    spp_run_wake();
    atomic_store(&spp_run_state.stopping, 1);
    spp_os_bell_ring(&spp_cap.bell);
    if (spp_run_state.drain != NULL)
        spp_os_worker_join(spp_run_state.drain);
    else if (!atomic_load(&spp_run_state.over))
        drain_body(NULL);
    spp_run_state.drain = NULL;
    spp_os_signal_remove();
    spp_write_stop();
    spp_store_stop();
    spp_os_lock(); /* code objects die meanwhile */
    spp_resolve_stop();
    spp_os_unlock();
    spp_native_stop();
    spp_columns_free(&columns);
    spp_resolved_free(&resolved);
    atomic_store(&spp_run_state.active, false);
}

void spp_run_reason(const char *reason) { atomic_store(&spp_run_state.reason, reason); }

#define RESUME_MOST_NS 100000000u

static bool goes_on(uint32_t unused) {
    (void)unused;
    return atomic_load(&spp_cap.active) != 2;
}

/* Under the drain lock. */
static void count_pause(bool paused) {
    if (paused == (spp_run_state.pause_ns != 0)) return;
    uint64_t now = spp_os_now_ns(), cpu = spp_tick_stats_cpu();
    if (!paused) spp_run_state.paused_ns += now - spp_run_state.pause_ns;
    if (!paused) spp_run_state.paused_cpu += cpu - spp_run_state.pause_cpu;
    spp_run_state.pause_ns = paused ? now : 0;
    spp_run_state.pause_cpu = cpu;
}

void spp_run_pause(bool paused) {
    if (!atomic_load(&spp_run_state.active)) return;
    atomic_store(&spp_run_state.pause_wanted, paused);
    if (paused) atomic_store(&spp_cap.active, 2); /* at once; the drain thread takes the triggers off */
    spp_os_lock();                                /* the sampler of wall mode may be within a look that it began before */
    count_pause(paused);
    spp_os_unlock();
    spp_os_bell_ring(&spp_cap.bell);
    if (paused || spp_run_state.drain == NULL || spp_os_tid() == spp_os_worker_tid(spp_run_state.drain)) return;
    await_until(spp_os_now_ns() + RESUME_MOST_NS, goes_on, 0); /* what the caller runs next is to be sampled */
}

int spp_run_flush(void) {
    if (!atomic_load(&spp_run_state.active)) return 0;
    uint32_t mine = atomic_fetch_add(&flush_asked, 1) + 1;
    spp_os_bell_ring(&spp_cap.bell);
    /* The drain thread takes some hundred microseconds. The bell is for one who waits, and here several may. */
    while ((int32_t)(atomic_load(&flush_done) - mine) < 0 && atomic_load(&spp_run_state.active) &&
           !atomic_load(&spp_run_state.over)) {
        spp_os_sleep_until(spp_os_now_ns() + FLUSH_STEP_NS);
    }
    return atomic_load(&flush_error);
}

void spp_run_collection(uint64_t began_ns, const uint64_t counts[3]) {
    uint64_t took = spp_os_now_ns() - began_ns;
    spp_os_lock();
    if (atomic_load(&spp_cap.active) == 1) {
        uint32_t slot = spp_watch_slot(spp_os_tid());
        spp_resolve_collection(slot != SPP_MAP_NONE ? &spp_threads[slot] : NULL, began_ns, took, counts);
    }
    spp_os_unlock();
}

spp_vec64 spp_run_native_functions(void) {
    spp_vec64 found = {0};
    spp_os_lock();
    if (atomic_load(&spp_run_state.active) && spp_cap.native != SPP_NATIVE_OFF) {
        spp_resolve_sure();
        spp_resolve_native_codes(&found);
    }
    spp_os_unlock();
    return found;
}

void spp_run_native_names(const char *text, size_t n) {
    if (!atomic_load(&spp_run_state.active)) return;
    spp_os_lock();
    spp_run_state.names.n = 0;
    (void)spp_bytes_append(&spp_run_state.names, text, n); /* no memory: the functions keep their own names */
    spp_os_unlock();
}

bool spp_run_is_over(void) {
    bool mine;
    if (!atomic_load(&spp_run_state.over) || spp_run_phase_now(&mine) != SPP_RUN_ACTIVE) return false;
    return !atomic_load(&spp_run_state.terminating) && !atomic_load(&spp_run_state.leaving);
}

bool spp_run_active(void) { return atomic_load(&spp_run_state.active); }
bool spp_run_paused(void) { return atomic_load(&spp_run_state.active) && atomic_load(&spp_run_state.pause_wanted); }
void spp_run_tick_stats(spp_bytes *to) { spp_tick_stats_text(to); }
void spp_run_name(int32_t tid, const char *name) { spp_run_names(&tid, &name, 1); }
void spp_run_names(const int32_t *tids, const char *const *names, uint32_t n) {
    if (n > 0 && spp_run_active()) spp_watch_names(tids, names, n);
}
void spp_run_ends(int32_t tid) { spp_watch_ends(tid); }
void spp_run_born(int32_t tid) { spp_watch_born(tid); }
