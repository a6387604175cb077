/* Linux's part of os/posix/workers.c, and bells. */
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/linux/handshake.h"
#include "os/linux/machine.h"
#include "os/memory.h"
#include "os/posix/posix.h"
#include "os/threads.h"
#include "os/worker.h"

int32_t spp_os_tid(void) { return (int32_t)syscall(SYS_gettid); }

/* A short slice gives a waking thread an early deadline (EEVDF, Linux 6.12+; needs no right). Otherwise a tick waits until the
 * thread on that processor sleeps, and samples the sleep. */
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

/* Every C library keeps the tid in the thread descriptor, to which pthread_t points. The offset is found by comparing two
 * threads. One is not enough: the first process of a container has tid 1, and many words are 1. */
_Atomic long spp_linux_place_of_tid;

/* From pthread_t to the thread pointer, the same for all threads. 0 on x86_64. */
static long descriptor_size(void) { return (long)(thread_pointer() - (uintptr_t)pthread_self()); }

static void find_place_of_tid(uintptr_t other, int32_t tid) {
    int32_t own = spp_os_tid(), here, there;
    const char *self = (const char *)(uintptr_t)pthread_self();
    if (atomic_load(&spp_linux_place_of_tid) != 0 || tid == own) return;
    for (long at = 0; at < 2048; at += 4) {
        memcpy(&here, self + at, sizeof here);
        if (here != own || spp_os_read(&there, other + (uintptr_t)at, sizeof there) != 0 || there != tid) continue;
        atomic_store(&spp_linux_place_of_tid, at - descriptor_size());
        return;
    }
}

int32_t spp_os_tid_of_pthread(uintptr_t pthread) {
    long place = atomic_load(&spp_linux_place_of_tid);
    int32_t tid;
    return place != 0 && spp_os_read(&tid, pthread + (uintptr_t)(place + descriptor_size()), sizeof tid) == 0 ? tid : -1;
}

/* A thread's clock id contains the tid (spp_linux_thread_clock()). */
int32_t spp_posix_worker_tid(pthread_t thread) {
    clockid_t clock;
    if (pthread_getcpuclockid(thread, &clock) != 0) return -1;
    int32_t tid = (int32_t) ~(clock >> 3);
    find_place_of_tid((uintptr_t)thread, tid);
    return tid;
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
