/* Actions of the signals that ticks may come by: what the kernel has, and what the program believes. */
#ifndef SPPROF_OS_LINUX_ACTIONS_H
#define SPPROF_OS_LINUX_ACTIONS_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "os/linux/linux.h"

#define SPP_LINUX_ACTIONS 4u

typedef struct {
    _Atomic uint32_t turn;      /* its lowest bit: which of `theirs` holds; the other is written, a fork may fall in between */
    _Atomic(uintptr_t) mine;    /* our handler, while the kernel has it; or 0 */
    struct sigaction theirs[2]; /* what the program believes */
} spp_linux_action;
extern spp_linux_action spp_linux_actions[SPP_LINUX_ACTIONS];
extern const int spp_linux_action_signals[SPP_LINUX_ACTIONS]; /* whose they are */
extern _Atomic uint32_t spp_linux_actions_given; /* bits of those that a descriptor of the program's gives (signalfd) */

/* Which one is a signal's; -1: none. Handler, as those that follow. */
int spp_linux_action_of(int signum);

/* As the kernel keeps one. */
typedef struct {
    void *handler;
    unsigned long flags;
    void *restorer;
    uint64_t mask;
} spp_linux_kernel_action;
/* Sets the kernel's, if `action` is not NULL, and reads what it was, if `old` is not. */
int spp_linux_action_ask(int signum, const spp_linux_kernel_action *action, spp_linux_kernel_action *old);
void spp_linux_action_from(struct sigaction *to, const spp_linux_kernel_action *from);
int spp_linux_action_set(int signum, const struct sigaction *action);
extern int (*spp_linux_real_sigaction)(int, const struct sigaction *, struct sigaction *);

/* No handler. Both kinds of handlers share one place. */
static inline bool spp_linux_action_is_free(const struct sigaction *action) {
    return action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN;
}

/* What the kernel is to have for our handler. */
struct sigaction spp_linux_action_ours(spp_linux_handler handler);

/* One writer at a time. It blocks all signals, so a handler never meets a writer on its own thread. */
uint64_t spp_linux_actions_lock(void);
void spp_linux_actions_unlock(uint64_t mask);
void spp_linux_actions_child(void); /* in a forked child: another thread of the parent may have it */
/* What the program believes. A reader never waits: it reads again only if there was a writer meanwhile. */
void spp_linux_action_write(int place, const struct sigaction *action);
struct sigaction spp_linux_action_read(int place);

#endif
