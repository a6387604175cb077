/* What os/suspend/trigger.c needs of a system that suspends threads instead of sending them signals: the calls of Mach, of
 * Windows, or of a test's script. Our threads call these functions, possibly two at a time and for the same thread. Between
 * spp_suspend_stop and spp_suspend_go do not allocate, do not wait, and take no lock that a thread of the program takes: the
 * suspended thread may hold it. */
#ifndef SPPROF_OS_SUSPEND_SUSPEND_H
#define SPPROF_OS_SUSPEND_SUSPEND_H

#include "os/context.h"
#include "os/ticks.h"

SPP_CLOCKS_OF_SUSPEND(SPP_CLOCK_DECLARE) /* trigger.c */

/* A thread as the system names it: a handle, a port. */
typedef uintptr_t spp_suspend_handle;

/* Scratch space for the system's record of a thread's registers. */
typedef struct {
    _Alignas(16) unsigned char bytes[1536];
} spp_suspend_registers;

typedef enum {
    SPP_SUSPEND_DONE,
    SPP_SUSPEND_GONE,    /* the thread has ended */
    SPP_SUSPEND_REFUSED, /* the system refuses; the thread is not suspended */
} spp_suspend_result;

/* May allocate. */
spp_suspend_result spp_suspend_open(int32_t tid, spp_suspend_handle *handle);
void spp_suspend_close(spp_suspend_handle handle);
/* Its CPU clock, which agrees with spp_os_thread_cpu_ns. */
spp_suspend_result spp_suspend_cpu_ns(spp_suspend_handle handle, int32_t tid, uint64_t *ns);
/* Suspends the thread, waits until it no longer runs, and reads its registers. Fills in pc, sp,
 * at_syscall and machine (which points into `buffer`) of `context`, and `slots` of `subject`. If a
 * step fails the thread is resumed. */
spp_suspend_result spp_suspend_stop(spp_suspend_handle handle, spp_suspend_registers *buffer, spp_os_context *context,
                                    spp_os_subject *subject);
void spp_suspend_go(spp_suspend_handle handle);
/* For a thread that is not suspended: fills in `slots` of `subject`, and sp of `context`: the lowest address its stack has
 * reached. */
spp_suspend_result spp_suspend_describe(spp_suspend_handle handle, spp_os_context *context, spp_os_subject *subject);
/* Whether two equal readings of a thread's CPU clock prove that it did not run between them. If not, an off-CPU thread is
 * suspended while it is walked (spp_os_hold). */
bool spp_suspend_clock_proves(void);

/* The thread that suspends others from now on; 0: none. By trigger.c. */
void spp_suspend_set_sampler(int32_t tid);
/* Whether this is it: no thread of the program's. For spp_os_threads. */
bool spp_suspend_is_sampler(int32_t tid);

#endif
