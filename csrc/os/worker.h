/* Background threads of our own, and a doorbell to wake one. Workers are named, block every signal, and their CPU time is counted
 * apart from the program's. */
#ifndef SPPROF_OS_WORKER_H
#define SPPROF_OS_WORKER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct spp_os_worker spp_os_worker;
/* Any thread, not in a handler, nor for those that follow. `prompt`: the system is asked to run it as soon as it wakes. NULL on
 * failure. */
spp_os_worker *spp_os_worker_start(const char *name, bool prompt, void (*body)(void *), void *arg);
int32_t spp_os_worker_tid(const spp_os_worker *worker);
/* Whether the system ended it: Windows ends all other threads of a process that leaves. */
bool spp_os_worker_was_ended(const spp_os_worker *worker);
/* Waits until it ends, and frees it. */
void spp_os_worker_join(spp_os_worker *worker);
/* Lets it end by itself; nobody waits for it. */
void spp_os_worker_leave(spp_os_worker *worker);
/* Whether this process may start a thread, as far as is known: not if its children will be in another namespace. */
bool spp_os_may_start(void);

/* Rung by handlers, awaited by one worker. */
typedef struct {
    _Atomic uint32_t rung;
} spp_os_bell;
/* Handler; also while a thread that rings or waits is suspended. */
void spp_os_bell_ring(spp_os_bell *bell);
/* The worker. Waits until the bell rings (true) or until_ns has passed, and clears it. */
bool spp_os_bell_wait(spp_os_bell *bell, uint64_t until_ns);

#endif
