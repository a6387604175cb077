/* A build that is made to fail (tools/matrix --faults K): every K-th guarded read and probe says that there is nothing. */
#ifndef SPPROF_BASE_FAULTS_H
#define SPPROF_BASE_FAULTS_H

#include <stdbool.h>

/* Handler. For the one file that reads memory for the others, since it counts for itself. */
#ifdef SPP_FAULT_EVERY
#include <stdatomic.h>
static inline bool spp_at_fault(void) {
    static _Atomic unsigned long guarded;
    return atomic_fetch_add_explicit(&guarded, 1, memory_order_relaxed) % SPP_FAULT_EVERY == SPP_FAULT_EVERY - 1;
}
#else
static inline bool spp_at_fault(void) { return false; }
#endif

#endif
