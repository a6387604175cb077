/* One look of a sampler of the clock `signal` at all threads: which of them ran since the look before, and which are sent a
 * signal. */
#ifndef SPPROF_OS_LINUX_LOOK_H
#define SPPROF_OS_LINUX_LOOK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "os/linux/linux.h"
#include "os/linux/targets.h"

/* A sampler that comes so late (a virtual machine takes 10 to 40 us) ran when the scheduler wanted, not when it asked to. */
#define SPP_LINUX_LATE_NS 60000u
/* A thread that is owed so many has the looks come sooner, by one part of so many. */
#define SPP_LINUX_HURRY 5

/* One look at all threads. */
typedef struct {
    uint32_t by; /* which sampler looks */
    pid_t process;
    spp_linux_files *files;      /* its own, in its table */
    uint64_t *random;            /* under the lock */
    uint64_t n;                  /* looks before this one */
    uint64_t late_ns;            /* how long ago we wanted to look */
    uint64_t slept_ns;           /* since the look before */
    bool hurried;                /* it comes a fifth sooner, for threads that are owed ticks */
    int here;                    /* our processor */
    uint64_t own_ns;             /* our CPU clock, just before we slept */
    uint64_t woke_ns;            /* since when we run, by the run queue's clock; 0: not looked at, UINT64_MAX: not told */
    spp_linux_target *displaced; /* whom we took it from */
    uint64_t ran_ns;             /* where that is not told: since the look before, by all of those whom it may have been */
    bool mostly_late;            /* so are most looks */
    uint32_t handed;             /* threads that ran since the look before, do not now, and often do so */
    uint32_t running;            /* threads that run, on other processors */
    uint32_t stopped;            /* threads that ran since the look before, and do not now */
    bool owed;                   /* some are owed more ticks than they should be */
} spp_linux_look;

/* A sampler, with the lock of the targets. */
void spp_linux_look_around(spp_linux_look *l, uint64_t now);

#endif
