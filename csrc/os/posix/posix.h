/* What the files of os/posix ask of the system beside, and share with its files. */
#ifndef SPPROF_OS_POSIX_POSIX_H
#define SPPROF_OS_POSIX_POSIX_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Takes a lock, unless it is still another's at `until_ns` (monotonic: the time of day may be set meanwhile). */
bool spp_posix_lock_until(pthread_mutex_t *lock, uint64_t until_ns);

/* On a background thread of ours, before its body runs: names it, and if `prompt` lets it run as soon as it wakes. The system's.
 */
void spp_posix_worker_begins(const char *name, bool prompt);

/* Stacks of workers: the default is 8 MiB, which counts under `ulimit -v`; no worker needs a tenth of this. */
#define SPP_POSIX_STACK_BYTES ((size_t)1 << 20)
/* The number of a thread that was just started, if that can be told before it runs; else -1. */
int32_t spp_posix_worker_tid(pthread_t thread);
/* Whether the caller is a worker of ours. Handler; makes no call. */
bool spp_posix_on_worker(void);
/* The worker: its stack begins there; it is about to end. */
int spp_posix_worker_enters(uintptr_t top);
void spp_posix_worker_leaves(int place);
void spp_posix_workers_child(void); /* in a forked child, which has none */

/* Reads a part of a file to its place in `bytes`, which are n. What is missing is left as it is. Read, not mapped: a file that
 * becomes shorter while it is mapped ends the process. */
void spp_posix_read_part(int fd, uint8_t *bytes, size_t n, uint64_t offset, uint64_t size);

/* Handler. Whether that is the handler that spp_os_term_catch sets. */
bool spp_posix_term_is(uintptr_t handler);

/* In a forked child: lets go of the locks that the parent has. */
void spp_posix_files_child(void);

#endif
