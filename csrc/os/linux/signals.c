/* Signals that ticks use: installs our handler, and runs the program's own for signals that are no ticks. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/hints.h"
#include "os/linux/actions.h"
#include "os/linux/linux.h"
#include "os/linux/machine.h"
#include "os/linux/mask.h"
#include "os/threads.h"

static _Atomic int32_t owner; /* the process whose actions these are */
static _Atomic int spawning;  /* calls of spp_linux_signals_spawn(true) not ended yet; under the writer's lock */
const spp_linux_signals_others *spp_linux_signals_by;

void spp_linux_signals_begin(const spp_linux_signals_others *others) {
    spp_linux_signals_by = others;
    owner = (int32_t)getpid();
}

bool spp_linux_signals_own(void) { return (int32_t)getpid() == owner; }

/* Signals of this run that the program ignores, but that reached our handler. */
static _Atomic uint64_t not_ignored;

uint64_t spp_os_signals_not_ignored(void) { return atomic_load(&not_ignored); }

void spp_linux_signals_run(void) { atomic_store(&not_ignored, 0); }

void spp_linux_nudge(int32_t tid) { spp_linux_signals_by->nudge(tid); }

bool spp_linux_signal_take(int signum, spp_linux_handler handler) {
    int place = spp_linux_action_of(signum);
    spp_linux_kernel_action k = {0};
    struct sigaction now, action = spp_linux_action_ours(handler);
    uint64_t mask = spp_linux_actions_lock();
    bool taken = spp_linux_action_ask(signum, NULL, &k) == 0;
    spp_linux_action_from(&now, &k);
    if (taken && now.sa_sigaction != handler) {
        spp_linux_action_write(place, &now);
        taken = (signum != SPP_LINUX_RESERVED || !spp_linux_action_is_free(&now)) && spp_linux_action_set(signum, &action) == 0;
    }
    if (taken) spp_linux_actions[place].mine = (uintptr_t)handler;
    spp_linux_actions_unlock(mask);
    return taken;
}

bool spp_linux_signal_installed(int signum) {
    spp_linux_kernel_action k = {0};
    uintptr_t mine = spp_linux_actions[spp_linux_action_of(signum)].mine;
    if (mine == 0 || spp_linux_action_ask(signum, NULL, &k) != 0) return false;
    return (uintptr_t)k.handler == mine || (spawning > 0 && (uintptr_t)k.handler == (uintptr_t)SIG_IGN);
}

bool spp_linux_signal_free(int signum) {
    spp_linux_kernel_action k = {0};
    struct sigaction now;
    int place = spp_linux_action_of(signum);
    if (place >= 0 && (spp_linux_actions_given >> place & 1u)) return false;
    if (spp_linux_action_ask(signum, NULL, &k) != 0) return false;
    spp_linux_action_from(&now, &k);
    if (spp_linux_signal_installed(signum)) now = spp_linux_action_read(spp_linux_action_of(signum));
    return spp_linux_action_is_free(&now);
}

void spp_linux_signal_leave(int signum) {
    int place = spp_linux_action_of(signum);
    struct sigaction ignore;
    memset(&ignore, 0, sizeof ignore);
    ignore.sa_handler = SIG_IGN;
    uint64_t mask = spp_linux_actions_lock();
    struct sigaction theirs = spp_linux_action_read(place);
    if (spp_linux_signal_installed(signum) && spp_linux_action_is_free(&theirs)) {
        /* Ignoring a signal discards it on every thread where it is pending (POSIX). Only then is the default action safe, which
         * may end the process. */
        spp_linux_action_set(signum, &ignore);
        spp_linux_action_set(signum, &theirs);
        spp_linux_actions[place].mine = 0;
    }
    spp_linux_actions_unlock(mask);
}

void spp_linux_signals_child(void) {
    spp_linux_actions_child();
    owner = (int32_t)getpid();
    spawning = 0;
    for (size_t i = 0; i < SPP_LINUX_ACTIONS; i++) {
        if (spp_linux_action_signals[i] == SPP_LINUX_RESERVED || spp_linux_actions[i].mine == 0) continue;
        struct sigaction theirs = spp_linux_action_read((int)i);
        if (spp_linux_signal_installed(spp_linux_action_signals[i])) spp_linux_action_set(spp_linux_action_signals[i], &theirs);
        spp_linux_actions[i].mine = 0;
    }
}

void spp_linux_signals_exec(bool begins) {
    struct sigaction ignore;
    memset(&ignore, 0, sizeof ignore);
    ignore.sa_handler = SIG_IGN;
    for (size_t i = 0; i < SPP_LINUX_ACTIONS; i++) {
        uintptr_t mine = spp_linux_actions[i].mine;
        spp_linux_kernel_action k = {0};
        if (mine == 0 || spp_linux_action_ask(spp_linux_action_signals[i], NULL, &k) != 0) continue;
        struct sigaction ours_again = spp_linux_action_ours((spp_linux_handler)mine);
        if (begins && (uintptr_t)k.handler == mine && spp_linux_action_read((int)i).sa_handler == SIG_IGN)
            spp_linux_action_set(spp_linux_action_signals[i], &ignore);
        /* Right whatever the program set since, because that was intercepted. */
        if (!begins && (uintptr_t)k.handler == (uintptr_t)SIG_IGN) spp_linux_action_set(spp_linux_action_signals[i], &ours_again);
    }
}

void spp_linux_signals_spawn(bool begins) {
    uint64_t mask = spp_linux_actions_lock();
    if (begins ? spawning++ == 0 : --spawning == 0) spp_linux_signals_exec(begins);
    spp_linux_actions_unlock(mask);
}

/* Handler. Returns the program's action. One with SA_RESETHAND is reset. */
static struct sigaction use_action(int place) {
    struct sigaction action = spp_linux_action_read(place);
    if (spp_rare(action.sa_flags & (int)SA_RESETHAND)) {
        uint64_t mask = spp_linux_actions_lock();
        struct sigaction used = action = spp_linux_action_read(place);
        if (used.sa_flags & (int)SA_RESETHAND) used.sa_handler = SIG_DFL;
        spp_linux_action_write(place, &used);
        spp_linux_actions_unlock(mask);
    }
    return action;
}

/* Handler. Ends the process by this signal when our handler returns. The mask that it returns to may block the signal, if it came
 * in sigsuspend(). */
static void end_process_by(int signum, ucontext_t *uc) {
    struct sigaction action;
    sigdelset(&uc->uc_sigmask, signum);
    memset(&action, 0, sizeof action);
    action.sa_handler = SIG_DFL;
    spp_linux_action_set(signum, &action);
    syscall(SYS_tgkill, getpid(), spp_os_tid(), signum);
}

/* The program's handler runs with the signal mask that it asked for, and may leave by longjmp. It runs on the thread's alternate
 * stack if there is one, even without SA_ONSTACK. */
SPP_COLD void spp_linux_signal_pass(int signum, siginfo_t *info, void *context) {
    ucontext_t *uc = context;
    struct sigaction theirs = use_action(spp_linux_action_of(signum));
    if (spp_linux_action_is_free(&theirs)) {
        /* The kernel does not let a program ignore a trap that an instruction caused. */
        bool caused = signum == SIGTRAP && info->si_code > 0 && !spp_linux_signals_by->is_tick(info);
        if (theirs.sa_handler == SIG_IGN ? caused : !spp_linux_action_may_move(signum)) end_process_by(signum, uc);
        /* The kernel would have discarded it. Now it may have ended a call, so ticks move to another signal. */
        if (spp_linux_action_may_move(signum)) {
            atomic_fetch_or(&spp_linux_actions_given, 1u << spp_linux_action_of(signum));
            atomic_fetch_add_explicit(&not_ignored, 1, memory_order_relaxed);
        }
        return;
    }
    uint64_t mask, more;
    memcpy(&mask, &uc->uc_sigmask, sizeof mask);
    memcpy(&more, &theirs.sa_mask, sizeof more);
    mask |= more;
    if (!(theirs.sa_flags & (int)SA_NODEFER)) mask |= (uint64_t)1 << (signum - 1);
    if (!(theirs.sa_flags & SA_RESTART)) spp_linux_signals_by->end_call(context);
    spp_linux_mask_set(mask);
    if (theirs.sa_flags & SA_SIGINFO)
        theirs.sa_sigaction(signum, info, context);
    else
        theirs.sa_handler(signum);
}

void spp_linux_signals_take_back(void) {
    uint64_t set = 0;
    siginfo_t got[32];
    int n = 0;
    for (size_t i = 0; i < SPP_LINUX_ACTIONS; i++) {
        if (spp_linux_actions[i].mine != 0) set |= (uint64_t)1 << (spp_linux_action_signals[i] - 1);
    }
    struct timespec none = {0};
    while (n < 32 &&
           raw_call(SYS_rt_sigtimedwait, (long)(uintptr_t)&set, (uintptr_t)&got[n], (long)(uintptr_t)&none, sizeof set) > 0) {
        if (!spp_linux_signals_by->is_tick(&got[n])) n++;
    }
    for (int i = 0; i < n; i++) syscall(SYS_rt_tgsigqueueinfo, getpid(), spp_os_tid(), got[i].si_signo, &got[i]);
}
