/* What the files of os/linux share among themselves. */
#ifndef SPPROF_OS_LINUX_LINUX_H
#define SPPROF_OS_LINUX_LINUX_H

/* The signal that ticks come by: SIGPROF, or SIGSTKFLT where the program has its own SIGPROF handler. */
int spp_linux_signal(void);

#endif
