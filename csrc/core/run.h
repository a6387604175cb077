/* What arm.c, wall.c, account.c and run.c share: the state of the one run. */
#ifndef SPPROF_CORE_RUN_H
#define SPPROF_CORE_RUN_H

#include <stdbool.h>

#include "core/arm.h"
#include "core/capture.h"

typedef struct {
    _Atomic bool active;
    spp_clock clock;
    bool wall; /* the sampler runs, and adds the time off the CPU */
    uint64_t interval_ns;
    spp_thread_states states;
    /* from here on zeroed at each start */
    uint64_t start_ns, start_process_cpu, stop_ns, cpu_ns;
    uint32_t next_id; /* of threads in the file */
    spp_os_worker *drain, *sampler;
    _Atomic int stopping, terminating;
    _Atomic bool pause_wanted;
    _Atomic bool over;     /* the drain thread has written all: of the run, or SIGTERM came and did not end the process */
    bool paused;           /* no trigger is armed; by the drain thread, under its lock */
    spp_bytes names;       /* block N, given before the stop */
    spp_bytes thread_text; /* under the drain lock: T entries not yet written, JSON objects with commas */
    /* counters of threads that ended, and of those never found; by the watch */
    uint64_t ended_taken, ended_repeated, ended_truncated, ended_unpaired, ended_gaps, ended_losses[SPP_LOSS_COUNT], ended_cpu;
    uint64_t sampler_cpu; /* when it ended */
} spp_run;
extern spp_run spp_now;

/* The watch (drain thread, or start and stop while no drain thread runs). */
void spp_watch_scan(bool first);
/* Drain lock held. Arms a prepared thread's trigger anew, or leaves that to the resuming. */
int spp_watch_arm(spp_thread *t);
void spp_watch_rearm(void); /* all threads, when ticks come by another signal */
void spp_watch_care(void);  /* stack ends, blocked signals; now and then */
void spp_watch_last(void);  /* at the end: what threads lost that block signals */
void spp_watch_disarm_all(void);
/* The sampler thread of wall mode. */
void spp_wall_body(void *unused);
/* Adds up a thread's counters into the run's, when it ends. */
void spp_account_end(spp_thread *thread);
/* CPU time of threads that came and went unseen: counted once, at stop. */
void spp_account_unseen(void);

#endif
