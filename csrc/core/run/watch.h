/* The watch: discovers the program's threads, arms them, looks after them, and disarms them. No thread registers itself. */
#ifndef SPPROF_CORE_RUN_WATCH_H
#define SPPROF_CORE_RUN_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"
#include "core/capture/capture.h"

/* The watch (drain thread, or start while no drain thread runs), in work that a fork waits for (spp_os_work_begin). */
void spp_watch_scan(bool first);
/* Drain thread: finds threads that Python named since the last scan, at once. To list all takes several times as long. */
void spp_watch_named(void);
/* Drain lock held. The one way by which the clock of a thread that is known begins again: see spp_threads_begin. Leaves the
 * trigger to the resuming in a pause. */
int spp_watch_begin(spp_thread *t);
/* Drain lock held. No tick comes any more, of its clock or of an event. */
void spp_watch_disarm(spp_thread *t);
/* Drain lock held. The one way by which its clock ends, once its trigger is disarmed and handlers refuse: its last samples take
 * what is open, and what its events counted since their last samples is told. `exact`: it ends now, or with the thread; else at
 * an instant before that nobody read. */
void spp_watch_settle(spp_thread *t, bool exact);
/* Drain lock held. The slot of an armed thread, or SPP_MAP_NONE. */
uint32_t spp_watch_slot(int32_t tid);
void spp_watch_rearm(void); /* all threads, when ticks come by another signal */
void spp_watch_care(void);  /* stack ends, blocked signals; now and then */
void spp_watch_last(void);  /* at the end: what threads lost that block signals */
void spp_watch_disarm_all(void);
/* From now on a new thread of a run that has events waits until they are open. */
void spp_watch_births(bool wanted);
/* In a forked child: forgets without touching. */
void spp_watch_abandon(void);

/* Any thread. Names of threads for people, in UTF-8; each waits until its thread is found. */
void spp_watch_names(const int32_t *tids, const char *const *names, uint32_t n);
/* Any thread. A thread ends, or begins: so Python says. The system may give the id of one that ended to the next. */
void spp_watch_ends(int32_t tid);
void spp_watch_born(int32_t tid);
/* The calling thread is about to replace the program: it is disarmed. */
void spp_watch_exec(void);

#endif
