/* Drain before free: turns raw addresses into ids before the code objects behind them can die.
 *
 * All calls hold the drain lock (spp_os_lock). A code object's death takes the lock, drains every queue, and forgets the
 * address; so an address in a queue always names the code object that was sampled. What comes out collects in
 * `spp_resolved_now`, which the drain thread swaps for an empty one and stores without the lock. */
#ifndef SPPROF_CORE_RESOLVE_RESOLVE_H
#define SPPROF_CORE_RESOLVE_RESOLVE_H

#include <stdbool.h>

#include "core/capture/capture.h"
#include "core/resolve/resolved.h"

int spp_resolve_start(void);
void spp_resolve_stop(void);
/* In a forked child: forgets without touching. */
void spp_resolve_abandon(void);
/* Everything in one thread's queue; in all queues what has sure names (native.h), the rest a little later. The drain thread, or
 * one of Python's that can wait: the lock is given back between steps, and others may resolve, or code objects die. */
void spp_resolve_queue(spp_thread *thread);
void spp_resolve_sure(void);
/* All, in one go. */
void spp_resolve_queues(void);
/* Keeps a stack walked from outside, with the number of its labels, as the thread's off-CPU stack.
 * False: it would hold the lock too long for threads that wait for it; call again, a part is done.
 * */
bool spp_resolve_stood(spp_thread *thread, const spp_walk *walk, uint64_t label);
/* The ticks of the off-CPU stack so far, and its time. */
void spp_resolve_flush(spp_thread *thread);
/* Of what its samples stand for so much was wanting (less than 0: over) when a thread's clock ended: those that were not swapped
 * yet take it, in proportion, none more than seven eighths of its own weight. How much they took. */
int64_t spp_resolve_settle(spp_thread *thread, int64_t open_ns);
/* A sample of a source other than time, now, that stands for `amount`, in a stack that nobody knows. No handler of the thread's
 * runs. */
void spp_resolve_unknown(spp_thread *thread, uint32_t source, uint64_t amount);
/* Objects came or went: addresses of native frames may mean something else from now on, but for those that stay (NULL: all).
 * Stacks that stand are walked anew. */
void spp_resolve_forget_native(bool (*stays)(uintptr_t address));
/* Call before a code object dies: resolves its queued records, or copies its line table to
 * resolve it later, then forgets it. Releases the lock between pieces of that copy. */
void spp_resolve_death(uintptr_t code);
/* A run of the garbage collector in a thread; NULL: in one that the watch does not know. */
void spp_resolve_collection(const spp_thread *of, uint64_t began_ns, uint64_t took_ns, const uint64_t counts[3]);
/* While it is held nothing more is collected: samples are lost, and counted (writer_behind). What comes after is whole. */
void spp_resolve_hold(bool held);
/* Exchanges what was collected for an empty one. */
void spp_resolve_swap(spp_resolved *with);

#endif
