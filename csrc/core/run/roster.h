/* The roster: which slot of spp_threads has which of the program's threads. The system gives the id of a thread that ended to a
 * later one, so a slot's thread may be another one's namesake. */
#ifndef SPPROF_CORE_RUN_ROSTER_H
#define SPPROF_CORE_RUN_ROSTER_H

#include <stdint.h>

#include "base/map.h"
#include "core/capture/threads.h"

/* Drain lock held. The slot of an armed thread, or SPP_MAP_NONE. */
uint32_t spp_roster_slot(int32_t tid);
/* Drain lock held. The thread is armed; it has ended. */
void spp_roster_enter(spp_thread *t);
void spp_roster_leave(spp_thread *t);
/* Drain lock held. Another thread has its id from here on. */
void spp_roster_gone(spp_thread *t);

/* The watch. A slot that no thread has; NULL: all are taken. */
spp_thread *spp_roster_free_slot(void);
/* The watch. Slots of ended threads serve again once their last samples were stored; called right after that, and before a run's
 * first scan. */
void spp_roster_free_ended(void);
/* Drain lock held. Before a run's first scan: no thread has a slot. */
void spp_roster_clear(void);
/* In a forked child: forgets without touching. */
void spp_roster_abandon(void);

/* Any thread. A thread ends, or begins: so Python says. */
void spp_roster_ends(int32_t tid);
void spp_roster_born(int32_t tid);

#endif
