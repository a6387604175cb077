/* Exact times of calls: how long each call of some functions took, in histograms, and the slowest calls with their stacks.
 *
 * A call is known by its frame: no two frames that live have one address, be they of a thread, of a greenlet or in a generator
 * that goes on in another thread. So the calls that have begun are in a table by frame, in parts with a lock each, which is held
 * for tens of nanoseconds; and nothing depends on the order in which calls end. The module says what begins and ends
 * (module/times.c) and keeps the code objects alive that are named here. What is in it all is written as block M of the file. */
#ifndef SPPROF_CORE_RUN_TIMES_H
#define SPPROF_CORE_RUN_TIMES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sample.h"

#define SPP_SLOW_DEPTH 64u /* frames of a slow call that are kept, the innermost ones */

typedef struct spp_timed spp_timed; /* a function of which each call is timed; as long as the run's tables */

/* A call that has ended. Nanoseconds; `ran`: without the time between two steps of a generator or coroutine. */
typedef struct {
    uint64_t began_ns, took, ran, cpu;
    bool raised; /* an exception ended it */
} spp_timed_call;

/* Whether calls that begin are to be timed: between start and stop, unless paused. */
extern _Atomic bool spp_times_on;
/* Whether those that have begun still are: until what is in the tables was written for the last time. */
extern _Atomic bool spp_times_open;

/* Begins a run's timing, which is off until spp_times_follow; `cpu`: CPU time too. Called before a run begins; no table
 * is left of another. -1: no memory. */
int spp_times_start(bool cpu);
/* Attached, all of these. The function of a code object; NULL: it is not timed. */
spp_timed *spp_times_find(uintptr_t code);
/* One that is timed from now on. `steps`: its calls may be generators or coroutines. *added: the code object is referred to now.
 * NULL: the table is full, which is counted; or nothing is timed any more. */
spp_timed *spp_times_add(uintptr_t code, bool steps, bool *added);
/* A call begins in this frame, or the one there goes on, or waits. Nothing, if it has not begun while it was timed. */
void spp_times_begin(spp_timed *function, uintptr_t frame);
void spp_times_resume(uintptr_t frame);
void spp_times_suspend(uintptr_t frame);
/* It ends. True: it is among the slowest of its function so far, and spp_times_slow is to be called. */
bool spp_times_end(uintptr_t frame, bool raised, spp_timed_call *call);
/* Frames from the innermost, at most SPP_SLOW_DEPTH; `more`: there are others. `labels`: number of the set, 0: none. */
void spp_times_slow(spp_timed *function, const spp_timed_call *call, const spp_frame *frames, uint32_t n, bool more,
                    uint64_t labels);
/* Whether a stack may name this code object; *added: it is referred to now. */
bool spp_times_name(uintptr_t code, bool *added);

/* Times calls that begin from now on, or not. Any thread. */
void spp_times_follow(bool paused);
/* Calls see(code) for each function that is timed. Attached. */
void spp_times_each(void (*see)(uintptr_t code));
/* Writes what there is so far; `last`: and times no more. The drain thread, without the drain lock. Nothing if nothing is timed.
 */
void spp_times_write(bool last);
/* Frees all tables; `release` is called for each code object that they refer to. Nobody times any more. Attached. */
void spp_times_stop(void (*release)(uintptr_t code));
/* Nothing is timed any more. Any thread; also in a forked child. */
void spp_times_close(void);

#endif
