#include "core/run/run.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/heap.h"
#include "base/patience.h"
#include "core/file/hashes.h"
#include "core/file/write.h"
#include "core/file/writer.h"
#include "core/native/native.h"
#include "core/resolve/resolve.h"
#include "core/resolve/resolve_native.h"
#include "core/resolve/store.h"
#include "core/run/adaptive.h"
#include "core/run/alone.h"
#include "core/run/calls.h"
#include "core/run/drain.h"
#include "core/run/executions.h"
#include "core/run/hot.h"
#include "core/run/imports.h"
#include "core/run/ours.h"
#include "core/run/pause.h"
#include "core/run/raises.h"
#include "core/run/roster.h"
#include "core/run/state.h"
#include "core/run/thread_names.h"
#include "core/run/tick_stats.h"
#include "core/run/times.h"
#include "core/run/wall.h"
#include "core/run/watch.h"
#include "os/clock.h"
#include "os/lock.h"
#include "os/memory.h"
#include "os/process.h"
#include "os/signals.h"
#include "os/threads.h"
#include "os/worker.h"

#define ASK_STEP_NS 200000u
#define WAIT_STEP_NS 20000u
#define LEAVE_MOST_NS 1000000000u /* a thread that ends the process may hold what the drain thread needs */
/* How long a thread of ours may take to end: before a fork, of which Python would only warn; before a call that fails otherwise.
 */
#define REST_MOST_NS 50000000u
#define ALONE_MOST_NS 1000000000u
#define PREPARE_STEP_NS 20000u

/* A forked child has none of the threads. Nothing of the parent's may be left in anything that a run of its own reads, and all of
 * it is forgotten here. What another thread may have been changing at a fork that was not announced is not touched. */
static void in_child(void) {
    spp_heap_child();
    spp_os_signal_child();
    if (atomic_exchange(&spp_run_state.phase, SPP_RUN_NONE) == SPP_RUN_NONE) return; /* or another thread starts or stops */
    atomic_store(&spp_run_state.active, false);
    spp_threads_child();
    spp_calls_child();
    spp_hot_child();
    spp_times_close();
    spp_executions_close();
    spp_raises_child();
    spp_imports_child();
    spp_adaptive_child();
    spp_watch_abandon();
    spp_resolve_abandon();
    spp_write_abandon();
    spp_store_abandon();
    spp_native_abandon();
    spp_drain_child();
    spp_ours_abandon();
    memset(&spp_run_state.start_ns, 0, sizeof spp_run_state - offsetof(spp_run, start_ns));
    spp_os_term_restore();
}

void spp_run_rest(void) { spp_alone_rest(REST_MOST_NS); }
void spp_run_wake(void) { spp_alone_wake(); }
static void rest_alone(void) { spp_alone_rest(ALONE_MOST_NS); }

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

/* By one thread: a fork handled twice waits for its own locks. (Without a GIL two threads may be here.) */
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
    static const spp_native_users users = {spp_resolve_queues, spp_resolve_forget_native, spp_threads_wait};
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
    spp_cap.holds_gil = o->wall ? states->holds_gil : NULL; /* CPU mode has no samples of waits */
    spp_cap.births = states->births;
    spp_cap.births_seen = states->births ? *states->births : 0;
    if (spp_os_signal_install(spp_capture_tick, spp_threads_valid, o->clock, o->may_trap) != 0) {
        return refuse(why, "the program handles SIGURG and SIGWINCH itself, and spprof needs one of them");
    }
    spp_run_state.start_ns = spp_os_now_ns();
    move_window(o);
    spp_hashes_start();
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
    if (o->wall) spp_run_state.sampler = spp_os_worker_start(SPP_SAMPLER_NAME, true, spp_wall_body, NULL);
    /* Prompt: a thread that was just born rings, and runs unseen until the drain thread gets a processor (260 us on two that were
     * busy, and less than a tick at 10 kHz so). */
    spp_run_state.drain = spp_os_worker_start(SPP_DRAIN_NAME, true, spp_drain_body, NULL);
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
    spp_ours_start();
    spp_run_state.start_process_cpu = spp_os_process_cpu_ns();
    spp_watch_scan(true);
    atomic_store(&spp_run_state.active, true);
    if (o->resume_at_ns != 0) spp_run_state.pause_ns = spp_run_state.start_ns; /* with no CPU time so far */
    atomic_store(&spp_run_state.pause_wanted, o->resume_at_ns != 0);
    atomic_store(&spp_cap.active, o->resume_at_ns != 0 ? 2 : 1);
    spp_calls_follow(o->resume_at_ns != 0);
    spp_hot_follow(o->resume_at_ns != 0);
    spp_times_follow(o->resume_at_ns != 0);
    spp_executions_follow(o->resume_at_ns != 0);
    spp_raises_follow(o->resume_at_ns != 0);
    spp_imports_follow(o->resume_at_ns != 0);
    atomic_store(&spp_run_state.begun, 1);
    spp_watch_births(true);
    spp_os_bell_ring(&spp_cap.bell);
    spp_os_term_catch(&spp_cap.bell, &spp_run_state.terminating);
    return SPP_START_DONE;
}

/* A bell for the drain thread, and what it is to do may wait for what the caller holds: not for long. */
static void await(bool (*done)(uint32_t which), uint32_t which) {
    spp_patience left = LEAVE_MOST_NS;
    spp_os_bell_ring(&spp_cap.bell);
    while (!done(which) && spp_patience_sleep(&left, ASK_STEP_NS)) {}
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
        await(spp_drain_flushed, spp_drain_ask_flush());
}

void spp_run_leave(void) {
    if (!spp_run_active() || !atomic_load(&spp_run_state.begun) || spp_os_forked_unseen() || spp_run_state.drain == NULL) return;
    atomic_store(&spp_run_state.leaving, 1);
    atomic_store(&spp_run_state.stopping, 1);
    await(is_over, 0);
}

/* A thread that starts or stops a run meanwhile goes first. */
void spp_run_confined(void) {
    spp_patience left = LEAVE_MOST_NS;
    bool mine;
    while (!spp_run_turn(SPP_RUN_ACTIVE, SPP_RUN_STOPPING)) {
        if (spp_run_phase_now(&mine) == SPP_RUN_NONE || mine || !spp_patience_sleep(&left, WAIT_STEP_NS)) return;
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
    spp_os_exec_notify(spp_run_exec);
    spp_os_leave_notify(spp_run_leave);
    spp_os_confine_notify(spp_run_confined);
    spp_os_alone_notify(rest_alone, spp_run_wake);
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
        spp_drain_body(NULL);
    spp_run_state.drain = NULL;
    spp_os_signal_remove();
    spp_write_stop();
    spp_store_stop();
    spp_os_lock(); /* code objects die meanwhile */
    spp_resolve_stop();
    spp_os_unlock();
    spp_native_stop();
    spp_drain_free();
    atomic_store(&spp_run_state.active, false);
}

void spp_run_reason(const char *reason) { atomic_store(&spp_run_state.reason, reason); }

void spp_run_pause(bool paused) { spp_pause_ask(paused); }

int spp_run_flush(void) {
    if (!atomic_load(&spp_run_state.active)) return 0;
    uint32_t mine = spp_drain_ask_flush();
    spp_os_bell_ring(&spp_cap.bell);
    /* The drain thread takes some hundred microseconds. The bell wakes one waiter, and here several may wait. */
    while (!spp_drain_flushed(mine) && atomic_load(&spp_run_state.active)) spp_os_sleep_until(spp_os_now_ns() + ASK_STEP_NS);
    return spp_drain_flush_error();
}

/* The calling thread's stack at the end of a collection is the one that triggered it. */
static void sample_collection(spp_thread *t, uint64_t took_ns) {
    const spp_os_context here = {.sp = (uintptr_t)__builtin_frame_address(0)};
    bool kept = spp_capture_take(t, SPP_SOURCE_GC, took_ns, &here);
    spp_os_lock();
    if (atomic_load(&spp_cap.active) == 1) {
        if (!kept) spp_resolve_unknown(t, SPP_SOURCE_GC, took_ns);
        t->sources[SPP_SOURCE_GC].before += took_ns;
    }
    spp_os_unlock();
}

void spp_run_collection(uint64_t began_ns, const uint64_t counts[3]) {
    uint64_t took = spp_os_now_ns() - began_ns;
    uint32_t slot = SPP_MAP_NONE;
    spp_os_lock();
    if (atomic_load(&spp_cap.active) == 1) {
        slot = spp_roster_slot(spp_os_tid());
        spp_resolve_collection(slot != SPP_MAP_NONE ? &spp_threads[slot] : NULL, began_ns, took, counts);
    }
    spp_os_unlock();
    if (slot != SPP_MAP_NONE && spp_run_state.sources.period[SPP_SOURCE_GC] != 0) sample_collection(&spp_threads[slot], took);
}

void spp_run_request(uint64_t began_ns, uint64_t took_ns, uint64_t label) {
    spp_os_lock();
    if (atomic_load(&spp_cap.active) == 1) spp_resolve_request(began_ns, took_ns, label);
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
    if (n > 0 && spp_run_active()) spp_thread_names_give(tids, names, n);
}
void spp_run_ends(int32_t tid) { spp_roster_ends(tid); }
void spp_run_born(int32_t tid) { spp_roster_born(tid); }
void spp_run_ours_forget(void) { spp_ours_forget(); }
uint64_t spp_run_ours_look(void) { return spp_ours_look(); }
void spp_run_ours_leave(int32_t tid) { spp_ours_leave(tid); }
void spp_run_ours_found(uint64_t look, const int32_t *tids, uint32_t n, uint32_t births) {
    spp_ours_found(look, tids, n, births);
}
