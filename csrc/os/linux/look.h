/* A look: a sampler of the clock `signal` checks which threads ran since the previous look, and signals those that are due. */
#ifndef SPPROF_OS_LINUX_LOOK_H
#define SPPROF_OS_LINUX_LOOK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "os/linux/linux.h"
#include "os/linux/targets.h"

/* A look that begins so late, because the sampler waited for a processor, began at an instant that the scheduler chose. */
#define SPP_LINUX_LATE_NS 60000u
/* While some thread is owed ticks, looks come sooner by one part in so many. */
#define SPP_LINUX_HURRY 5

typedef struct {
    uint32_t by;            /* index of the sampler */
    pid_t process;          /* this process */
    spp_linux_files *files; /* the sampler's own, in its descriptor table */
    uint64_t *random;       /* state of the random numbers, under the lock */
    uint64_t n;             /* number of looks before this one */
    uint64_t late_ns;       /* how late the look began; if the sampler did not wait for a processor, less */
    uint64_t slept_ns;      /* since the previous look */
    bool hurried;           /* it came sooner, for threads that are owed ticks */
    bool mostly_late;       /* most looks are late */
    int here;               /* the sampler's processor */
    uint64_t own_ns;        /* the sampler's CPU clock just before it slept */
    uint64_t woke_ns;       /* when the sampler began to run, by the run queue's clock; 0: not read yet, UINT64_MAX: unknown */
    spp_linux_target *displaced; /* the thread that the sampler preempted; NULL: none */
    uint64_t ran_ns;             /* if `displaced` is a guess: CPU time of all candidates since the previous look; else 0 */
    uint32_t handed;             /* threads that ran since the previous look, are asleep now, and often are */
    uint32_t running;            /* threads that are running, on other processors */
    uint32_t stopped;            /* threads that ran since the previous look and are not running now */
    uint32_t outside;            /* threads that ran of late and are in no call of the C library: they run or could */
    bool awaited;                /* set if `displaced` is the only one that runs or could */
    bool owed;                   /* set if some thread is owed ticks */
} spp_linux_look;

/* Looks at all threads. The sampler, with the targets' lock. The caller sets the fields above `woke_ns`, and zeroes the rest. */
void spp_linux_look_around(spp_linux_look *l, uint64_t now);

#endif
