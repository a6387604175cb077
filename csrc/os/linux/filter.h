/* Which system calls a filter of the program's allows (seccomp(2)), found out before it is put on, by running it. */
#ifndef SPPROF_OS_LINUX_FILTER_H
#define SPPROF_OS_LINUX_FILTER_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether it allows all of these, whatever their arguments and wherever they are made; or has them fail, if they `may_fail`.
 * Reads foreign memory by guarded reads. Async-signal-safe; any thread. */
bool spp_linux_filter_allows(const struct sock_fprog *filter, const uint16_t *calls, size_t n, bool may_fail);

#endif
