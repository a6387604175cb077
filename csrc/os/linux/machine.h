/* What Linux's files need to know of the processor: registers of a signal's frame, and system calls without errno. */
#ifndef SPPROF_OS_LINUX_MACHINE_H
#define SPPROF_OS_LINUX_MACHINE_H

#if defined(__x86_64__)
#include "os/linux/machine_x86_64.h"
#elif defined(__aarch64__)
#include "os/linux/machine_aarch64.h"
#else
#error "spprof knows the registers of x86_64 and aarch64 only"
#endif

#endif
