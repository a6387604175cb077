/* Clocks, and sleeping. Any thread. "Handler" marks what may be called in a signal handler: no lock, no allocation, bounded. */
#ifndef SPPROF_OS_CLOCK_H
#define SPPROF_OS_CLOCK_H

#include <stdint.h>

/* Handler. Monotonic. */
uint64_t spp_os_now_ns(void);
/* Handler. CPU time of the calling thread. */
uint64_t spp_os_own_cpu_ns(void);
/* Handler. CPU time of all threads of the process, including those that ended. */
uint64_t spp_os_process_cpu_ns(void);
/* Handler. The time stamp counter; on aarch64 one of constant frequency. 0 if there is none. */
uint64_t spp_os_cycles(void);
/* Handler. CPU time of any thread of this process, never less than the last time. Returns -1 if the thread is gone. */
int spp_os_thread_cpu_ns(int32_t tid, uint64_t *ns);
/* Sleeps until the monotonic clock shows `ns`. Not in a handler. */
void spp_os_sleep_until(uint64_t ns);

#endif
