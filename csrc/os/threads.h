/* The threads of this process. Returns 0 for success and -1 for failure unless said otherwise. Called by our own threads, or by a
 * Python thread inside start and stop; not in a handler unless said. */
#ifndef SPPROF_OS_THREADS_H
#define SPPROF_OS_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Handler. The system's number of the calling thread. */
int32_t spp_os_tid(void);
/* Whether the calling thread is the one the process began with; true where the system does not say. Any thread. */
bool spp_os_is_first_thread(void);
/* How long a thread (0: the one the process began with) has been ready without a processor since it began, counted whenever it
 * then gets one, and how often it did. Returns -1 if the system does not say. Our threads. */
int spp_os_thread_ready(int32_t tid, uint64_t *ns, uint64_t *times);
/* CPU time of the children that the process has waited for, in its life; 0 where the system does not say. Our threads. */
uint64_t spp_os_children_cpu_ns(void);
/* A cheap number that changes when the number of threads does. 0 if unknown. */
uint64_t spp_os_thread_count(void);
/* Calls see(arg, tid) for each thread of the process except our sampler (os/suspend). */
int spp_os_threads(void (*see)(void *arg, int32_t tid), void *arg);
/* Whether the process has at most n threads. */
bool spp_os_threads_at_most(uint64_t n);
/* The position of a thread that waits in the kernel. Returns -1 if it runs or the system does not say. */
int spp_os_thread_where(int32_t tid, uintptr_t *pc, uintptr_t *sp);
/* The system's name of a thread, NUL-terminated. */
int spp_os_thread_name(int32_t tid, char *to, size_t size);
/* The tid behind a pthread_t (on Windows: behind a thread's ident in Python), which is read as untrusted. Returns -1 if unknown.
 */
int32_t spp_os_tid_of_pthread(uintptr_t pthread);

#endif
