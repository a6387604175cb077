/* How long a thread waits for another one of its process at most. A clock is no measure of that: it goes on while the process is
 * stopped (by SIGSTOP, a debugger, a frozen container), or has hardly a processor. So what counts is short sleeps, each for
 * little more than it was to take. Any thread, not in a handler. */
#ifndef SPPROF_BASE_PATIENCE_H
#define SPPROF_BASE_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "os/clock.h"

typedef uint64_t spp_patience; /* ns that are left */

/* What counts of the time since then, in which the thread slept for `step_ns`. */
static inline uint64_t spp_patience_took(uint64_t since_ns, uint64_t step_ns) {
    uint64_t took = spp_os_now_ns() - since_ns, most = 2 * step_ns + 1000000u;
    return took < most ? took : most;
}

/* False: none was left. */
static inline bool spp_patience_spend(spp_patience *left, uint64_t took_ns) {
    if (*left == 0) return false;
    *left -= took_ns < *left ? took_ns : *left;
    return true;
}

/* Sleeps for a step. False, without: none was left. */
static inline bool spp_patience_sleep(spp_patience *left, uint64_t step_ns) {
    uint64_t since = spp_os_now_ns();
    if (*left == 0) return false;
    spp_os_sleep_until(since + step_ns);
    return spp_patience_spend(left, spp_patience_took(since, step_ns));
}

#endif
