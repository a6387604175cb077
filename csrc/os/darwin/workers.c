/* What background threads of our own begin with (os/posix/workers.c), and the doorbell that wakes one of them. */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "os/clock.h"
#include "os/darwin/darwin.h"
#include "os/posix/posix.h"
#include "os/worker.h"

/* A new thread has the default scheduling class, whatever its creator's is. A worker that must run
 * as soon as it wakes gets a class above the program's threads: then it waits for none of them, and
 * its wake-ups are not coalesced with others. If the system refuses, it runs as the others do. */
int32_t spp_posix_worker_tid(pthread_t thread) {
    (void)thread;
    return -1;
}

void spp_posix_worker_begins(const char *name, bool prompt) {
    pthread_setname_np(name);
    if (prompt) (void)pthread_set_qos_class_self_np(QOS_CLASS_USER_INTERACTIVE, 0);
}

/* ---- the bell: a semaphore of the kernel's, so that to ring it takes no lock and may be done in a signal handler. Of a forked
 * child it is not: its name means nothing there. */

static _Atomic semaphore_t semaphore;

static void forget(void) { atomic_store(&semaphore, MACH_PORT_NULL); }

/* By the one thread that waits. */
static void make_semaphore(void) {
    static bool registered;
    semaphore_t made = MACH_PORT_NULL;
    if (!registered) registered = pthread_atfork(NULL, NULL, forget) == 0;
    if (semaphore_create(mach_task_self(), &made, SYNC_POLICY_FIFO, 0) == KERN_SUCCESS) atomic_store(&semaphore, made);
}

void spp_os_bell_ring(spp_os_bell *bell) {
    if (atomic_exchange_explicit(&bell->rung, 1, memory_order_seq_cst) != 0) return;
    semaphore_t it = atomic_load(&semaphore);
    if (it != MACH_PORT_NULL) (void)semaphore_signal(it); /* none, or a failure: it is heard when the wait is over */
}

/* A ring that nobody waited for is left in the semaphore: the next wait returns at once, and waits again. */
bool spp_os_bell_wait(spp_os_bell *bell, uint64_t until_ns) {
    if (atomic_load(&semaphore) == MACH_PORT_NULL) make_semaphore();
    uint64_t now = spp_os_now_ns();
    while (atomic_load_explicit(&bell->rung, memory_order_seq_cst) == 0 && now < until_ns) {
        uint64_t left = until_ns - now;
        mach_timespec_t wait = {(unsigned int)(left / 1000000000u), (int)(left % 1000000000u)};
        semaphore_t it = atomic_load(&semaphore);
        kern_return_t ended = it != MACH_PORT_NULL ? semaphore_timedwait(it, wait) : KERN_FAILURE;
        now = spp_os_now_ns();
        if (ended == KERN_SUCCESS || ended == KERN_ABORTED || ended == KERN_OPERATION_TIMED_OUT) continue;
        /* Without a semaphore: a millisecond at a time. */
        spp_os_sleep_until(now + 1000000 < until_ns ? now + 1000000 : until_ns);
        now = spp_os_now_ns();
    }
    return atomic_exchange_explicit(&bell->rung, 0, memory_order_acq_rel) != 0;
}
