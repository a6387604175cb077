/* The events of a thread, from arming until the rest of their count is settled. Called by the
 * watch, with the drain lock held unless stated otherwise. */
#ifndef SPPROF_CORE_RUN_EVENTS_H
#define SPPROF_CORE_RUN_EVENTS_H

#include "core/capture/capture.h"
#include "core/source.h"

/* Which of a run's sources are refused here: -1 with errno, and *why names the call. Any thread, before the run. */
int spp_events_probe(spp_source_set *set, const char **why);

/* Arms the events of the run. One that cannot be armed is counted as lost (no_trigger), once for
 * each try. */
void spp_events_arm(spp_thread *thread, const spp_source_set *set);
/* For an armed thread that was born in the run: its counts from before it was found become a sample
 * with an unknown stack. Without the lock. */
void spp_events_from_birth(spp_thread *thread);
/* Stops counting, and ticks, until the next arming. */
void spp_events_stop(spp_thread *thread);
/* Call after that, when its handler no longer runs: the count since the last sample becomes a
 * sample with an unknown stack. */
void spp_events_settle(spp_thread *thread);
/* Arms those again that the program has closed, and shortens the periods of those that became rare. Without the lock. */
void spp_events_care(spp_thread *thread, const spp_source_set *set);
/* In a forked child. */
void spp_events_drop(spp_thread *thread);

#endif
