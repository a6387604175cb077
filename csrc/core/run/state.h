/* The state of the one run, private to the files of this folder. */
#ifndef SPPROF_CORE_RUN_STATE_H
#define SPPROF_CORE_RUN_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/vec.h"
#include "core/capture/tstates.h"
#include "core/rest.h"
#include "core/source.h"
#include "os/ticks.h"
#include "os/worker.h"

typedef struct {
    _Atomic uint64_t phase; /* spp_run_phase (run.h); and in its upper half the thread that set it */
    _Atomic bool active;
    const spp_clock *clock;
    bool wall; /* the sampler runs, and adds the time off the CPU */
    uint64_t interval_ns;
    spp_thread_states states;
    /* from here on zeroed at each start */
    uint64_t start_ns, start_process_cpu, stop_ns, cpu_ns;
    spp_source_set sources; /* without TIME no clock ticks */
    /* Under the drain lock: how long the run was paused, on the wall clock and of the program's CPU time; since when it is (0: it
     * is not), and the program's CPU time then. */
    uint64_t paused_ns, paused_cpu, pause_ns, pause_cpu;
    /* By the drain thread: how long the first thread was ready without a processor while the run was not paused, and up to where
     * the system's count of that is in it. */
    _Atomic uint64_t ready_ns;
    uint64_t ready_seen;
    _Atomic uint64_t children_cpu; /* the same of what children used that the program has waited for */
    uint64_t children_seen;
    uint32_t next_id;               /* of threads in the file */
    spp_os_worker *drain, *sampler; /* NULL: they rest, or were not started */
    spp_rest drain_rest, sampler_rest;
    _Atomic bool resting; /* our threads rest, or are about to; cleared when the drain thread has started them again */
    spp_os_bell sampler_bell;
    int reported_error; /* the drain thread's: the error of the file that the file already reports */
    uint64_t written_ns, stats_ns,
        count; /* the drain thread: when it last wrote, when the tick stats, and how many threads there were */
    uint64_t drain_before, sampler_before; /* CPU time of those that ended for a rest */
    _Atomic int begun, stopping, terminating, leaving, confined;
    uint64_t resume_at_ns, end_at_ns; /* as in spp_options; by the drain thread */
    void (*ended)(void);
    const char *_Atomic reason;
    _Atomic bool pause_wanted;
    _Atomic bool triggers_off; /* a pause has disarmed all of them */
    _Atomic bool over; /* the drain thread has written everything: the run is over, or SIGTERM came and did not end the process */
    bool paused;       /* no trigger is armed; by the drain thread, under its lock */
    spp_bytes names;   /* block N, given before the stop */
    spp_bytes thread_text; /* under the drain lock: T entries not yet written, JSON objects with commas */
    /* counters of threads that ended, and of those never found; by the watch */
    uint64_t ended_taken, ended_repeated, ended_counters[SPP_COUNTERS_N], ended_losses[SPP_LOSS_COUNT], ended_cpu;
    struct {
        uint64_t taken, units, losses[SPP_LOSS_COUNT];
        uint64_t enabled_ns, running_ns; /* of events that are settled: for how long one was to count, and did */
    } ended_sources[SPP_SOURCE_COUNT];
    _Atomic uint64_t drain_cpu,
        sampler_cpu;               /* CPU time of our own threads (the writer with the drain thread), as last reported */
    _Atomic uint64_t cpu_reported; /* what spp_tick_stats_cpu gave last */
} spp_run;
extern spp_run spp_run_state;

#endif
