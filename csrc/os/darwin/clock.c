/* Clocks of macOS. mach_absolute_time does not advance while the machine sleeps, and is what Python's time.monotonic shows. */
#include <sched.h>
#include <time.h>

#include "arch/arch.h"
#include "os/clock.h"
#include "os/darwin/darwin.h"

static mach_timebase_info_data_t timebase;
static pthread_once_t timebase_once = PTHREAD_ONCE_INIT;

static void read_timebase(void) {
    if (mach_timebase_info(&timebase) != KERN_SUCCESS || timebase.numer == 0 || timebase.denom == 0) {
        timebase.numer = timebase.denom = 1; /* x86_64's */
    }
}

/* a * b / c, for products beyond 64 bits; b and c have 32. */
static uint64_t scale(uint64_t a, uint32_t b, uint32_t c) { return a / c * b + a % c * b / c; }

uint64_t spp_os_now_ns(void) {
    pthread_once(&timebase_once, read_timebase);
    return scale(mach_absolute_time(), timebase.numer, timebase.denom);
}

static uint64_t clock_ns(clockid_t id) {
    struct timespec t;
    if (clock_gettime(id, &t) != 0) return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t spp_os_own_cpu_ns(void) { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }
uint64_t spp_os_process_cpu_ns(void) { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

uint64_t spp_os_cycles(void) { return spp_arch_cycles(); }

void spp_os_sleep_until(uint64_t ns) {
    pthread_once(&timebase_once, read_timebase);
    uint64_t deadline = scale(ns, timebase.denom, timebase.numer) + 1;
    /* KERN_ABORTED: it was interrupted. Nothing else is known to come, but must not make this spin. */
    while (mach_absolute_time() < deadline) {
        if (mach_wait_until(deadline) != KERN_SUCCESS) sched_yield();
    }
}
