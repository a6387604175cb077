/* Code objects that live: each is read once, while it does, and the frames that were seen of it are found by their offsets. One
 * that dies while its line table is being read is an orphan: its queued frames name the copy of the table instead. Drain lock
 * held, all of it. */
#ifndef SPPROF_CORE_RESOLVE_LIVE_H
#define SPPROF_CORE_RESOLVE_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sample.h"

/* The id of a frame of Python code (intern.h), or SPP_INTERN_HIDDEN, or SPP_INTERN_BUSY. */
uint32_t spp_live_frame(spp_frame frame);

/* A code object that lives, and the time in which samples found it at the leaf: since it was first sampled, or all was forgotten.
 */
typedef struct {
    uintptr_t code;
    uint64_t self_ns;
} spp_live_self;
/* Adds to it; nothing, if no such code object lives. */
void spp_live_add_self(uintptr_t code, uint64_t ns);
/* Those with the most, the first of them first; how many there are. */
uint32_t spp_live_hottest(spp_live_self *to, uint32_t most);

/* Refers by hold(code) to those that live, in the order of their samples, at most so many; how many that did. *all: that live. */
uint32_t spp_live_codes(uintptr_t *to, uint32_t most, bool (*hold)(uintptr_t code), uint32_t *all);

/* A frame of the code object that is about to die, as it may stay in a queue: its id, or what names the copy of its line table.
 * 0: that is to be copied first. */
spp_frame spp_live_outlive(spp_frame frame);
/* Copies a piece of the dying one's table. False: there is no more, or nothing is known of it. */
bool spp_live_copy(uintptr_t code);
/* It dies now. */
void spp_live_death(uintptr_t code);
/* What was sampled before `sure_ns` is resolved: orphans that died before are forgotten. */
void spp_live_sure(uint64_t sure_ns);

/* False: queues name orphans. */
bool spp_live_may_forget(void);
/* Forgets all. */
void spp_live_forget(void);
/* In a forked child: forgets without touching. */
void spp_live_abandon(void);

#endif
