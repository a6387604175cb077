/* A lock that is held for microseconds, by threads of ours or of the program's. Not the C library's mutex, because a forked child
 * must be able to reset it. A thread that waits sleeps 20 us at a time. Zeroed: free. Not in a handler, nor while a thread is
 * suspended that may hold it. */
#ifndef SPPROF_BASE_SPINLOCK_H
#define SPPROF_BASE_SPINLOCK_H

#include <stdatomic.h>
#include <stdint.h>

#include "os/clock.h"

typedef struct {
    _Atomic uint32_t taken, waiting;
} spp_spinlock;

static inline void spp_spin_pause(void) { spp_os_sleep_until(spp_os_now_ns() + 20000); }

static inline void spp_spin_lock(spp_spinlock *lock) {
    if (atomic_exchange_explicit(&lock->taken, 1, memory_order_acquire) == 0) return;
    atomic_fetch_add(&lock->waiting, 1);
    while (atomic_exchange_explicit(&lock->taken, 1, memory_order_acquire) != 0) spp_spin_pause();
    atomic_fetch_sub(&lock->waiting, 1);
}

/* Lets waiting threads go first: for the thread that holds the lock most of the time. */
static inline void spp_spin_lock_politely(spp_spinlock *lock) {
    while (atomic_load(&lock->waiting) != 0) spp_spin_pause();
    spp_spin_lock(lock);
}

static inline void spp_spin_unlock(spp_spinlock *lock) { atomic_store_explicit(&lock->taken, 0, memory_order_release); }

/* In a forked child, where no other thread holds it or waits. */
static inline void spp_spin_reset(spp_spinlock *lock) {
    atomic_store(&lock->taken, 0);
    atomic_store(&lock->waiting, 0);
}

#endif
