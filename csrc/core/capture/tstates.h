/* Where the core gets thread states from: the module gives it these functions at a run's start. */
#ifndef SPPROF_CORE_CAPTURE_TSTATES_H
#define SPPROF_CORE_CAPTURE_TSTATES_H

#include <stdbool.h>
#include <stdint.h>

#include "os/context.h"

#define SPP_STATE_UNKNOWN UINTPTR_MAX /* the list of thread states changed while it was read */

/* Where thread states come from (module/tstate.c). Both without the GIL. */
typedef struct {
    uintptr_t (*own)(const spp_os_subject *subject); /* of the calling thread, or of a suspended one if not NULL; handler */
    /* of another thread, by guarded reads; `last` is what it was last time, or 0. 0: none; or SPP_STATE_UNKNOWN */
    uintptr_t (*of_thread)(int32_t tid, uintptr_t last);
    void (*look)(void); /* before of_thread is asked, by the same thread and without the drain lock; or NULL */
    /* of those that such a thread has, the one that it runs on; `stack_end`: where its stack ends, or 0 */
    uintptr_t (*current)(int32_t tid, uintptr_t any, uintptr_t stack_end);
    /* whether the lock at an address is the GIL of the interpreter of a state (0: of the main one); -1: nobody knows */
    int (*is_gil)(uintptr_t state, uintptr_t address);
    /* by which thread it is held, by guarded reads; 0: by none, or nobody knows. `state` is as there */
    int32_t (*gil_holder)(uintptr_t state);
    bool (*holds_gil)(uintptr_t state); /* whether it is held by the calling thread, which has this state; handler */
    uint64_t *births;                   /* the interpreter's count of thread states ever made, or NULL */
} spp_thread_states;

#endif
