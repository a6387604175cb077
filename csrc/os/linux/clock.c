/* Clocks of Linux. The monotonic clock comes from the vDSO (15 ns); CPU clocks are system calls (0.11 to 0.18 us). */
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>

#include "arch/arch.h"
#include "base/hints.h"
#include "os/clock.h"
#include "os/linux/linux.h"
#include "os/linux/machine.h"

static uint64_t clock_ns(clockid_t id) {
    struct timespec t;
    if (clock_gettime(id, &t) != 0) return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

SPP_HOT uint64_t spp_os_now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }
uint64_t spp_os_own_cpu_ns(void) { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }
uint64_t spp_os_process_cpu_ns(void) { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

uint64_t spp_os_cycles(void) { return spp_arch_cycles(); }

/* The kernel's encoding of "scheduler clock of thread tid" (include/linux/posix-timers_types.h: per-thread bit 2,
 * CPUCLOCK_SCHED 2, the id inverted above them). */
clockid_t spp_linux_thread_clock(int32_t tid) { return (clockid_t)((~(uint32_t)tid << 3) | 6u); }

int spp_os_thread_cpu_ns(int32_t tid, uint64_t *ns) {
    struct timespec t;
    if (clock_gettime(spp_linux_thread_clock(tid), &t) != 0) return -1;
    *ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    return 0;
}

void spp_os_sleep_until(uint64_t ns) {
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    /* The call is our own code's, so a tick that ends it is known to hurt nobody: spp_linux_sent(). */
    while (raw_call(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, (long)(uintptr_t)&t, 0) == -EINTR) {}
}
