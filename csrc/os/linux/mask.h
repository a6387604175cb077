/* The calling thread's signal mask, by system calls of our own: they block the C library's signals too, and no wrapper sees them.
 * Handler. */
#ifndef SPPROF_OS_LINUX_MASK_H
#define SPPROF_OS_LINUX_MASK_H

#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "os/linux/machine.h"

static inline void spp_linux_mask_set(uint64_t mask) {
    raw_call(SYS_rt_sigprocmask, SIG_SETMASK, (uintptr_t)&mask, 0, sizeof mask);
}

/* Blocks all signals, and returns the mask to set again. */
static inline uint64_t spp_linux_mask_all(void) {
    uint64_t all = UINT64_MAX, old = 0;
    raw_call(SYS_rt_sigprocmask, SIG_SETMASK, (uintptr_t)&all, (long)(uintptr_t)&old, sizeof all);
    return old;
}

#endif
