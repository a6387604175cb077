#include "os/linux/actions.h"

#include <sched.h>
#include <string.h>

#include "os/linux/machine.h"
#include "os/linux/mask.h"
#include "os/lock.h"

const int spp_linux_action_signals[SPP_LINUX_ACTIONS] = {SIGTRAP, SIGURG, SIGWINCH, SPP_LINUX_RESERVED};
spp_linux_action spp_linux_actions[SPP_LINUX_ACTIONS];
_Atomic uint32_t spp_linux_actions_given;

int spp_linux_action_of(int signum) {
    for (int i = 0; i < (int)SPP_LINUX_ACTIONS; i++) {
        if (spp_linux_action_signals[i] == signum) return i;
    }
    return -1;
}

int spp_linux_action_ask(int signum, const spp_linux_kernel_action *action, spp_linux_kernel_action *old) {
    return (int)raw_call(SYS_rt_sigaction, signum, (uintptr_t)action, (long)(uintptr_t)old, sizeof old->mask);
}

void spp_linux_action_from(struct sigaction *to, const spp_linux_kernel_action *from) {
    memset(to, 0, sizeof *to);
    memcpy(&to->sa_mask, &from->mask, sizeof from->mask);
    to->sa_flags = (int)(uint32_t)from->flags;
    to->sa_sigaction = (spp_linux_handler)(uintptr_t)from->handler;
}

int (*spp_linux_real_sigaction)(int, const struct sigaction *, struct sigaction *) = sigaction;

/* For the C library's own signal, keeps the restorer of the C library's handler. */
int spp_linux_action_set(int signum, const struct sigaction *action) {
    spp_linux_kernel_action k = {0};
    if (signum != SPP_LINUX_RESERVED) return spp_linux_real_sigaction(signum, action, NULL);
    if (spp_linux_action_ask(signum, NULL, &k) != 0) return -1;
    unsigned long restores = k.flags & 0x04000000u; /* SA_RESTORER */
    k.handler = (void *)(uintptr_t)action->sa_sigaction;
    k.flags = (unsigned long)(uint32_t)action->sa_flags | restores;
    memcpy(&k.mask, &action->sa_mask, sizeof k.mask);
    return spp_linux_action_ask(signum, &k, NULL);
}

struct sigaction spp_linux_action_ours(spp_linux_handler handler) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    /* On the alternate stack, if the thread has one: Go aborts the process if a handler runs on a goroutine's stack. */
    action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    memset(&action.sa_mask, 0xff, sizeof action.sa_mask); /* the C library's own signal too: no tick interrupts another handler */
    return action;
}

/* No spp_spinlock: handlers take it, which may not sleep. */
static atomic_flag writing = ATOMIC_FLAG_INIT;

uint64_t spp_linux_actions_lock(void) {
    uint64_t mask = spp_linux_mask_all();
    while (atomic_flag_test_and_set_explicit(&writing, memory_order_acquire) && !spp_os_forked_unseen()) sched_yield();
    return mask;
}

void spp_linux_actions_unlock(uint64_t mask) {
    atomic_flag_clear_explicit(&writing, memory_order_release);
    spp_linux_mask_set(mask);
}

void spp_linux_actions_child(void) { atomic_flag_clear(&writing); }

void spp_linux_action_write(int place, const struct sigaction *action) {
    uint32_t next = atomic_load(&spp_linux_actions[place].turn) + 1;
    spp_linux_actions[place].theirs[next & 1u] = *action;
    atomic_store(&spp_linux_actions[place].turn, next);
}

struct sigaction spp_linux_action_read(int place) {
    struct sigaction action;
    uint32_t turn;
    do {
        turn = atomic_load(&spp_linux_actions[place].turn);
        memcpy(&action, &spp_linux_actions[place].theirs[turn & 1u], sizeof action);
        atomic_thread_fence(memory_order_acquire);
    } while (atomic_load(&spp_linux_actions[place].turn) != turn);
    return action;
}
