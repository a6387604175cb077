/* Calls of those functions only that samples show hottest: which functions are counted, and their counts.
 *
 * A function is counted in windows of time: from when its events were armed until it is none of the hottest any more, or is
 * called so often that counting would slow the program down. For each the file has (block W) the calls in its windows and its own
 * sampled time in them; the quotient is the time of a call. The drain thread chooses by the time in which each code object was
 * the leaf. Events can be armed only with the GIL, so it asks a thread that has it (module/hot.c). Code objects that were chosen
 * live until the stop. */
#ifndef SPPROF_CORE_RUN_HOT_H
#define SPPROF_CORE_RUN_HOT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Whether there are tables: between start and stop. */
extern _Atomic bool spp_hot_open;

/* On the thread that starts a run, before it begins; no table of an earlier run is left. `ask` is called by the drain thread,
 * without any lock, while there is something to arm or to disarm. -1: no memory. */
int spp_hot_start(void (*ask)(void));
/* A call of this function. Attached. */
void spp_hot_count(uintptr_t code);
/* What is to be armed or disarmed next. hold(code), called under the drain lock, refers to a code object that is new here; false:
 * it dies, or is none of ours. False: nothing. Attached; one thread at a time. */
bool spp_hot_next(bool (*hold)(uintptr_t code), uintptr_t *code, bool *armed);
/* That was done; or it failed, and is not tried again. */
void spp_hot_done(uintptr_t code, bool armed, bool failed);
/* Counts from now on, or not. Any thread. */
void spp_hot_follow(bool paused);
/* Drain thread, without the drain lock. Lets functions rest that are called too often; `chooses`: also looks which are the
 * hottest. Then, where a fork need not wait, asks. */
void spp_hot_turn(bool chooses);
void spp_hot_ask(void);
/* Counts no more: when the last sample is taken. Any thread. */
void spp_hot_close(void);
/* Writes what there is. The drain thread, without the drain lock. Nothing if nothing is counted. */
void spp_hot_write(void);
/* Calls see(code) for each function whose events are armed. Attached. */
void spp_hot_each(void (*see)(uintptr_t code));
/* Frees all tables; `release` is called for each code object that they refer to. No event is armed any more. Attached. */
void spp_hot_stop(void (*release)(uintptr_t code));
/* In a forked child. */
void spp_hot_child(void);

#endif
