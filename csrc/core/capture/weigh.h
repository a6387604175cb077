/* The weight of a sample of time: nanoseconds of CPU time that it stands for. */
#ifndef SPPROF_CORE_CAPTURE_WEIGH_H
#define SPPROF_CORE_CAPTURE_WEIGH_H

#include "core/capture/threads.h"

/* A counter with one writer needs no locked instruction. */
#define SPP_BUMP(counter, n) \
    atomic_store_explicit(&(counter), atomic_load_explicit(&(counter), memory_order_relaxed) + (n), memory_order_relaxed)

/* Handler. The weight of this tick: nanoseconds of CPU time since the last sample. `*new_given` is what given_ns becomes if the
 * sample is kept; if not, its time falls to the next one. Returns false if there is nothing to give. */
bool spp_weigh(spp_thread *thread, spp_tick kind, const spp_os_context *context, uint64_t now, uint64_t *weight,
               uint64_t *new_given);
/* Handler. At the end of a tick after which group_cpu is not 0: how long it took. */
void spp_weigh_end(spp_thread *thread);
/* Handler. Counts ticks that gave no sample: as lost, and as handled. */
void spp_weigh_miss(spp_thread *thread, enum spp_loss reason, uint64_t n);
/* Handler. Counts them as lost alone. */
void spp_weigh_lose(spp_thread *thread, enum spp_loss reason, uint64_t n);
/* Handler. The reason for fewer ticks than asked for, where nothing else than `reason` is known. */
enum spp_loss spp_weigh_reason(const spp_thread *thread, enum spp_loss reason);
/* CPU time that no sample of the thread accounts for when its clock ends, as far as only chance
 * explains it; negative if samples account for too much. `cpu`: its CPU clock at the end, or, if
 * not `exact`, at a later reading. Drain lock held; its handler runs no more. */
int64_t spp_weigh_open(const spp_thread *thread, uint64_t cpu, bool exact);

#endif
