/* Drain before free: turns raw addresses into ids before the code objects behind them can die.
 *
 * All calls hold the drain lock (spp_os_lock). A code object's death takes the lock, drains every queue, and forgets the
 * address; so an address in a queue always names the code object that was sampled. What comes out collects in
 * `spp_resolved_now`, which the drain thread swaps for an empty one and stores without the lock. */
#ifndef SPPROF_CORE_RESOLVE_RESOLVE_H
#define SPPROF_CORE_RESOLVE_RESOLVE_H

#include <stdbool.h>

#include "base/reasons.h"
#include "core/capture/capture.h"
#include "core/capture/coroutines.h"
#include "core/capture/spans.h"
#include "core/capture/tasks.h"
#include "core/resolve/resolved.h"

int spp_resolve_start(void);
void spp_resolve_stop(void);
/* In a forked child: forgets everything, and touches nothing. */
void spp_resolve_abandon(void);
/* Resolves everything in one thread's queue; or, in all queues, records with certain names
 * (native.h), and the rest a little later. On the drain thread or on a Python thread that can wait:
 * the lock is released between steps, so others may resolve, or code objects die, meanwhile. */
void spp_resolve_queue(spp_thread *thread);
void spp_resolve_sure(void);
/* Resolves everything at once. */
void spp_resolve_queues(void);
/* Why a thread is off the CPU, and what it waits for ("": nothing that has a name). */
typedef struct {
    spp_reason reason;
    const char *on;
    uint32_t held_by; /* as in resolved.h */
} spp_waiting;
/* Keeps a stack walked from outside, with the number of its labels, its task and its span, as the thread's off-CPU stack.
 * False: it would hold the lock too long for threads that wait for it; call again, a part is done. */
bool spp_resolve_blocked(spp_thread *thread, const spp_walk *walk, uint64_t label, const spp_task *task,
                         const spp_trace_ids *span, const spp_waiting *waiting);
/* Emits the repeated ticks and the time of the off-CPU stack so far. */
void spp_resolve_flush(spp_thread *thread);
/* When a thread's clock ended, its samples represented so much too little time (negative: too
 * much). Samples that were not swapped out yet take it, in proportion, each at most seven eighths
 * of its own weight. Returns how much they took. */
int64_t spp_resolve_settle(spp_thread *thread, int64_t open_ns);
/* Calls see() for each sample of time whose leaf is Python code, with the code object, which may be dead. NULL: calls nothing. */
void spp_resolve_leaves(void (*see)(uintptr_t code, uint64_t time_ns, uint64_t weight, uint32_t count));
/* Adds a sample of a source other than time, taken now, with weight `amount` and an unknown stack.
 * The thread's handler must not run any more. */
void spp_resolve_unknown(spp_thread *thread, uint32_t source, uint64_t amount);
/* Adds a sample of the source `tasks`: of a task whose loop runs in this thread. False: it was lost, and is counted so. */
bool spp_resolve_task(spp_thread *thread, const spp_waiting_task *task, uint64_t time_ns, uint64_t weight);
/* Objects came or went: addresses of native frames may mean something else from now on, but for those that stay (NULL: all).
 * Stacks of blocked threads are walked again. */
void spp_resolve_forget_native(bool (*stays)(uintptr_t address));
/* Call before a code object dies: resolves its queued records, or copies its line table to
 * resolve it later, then forgets it. Releases the lock between pieces of that copy. */
void spp_resolve_death(uintptr_t code);
/* Records a garbage collection of a thread; NULL: of one that the watch does not know. */
void spp_resolve_collection(const spp_thread *of, uint64_t began_ns, uint64_t took_ns, const uint64_t counts[3]);
/* Records a request that has ended, with the number of its labels. */
void spp_resolve_request(uint64_t began_ns, uint64_t took_ns, uint64_t label);
/* Pauses collecting: meanwhile samples are lost, and counted (writer_behind). Later ones are
 * complete. */
void spp_resolve_hold(bool held);
/* Exchanges the collected samples for an empty collection. */
void spp_resolve_swap(spp_resolved *with);

#endif
