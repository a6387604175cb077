/* Which threads of the process are spprof's own: they are in no profile, and their time is not the program's. The core's own
 * threads are known by their workers; those that run Python (listening.py, web.py) say so by themselves. */
#ifndef SPPROF_CORE_RUN_OURS_H
#define SPPROF_CORE_RUN_OURS_H

#include <stdbool.h>
#include <stdint.h>

/* Any thread, not in a handler; with or without the GIL. No thread that runs Python is ours: before a run, and in a forked
 * child. */
void spp_ours_forget(void);
/* As that. The thread is ours from now on, until it leaves. Of more than 32 at once the rest are taken for the program's. */
void spp_ours_enter(int32_t tid);
void spp_ours_leave(int32_t tid);
/* The thread that starts a run: what they ran until now is no part of it. */
void spp_ours_start(void);
/* Any thread. */
bool spp_ours_is(int32_t tid);
/* Any thread. CPU time since the start of all threads of ours; of the core's own ones as they last reported it. */
uint64_t spp_ours_cpu_ns(void);

#endif
