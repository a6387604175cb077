#include "core/run/drain.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/patience.h"
#include "core/capture/spans.h"
#include "core/capture/tasks.h"
#include "core/file/hashes.h"
#include "core/file/write.h"
#include "core/file/writer.h"
#include "core/native/native.h"
#include "core/resolve/resolve.h"
#include "core/resolve/store.h"
#include "core/run/adaptive.h"
#include "core/run/calls.h"
#include "core/run/executions.h"
#include "core/run/hot.h"
#include "core/run/imports.h"
#include "core/run/pause.h"
#include "core/run/raises.h"
#include "core/run/silent.h"
#include "core/run/state.h"
#include "core/run/tick_stats.h"
#include "core/run/times.h"
#include "core/run/wall.h"
#include "core/run/watch.h"
#include "os/clock.h"
#include "os/lock.h"
#include "os/process.h"
#include "os/signals.h"
#include "os/threads.h"

#define LOOK_NS 10000000u  /* the watch looks for new threads this often */
#define WRITE_NS 85000000u /* a block is written this often: kill -9 costs less than 100 ms */
#define TICK_STATS_NS 2000000000u

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
        spp_hashes_see(&resolved);
        spp_columns_clear(&columns);
    }
    spp_write_rows('G', &resolved.collections, SPP_COLLECTION_WORDS);
    spp_write_rows('R', &resolved.requests, SPP_REQUEST_WORDS);
    spp_resolved_clear(&resolved);
}

static void write_tick_stats(bool last) {
    spp_bytes text = {0};
    spp_tick_stats_look();
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
    if (error == 0 || error == spp_run_state.reported_error) return;
    spp_run_state.reported_error = error;
    write_tick_stats(true);
}

/* Whether and why the file has not all of the run is known when what was given to the writer is written. (An output that may
 * block is not cut, and not waited for.) */
static int settle(void) {
    if (spp_writer_cuts()) (void)spp_writer_wait();
    return spp_write_error();
}

/* Drain thread. Blocks A and E; once more if it was these that did not fit: space is kept for them. */
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

static void report_cpu(void) {
    atomic_store(&spp_run_state.drain_cpu, spp_run_state.drain_before + spp_os_own_cpu_ns() + spp_writer_cpu_ns());
}

/* Disarms everything and finishes the file. By the drain thread, so that nothing else touches the store. */
static void finish(const char *reason) {
    spp_silent_last();
    spp_hot_close();
    atomic_store(&spp_cap.active, 0);
    spp_watch_disarm_all();
    report_cpu();
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
    spp_calls_write(true);
    spp_hot_write();
    spp_times_write(true);
    spp_executions_write(true);
    spp_raises_write(true);
    spp_imports_write(true);
    spp_adaptive_write();
    spp_writer_made();
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
    uint64_t looked_ns;
    spp_writer_watch watch;
} flushing;

static void look_at_flush(void) {
    if (!flushing.waits) return;
    bool late = !spp_writer_watch_turn(&flushing.watch, spp_patience_took(flushing.looked_ns, LOOK_NS));
    flushing.looked_ns = spp_os_now_ns();
    if (!spp_writer_idle(true) && !late) return;
    flushing.waits = false;
    flushed(flushing.asked, late ? ETIMEDOUT : 0);
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
        spp_pause_ask(false);
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
        uint32_t asked = atomic_load(&flush_asked); /* first: a later request waits for the next turn */
        bool flush = asked != atomic_load(&flush_done) && !flushing.waits;
        look_for_objects();
        spp_task_look();
        spp_span_look();
        spp_os_work_begin();
        uint64_t now = spp_os_now_ns(), threads = spp_os_thread_count();
        in_time = look_at_clock(now);
        spp_pause_turn();
        if (spp_os_signal_taken()) {
            spp_watch_rearm();
            spp_os_signal_moved();
        }
        spp_os_signals_care();
        bool due = flush || now - spp_run_state.written_ns >= WRITE_NS;
        if (due || rung || threads != spp_run_state.count || threads == 0) spp_watch_scan(false);
        spp_run_state.count = threads;
        if (flush) flush_off_cpu();
        if (due) {
            drain(false);
            spp_watch_care();
            spp_run_state.written_ns = now;
        } else if (rung) { /* a queue is half full, say; small blocks take more space, so none is written yet */
            spp_os_lock();
            spp_resolve_sure();
            spp_os_unlock();
        }
        spp_hot_turn(due);
        report_cpu();
        look_at_error();
        if (flush || (now - spp_run_state.stats_ns >= TICK_STATS_NS && !spp_writer_behind())) {
            write_tick_stats(false);
            spp_run_state.stats_ns = now;
        }
        if (flush) {
            spp_calls_write(false);
            spp_hot_write();
            spp_times_write(false);
            spp_executions_write(false);
            spp_raises_write(false);
            spp_imports_write(false);
            flushing.waits = true;
            flushing.asked = asked;
            flushing.looked_ns = spp_os_now_ns();
            flushing.watch = spp_writer_watch_begin();
        }
        spp_os_work_end();
        spp_hot_ask();
        if (flush) look_at_flush();
    }
    return in_time && !atomic_load(&spp_run_state.confined) ? TURNS_STOP : TURNS_DURATION;
}

/* Writes how the run ended to the file, also if another process ended the program. */
static const char *why_over(bool in_time) {
    if (atomic_load(&spp_run_state.leaving)) return "_exit";
    if (atomic_load(&spp_run_state.terminating)) return "SIGTERM";
    const char *reason = atomic_load(&spp_run_state.reason);
    if (reason != NULL) return reason;
    return in_time ? "stop" : "duration";
}

static void end_run(bool in_time) {
    spp_watch_births(false);
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
    if (!in_time) { /* a reader of the file need not wait for the main thread, which may be in a long call of C */
        spp_write_stop();
        if (spp_run_state.ended != NULL && !atomic_load(&spp_run_state.confined)) spp_run_state.ended();
    }
    if (atomic_load(&spp_run_state.terminating)) spp_os_term_now();
}

/* The drain thread, before it looks for threads: it must know which are ours. The program's thread does not wait for this: so
 * soon after a fork each page that is written is copied first. Those that cannot be started are tried again after the next rest.
 */
static void wake_others(void) {
    spp_os_signal_wake();
    (void)spp_writer_wake();
    if (spp_rest_is(&spp_run_state.sampler_rest) && !atomic_load(&spp_run_state.stopping)) {
        spp_run_state.sampler = spp_os_worker_start(SPP_SAMPLER_NAME, true, spp_wall_body, NULL);
        if (spp_run_state.sampler != NULL) spp_rest_over(&spp_run_state.sampler_rest);
    }
    atomic_store(&spp_run_state.resting, false);
}

void spp_drain_body(void *unused) {
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
        spp_tick_stats_begin();
    }
    if (atomic_load(&spp_run_state.resting)) wake_others();
    turns_end end = drain_turns();
    if (end == TURNS_REST)
        spp_run_state.drain_before += spp_os_own_cpu_ns();
    else
        end_run(end == TURNS_STOP);
}

uint32_t spp_drain_ask_flush(void) { return atomic_fetch_add(&flush_asked, 1) + 1; }

bool spp_drain_flushed(uint32_t number) {
    return (int32_t)(atomic_load(&flush_done) - number) >= 0 || atomic_load(&spp_run_state.over);
}

int spp_drain_flush_error(void) { return atomic_load(&flush_error); }

void spp_drain_free(void) {
    spp_columns_free(&columns);
    spp_resolved_free(&resolved);
}

void spp_drain_child(void) {
    memset(&resolved, 0, sizeof resolved);
    memset(&columns, 0, sizeof columns);
    atomic_store(&flush_done, atomic_load(&flush_asked));
}
