/* What the files of os/linux share among themselves. */
#ifndef SPPROF_OS_LINUX_LINUX_H
#define SPPROF_OS_LINUX_LINUX_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* The signal that ticks come by: SIGURG, or SIGPROF or SIGSTKFLT where the program handles that itself. */
int spp_linux_signal(void);
/* Whether perf events send SIGTRAP instead. */
bool spp_linux_traps(void);
/* Whether a debugger is attached to this process. */
bool spp_linux_traced(void);
/* The CPU clock of any thread. Handler. */
clockid_t spp_linux_thread_clock(int32_t tid);

#endif
