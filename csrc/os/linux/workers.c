/* What os/posix/workers.c leaves to Linux, and bells. */
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/os.h"
#include "os/posix/posix.h"

int32_t spp_os_tid(void) { return (int32_t)syscall(SYS_gettid); }

/* A short slice gives a waking thread an early deadline (EEVDF, Linux 6.12+; no right needed). Else a tick waits until who
 * runs on that processor sleeps, and lands on the sleep. */
static void ask_for_short_slice(void) {
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
        uint32_t util_min, util_max;
    } attr = {.size = sizeof attr, .nice = getpriority(PRIO_PROCESS, 0), .runtime = 100000}; /* as nice as it is */
    if (sched_getscheduler(0) != SCHED_OTHER) return;
    syscall(SYS_sched_setattr, 0, &attr, 0);
}

void spp_posix_worker_begins(const char *name, bool prompt) {
    pthread_setname_np(pthread_self(), name);
    prctl(PR_SET_TIMERSLACK, 1L); /* wake when asked, not 50 us later */
    if (prompt) ask_for_short_slice();
}

void spp_os_bell_ring(spp_os_bell *bell) {
    if (atomic_exchange_explicit(&bell->rung, 1, memory_order_release) == 0) {
        syscall(SYS_futex, &bell->rung, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

bool spp_os_bell_wait(spp_os_bell *bell, uint64_t until_ns) {
    struct timespec t = {.tv_sec = (time_t)(until_ns / 1000000000u), .tv_nsec = (long)(until_ns % 1000000000u)};
    if (atomic_load_explicit(&bell->rung, memory_order_acquire) == 0) {
        syscall(SYS_futex, &bell->rung, FUTEX_WAIT_BITSET_PRIVATE, 0, &t, NULL, FUTEX_BITSET_MATCH_ANY);
    }
    return atomic_exchange_explicit(&bell->rung, 0, memory_order_acq_rel) != 0;
}
