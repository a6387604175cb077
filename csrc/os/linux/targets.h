/* Targets: the threads that the clock `signal` samples. sender.c arms them and handles their signals, look.c looks at them. */
#ifndef SPPROF_OS_LINUX_TARGETS_H
#define SPPROF_OS_LINUX_TARGETS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/spinlock.h"
#include "os/linux/handshake.h"
#include "os/linux/linux.h"

#define SPP_LINUX_TARGETS 16384u
#define SPP_LINUX_TARGET_ALIGN 128u /* a signal's value is a target's address; its low bits say which use of the target */

/* A signal that takes longer than this to reach a running thread did not come by an interrupt. */
#define SPP_LINUX_WAY_MOST_NS 100000u
/* Intervals below this are short: several samplers take turns. */
#define SPP_LINUX_FAST_NS 300000u
#define SPP_LINUX_SAMPLERS 6u /* at most; see sampler.c */

typedef struct spp_linux_target {
    _Alignas(SPP_LINUX_TARGET_ALIGN) _Atomic uintptr_t cookie; /* 0: not armed */
    _Atomic uint32_t use;
    int32_t tid;           /* constant while armed */
    int32_t kernels_timer; /* the kernel's id (timer_t of the C library may take a lock); -1: the signal queue is full */

    spp_linux_handshake *shakes; /* constant while armed */
    uint64_t timed_ns;           /* the thread: when the timer that it last set ends */
    uint64_t resumed_ns;         /* the thread: when it went on after it had set it */

    /* the signal under way: at most one */
    _Atomic bool late;           /* the scheduler chose the instant, and the interval is short */
    _Atomic uint64_t from_ns;    /* when it was sent */
    _Atomic uint32_t put_off_ns; /* take the sample so much later; 0: where the signal interrupts the thread */
    _Atomic bool unseen;         /* a signal interrupted a system call that has no wrapper, or would: so no more are sent */
    _Atomic uint32_t cut_short;  /* the handler: the share of signals that came at the end of a system call without a wrapper */
    _Atomic uint32_t declined;   /* the handler: signals that gave no tick because the thread was about to sleep */
    _Atomic uint32_t more;       /* instants at which the thread ran while an earlier signal was still under way */
    _Atomic uint32_t waking;     /* instants at which it was being woken: the next sample of a call counts for them too */
    _Atomic uint64_t period_ns;
    _Atomic uint64_t look_cpu; /* the thread's CPU clock, as the last look read it */

    /* the samplers, under the lock */
    struct spp_linux_target *next, **link; /* the pointer to this one; NULL: not in the list */
    uint64_t looked_ns, moved_ns, sent_cpu;
    bool wary;          /* the thread is older than the run, and was not seen running yet */
    uint64_t asked_cpu; /* its CPU time at the last sleep of which the kernel was asked for the call */
    uint64_t slept_ns;  /* when it was looked at, if it was asleep; else 0 */
    uint32_t asleep;    /* the share of looks that found it asleep after it ran since the previous look */
    int64_t owed_ns;    /* CPU time for which no signal was sent yet; negative: ahead */
    uint32_t declined_seen, woken_seen;
    bool noted; /* at the last look: the thread decides whether it was asleep (SPP_WANTED_UNSURE) */
    spp_linux_files files[SPP_LINUX_SAMPLERS]; /* open in each sampler's own descriptor table */
} spp_linux_target;

/* All targets. */
typedef struct {
    spp_linux_target *pool;   /* never unmapped, since signals may come late */
    spp_spinlock lock;        /* taken by samplers and by the thread that arms; never in a handler */
    spp_linux_target *armed;  /* the list; under the lock */
    uint64_t period_ns;       /* of the run; under the lock */
    _Atomic uint32_t armed_n; /* written under the lock */
    _Atomic int signum;       /* of ticks; likewise */
} spp_linux_target_list;
extern spp_linux_target_list spp_linux_targets;

/* Allocates the pool. Call before the others. -1: no memory. */
int spp_linux_targets_make(void);
/* Returns an unused target; NULL: all are in use. Not in a handler, nor are the next ones. */
spp_linux_target *spp_linux_target_new(void);
/* Adds a target to the list, so that samplers look at it. */
void spp_linux_target_link(spp_linux_target *t, int signum, uint64_t period_ns);
/* Removes a target from the list and returns it to the pool. No more signals are sent, and one under way gives no tick. */
void spp_linux_target_free(spp_linux_target *t);
/* Call when samplers start: their descriptor tables are empty. */
void spp_linux_targets_forget_files(void);
/* In a forked child, which samples no thread yet. */
void spp_linux_targets_child(void);

/* Handler. Returns the target that a signal's value refers to, in use or not; NULL: none. */
static inline spp_linux_target *spp_linux_target_named(uintptr_t value) {
    uintptr_t base = (uintptr_t)spp_linux_targets.pool;
    if (value < base || value >= base + SPP_LINUX_TARGETS * sizeof(spp_linux_target) || base == 0) return NULL;
    return spp_linux_targets.pool + (value - base) / sizeof(spp_linux_target);
}

/* Handler. Whether the thread blocks the signal of ticks. */
static inline bool spp_linux_target_blocks(const spp_linux_handshake *h) {
    return atomic_load_explicit(&h->blocks, memory_order_relaxed) >> (spp_linux_targets.signum - 1) & 1u;
}

#endif
