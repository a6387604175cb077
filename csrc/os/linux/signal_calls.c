/* Functions of the C library that set signals' actions, wait for signals or report pending ones, as the program calls them. For
 * the signals of ticks they do what they would do without us.
 *
 * In a child that shares our memory until it calls exec, and in one of a fork that we did not notice, they act on the child's own
 * kernel state only, and keep nothing. */
#include <asm/sockios.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

#include "os/clock.h"
#include "os/linux/actions.h"
#include "os/linux/handshake.h"
#include "os/linux/linux.h"
#include "os/linux/machine.h"

/* With the writer's lock, while our handler is installed: sets and returns the program's action. If the program sets our handler,
 * it read it by a call that we did not intercept, and restores it now. */
static void exchange_believed(int place, const struct sigaction *wanted, struct sigaction *before) {
    *before = spp_linux_action_read(place);
    if (wanted != NULL && (uintptr_t)wanted->sa_sigaction != spp_linux_actions[place].mine) spp_linux_action_write(place, wanted);
}

/* The same while our handler is not installed: it never was, or the program replaced it by a call that we did not intercept. */
static int exchange_in_kernel(int place, const struct sigaction *wanted, struct sigaction *before) {
    struct sigaction again;
    uintptr_t mine = spp_linux_actions[place].mine;
    if (wanted != NULL && mine != 0 && (uintptr_t)wanted->sa_sigaction == mine) {
        again = spp_linux_action_ours((spp_linux_handler)mine);
        wanted = &again;
    }
    return spp_linux_real_sigaction(spp_linux_action_signals[place], wanted, before);
}

/* When the program takes a signal for itself, by a handler or a signalfd(), ticks move to another signal first. The drain thread
 * does that within 10 ms. */
#define GIVEN_MOST_NS 100000000u
#define GIVEN_STEP_NS 200000u

static bool may_move(int place) { return spp_linux_action_may_move(spp_linux_action_signals[place]); }

/* Waits until ticks have moved away. False: another call requested it before. */
static bool move_ticks_from(int place) {
    uint64_t until = spp_os_now_ns() + GIVEN_MOST_NS;
    bool first = !(atomic_fetch_or(&spp_linux_actions_given, 1u << place) >> place & 1u);
    while (spp_linux_signals_by->ticks_by(spp_linux_action_signals[place]) && spp_os_now_ns() < until)
        spp_os_sleep_until(spp_os_now_ns() + GIVEN_STEP_NS);
    return first;
}

/* With the writer's lock: installs the program's action in the kernel. Ticks still under way are discarded on every thread,
 * unless a signal of the program's own is pending here. */
static int hand_to_kernel(int place, const struct sigaction *wanted, struct sigaction *before) {
    uint64_t pending = 0;
    struct sigaction ignore;
    memset(&ignore, 0, sizeof ignore);
    ignore.sa_handler = SIG_IGN;
    *before = spp_linux_action_read(place);
    bool waits = spp_linux_confined || raw_call(SYS_rt_sigpending, (long)(uintptr_t)&pending, sizeof pending, 0, 0) != 0 ||
                 (pending >> (spp_linux_action_signals[place] - 1) & 1u);
    if (!waits) spp_linux_action_set(spp_linux_action_signals[place], &ignore);
    int result = spp_linux_action_set(spp_linux_action_signals[place], wanted);
    if (result == 0) spp_linux_actions[place].mine = 0;
    return result;
}

/* Any thread, also in a handler, as sigaction(). */
static int own_sigaction(int signum, const struct sigaction *action, struct sigaction *old) {
    int place = signum == SPP_LINUX_RESERVED ? -1 : spp_linux_action_of(signum), result = 0;
    if (place < 0) return spp_linux_real_sigaction(signum, action, old);
    struct sigaction wanted = {.sa_flags = 0}, before;
    const struct sigaction *asked = action != NULL ? &wanted : NULL;
    if (action != NULL) wanted = *action; /* may be the same memory as `old` */
    if (!spp_linux_signals_own()) {
        result = spp_linux_real_sigaction(signum, asked, &before);
        if (result == 0 && (uintptr_t)before.sa_sigaction == spp_linux_actions[place].mine) before = spp_linux_action_read(place);
    } else {
        bool takes = asked != NULL && !spp_linux_action_is_free(asked) && may_move(place) && spp_linux_signal_installed(signum);
        bool gave = takes && move_ticks_from(place);
        uint64_t mask = spp_linux_actions_lock();
        if (!spp_linux_signal_installed(signum))
            result = exchange_in_kernel(place, asked, &before);
        else if (takes && (uintptr_t)asked->sa_sigaction != spp_linux_actions[place].mine &&
                 !spp_linux_signals_by->ticks_by(signum))
            result = hand_to_kernel(place, asked, &before);
        else
            exchange_believed(place, asked, &before);
        if (gave) atomic_fetch_and(&spp_linux_actions_given, ~(1u << place)); /* from now on the action itself shows it */
        spp_linux_actions_unlock(mask);
    }
    if (old != NULL && result == 0) *old = before;
    return result;
}

typedef void (*simple)(int);

/* signal() and its variants, by the sigaction() that they stand for. */
static simple own_signal_as(int signum, simple handler, int flags, bool block) {
    struct sigaction action, old;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    if (block) sigaddset(&action.sa_mask, signum);
    return own_sigaction(signum, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

static simple (*real_signal)(int, simple), (*real_sysv_signal)(int, simple), (*real_sigset)(int, simple);
static int (*real_siginterrupt)(int, int), (*real_sigignore)(int);
/* Signals that signal() sets without SA_RESTART, after siginterrupt(): glibc remembers them too. */
static _Atomic uint64_t interrupting;

static simple own_signal(int signum, simple handler) {
    /* cppcheck-suppress CastIntegerToAddressAtReturn ; it takes the pointer to a function for an integer */
    if (spp_linux_action_of(signum) < 0 || handler == SIG_ERR) return real_signal(signum, handler);
    return own_signal_as(signum, handler, interrupting >> (signum - 1) & 1u ? 0 : SA_RESTART, true);
}

static simple own_sysv_signal(int signum, simple handler) {
    if (spp_linux_action_of(signum) < 0 || handler == SIG_ERR) return real_sysv_signal(signum, handler);
    return own_signal_as(signum, handler, (int)(SA_RESETHAND | SA_NODEFER), false);
}

static simple own_sigset(int signum, simple handler) {
    sigset_t one, old;
    struct sigaction now;
    bool holds = handler == SIG_HOLD;
    if (spp_linux_action_of(signum) < 0 || handler == SIG_ERR) return real_sigset(signum, handler);
    sigemptyset(&one);
    sigaddset(&one, signum);
    if (own_sigaction(signum, NULL, &now) != 0) return SIG_ERR;
    if (!holds && own_signal_as(signum, handler, 0, false) == SIG_ERR) return SIG_ERR;
    if (pthread_sigmask(holds ? SIG_BLOCK : SIG_UNBLOCK, &one, &old) != 0) return SIG_ERR;
    return sigismember(&old, signum) ? SIG_HOLD : now.sa_handler;
}

static int own_sigignore(int signum) {
    if (spp_linux_action_of(signum) < 0) return real_sigignore(signum);
    return own_signal_as(signum, SIG_IGN, 0, false) != SIG_ERR ? 0 : -1;
}

static int own_siginterrupt(int signum, int interrupts) {
    struct sigaction action;
    if (spp_linux_action_of(signum) < 0) return real_siginterrupt(signum, interrupts);
    if (own_sigaction(signum, NULL, &action) != 0) return -1;
#ifdef __GLIBC__
    uint64_t bit = (uint64_t)1 << (signum - 1);
    if (interrupts)
        atomic_fetch_or(&interrupting, bit);
    else
        atomic_fetch_and(&interrupting, ~bit);
#endif
    if (interrupts)
        action.sa_flags &= ~SA_RESTART;
    else
        action.sa_flags |= SA_RESTART;
    return own_sigaction(signum, &action, NULL);
}

/* ---- waiting for signals: a thread that blocks our signal may have a tick pending */

#define FOREVER_S 1000000000u /* 32 years; a longer time is no limit */

static int (*real_sigtimedwait)(const sigset_t *, siginfo_t *, const struct timespec *);

static int own_sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout) {
    uint64_t until = 0;
    struct timespec left = {0};
    siginfo_t got;
    if (timeout != NULL) {
        left = *timeout;
        until = (uint64_t)left.tv_sec < FOREVER_S ? spp_os_now_ns() + (uint64_t)left.tv_sec * 1000000000u + (uint64_t)left.tv_nsec
                                                  : UINT64_MAX;
    }
    for (;;) {
        SPP_LINUX_UNWINDS;
        uintptr_t here = (uintptr_t)__builtin_frame_address(0);
        spp_linux_call call = spp_linux_call_begins(here);
        int signum = real_sigtimedwait(set, &got, timeout != NULL ? &left : NULL);
        spp_linux_call_ends(call, here, (uintptr_t)real_sigtimedwait);
        if (signum < 0) return signum;
        if (spp_linux_action_of(signum) < 0 || !spp_linux_signals_by->is_tick(&got)) {
            if (info != NULL) *info = got;
            return signum;
        }
        uint64_t now = spp_os_now_ns(), ns = now < until ? until - now : 0;
        left = (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    }
}

static int own_sigwaitinfo(const sigset_t *set, siginfo_t *info) { return own_sigtimedwait(set, info, NULL); }

static int own_sigwait(const sigset_t *set, int *to) {
    int saved = errno, signum;
    siginfo_t info;
    do signum = own_sigtimedwait(set, &info, NULL);
    while (signum < 0 && errno == EINTR);
    int error = signum < 0 ? errno : 0;
    errno = saved;
    if (error == 0) *to = signum;
    return error;
}

static int (*real_sigpending)(sigset_t *);

static bool may_show_ticks(const sigset_t *set) {
    bool ticks = false;
    for (size_t i = 0; i < SPP_LINUX_ACTIONS; i++)
        ticks |= spp_linux_actions[i].mine != 0 && sigismember(set, spp_linux_action_signals[i]) == 1 &&
                 spp_linux_signals_by->pends(spp_linux_action_signals[i]);
    return ticks && spp_linux_signals_own();
}

/* Removes pending ticks, and asks again. The next tick may come in between; what is pending after 16 tries is the program's. */
static int own_sigpending(sigset_t *set) {
    int result = real_sigpending(set);
    for (int i = 0; i < 16 && result == 0 && may_show_ticks(set); i++) {
        spp_linux_signals_take_back();
        result = real_sigpending(set);
    }
    return result;
}

static int (*real_signalfd)(int, const sigset_t *, int);

static int own_signalfd(int fd, const sigset_t *set, int flags) {
    int saved = errno;
    for (size_t i = 0; i < SPP_LINUX_ACTIONS && set != NULL && spp_linux_signals_own(); i++) {
        if (!may_move((int)i) || sigismember(set, spp_linux_action_signals[i]) != 1) continue;
        (void)move_ticks_from((int)i);
        spp_linux_signals_take_back();
    }
    errno = saved;
    return real_signalfd(fd, set, flags);
}

/* ---- signals that a descriptor sends: SIGURG for the urgent byte of a peer, if the socket has an owner */

void spp_linux_signals_owner(int request, long argument) {
    int saved = errno, signum = 0;
    if (request == F_SETOWN || request == F_SETOWN_EX || request == FIOSETOWN || request == SIOCSPGRP) signum = SIGURG;
    if (request == F_SETSIG && spp_linux_action_may_move((int)argument)) signum = (int)argument;
    if (signum == 0 || !spp_linux_signals_own()) return;
    if (spp_linux_signal_installed(signum))
        (void)move_ticks_from(spp_linux_action_of(signum));
    else
        atomic_fetch_or(&spp_linux_actions_given, 1u << spp_linux_action_of(signum));
    errno = saved;
}

/* So many closed descriptors in a row: there are no more open ones, most likely. */
#define CLOSED_MOST 64

void spp_linux_signals_owned(void) {
    struct {
        int type, pid;
    } owner;
    for (int fd = 0, closed = 0; closed < CLOSED_MOST; fd++) {
        long found = raw_call(SYS_fcntl, fd, F_GETOWN_EX, (long)(uintptr_t)&owner, 0);
        closed = found == -EBADF ? closed + 1 : 0;
        if (found == -ENOSYS || found == -EPERM) return; /* a filter */
        if (found == 0 && owner.pid != 0) {
            atomic_fetch_or(&spp_linux_actions_given, 1u << spp_linux_action_of(SIGURG));
            return;
        }
    }
}

const spp_linux_import spp_linux_signal_calls[SPP_LINUX_SIGNAL_CALLS] = {
    {"sigaction", (void *)(uintptr_t)own_sigaction, NULL, &spp_linux_real_sigaction},
    {"__sigaction", (void *)(uintptr_t)own_sigaction, NULL, NULL},
    {"signal", (void *)(uintptr_t)own_signal, NULL, &real_signal},
    {"bsd_signal", (void *)(uintptr_t)own_signal, NULL, NULL},
    {"ssignal", (void *)(uintptr_t)own_signal, NULL, NULL},
    {"sysv_signal", (void *)(uintptr_t)own_sysv_signal, NULL, NULL},
    {"__sysv_signal", (void *)(uintptr_t)own_sysv_signal, NULL, &real_sysv_signal},
    {"sigset", (void *)(uintptr_t)own_sigset, NULL, &real_sigset},
    {"sigignore", (void *)(uintptr_t)own_sigignore, NULL, &real_sigignore},
    {"siginterrupt", (void *)(uintptr_t)own_siginterrupt, NULL, &real_siginterrupt},
    {"sigtimedwait", (void *)(uintptr_t)own_sigtimedwait, NULL, &real_sigtimedwait},
    {"sigwaitinfo", (void *)(uintptr_t)own_sigwaitinfo, NULL, NULL},
    {"sigwait", (void *)(uintptr_t)own_sigwait, NULL, NULL},
    {"sigpending", (void *)(uintptr_t)own_sigpending, NULL, &real_sigpending},
    {"signalfd", (void *)(uintptr_t)own_signalfd, NULL, &real_signalfd},
};
