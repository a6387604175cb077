/* The threads that the clock `signal` samples: a target for each, the pool that they come from, and the list of those that are
 * armed. sender.c arms them and handles their signals, look.c looks at them. */
#ifndef SPPROF_OS_LINUX_TARGETS_H
#define SPPROF_OS_LINUX_TARGETS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/spinlock.h"
#include "os/linux/handshake.h"
#include "os/linux/linux.h"

#define SPP_LINUX_TARGETS 16384u
#define SPP_LINUX_TARGET_ALIGN 128u /* a signal's value is a target and, in the bits that its address leaves, which use of it */

/* A signal that takes longer than this to a thread that runs is no interrupt. */
#define SPP_LINUX_WAY_MOST_NS 100000u
/* Looks come fast where the interval is shorter than this. */
#define SPP_LINUX_FAST_NS 300000u
#define SPP_LINUX_SAMPLERS 6u /* threads that look, at the most: sampler.c */

typedef struct spp_linux_target {
    _Alignas(SPP_LINUX_TARGET_ALIGN) _Atomic uintptr_t cookie; /* 0: not armed */
    _Atomic uint32_t use;
    int32_t tid;           /* constant while armed */
    int32_t kernels_timer; /* the C library's type has a lock behind it where it has one; -1: the queue of signals is full */

    spp_linux_handshake *shakes; /* constant while armed */
    uint64_t timed_ns;           /* the thread: what its timer was set to last */
    /* one signal at a time */
    _Atomic bool late;           /* the scheduler chose the instant, and the rate is high */
    _Atomic uint64_t from_ns;    /* it was sent then ... */
    _Atomic uint32_t put_off_ns; /* ... and is to be a sample so much later; 0: of where it meets the thread */
    _Atomic bool unseen;         /* the handler: it makes calls without the C library, which signals may end: no more are sent */
    _Atomic uint32_t way_ns;     /* the handler: how long signals take */
    _Atomic uint32_t cut_short;  /* the handler: the share of signals that the end of a call without a wrapper took */
    _Atomic uint32_t declined;   /* the handler: signals that gave no tick, for the thread was about to sleep */
    _Atomic uint32_t more;       /* instants at which the thread ran, while the signal of an earlier one had not come yet */
    _Atomic uint32_t waking;     /* instants at which it was about to: the next sample of a call stands for them too */
    _Atomic uint64_t period_ns;

    /* the sampler, under the lock */
    struct spp_linux_target *next, **link; /* which points to it; NULL: it is not in the list */
    uint64_t looked_ns, look_cpu, moved_ns, sent_cpu;
    uint64_t slept_ns; /* when it was looked at, if it slept then; else 0 */
    uint32_t stood;    /* at which share of looks it had run, and stood */
    int64_t owed_ns;   /* CPU time that no signal was sent for yet; less than 0: ahead */
    uint32_t declined_seen;
    spp_linux_files files[SPP_LINUX_SAMPLERS]; /* in the table of each */
} spp_linux_target;

/* All of them. A forked child finds the lock free. */
typedef struct {
    spp_linux_target *pool;   /* never unmapped: a late signal finds memory */
    spp_spinlock lock;        /* of the lists: by the samplers, and the thread that arms. Not in a handler. */
    spp_linux_target *armed;  /* the first; under the lock */
    uint64_t period_ns;       /* the shortest; under the lock */
    _Atomic uint32_t armed_n; /* written under the lock */
    _Atomic int signum;       /* by which ticks come; likewise */
} spp_linux_target_list;
extern spp_linux_target_list spp_linux_targets;

/* Before the others. -1: no memory. */
int spp_linux_targets_make(void);
/* One that is not in use; NULL: all are. Not in a handler, nor for those that follow. */
spp_linux_target *spp_linux_target_new(void);
/* Puts it into the list, with the signal and the interval of the run. */
void spp_linux_target_link(spp_linux_target *t, int signum, uint64_t period_ns);
/* Takes it out of the list, so that nothing is sent any more, and has what was sent be nothing. */
void spp_linux_target_free(spp_linux_target *t);
/* The samplers' tables of files are new. */
void spp_linux_targets_forget_files(void);
/* In a forked child, which samples none. */
void spp_linux_targets_child(void);

/* Handler. The target that a signal's value names, in use or not; NULL: it names none. */
static inline spp_linux_target *spp_linux_target_named(uintptr_t value) {
    uintptr_t base = (uintptr_t)spp_linux_targets.pool;
    if (value < base || value >= base + SPP_LINUX_TARGETS * sizeof(spp_linux_target) || base == 0) return NULL;
    return spp_linux_targets.pool + (value - base) / sizeof(spp_linux_target);
}

/* Handler. A signal would wait, for the thread blocks it. */
static inline bool spp_linux_target_blocks(const spp_linux_handshake *h) {
    return atomic_load_explicit(&h->blocks, memory_order_relaxed) >> (spp_linux_targets.signum - 1) & 1u;
}

#endif
