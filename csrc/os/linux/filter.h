/* Checks which system calls a filter of the program's (seccomp(2)) allows, by running it before it is installed. */
#ifndef SPPROF_OS_LINUX_FILTER_H
#define SPPROF_OS_LINUX_FILTER_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether it allows all these calls, with any arguments and from any address; or makes them fail, if they `may_fail`. Reads
 * foreign memory by guarded reads. Async-signal-safe; any thread. */
bool spp_linux_filter_allows(const struct sock_fprog *filter, const uint16_t *calls, size_t n, bool may_fail);

#endif
