/* Recognizes our threads by their stacks, without a system call. */
#include <stdatomic.h>
#include <stddef.h>

#include "os/posix/posix.h"

/* Upper ends of our threads' stacks; 0: unused. More threads than these are not recognized. */
#define KNOWN 16
static _Atomic uintptr_t stacks[KNOWN];

bool spp_posix_on_worker(void) {
    uintptr_t sp = (uintptr_t)__builtin_frame_address(0);
    for (int i = 0; i < KNOWN; i++) {
        uintptr_t top = atomic_load_explicit(&stacks[i], memory_order_relaxed);
        if (sp < top && top - sp < SPP_POSIX_STACK_BYTES / 2) return true; /* further down another stack may begin */
    }
    return false;
}

int spp_posix_worker_enters(uintptr_t top) {
    for (int i = 0; i < KNOWN; i++) {
        uintptr_t none = 0;
        if (atomic_compare_exchange_strong(&stacks[i], &none, top)) return i;
    }
    return KNOWN;
}

void spp_posix_worker_leaves(int place) {
    if (place < KNOWN) atomic_store(&stacks[place], 0);
}

void spp_posix_workers_child(void) {
    for (int i = 0; i < KNOWN; i++) atomic_store(&stacks[i], 0);
}
