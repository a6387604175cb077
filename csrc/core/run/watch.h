/* The watch: discovers the program's threads, arms them, looks after them, and disarms them. No thread registers itself. */
#ifndef SPPROF_CORE_RUN_WATCH_H
#define SPPROF_CORE_RUN_WATCH_H

#include <stdbool.h>

/* The watch (drain thread, or start while no drain thread runs), in work that a fork waits for (spp_os_work_begin). */
void spp_watch_scan(bool first);
/* Drain thread: finds threads that Python named since the last scan, at once. To list all takes several times as long. */
void spp_watch_named(void);
void spp_watch_rearm(void); /* all threads, when ticks come by another signal */
void spp_watch_care(void);  /* stack ends, blocked signals; now and then */
void spp_watch_disarm_all(void);
/* From now on a new thread of a run that has events waits until they are open. */
void spp_watch_births(bool wanted);
/* In a forked child: forgets without touching. */
void spp_watch_abandon(void);

/* Any thread. The calling thread is about to replace the program: it is disarmed. */
void spp_watch_exec(void);

#endif
