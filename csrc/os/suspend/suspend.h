/* What os/suspend/trigger.c needs of a system that has no signals for threads, but suspends them: the calls of Mach, of Windows,
 * or of a test's script. Threads of ours call them, two at a time perhaps, also for the same thread. Between spp_suspend_stop and
 * spp_suspend_go nothing may be allocated, no lock be taken that the program's threads take too, and nothing be waited for: the
 * stopped thread may hold anything. */
#ifndef SPPROF_OS_SUSPEND_SUSPEND_H
#define SPPROF_OS_SUSPEND_SUSPEND_H

#include "os/context.h"
#include "os/ticks.h"

extern const spp_clock spp_clock_suspend, spp_clock_gil; /* trigger.c */

/* A thread as the system names it: a handle, a port. */
typedef uintptr_t spp_suspend_handle;

/* Room for the system's record of a thread's registers. */
typedef struct {
    _Alignas(16) unsigned char bytes[1536];
} spp_suspend_registers;

typedef enum {
    SPP_SUSPEND_DONE,
    SPP_SUSPEND_GONE,    /* the thread has ended */
    SPP_SUSPEND_REFUSED, /* it is there, but not to be had: nothing is stopped */
} spp_suspend_result;

/* Allocates what it needs. */
spp_suspend_result spp_suspend_open(int32_t tid, spp_suspend_handle *handle);
void spp_suspend_close(spp_suspend_handle handle);
/* Its CPU clock, by the same count as spp_os_thread_cpu_ns. */
spp_suspend_result spp_suspend_cpu_ns(spp_suspend_handle handle, int32_t tid, uint64_t *ns);
/* Stops the thread and waits until it stands; reads its registers. Fills in pc, sp, at_syscall and machine (which points into
 * `room`) of `context`, and `slots` of `subject`. If it fails at any step the thread goes on, as if never stopped. */
spp_suspend_result spp_suspend_stop(spp_suspend_handle handle, spp_suspend_registers *room, spp_os_context *context,
                                    spp_os_subject *subject);
void spp_suspend_go(spp_suspend_handle handle);
/* Of a thread that goes on: `slots` of `subject`, and as sp of `context` the lowest address that its stack has reached. */
spp_suspend_result spp_suspend_describe(spp_suspend_handle handle, spp_os_context *context, spp_os_subject *subject);
/* Whether two equal readings of a thread's CPU clock prove that it did not run between them. Else one that stands is stopped
 * while it is walked (spp_os_hold). */
bool spp_suspend_clock_proves(void);

/* The thread that suspends others from now on; 0: none. By trigger.c. */
void spp_suspend_set_sampler(int32_t tid);
/* Whether this is it: no thread of the program's. For spp_os_threads. */
bool spp_suspend_is_sampler(int32_t tid);

#endif
