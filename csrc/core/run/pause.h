/* Pausing and resuming a run. */
#ifndef SPPROF_CORE_RUN_PAUSE_H
#define SPPROF_CORE_RUN_PAUSE_H

#include <stdbool.h>

/* Any thread. Sampling stops at once. To resume it, the drain thread arms all threads again, and
 * the caller waits for that. */
void spp_pause_ask(bool paused);
/* Drain thread: arms or disarms all threads if asked to. */
void spp_pause_turn(void);

#endif
