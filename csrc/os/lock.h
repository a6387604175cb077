/* The drain lock, and what a fork waits for. Never in a handler of ours.
 *
 * There is one drain lock. It is held for microseconds, and never during I/O. A fork takes it first; in the child it is released
 * and `child` runs. It is fair: a thread that releases it and takes it again lets waiting threads go first, so long work releases
 * it between its steps. The other locks here are fair too. */
#ifndef SPPROF_OS_LOCK_H
#define SPPROF_OS_LOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Prepares the locks, and has `child` called in forked children. Returns -1 on failure. */
int spp_os_lock_init(void (*child)(void));
void spp_os_lock(void);
/* For a handler of the program's, which may have interrupted the thread that holds the lock: false if it is not free until then.
 */
bool spp_os_lock_until(uint64_t until_ns);
void spp_os_unlock(void);
/* Around start, and around all that the drain thread does besides waiting, before the drain lock. A fork waits for the end, so
 * that no child inherits a lock held by the drain thread, such as the lock of an allocator that knows nothing of forks. */
void spp_os_work_begin(void);
void spp_os_work_end(void);
/* Around what may wait for the dynamic loader, and not within the pair above. A fork waits at most 100 ms for it, because the
 * thread that holds the loader's lock may itself wait for the forking thread. */
void spp_os_loader_begin(void);
void spp_os_loader_end(void);
/* Whether this process is a forked child in which `child` has not run because the C library did not see the fork; false if it
 * shares its memory with the parent. If so, spp_os_fork_seen() runs it, as each function
 * above that takes a lock does. By the only thread of the process. The question also in a handler. */
bool spp_os_forked_unseen(void);
void spp_os_fork_seen(void);

#endif
