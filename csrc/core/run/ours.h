/* Which threads of the process are spprof's own: they are in no profile, and their time is not the program's. The core's own
 * threads are known by their workers; those that run Python (listening.py, web.py) say so by themselves. */
#ifndef SPPROF_CORE_RUN_OURS_H
#define SPPROF_CORE_RUN_OURS_H

#include <stdbool.h>
#include <stdint.h>

/* Any thread, not in a handler; with or without the GIL. No thread that runs Python is ours: before a run, and in a forked
 * child. */
void spp_ours_forget(void);
/* In a forked child: the same. */
void spp_ours_abandon(void);
/* As spp_ours_forget. Before the caller looks which threads are ours: the number of the look. */
uint64_t spp_ours_look(void);
/* The result of that look; of no effect after that of a later one. These threads are ours from now on, until each leaves; of more
 * than 32 at once the rest are taken for the program's. So many others of ours were announced and have not entered yet. */
void spp_ours_found(uint64_t look, const int32_t *tids, uint32_t n, uint32_t births);
void spp_ours_leave(int32_t tid);
/* Any thread. Whether a thread that is unknown may be one of ours that has not entered yet. Ask it before spp_ours_is: a thread
 * enters first, and is announced no more then. */
bool spp_ours_are_born(void);
/* The thread that starts a run, without the GIL: what they ran until now is no part of it. Waits for those that were announced,
 * at most 0.1 s: the first scan takes all threads that are unknown for the program's. */
void spp_ours_start(void);
/* Any thread. */
bool spp_ours_is(int32_t tid);
/* Any thread. CPU time since the start of all threads of ours; of the core's own ones as they last reported it. */
uint64_t spp_ours_cpu_ns(void);

#endif
