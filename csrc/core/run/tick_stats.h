/* The tick stats of the run: expected = taken + repeated + losses, each loss with its reason. */
#ifndef SPPROF_CORE_RUN_TICK_STATS_H
#define SPPROF_CORE_RUN_TICK_STATS_H

#include <stdint.h>

#include "base/vec.h"
#include "core/capture/capture.h"

/* As spp_run_tick_stats. Any thread. */
void spp_tick_stats_text(spp_bytes *to);
/* Drain lock held. Adds up a thread's counters into the run's, when it ends. */
void spp_tick_stats_end(spp_thread *thread);
/* CPU time of the process in this run so far, without that of our own threads. */
uint64_t spp_tick_stats_cpu(void);
/* Drain thread. Reads how long the first thread was ready without a processor, and what children used: as the run begins, and
 * before the tick stats are written; before a pause begins or ends, too. */
void spp_tick_stats_begin(void);
void spp_tick_stats_look(void);
/* Adds the CPU time of threads that came and went unseen: once, at stop. */
void spp_tick_stats_unseen(void);

#endif
