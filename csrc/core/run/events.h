/* What a thread's events count, from when they are armed to when what is left is settled. By the watch; drain lock held, unless
 * it says otherwise. */
#ifndef SPPROF_CORE_RUN_EVENTS_H
#define SPPROF_CORE_RUN_EVENTS_H

#include "core/capture/capture.h"
#include "core/source.h"

/* Which of a run's sources are refused here: -1 with errno, and *why names the call. Any thread, before the run. */
int spp_events_probe(spp_source_set *set, const char **why);

/* Arms those of the run. One that cannot be armed is counted as lost (no_trigger), once for each try. */
void spp_events_arm(spp_thread *thread, const spp_source_set *set);
/* Of a thread that was born in the run and is armed: what it did before it was found becomes a sample of a stack that nobody
 * knows. Without the lock. */
void spp_events_from_birth(spp_thread *thread);
/* Nothing is counted until the next arming, and no tick comes. */
void spp_events_stop(spp_thread *thread);
/* After that, when no handler of its runs: what was counted since the last sample becomes one of a stack that nobody knows. */
void spp_events_settle(spp_thread *thread);
/* Arms those anew that the program has closed, and shortens the periods of those that became rare. Without the lock. */
void spp_events_care(spp_thread *thread, const spp_source_set *set);
/* In a forked child. */
void spp_events_drop(spp_thread *thread);

#endif
