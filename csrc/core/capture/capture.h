/* The handler: takes the samples of a thread.
 *
 * "Handler" means code that runs while the thread cannot move: on that thread itself, or on our thread
 * that suspended it (os/context.h). */
#ifndef SPPROF_CORE_CAPTURE_CAPTURE_H
#define SPPROF_CORE_CAPTURE_CAPTURE_H

#include "core/capture/threads.h"

int spp_capture_init(void); /* the slab of threads, and what bench/ reads; once */

/* Handler. Where the C stack of the walk lies, and how much of it can be read in place. */
void spp_capture_stack(spp_thread *thread, const spp_os_context *context, spp_walk *walk);

/* A handler, or a hook on the program's thread, which a tick may interrupt. Takes a sample of a
 * source other than time, weighted with `amount`. A tick or hook that interrupts another one on the
 * same thread takes none, since a queue has one producer. False: no sample was kept; add the amount
 * to the next. */
bool spp_capture_take(spp_thread *thread, spp_source_id source, uint64_t amount, const spp_os_context *context);

/* Handler: spp_os_tick_fn. */
void spp_capture_tick(void *cookie, spp_tick kind, const spp_os_context *context);

/* TSC cycles of recent handler runs, for bench/. */
#define SPP_CYCLES_KEPT 65536u
extern uint32_t *spp_cycles;
extern _Atomic uint64_t spp_cycles_count;

#endif
