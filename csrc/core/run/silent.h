/* Threads that run and have no tick: they block the signal, or the program closed their trigger. What they ran is counted as
 * lost, for that reason, and where there is another way to have ticks it is taken. */
#ifndef SPPROF_CORE_RUN_SILENT_H
#define SPPROF_CORE_RUN_SILENT_H

#include <stdbool.h>

#include "core/capture/threads.h"

/* The watch, without the lock, now and then: looks whether a thread's clock moves while no tick comes. True: another thread has
 * its id, or its trigger belongs to none any more, and it is to be ended. */
bool spp_silent_check(spp_thread *t);
/* The watch, at the end of a run: judges all threads, also those that ran too little until now. */
void spp_silent_last(void);

#endif
