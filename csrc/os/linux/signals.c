/* Signals that are handled by us in the kernel, and by the program as it believes. */
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/hints.h"
#include "os/clock.h"
#include "os/linux/handshake.h"
#include "os/linux/linux.h"
#include "os/linux/machine.h"
#include "os/threads.h"

/* Those that ticks may come by (trigger.c). */
static const int ours[] = {SIGTRAP, SIGURG, SIGWINCH, SPP_LINUX_RESERVED};
#define OURS (sizeof ours / sizeof *ours)

static struct {
    _Atomic uint32_t turn;      /* its lowest bit: which of `theirs` holds; the other is written, a fork may fall in between */
    _Atomic(uintptr_t) mine;    /* our handler, while the kernel has it; or 0 */
    struct sigaction theirs[2]; /* what the program believes */
} places[OURS];
static _Atomic int32_t owner;                  /* the process that the places are of */
static const spp_linux_signals_others *others; /* set before any handler of ours is the kernel's */
static _Atomic int spawning; /* calls during which the kernel ignores what the program ignores: with the writer's lock */

static _Atomic uint32_t given; /* bits of those that a descriptor of the program's gives (signalfd) */

static int place_of(int signum) {
    for (size_t i = 0; i < OURS; i++) {
        if (ours[i] == signum) return (int)i;
    }
    return -1;
}

/* ---- the kernel's side: the C library does not let its own signal be asked for */

typedef struct {
    void *handler;
    unsigned long flags;
    void *restorer;
    uint64_t mask;
} kernel_action;

static int ask_kernel(int signum, const kernel_action *action, kernel_action *old) {
    return (int)raw_call(SYS_rt_sigaction, signum, (uintptr_t)action, (long)(uintptr_t)old, sizeof old->mask);
}

static void from_kernel(struct sigaction *to, const kernel_action *from) {
    memset(to, 0, sizeof *to);
    memcpy(&to->sa_mask, &from->mask, sizeof from->mask);
    to->sa_flags = (int)(uint32_t)from->flags;
    to->sa_sigaction = (spp_linux_handler)(uintptr_t)from->handler;
}

static int (*real_sigaction)(int, const struct sigaction *, struct sigaction *) = sigaction;

/* Any thread, handlers too. The restorer of the C library's own signal is that of its own handler. */
static int set_action(int signum, const struct sigaction *action) {
    kernel_action k = {0};
    if (signum != SPP_LINUX_RESERVED) return real_sigaction(signum, action, NULL);
    if (ask_kernel(signum, NULL, &k) != 0) return -1;
    unsigned long restores = k.flags & 0x04000000u; /* SA_RESTORER */
    k.handler = (void *)(uintptr_t)action->sa_sigaction;
    k.flags = (unsigned long)(uint32_t)action->sa_flags | restores;
    memcpy(&k.mask, &action->sa_mask, sizeof k.mask);
    return ask_kernel(signum, &k, NULL);
}

/* Handler. Both kinds of handlers share one place. */
static bool is_free(const struct sigaction *action) { return action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN; }

/* ---- one writer at a time. It blocks all signals, so a handler never meets a writer on its own thread. */

static atomic_flag writing = ATOMIC_FLAG_INIT;

static uint64_t begin(void) {
    uint64_t all = UINT64_MAX, old = 0;
    raw_call(SYS_rt_sigprocmask, SIG_SETMASK, (uintptr_t)&all, (long)(uintptr_t)&old, sizeof all);
    while (atomic_flag_test_and_set_explicit(&writing, memory_order_acquire)) sched_yield();
    return old;
}

static void end(uint64_t mask) {
    atomic_flag_clear_explicit(&writing, memory_order_release);
    raw_call(SYS_rt_sigprocmask, SIG_SETMASK, (uintptr_t)&mask, 0, sizeof mask);
}

static void write_theirs(int place, const struct sigaction *action) {
    uint32_t next = atomic_load(&places[place].turn) + 1;
    places[place].theirs[next & 1u] = *action;
    atomic_store(&places[place].turn, next);
}

/* Handler. It never waits: again only if there was a writer meanwhile. */
static struct sigaction read_theirs(int place) {
    struct sigaction action;
    uint32_t turn;
    do {
        turn = atomic_load(&places[place].turn);
        memcpy(&action, &places[place].theirs[turn & 1u], sizeof action);
        atomic_thread_fence(memory_order_acquire);
    } while (atomic_load(&places[place].turn) != turn);
    return action;
}

/* ---- what the program says. In a child that has not called exec yet and shares our memory, or in one of a fork that we were
 * not told of, its own kernel is asked, and nothing is kept. */

bool spp_linux_signals_own(void) { return (int32_t)getpid() == owner; }

static struct sigaction our_action(spp_linux_handler handler);

/* What the program says where the kernel has our handler, with the writer's lock. An action that is ours it found by a call that
 * was not seen, and now puts back. */
static void say_theirs(int place, const struct sigaction *wanted, struct sigaction *before) {
    *before = read_theirs(place);
    if (wanted != NULL && (uintptr_t)wanted->sa_sigaction != places[place].mine) write_theirs(place, wanted);
}

/* The same where it has another: by a call that was not seen, or ours was never there. */
static int say_kernel(int place, const struct sigaction *wanted, struct sigaction *before) {
    struct sigaction again;
    uintptr_t mine = places[place].mine;
    if (wanted != NULL && mine != 0 && (uintptr_t)wanted->sa_sigaction == mine) {
        again = our_action((spp_linux_handler)mine);
        wanted = &again;
    }
    return real_sigaction(ours[place], wanted, before);
}

/* ---- what the program takes for itself: a handler, or a descriptor that gives what a thread which reads it blocks. Ticks go
 * elsewhere first; the drain thread sees to that within 10 ms. */
#define GIVEN_MOST_NS 100000000u
#define GIVEN_STEP_NS 200000u

/* A trap cannot: a thread that sleeps gets its own when it wakes. */
static bool may_move(int place) { return ours[place] == SIGURG || ours[place] == SIGWINCH; }

/* False: somebody else had it given up before. */
static bool give_up(int place) {
    uint64_t until = spp_os_now_ns() + GIVEN_MOST_NS;
    bool first = !(atomic_fetch_or(&given, 1u << place) >> place & 1u);
    while (others->ticks_by(ours[place]) && spp_os_now_ns() < until) spp_os_sleep_until(spp_os_now_ns() + GIVEN_STEP_NS);
    return first;
}

/* With the writer's lock: the kernel gets what the program says, and nothing is imitated. A tick that is on its way still is
 * discarded on every thread, unless a signal of the program's waits here. */
static int hand_over(int place, const struct sigaction *wanted, struct sigaction *before) {
    uint64_t pending = 0;
    struct sigaction ignore;
    memset(&ignore, 0, sizeof ignore);
    ignore.sa_handler = SIG_IGN;
    *before = read_theirs(place);
    bool waits = spp_linux_confined || raw_call(SYS_rt_sigpending, (long)(uintptr_t)&pending, sizeof pending, 0, 0) != 0 ||
                 (pending >> (ours[place] - 1) & 1u);
    if (!waits) set_action(ours[place], &ignore);
    int result = set_action(ours[place], wanted);
    if (result == 0) places[place].mine = 0;
    return result;
}

/* Async-signal-safe, as sigaction() is. */
static int own_sigaction(int signum, const struct sigaction *action, struct sigaction *old) {
    int place = signum == SPP_LINUX_RESERVED ? -1 : place_of(signum), result = 0;
    if (place < 0) return real_sigaction(signum, action, old);
    struct sigaction wanted = {.sa_flags = 0}, before;
    const struct sigaction *asked = action != NULL ? &wanted : NULL;
    if (action != NULL) wanted = *action; /* may be the same memory as `old` */
    if (!spp_linux_signals_own()) {
        result = real_sigaction(signum, asked, &before);
        if (result == 0 && (uintptr_t)before.sa_sigaction == places[place].mine) before = read_theirs(place);
    } else {
        bool takes = asked != NULL && !is_free(asked) && may_move(place) && spp_linux_signal_stands(signum);
        bool gave = takes && give_up(place);
        uint64_t mask = begin();
        if (!spp_linux_signal_stands(signum))
            result = say_kernel(place, asked, &before);
        else if (takes && (uintptr_t)asked->sa_sigaction != places[place].mine && !others->ticks_by(signum))
            result = hand_over(place, asked, &before);
        else
            say_theirs(place, asked, &before);
        if (gave) atomic_fetch_and(&given, ~(1u << place)); /* the kernel tells, or what was said */
        end(mask);
    }
    if (old != NULL && result == 0) *old = before;
    return result;
}

typedef void (*simple)(int);

/* As signal() and its variants, by what they say to sigaction(). */
static simple say(int signum, simple handler, int flags, bool block) {
    struct sigaction action, old;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    if (block) sigaddset(&action.sa_mask, signum);
    return own_sigaction(signum, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

static simple (*real_signal)(int, simple), (*real_sysv_signal)(int, simple), (*real_sigset)(int, simple);
static int (*real_siginterrupt)(int, int), (*real_sigignore)(int);
/* The signals that signal() says no SA_RESTART for: glibc remembers what siginterrupt() said. */
static _Atomic uint64_t interrupting;

static simple own_signal(int signum, simple handler) {
    /* cppcheck-suppress CastIntegerToAddressAtReturn ; it takes the pointer to a function for an integer */
    if (place_of(signum) < 0 || handler == SIG_ERR) return real_signal(signum, handler);
    return say(signum, handler, interrupting >> (signum - 1) & 1u ? 0 : SA_RESTART, true);
}

static simple own_sysv_signal(int signum, simple handler) {
    if (place_of(signum) < 0 || handler == SIG_ERR) return real_sysv_signal(signum, handler);
    return say(signum, handler, (int)(SA_RESETHAND | SA_NODEFER), false);
}

static simple own_sigset(int signum, simple handler) {
    sigset_t one, old;
    struct sigaction now;
    bool holds = handler == SIG_HOLD;
    if (place_of(signum) < 0 || handler == SIG_ERR) return real_sigset(signum, handler);
    sigemptyset(&one);
    sigaddset(&one, signum);
    if (own_sigaction(signum, NULL, &now) != 0) return SIG_ERR;
    if (!holds && say(signum, handler, 0, false) == SIG_ERR) return SIG_ERR;
    if (pthread_sigmask(holds ? SIG_BLOCK : SIG_UNBLOCK, &one, &old) != 0) return SIG_ERR;
    return sigismember(&old, signum) ? SIG_HOLD : now.sa_handler;
}

static int own_sigignore(int signum) {
    if (place_of(signum) < 0) return real_sigignore(signum);
    return say(signum, SIG_IGN, 0, false) != SIG_ERR ? 0 : -1;
}

static int own_siginterrupt(int signum, int interrupts) {
    struct sigaction action;
    if (place_of(signum) < 0) return real_siginterrupt(signum, interrupts);
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

/* ---- what the program waits for: a thread that blocks our signal has its tick pending */

#define FOREVER_S 1000000000u /* 32 years; longer times are no times */

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
        uintptr_t here = (uintptr_t)__builtin_frame_address(0);
        spp_linux_call call = spp_linux_call_begins(here);
        int signum = real_sigtimedwait(set, &got, timeout != NULL ? &left : NULL);
        spp_linux_call_ends(call, here, (uintptr_t)real_sigtimedwait);
        if (signum < 0) return signum;
        if (place_of(signum) < 0 || !others->is_tick(&got)) {
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

static bool shows_ticks(const sigset_t *set) {
    bool ticks = false;
    for (size_t i = 0; i < OURS; i++) ticks |= places[i].mine != 0 && sigismember(set, ours[i]) == 1 && others->pends(ours[i]);
    return ticks && spp_linux_signals_own();
}

/* Ticks that wait because the thread blocks them are taken back first. The next may come between that and the answer; what still
 * waits after so many times is the program's own. */
static int own_sigpending(sigset_t *set) {
    int result = real_sigpending(set);
    for (int i = 0; i < 16 && result == 0 && shows_ticks(set); i++) {
        spp_linux_signals_take_back();
        result = real_sigpending(set);
    }
    return result;
}

static int (*real_signalfd)(int, const sigset_t *, int);

static int own_signalfd(int fd, const sigset_t *set, int flags) {
    int saved = errno;
    for (size_t i = 0; i < OURS && set != NULL && spp_linux_signals_own(); i++) {
        if (!may_move((int)i) || sigismember(set, ours[i]) != 1) continue;
        (void)give_up((int)i);
        spp_linux_signals_take_back();
    }
    errno = saved;
    return real_signalfd(fd, set, flags);
}

/* ---- where they are said */

static void *own_dlsym(void *handle, const char *name);
static void *(*real_dlsym)(void *, const char *);

#define NAMES 16
#define FEW (NAMES + SPP_LINUX_EXECS + SPP_LINUX_ALONE + SPP_LINUX_ALTERNATE)
static spp_linux_import imports[SPP_LINUX_IMPORTS_MOST] = {
    {"sigaction", (void *)(uintptr_t)own_sigaction, NULL, &real_sigaction},
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
    {"dlsym", (void *)(uintptr_t)own_dlsym, NULL, &real_dlsym},
};

/* Whoever loads an object asks for what is in it next. The last call is a jump, for dlsym() looks at who calls it. */
static void *own_dlsym(void *handle, const char *name) {
    const spp_linux_import *import = handle != RTLD_NEXT ? spp_linux_import_of(name) : NULL;
    void *found = import != NULL ? real_dlsym(handle, name) : NULL;
    if (found != NULL) return found == import->real ? import->own : found;
    spp_linux_imports_replace();
    return real_dlsym(handle, name);
}

void spp_linux_signals_look(const spp_linux_signals_others *are) {
    if (real_dlsym == NULL) {
        others = are;
        owner = (int32_t)getpid();
        memcpy(imports + NAMES, are->execs, SPP_LINUX_EXECS * sizeof *imports);
        memcpy(imports + NAMES + SPP_LINUX_EXECS, are->alone, SPP_LINUX_ALONE * sizeof *imports);
        memcpy(imports + FEW - SPP_LINUX_ALTERNATE, are->alternate, SPP_LINUX_ALTERNATE * sizeof *imports);
        memcpy(imports + FEW, spp_linux_wrappers, spp_linux_wrappers_n * sizeof *imports);
        for (size_t i = 0; i < FEW + spp_linux_wrappers_n; i++) {
            imports[i].real = spp_linux_real_of(imports[i].name);
            if (imports[i].keep != NULL) *(void **)imports[i].keep = imports[i].real;
        }
        (void)spp_linux_handshakes_make();
        spp_linux_imports_make(imports, FEW + spp_linux_wrappers_n);
    }
    spp_linux_imports_replace();
}

void spp_linux_nudge(int32_t tid) { others->nudge(tid); }

/* ---- ours */

static struct sigaction our_action(spp_linux_handler handler) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    /* On the alternate stack, if the thread has one: Go, say, ends the process if a handler runs on a goroutine's stack. */
    action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    memset(&action.sa_mask, 0xff, sizeof action.sa_mask); /* the C library's own too: no tick meets another's handler */
    return action;
}

bool spp_linux_signal_take(int signum, spp_linux_handler handler) {
    int place = place_of(signum);
    kernel_action k = {0};
    struct sigaction now, action = our_action(handler);
    uint64_t mask = begin();
    bool taken = ask_kernel(signum, NULL, &k) == 0;
    from_kernel(&now, &k);
    if (taken && now.sa_sigaction != handler) {
        write_theirs(place, &now);
        taken = (signum != SPP_LINUX_RESERVED || !is_free(&now)) && set_action(signum, &action) == 0;
    }
    if (taken) places[place].mine = (uintptr_t)handler;
    end(mask);
    return taken;
}

bool spp_linux_signal_stands(int signum) {
    kernel_action k = {0};
    uintptr_t mine = places[place_of(signum)].mine;
    if (mine == 0 || ask_kernel(signum, NULL, &k) != 0) return false;
    return (uintptr_t)k.handler == mine || (spawning > 0 && (uintptr_t)k.handler == (uintptr_t)SIG_IGN);
}

bool spp_linux_signal_free(int signum) {
    kernel_action k = {0};
    struct sigaction now;
    int place = place_of(signum);
    if (place >= 0 && (given >> place & 1u)) return false;
    if (ask_kernel(signum, NULL, &k) != 0) return false;
    from_kernel(&now, &k);
    if (spp_linux_signal_stands(signum)) now = read_theirs(place_of(signum));
    return is_free(&now);
}

bool spp_linux_signal_theirs(int signum, struct sigaction *action) {
    kernel_action k = {0};
    int place = place_of(signum);
    if (ask_kernel(signum, NULL, &k) != 0) return false;
    from_kernel(action, &k);
    if (place >= 0 && places[place].mine != 0 && (uintptr_t)k.handler == places[place].mine) *action = read_theirs(place);
    return !is_free(action) && signum != SPP_LINUX_RESERVED;
}

void spp_linux_signal_leave(int signum) {
    int place = place_of(signum);
    struct sigaction ignore;
    memset(&ignore, 0, sizeof ignore);
    ignore.sa_handler = SIG_IGN;
    uint64_t mask = begin();
    struct sigaction theirs = read_theirs(place);
    if (spp_linux_signal_stands(signum) && is_free(&theirs)) {
        /* That discards what is pending on every thread (POSIX); only then is the default action safe, which may end the
         * process. */
        set_action(signum, &ignore);
        set_action(signum, &theirs);
        places[place].mine = 0;
    }
    end(mask);
}

void spp_linux_signals_child(void) {
    atomic_flag_clear(&writing); /* another thread of the parent had it */
    owner = (int32_t)getpid();
    spawning = 0;
    for (size_t i = 0; i < OURS; i++) {
        if (ours[i] == SPP_LINUX_RESERVED || places[i].mine == 0) continue;
        struct sigaction theirs = read_theirs((int)i);
        if (spp_linux_signal_stands(ours[i])) set_action(ours[i], &theirs);
        places[i].mine = 0;
    }
}

void spp_linux_signals_exec(bool begins) {
    struct sigaction ignore;
    memset(&ignore, 0, sizeof ignore);
    ignore.sa_handler = SIG_IGN;
    for (size_t i = 0; i < OURS; i++) {
        uintptr_t mine = places[i].mine;
        kernel_action k = {0};
        if (mine == 0 || ask_kernel(ours[i], NULL, &k) != 0) continue;
        struct sigaction ours_again = our_action((spp_linux_handler)mine);
        if (begins && (uintptr_t)k.handler == mine && read_theirs((int)i).sa_handler == SIG_IGN) set_action(ours[i], &ignore);
        /* Whatever the program said of it since: it was said to us. */
        if (!begins && (uintptr_t)k.handler == (uintptr_t)SIG_IGN) set_action(ours[i], &ours_again);
    }
}

void spp_linux_signals_spawn(bool begins) {
    uint64_t mask = begin();
    if (begins ? spawning++ == 0 : --spawning == 0) spp_linux_signals_exec(begins);
    end(mask);
}

/* Handler. The program's action. One that holds for one signal is used up. */
static struct sigaction use_theirs(int place) {
    struct sigaction action = read_theirs(place);
    if (spp_rare(action.sa_flags & (int)SA_RESETHAND)) {
        uint64_t mask = begin();
        struct sigaction used = action = read_theirs(place);
        if (used.sa_flags & (int)SA_RESETHAND) used.sa_handler = SIG_DFL;
        write_theirs(place, &used);
        end(mask);
    }
    return action;
}

/* Handler. The process ends by this signal, as soon as our handler returns: to what may block it, if it came in sigsuspend(). */
static void end_by(int signum, ucontext_t *uc) {
    struct sigaction action;
    sigdelset(&uc->uc_sigmask, signum);
    memset(&action, 0, sizeof action);
    action.sa_handler = SIG_DFL;
    set_action(signum, &action);
    syscall(SYS_tgkill, getpid(), spp_os_tid(), signum);
}

/* What is blocked meanwhile is what the program asked for, and its handler may leave by longjmp. It runs on a thread's alternate
 * stack, if there is one, whatever it asked for. */
SPP_COLD void spp_linux_signal_pass(int signum, siginfo_t *info, void *context) {
    ucontext_t *uc = context;
    struct sigaction theirs = use_theirs(place_of(signum));
    if (is_free(&theirs)) {
        /* The kernel has nobody ignore a trap that an instruction springs. */
        bool sprung = signum == SIGTRAP && info->si_code > 0 && !others->is_tick(info);
        if (theirs.sa_handler == SIG_IGN ? sprung : signum != SIGURG && signum != SIGWINCH) end_by(signum, uc);
        return;
    }
    uint64_t mask, more;
    memcpy(&mask, &uc->uc_sigmask, sizeof mask);
    memcpy(&more, &theirs.sa_mask, sizeof more);
    mask |= more;
    if (!(theirs.sa_flags & (int)SA_NODEFER)) mask |= (uint64_t)1 << (signum - 1);
    if (!(theirs.sa_flags & SA_RESTART)) others->end_call(context);
    raw_call(SYS_rt_sigprocmask, SIG_SETMASK, (uintptr_t)&mask, 0, sizeof mask);
    if (theirs.sa_flags & SA_SIGINFO)
        theirs.sa_sigaction(signum, info, context);
    else
        theirs.sa_handler(signum);
}

void spp_linux_signals_take_back(void) {
    uint64_t set = 0;
    siginfo_t got[32];
    int n = 0;
    for (size_t i = 0; i < OURS; i++) {
        if (places[i].mine != 0) set |= (uint64_t)1 << (ours[i] - 1);
    }
    struct timespec none = {0};
    while (n < 32 &&
           raw_call(SYS_rt_sigtimedwait, (long)(uintptr_t)&set, (uintptr_t)&got[n], (long)(uintptr_t)&none, sizeof set) > 0) {
        if (!others->is_tick(&got[n])) n++;
    }
    for (int i = 0; i < n; i++) syscall(SYS_rt_tgsigqueueinfo, getpid(), spp_os_tid(), got[i].si_signo, &got[i]);
}
