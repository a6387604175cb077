/* Actions of the signals that ticks may use: the one in the kernel, which may be ours, and the one that the program set. */
#ifndef SPPROF_OS_LINUX_ACTIONS_H
#define SPPROF_OS_LINUX_ACTIONS_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "os/linux/linux.h"

#define SPP_LINUX_ACTIONS 4u

typedef struct {
    _Atomic uint32_t
        turn; /* the lowest bit: which of `theirs` is valid. Writers use the other one, since a fork may come at any time */
    _Atomic(uintptr_t) mine;    /* our handler, while it is installed; else 0 */
    struct sigaction theirs[2]; /* what the program set */
} spp_linux_action;
extern spp_linux_action spp_linux_actions[SPP_LINUX_ACTIONS];
extern const int spp_linux_action_signals[SPP_LINUX_ACTIONS]; /* the signal of each */
/* Bits of those that come to the program, or that it takes for itself, as by signalfd(). Ticks use others. */
extern _Atomic uint32_t spp_linux_actions_given;
/* Whether ticks may move away from this signal. Not from SIGTRAP: a sleeping thread gets a pending one when it wakes. */
static inline bool spp_linux_action_may_move(int signum) { return signum == SIGURG || signum == SIGWINCH; }

/* Returns the index of a signal's action; -1: ticks do not use the signal. Handler, as all functions here. */
int spp_linux_action_of(int signum);

/* The kernel's own struct. The C library does not report the action of its own signal. */
typedef struct {
    void *handler;
    unsigned long flags;
    void *restorer;
    uint64_t mask;
} spp_linux_kernel_action;
/* rt_sigaction: sets the action if `action` is not NULL, stores the previous one if `old` is not. */
int spp_linux_action_ask(int signum, const spp_linux_kernel_action *action, spp_linux_kernel_action *old);
void spp_linux_action_from(struct sigaction *to, const spp_linux_kernel_action *from);
int spp_linux_action_set(int signum, const struct sigaction *action);
extern int (*spp_linux_real_sigaction)(int, const struct sigaction *, struct sigaction *);

/* Whether there is no handler. (sa_handler and sa_sigaction share memory.) */
static inline bool spp_linux_action_is_free(const struct sigaction *action) {
    return action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN;
}

/* Returns the action that installs our handler. */
struct sigaction spp_linux_action_ours(spp_linux_handler handler);

/* The writer's lock. Blocks all signals, so that a handler never waits for its own thread. */
uint64_t spp_linux_actions_lock(void);
void spp_linux_actions_unlock(uint64_t mask);
void spp_linux_actions_child(void); /* in a forked child: frees the lock, which another thread may have held */
/* Writes, with the lock, and reads what the program set. A reader never waits; it repeats if a writer came in between. */
void spp_linux_action_write(int place, const struct sigaction *action);
struct sigaction spp_linux_action_read(int place);

#endif
