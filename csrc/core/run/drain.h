/* The drain thread: empties the queues, writes blocks, lets the watch look for threads, pauses and ends the run. */
#ifndef SPPROF_CORE_RUN_DRAIN_H
#define SPPROF_CORE_RUN_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#define SPP_DRAIN_NAME "spprof-drain"
#define SPP_SAMPLER_NAME "spprof-sampler" /* of wall mode */

/* The drain thread, from a run's start or after a rest (alone.h) until the next rest or the run's end. Also the thread that stops
 * a run whose drain thread could not be started again. */
void spp_drain_body(void *unused);
/* Any thread. Requests a flush and returns its number. The caller rings the bell. */
uint32_t spp_drain_ask_flush(void);
/* Any thread. Whether that flush is done or the run is over. */
bool spp_drain_flushed(uint32_t number);
/* Any thread. The errno of the latest flush; 0: none. */
int spp_drain_flush_error(void);
/* The thread that stopped the run, after the drain thread has ended. */
void spp_drain_free(void);
/* In a forked child: forgets everything, and touches nothing. */
void spp_drain_child(void);

#endif
