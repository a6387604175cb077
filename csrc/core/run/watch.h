/* The watch: discovers the program's threads, arms them, looks after them, and disarms them. No thread registers itself. */
#ifndef SPPROF_CORE_RUN_WATCH_H
#define SPPROF_CORE_RUN_WATCH_H

#include <stdbool.h>

/* On the watch (the drain thread, or the starting thread before there is one), in work that a fork
 * waits for (spp_os_work_begin). */
void spp_watch_scan(bool first);
/* Drain thread: looks at once for threads that Python named since the last scan. A full listing
 * takes several times as long. */
void spp_watch_named(void);
void spp_watch_rearm(void); /* all threads, when ticks come by another signal */
void spp_watch_care(void);  /* stack ends, blocked signals; now and then */
void spp_watch_disarm_all(void);
/* From now on, in a run with events, a new thread waits until its events are open. */
void spp_watch_births(bool wanted);
/* In a forked child: forgets everything, and touches nothing. */
void spp_watch_abandon(void);

/* Any thread. The calling thread is about to replace the program: it is disarmed. */
void spp_watch_exec(void);

#endif
