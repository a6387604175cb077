/* A thread's trigger and its events: armed, disarmed, and armed again, so that no CPU time is counted twice or lost. */
#ifndef SPPROF_CORE_RUN_ARM_H
#define SPPROF_CORE_RUN_ARM_H

#include <stdbool.h>

#include "core/capture/threads.h"
#include "os/ticks.h"

/* The watch. Whether the run samples time: else no clock ticks. */
bool spp_arm_has_time(void);
/* Drain lock held, or nobody knows the thread yet: opening what there are many of may wait for the kernel. -1: neither a clock
 * nor a timer could be armed. */
int spp_arm(spp_thread *t);
/* Drain lock held, and then: in wall mode the kernel counts how often it runs. */
void spp_arm_watch(spp_thread *t);
/* Drain lock held. The one way by which the clock of a thread that is known begins again: see spp_threads_begin. Leaves the
 * trigger to the resuming in a pause. */
int spp_arm_begin(spp_thread *t);
/* Drain lock held. No tick comes any more, of its clock or of an event. */
void spp_arm_disarm(spp_thread *t);
/* Drain lock held. The one way by which its clock ends, once its trigger is disarmed and handlers refuse: its last samples take
 * what is open, and what its events counted since then. `exact`: it ends now, or with the thread; else at
 * an instant before that nobody read. */
void spp_arm_settle(spp_thread *t, bool exact);
/* The watch, without the lock. With this clock from now on. Neither the thread's handler nor the sampler meets a trigger in the
 * making. */
void spp_arm_again(spp_thread *t, const spp_clock *clock);

#endif
