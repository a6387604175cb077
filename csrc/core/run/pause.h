/* Pausing and resuming a run. */
#ifndef SPPROF_CORE_RUN_PAUSE_H
#define SPPROF_CORE_RUN_PAUSE_H

#include <stdbool.h>

/* Any thread. Sampling stops at once. It goes on when the drain thread has armed all threads again, for which the caller waits.
 */
void spp_pause_ask(bool paused);
/* The drain thread: arms or disarms all threads if that was asked. */
void spp_pause_turn(void);

#endif
