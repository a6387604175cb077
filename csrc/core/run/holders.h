/* Which thread holds the lock that another one waits for. The sampler of wall mode. */
#ifndef SPPROF_CORE_RUN_HOLDERS_H
#define SPPROF_CORE_RUN_HOLDERS_H

#include <stdint.h>

#include "core/capture/threads.h"

/* A look at all threads begins. */
void spp_holders_look(void);
/* Drain lock held. Which thread holds what one waits for, as `held_by` of resolved.h: the owner of an RLock; of another lock the
 * one thread that is in a `with` block of it. 0: there is none, or there are several. */
uint32_t spp_holders_of(const spp_thread *t, const spp_awaited *lock);

#endif
