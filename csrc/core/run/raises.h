/* Exact counts of exceptions: where each was raised, and where it was caught.
 *
 * A *flight* is an exception's way from its raise to where it is caught. Events say where it is: it is raised in a frame, leaves
 * a frame, enters a handler (`except`, `finally`, the end of a `with`), is raised again at that handler's end. None says that C
 * code has caught it, nor that a handler ends well. So a flight is counted at every instant, as if it ended where it is; its
 * next event moves the count. The module says what happens (module/exceptions.c) and keeps the objects in the rows alive.
 * What was counted is written as block K of the file. */
#ifndef SPPROF_CORE_RUN_RAISES_H
#define SPPROF_CORE_RUN_RAISES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uintptr_t thread;    /* thread state */
    uintptr_t exception; /* only compared */
    uintptr_t type;
    uintptr_t frame, code; /* where it is; 0: no Python code is left on the thread */
    uint32_t at;           /* the byte offset of the instruction in `code`, or SPP_OFFSET_NONE */
} spp_flight_at;

/* Whether exceptions are to be counted now: between start and stop, unless paused. */
extern _Atomic bool spp_raises_on;

/* Begins a run's counting, which is off until spp_raises_follow. `hold` is called for each object that a row refers to, and
 * neither waits nor runs anything. Called before a run begins. */
void spp_raises_start(void (*hold)(uintptr_t object));

/* All of these: attached, on the flight's thread. */
/* Whether a type has its name already; if not, spp_raises_name comes before a raise of it. */
bool spp_raises_knows(uintptr_t type);
void spp_raises_name(uintptr_t type, const char *name);
/* An exception is raised in a frame; or one that has left a frame is, in the frame that called it. */
void spp_raises_raised(const spp_flight_at *now);
/* It leaves a frame; `now` is about the caller's. */
void spp_raises_left(const spp_flight_at *now);
/* It enters a handler, whose first instruction is at the offset. */
void spp_raises_handled(const spp_flight_at *now);
/* A handler of the frame ends by raising again what it was entered with. */
void spp_raises_again(const spp_flight_at *now);

/* Counts from now on, or not. Any thread. */
void spp_raises_follow(bool paused);
/* Writes what was counted so far; `last`: and counts no more. The drain thread, without the drain lock. */
void spp_raises_write(bool last);
/* Frees all; `release` is called for each object that was held. Nobody counts any more. Attached. */
void spp_raises_stop(void (*release)(uintptr_t object));
/* In a forked child. */
void spp_raises_child(void);

#endif
