/* What the files of os/posix need from each system, and share with its files. */
#ifndef SPPROF_OS_POSIX_POSIX_H
#define SPPROF_OS_POSIX_POSIX_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Locks a mutex; false if another thread still holds it at `until_ns` (monotonic, since the time of day may be set). */
bool spp_posix_lock_until(pthread_mutex_t *lock, uint64_t until_ns);

/* Each system has its own. Called on a worker before its body: names the thread, and if `prompt` asks the system to run it as
 * soon as it wakes. */
void spp_posix_worker_begins(const char *name, bool prompt);

/* Stack size of workers. The default is 8 MiB, which counts under `ulimit -v`; no worker needs a tenth of this. */
#define SPP_POSIX_STACK_BYTES ((size_t)1 << 20)
/* The tid of a thread that was just started, if it is known before the thread runs; else -1. */
int32_t spp_posix_worker_tid(pthread_t thread);
/* Whether the caller is a worker of ours. Handler; makes no call. */
bool spp_posix_on_worker(void);
/* On a worker: its stack begins at `top`; it is about to end. */
int spp_posix_worker_enters(uintptr_t top);
void spp_posix_worker_leaves(int place);
void spp_posix_workers_child(void); /* in a forked child, which has none */

/* Reads a part of a file to its place in `bytes` (n of them), and leaves the rest unchanged where the file is shorter. It is not
 * mapped, because a file that is truncated while it is mapped ends the process. */
void spp_posix_read_part(int fd, uint8_t *bytes, size_t n, uint64_t offset, uint64_t size);
/* ---- text.c: spp_os_file_text, in the table of descriptors of the calling thread. */
void *spp_posix_file_text(const char *path, size_t most, size_t *n);

/* Handler. Whether this is the handler set by spp_os_term_catch. */
bool spp_posix_term_is(uintptr_t handler);

/* ---- mark.c, for spp_os_forked_unseen(). */
void spp_posix_mark(void);
void spp_posix_mark_child(void); /* in a child whose fork was seen by now */

/* In a forked child: closes the descriptors by which it would keep the parent's file locks. */
void spp_posix_files_child(void);

#endif
