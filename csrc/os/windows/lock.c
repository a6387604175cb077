/* Locks of Windows, where nothing forks; and the bell, an event of the kernel's: what waits for an address has lists under locks
 * in the process, which a suspended thread may hold. */
#include "os/windows/windows.h"

#include <stdatomic.h>

#include "os/clock.h"
#include "os/lock.h"
#include "os/worker.h"

static SRWLOCK lock = SRWLOCK_INIT;
static _Atomic uint32_t waiting; /* for it */
static _Atomic DWORD last;       /* its last holder */
static HANDLE bell_event;

/* A lock of Windows goes to the first thread that tries, mostly the one that just released it. So
 * the sampler of wall mode, late with its looks, kept it from starting threads, which wait with the
 * GIL: 18 threads were started a second instead of 240 (wine). So the last holder lets waiting
 * threads go first. Not called by a thread that has another one suspended. */
void spp_os_lock(void) {
    DWORD me = GetCurrentThreadId();
    while (atomic_load(&last) == me && atomic_load(&waiting) != 0) spp_os_sleep_until(spp_os_now_ns() + 20000);
    atomic_fetch_add(&waiting, 1);
    AcquireSRWLockExclusive(&lock);
    atomic_fetch_sub(&waiting, 1);
    atomic_store(&last, me);
}
bool spp_os_lock_until(uint64_t until_ns) {
    while (!TryAcquireSRWLockExclusive(&lock)) {
        uint64_t now = spp_os_now_ns();
        if (now >= until_ns) return false;
        spp_os_sleep_until(now + 200000);
    }
    return true;
}
void spp_os_unlock(void) { ReleaseSRWLockExclusive(&lock); }
void spp_os_work_begin(void) {}
void spp_os_work_end(void) {}
void spp_os_loader_begin(void) {}
void spp_os_loader_end(void) {}

int spp_os_lock_init(void (*child)(void)) {
    (void)child;
    if (bell_event == NULL) bell_event = CreateEventW(NULL, FALSE, FALSE, NULL);
    return bell_event != NULL ? 0 : -1;
}

bool spp_os_forked_unseen(void) { return false; }
void spp_os_fork_seen(void) {}

void spp_os_bell_ring(spp_os_bell *bell) {
    if (atomic_exchange_explicit(&bell->rung, 1, memory_order_release) == 0) SetEvent(bell_event);
}

bool spp_os_bell_wait(spp_os_bell *bell, uint64_t until_ns) {
    uint64_t now = spp_os_now_ns();
    if (atomic_load_explicit(&bell->rung, memory_order_acquire) == 0 && now < until_ns) {
        WaitForSingleObject(bell_event, (DWORD)((until_ns - now) / 1000000 + 1));
    }
    return atomic_exchange_explicit(&bell->rung, 0, memory_order_acq_rel) != 0;
}
