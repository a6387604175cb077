/* Triggers of Linux: perf task-clock events, thread-CPU timers, and the signal that they come by. */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/hints.h"
#include "os/linux/linux.h"
#include "os/linux/machine.h"
#include "os/os.h"

#ifndef sigev_notify_thread_id /* glibc has the field without its name */
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* A perf signal carries the descriptor, not a pointer. Events beyond the table get a timer instead. */
#define MAX_FD 65536
/* The kernel's remainder is looked at this often: a thread-CPU timer fires at CONFIG_HZ at most anyway. */
#define REMAINDER_NS 4000000u
/* Signals carry the cookie. Its lowest bit (cookies are aligned) tells the remainder timer's ticks. */
#define REMAINDER_BIT ((uintptr_t)1)

static _Atomic uintptr_t cookie_of_fd[MAX_FD];
static _Atomic int32_t tid_of_fd[MAX_FD]; /* whose ticks they are */
static spp_os_tick_fn on_tick;
static bool (*is_ours)(const void *cookie);
static struct sigaction old_action;
static _Atomic int chosen_signal = SIGURG;

/* The kernel can send a perf event's tick as SIGTRAP when the thread returns to its program (perf_event_attr's
 * sigtrap; kernel/events/core.c, perf_pending_task). A call in the kernel is then never interrupted, which SIGURG does to one
 * that is about to sleep, and it costs 13 us less here than the older way, which sends an interrupt to its own processor. */
static struct sigaction old_trap;
static bool traps;      /* ticks of perf events come as SIGTRAP */
static bool trap_taken; /* its handler is ours since the first run, and stays: see take_trap */

int spp_linux_signal(void) { return chosen_signal; }
bool spp_linux_traps(void) { return traps; }

void spp_os_registers(const spp_os_context *context, uintptr_t to[SPP_OS_REGISTERS]) { read_registers(context->machine, to); }

/* Whether no handler is set. Any thread, handlers too. */
static bool is_free(const struct sigaction *action) {
    return !(action->sa_flags & SA_SIGINFO) && (action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN);
}

/* Whether the kernel's call of this number may wait, so that a signal ends it: no other begins anew. A tick may also meet the
 * instruction of a call that has not begun; getpid, say, cannot fail, and must not. */
static bool may_wait(long number) {
    static const long waiting[] = {
        SYS_read,
        SYS_write,
        SYS_readv,
        SYS_writev,
        SYS_pread64,
        SYS_pwrite64,
        SYS_ioctl,
        SYS_fcntl,
        SYS_flock,
        SYS_openat,
        SYS_accept,
        SYS_accept4,
        SYS_connect,
        SYS_recvfrom,
        SYS_recvmsg,
        SYS_recvmmsg,
        SYS_sendto,
        SYS_sendmsg,
        SYS_sendmmsg,
        SYS_pselect6,
        SYS_ppoll,
        SYS_epoll_pwait,
        SYS_wait4,
        SYS_waitid,
        SYS_futex,
        SYS_nanosleep,
        SYS_clock_nanosleep,
        SYS_rt_sigsuspend,
        SYS_rt_sigtimedwait,
        SYS_msgrcv,
        SYS_msgsnd,
        SYS_semop,
        SYS_semtimedop,
        SYS_mq_timedreceive,
        SYS_mq_timedsend,
        SYS_io_getevents,
        SYS_getrandom,
        SYS_splice,
        SYS_tee,
        SYS_restart_syscall,
#ifdef SYS_poll /* older calls, which newer processors do without */
        SYS_poll,
        SYS_select,
        SYS_epoll_wait,
        SYS_pause,
        SYS_open,
#endif
    };
    for (size_t i = 0; i < sizeof waiting / sizeof *waiting; i++) {
        if (waiting[i] == number) return true;
    }
    return number >=
           424; /* those that came since 2019 (io_uring_enter, epoll_pwait2, futex_waitv) are few, and many of them wait */
}

/* Handler. A signal of the program's has ended a call, and a tick waited for the same return from the kernel: the kernel takes
 * SIGTRAP first (kernel/signal.c, get_signal), and begins the call anew because our handler says SA_RESTART. The program's
 * handler then runs, but a call that it was to interrupt goes on waiting, for ever perhaps: Ctrl-C in a blocked read would not be
 * heard. So the call ends with EINTR, as without us, if a signal is about to be handled that does not say SA_RESTART. One sent to
 * the process may be gone by now: as our handler blocks it, the kernel turns to another thread (retarget_shared_pending). No tick
 * that traps ends a call, so then too another signal did, of the main thread's most likely, whom the kernel asks first. */
static SPP_COLD void give_way(ucontext_t *uc, bool trapped) {
    uint64_t pending = 0, blocked;
    bool some = false;
    if (syscall(SYS_rt_sigpending, &pending, sizeof pending) != 0) return;
    memcpy(&blocked, &uc->uc_sigmask, sizeof blocked);
    pending &= ~blocked;
    for (int signum = 1; signum <= 64; signum++) {
        struct sigaction action;
        if (!(pending >> (signum - 1) & 1) || sigaction(signum, NULL, &action) != 0) continue;
        if (is_free(&action)) continue;
        some = true;
        if (!(action.sa_flags & SA_RESTART)) {
            interrupt_call(uc);
            return;
        }
    }
    if (trapped && !some && began_before(uc) && spp_os_tid() == getpid()) interrupt_call(uc);
}

/* Handler. Gives a tick to the core, if the cookie in `value` is one of its own. */
static inline void deliver(uintptr_t value, void *uc, bool trapped) {
    int saved = errno;
    if (spp_rare(on_call(uc)) && !is_to_begin(uc) && may_wait(call_number(uc))) give_way(uc, trapped);
    void *cookie = (void *)(value & ~REMAINDER_BIT);
    spp_tick kind = value & REMAINDER_BIT ? SPP_TICK_REMAINDER : SPP_TICK_CPU;
    if (cookie != NULL && is_ours(cookie)) {
        spp_os_context context = {.machine = uc};
        read_context(uc, &context);
        on_tick(cookie, kind, &context);
    }
    errno = saved;
}

/* Runs on any thread, at any instant. Async-signal-safe: reads a table, calls the core's handler, restores errno. */
static SPP_HOT void handle(int signum, siginfo_t *info, void *uc) {
    (void)signum;
    uintptr_t value = 0;
    if (info->si_code == POLL_IN || info->si_code == POLL_HUP) {
        int fd = info->si_fd;
        /* If the program closed the descriptor of this thread's event, another thread's may have its number by now. */
        if (fd >= 0 && fd < MAX_FD && atomic_load_explicit(&tid_of_fd[fd], memory_order_relaxed) == spp_os_tid()) {
            value = atomic_load_explicit(&cookie_of_fd[fd], memory_order_acquire);
        }
    } else if (info->si_code == SI_TIMER || info->si_code == SI_QUEUE) {
        value = (uintptr_t)info->si_value.sival_ptr;
    }
    deliver(value, uc, false);
}

/* A SIGTRAP that is none of ours does what it would have done: it ends the process, as soon as this handler returns. */
static SPP_COLD void trap_of_others(void) {
    if (old_trap.sa_handler == SIG_IGN) return;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = SIG_DFL;
    sigaction(SIGTRAP, &action, NULL);
    syscall(SYS_tgkill, getpid(), spp_os_tid(), SIGTRAP);
}

/* A thread that sleeps in a call gets its tick when it wakes, maybe in a later run, where its slot may be another thread's: such
 * ticks tell the run that they are of, in bits that no address has. */
#define RUN_SHIFT 48
static _Atomic uint64_t run_number; /* of the run that is on, or was last */

static uint64_t trap_data(const void *cookie) { return run_number << RUN_SHIFT | (uintptr_t)cookie; }

/* siginfo's si_code and si_perf_data of such a tick (include/uapi/asm-generic/siginfo.h); older headers lack both. */
#define TRAP_PERF_CODE 6
#define PERF_DATA_AT 24

/* As `handle`; the event's own data is the cookie. */
static SPP_HOT void handle_trap(int signum, siginfo_t *info, void *uc) {
    (void)signum;
    if (spp_rare(info->si_code != TRAP_PERF_CODE)) {
        trap_of_others();
        return;
    }
    uint64_t data;
    memcpy(&data, (const char *)info + PERF_DATA_AT, sizeof data);
    uintptr_t value = data >> RUN_SHIFT == run_number ? (uintptr_t)(data & (((uint64_t)1 << RUN_SHIFT) - 1)) : 0;
    deliver(value, uc, true);
}

/* perf_event_attr as of Linux 5.13, whatever headers this is compiled with. */
typedef union {
    struct perf_event_attr attr;
    uint64_t words[16];
} perf_attr;
#define ATTR_FLAGS 5     /* the word of its one-bit flags */
#define ATTR_SIG_DATA 15 /* what comes back as si_perf_data */
#define FLAG_REMOVE_ON_EXEC ((uint64_t)1 << 36)
#define FLAG_SIGTRAP ((uint64_t)1 << 37)

/* Raw, since C libraries differ in the type of the request. Async-signal-safe. */
static long perf_call(int fd, unsigned long request, void *argument) { return syscall(SYS_ioctl, fd, request, argument); }

/* `data` not 0: its ticks come as SIGTRAP, with this. */
static long perf_open(int32_t tid, uint64_t period_ns, bool kernel, uint64_t data) {
    perf_attr a;
    memset(&a, 0, sizeof a);
    a.attr.type = PERF_TYPE_SOFTWARE;
    a.attr.config = PERF_COUNT_SW_TASK_CLOCK;
    a.attr.sample_period = period_ns;
    a.attr.exclude_kernel = !kernel;
    a.attr.exclude_hv = 1;
    a.attr.disabled = 1;
    if (data == 0) {
        a.attr.size = PERF_ATTR_SIZE_VER0;
        a.attr.wakeup_events = 1;
    } else {
        a.attr.size = sizeof a.words;
        a.words[ATTR_FLAGS] |= FLAG_SIGTRAP | FLAG_REMOVE_ON_EXEC;
        a.words[ATTR_SIG_DATA] = data;
    }
    return syscall(SYS_perf_event_open, &a, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static int make_timer(timer_t *timer, int32_t tid, uintptr_t value) {
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = spp_linux_signal();
    event.sigev_value.sival_ptr = (void *)value;
    event.sigev_notify_thread_id = tid;
    return timer_create(spp_linux_thread_clock(tid), &event, timer);
}

int spp_os_clock_probe(spp_clock clock, const char **why, int *error) {
    *why = NULL;
    if (clock > spp_os_clock_last) {
        *why = "signals serve here";
        *error = ENOSYS;
        return -1;
    }
    if (clock == SPP_CLOCK_PERF || clock == SPP_CLOCK_PERF_USER) {
        long fd = perf_open(spp_os_tid(), 1000000, clock == SPP_CLOCK_PERF, 0);
        if (fd < 0) {
            *why = "perf_event_open";
            *error = errno;
            return -1;
        }
        close((int)fd);
    }
    if (clock == SPP_CLOCK_TIMER || clock == SPP_CLOCK_PERF_USER) {
        timer_t timer;
        if (make_timer(&timer, spp_os_tid(), 0) != 0) {
            *why = "timer_create";
            *error = errno;
            return -1;
        }
        timer_delete(timer);
    }
    return 0;
}

static bool take_signal(int signum, void (*handler)(int, siginfo_t *, void *), struct sigaction *old) {
    struct sigaction action, now;
    if (sigaction(signum, NULL, &now) != 0) return false;
    if (now.sa_sigaction == handler) return true; /* inherited by a fork, with what stood there before */
    if (!is_free(&now)) return false;
    *old = now;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigfillset(&action.sa_mask);
    return sigaction(signum, &action, NULL) == 0;
}

/* Setting a signal to "ignore" discards what is pending of it on every thread (POSIX); only then is the default action,
 * which may end the process, safe again. */
static void give_back(int signum, void (*handler)(int, siginfo_t *, void *), const struct sigaction *old) {
    struct sigaction now, ignore;
    if (sigaction(signum, NULL, &now) != 0 || now.sa_sigaction != handler) return;
    memset(&ignore, 0, sizeof ignore);
    ignore.sa_handler = SIG_IGN;
    sigaction(signum, &ignore, NULL);
    sigaction(signum, old, NULL);
}

/* Whether this kernel sends SIGTRAP at the return to the program, and no debugger waits for one. 6.11 to 6.15 do so too, but
 * closing an event whose tick is on its way to a thread that sleeps waits there until that thread wakes (mended by "perf: Fix
 * hang while freeing sigtrap event"). */
static bool can_trap(void) {
    struct utsname name;
    int major = 0, minor = 0;
    if (uname(&name) != 0 || sscanf(name.release, "%d.%d", &major, &minor) != 2) return false;
    return (major > 6 || (major == 6 && minor >= 16)) && !spp_linux_traced();
}

/* A thread that sleeps in a call gets its tick when it wakes, maybe long after the run: so the handler stays for good, and what
 * comes then finds no run, or one of another number. */
static bool take_trap(void) {
    struct sigaction now;
    if (trap_taken) return sigaction(SIGTRAP, NULL, &now) == 0 && now.sa_sigaction == handle_trap;
    trap_taken = take_signal(SIGTRAP, handle_trap, &old_trap);
    return trap_taken;
}

int spp_os_signal_install(spp_os_tick_fn tick, bool (*valid)(const void *cookie), bool may_trap) {
    /* SIGURG is ignored where nobody handles it, so one that is still pending when the program calls exec, or when we let
     * go, kills nobody; SIGPROF would. And SIGPROF stays the program's. */
    static const int candidates[] = {SIGURG, SIGPROF, SIGSTKFLT};
    on_tick = tick;
    is_ours = valid;
    run_number = (run_number + 1) & 0xffff;
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
        if (!take_signal(candidates[i], handle, &old_action)) continue;
        chosen_signal = candidates[i];
        traps = may_trap && can_trap() && take_trap();
        return 0;
    }
    return -1;
}

bool spp_os_signal_taken(void) {
    struct sigaction now;
    if (!traps || (sigaction(SIGTRAP, NULL, &now) == 0 && now.sa_sigaction == handle_trap)) return false;
    traps = false;
    return true;
}

void spp_os_signal_remove(void) {
    give_back(chosen_signal, handle, &old_action);
    traps = false;
}

/* Moves a descriptor out of the way of programs that count on low numbers, but within the 64 that a process's table has
 * from the start: making the table larger waits for a grace period of the kernel, 15 ms. */
#define LOWEST_FD 40
static int move_up(int fd) {
    int up = fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_FD);
    if (up < 0) return fd;
    close(fd);
    return up;
}

/* As perf_open; -1 also if the program would be left with less than half of the descriptors that it may have. */
static int perf_open_spare(int32_t tid, uint64_t period_ns, bool kernel, uint64_t data) {
    struct rlimit limit;
    long opened = perf_open(tid, period_ns, kernel, data);
    if (opened < 0) return -1;
    int fd = move_up((int)opened);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && (rlim_t)fd >= limit.rlim_cur / 2) {
        close(fd);
        errno = EMFILE;
        return -1;
    }
    return fd;
}

static int arm_perf(spp_os_trigger *trigger, int32_t tid, uint64_t period_ns, bool kernel, void *cookie) {
    uintptr_t value = (uintptr_t)cookie;
    int fd = traps ? perf_open_spare(tid, period_ns, kernel, trap_data(cookie)) : -1;
    bool trap = fd >= 0;
    if (!trap) fd = perf_open_spare(tid, period_ns, kernel, 0);
    if (fd < 0) return -1;
    struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = tid};
    if (!trap && (fd >= MAX_FD || fcntl(fd, F_SETSIG, spp_linux_signal()) != 0 || fcntl(fd, F_SETOWN_EX, &owner) != 0 ||
                  fcntl(fd, F_SETFL, O_ASYNC) != 0)) {
        close(fd);
        return -1;
    }
    if (!trap) {
        atomic_store_explicit(&tid_of_fd[fd], tid, memory_order_relaxed);
        atomic_store_explicit(&cookie_of_fd[fd], value, memory_order_release);
    }
    trigger->perf_fd = fd;
    if (perf_call(fd, PERF_EVENT_IOC_ID, &trigger->perf_id) != 0) return -1;
    return (int)perf_call(fd, PERF_EVENT_IOC_ENABLE, NULL);
}

static int arm_timer(spp_os_trigger *trigger, int32_t tid, uint64_t period_ns, uintptr_t value) {
    timer_t timer;
    if (make_timer(&timer, tid, value) != 0) return -1;
    struct timespec every = {.tv_sec = (time_t)(period_ns / 1000000000u), .tv_nsec = (long)(period_ns % 1000000000u)};
    struct itimerspec spec = {.it_interval = every, .it_value = every};
    if (timer_settime(timer, 0, &spec, NULL) != 0) {
        timer_delete(timer);
        return -1;
    }
    trigger->timer = (uintptr_t)timer;
    trigger->has_timer = 1;
    return 0;
}

int spp_os_trigger_arm(spp_os_trigger *trigger, spp_clock clock, int32_t tid, uint64_t period_ns, void *cookie) {
    int failed = 0;
    if (clock == SPP_CLOCK_TIMER) failed |= arm_timer(trigger, tid, period_ns, (uintptr_t)cookie);
    if (clock == SPP_CLOCK_PERF_USER) failed |= arm_timer(trigger, tid, REMAINDER_NS, (uintptr_t)cookie | REMAINDER_BIT);
    if (clock == SPP_CLOCK_PERF || clock == SPP_CLOCK_PERF_USER) {
        failed |= arm_perf(trigger, tid, period_ns, clock == SPP_CLOCK_PERF, cookie);
    }
    if (failed) {
        int saved = errno;
        spp_os_trigger_disarm(trigger);
        errno = saved;
        return -1;
    }
    return 0;
}

/* What the kernel lets a user lock for perf on one processor (perf_event_mlock_kb): with more, other tools find room. */
#define WATCHED_MAX 128
static int watched; /* under the drain lock */

/* The page that a perf event shows of itself is brought up to date when its thread is switched in (task_clock_event_add in
 * Linux's kernel/events/core.c), and counts that. One page of what the user may lock. The mapping is not inherited by a fork
 * (VM_DONTCOPY), and keeps the event alive until it goes. */
void spp_os_trigger_watch(spp_os_trigger *trigger) {
    if (trigger->perf_fd < 0 || watched == WATCHED_MAX) return;
    void *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, trigger->perf_fd, 0);
    if (page == MAP_FAILED) return;
    trigger->runs = &((const volatile struct perf_event_mmap_page *)page)->lock;
    watched++;
}

static void unwatch(spp_os_trigger *trigger) {
    if (trigger->runs == NULL) return;
    uintptr_t page = (uintptr_t)trigger->runs - offsetof(struct perf_event_mmap_page, lock);
    munmap((void *)page, (size_t)sysconf(_SC_PAGESIZE));
    trigger->runs = NULL;
    watched--;
}

void spp_os_trigger_period(spp_os_trigger *trigger, uint64_t period_ns) {
    if (trigger->perf_fd >= 0) {
        perf_call(trigger->perf_fd, PERF_EVENT_IOC_PERIOD, &period_ns);
    } else if (trigger->has_timer) {
        struct timespec every = {.tv_sec = (time_t)(period_ns / 1000000000u), .tv_nsec = (long)(period_ns % 1000000000u)};
        struct itimerspec spec = {.it_interval = every, .it_value = every};
        timer_settime((timer_t)trigger->timer, 0, &spec, NULL);
    }
}

bool spp_os_trigger_alive(const spp_os_trigger *trigger) {
    uint64_t id;
    if (trigger->perf_fd < 0) return trigger->has_timer;
    return perf_call(trigger->perf_fd, PERF_EVENT_IOC_ID, &id) == 0 && id == trigger->perf_id;
}

void spp_os_trigger_disarm(spp_os_trigger *trigger) {
    if (trigger->has_timer) timer_delete((timer_t)trigger->timer);
    trigger->has_timer = 0;
    if (trigger->perf_fd >= 0 && spp_os_trigger_alive(trigger)) {
        perf_call(trigger->perf_fd, PERF_EVENT_IOC_DISABLE, NULL);
        if (trigger->perf_fd < MAX_FD) atomic_store_explicit(&cookie_of_fd[trigger->perf_fd], 0, memory_order_release);
        close(trigger->perf_fd);
    }
    unwatch(trigger);
    trigger->perf_fd = -1;
}

void spp_os_trigger_drop(spp_os_trigger *trigger) {
    /* Timers are not inherited; a perf descriptor is, and shares the parent's event. */
    if (trigger->perf_fd >= 0 && spp_os_trigger_alive(trigger)) close(trigger->perf_fd);
    trigger->perf_fd = -1;
    trigger->has_timer = 0;
    if (trigger->runs != NULL) watched--;
    trigger->runs = NULL;
}

/* ---- nothing is suspended here: a thread that stands is walked as it stands */

int spp_os_hold(const spp_os_trigger *trigger, spp_os_context *context) {
    (void)trigger, (void)context;
    return 1;
}

void spp_os_let_go(const spp_os_trigger *trigger) { (void)trigger; }

uint64_t spp_os_stop_ns(void) { return 0; }
bool spp_os_clock_tells(void) { return true; }

void spp_os_gate(bool (*enter)(void), void (*leave)(void)) { (void)enter, (void)leave; }

uintptr_t spp_os_slot_of(const spp_os_subject *subject, uint32_t slot) {
    (void)subject, (void)slot;
    return 0;
}

uint64_t spp_os_signal_cpu_ns(void) { return 0; }
