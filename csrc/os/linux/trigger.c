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
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/hints.h"
#include "os/clock.h"
#include "os/context.h"
#include "os/linux/calls.h"
#include "os/linux/linux.h"
#include "os/linux/machine.h"
#include "os/signals.h"
#include "os/threads.h"
#include "os/ticks.h"
#include "os/worker.h"

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

/* The kernel can send a perf event's tick as SIGTRAP when the thread returns to its program (perf_event_attr's
 * sigtrap; kernel/events/core.c, perf_pending_task). A call in the kernel is then never interrupted, which SIGURG does to one
 * that is about to sleep, and it costs 13 us less here than the older way, which sends an interrupt to its own processor. */
static bool traps;              /* ticks of SPP_CLOCK_PERF_TRAP come as SIGTRAP ... */
static _Atomic int poll_signal; /* ... or else as this; 0: none is to be had */
static _Atomic bool moving;     /* triggers are being armed anew, since the call before of spp_os_signal_taken */
static bool reserved;           /* ticks of timers come by the C library's own signal; or else by poll_signal */

static int timer_signal(void) { return reserved ? SPP_LINUX_RESERVED : poll_signal; }

bool spp_linux_mask_blocks(uint64_t mask, spp_clock clock) {
    int signum = clock == SPP_CLOCK_TIMER ? timer_signal() : traps && clock == SPP_CLOCK_PERF_TRAP ? SIGTRAP : poll_signal;
    return signum != 0 && (mask >> (signum - 1) & 1u);
}

void spp_os_registers(const spp_os_context *context, uintptr_t to[SPP_OS_REGISTERS]) { read_registers(context->machine, to); }

/* What is left of the thread's alternate stack, if that is where the handler runs, must be as much as it takes: what lies below
 * is any memory of the program's. (It takes 1.5 KiB; tests/integration/test_calls.py measures it. The kernel ends a program whose
 * alternate stack has no room for the kernel's own frame of a signal, which may be 3 KiB and more: that cannot be seen before.)
 */
#define STACK_NEED 2560

static inline bool has_room(const ucontext_t *uc) {
    uintptr_t room = (uintptr_t)__builtin_frame_address(0) - (uintptr_t)uc->uc_stack.ss_sp;
    return room >= uc->uc_stack.ss_size || room >= STACK_NEED;
}

/* Of the other clocks' ticks. */
static const spp_linux_instant any = {0, 0, false, 0};

/* Handler. Gives a tick to the core, if the cookie in `value` is one of its own. */
static SPP_HOT __attribute__((noinline)) void give(uintptr_t value, void *uc, bool trapped, const spp_linux_instant *of) {
    int saved = errno;
    spp_linux_see_call(uc, trapped);
    void *cookie = (void *)(value & ~REMAINDER_BIT);
    spp_tick kind = value & REMAINDER_BIT ? SPP_TICK_REMAINDER : SPP_TICK_CPU;
    if (cookie != NULL) {
        spp_os_context context = {

            .more = of->more,
            .coarse = of->coarse,
            .called = of->called,
            .stands_ns = spp_linux_sender_stands_ns(),
            .machine = uc};
        read_context(uc, &context);
        context.at_syscall = kind == SPP_TICK_REMAINDER && spp_linux_at_call(uc);
        on_tick(cookie, kind, &context);
        context.more = 0;
        for (uint32_t n = of->again; n > 0; n--) on_tick(cookie, kind, &context);
    }
    errno = saved;
}

/* As `give`, of the calling thread, which has left a call. All signals are blocked. */
static void give_here(uintptr_t value, const spp_linux_instant *of) {
    ucontext_t uc;
    own_registers(&uc);
    give(value, &uc, false, of);
}

/* Handler. As `give`, with next to no stack where there is no room for more: the tick is only counted then. */
static inline void deliver(uintptr_t value, void *uc, bool trapped, const spp_linux_instant *of) {
    if (spp_usual(has_room(uc)))
        give(value, uc, trapped, of);
    else if (value != 0 && !(value & REMAINDER_BIT) && is_ours((void *)value))
        on_tick((void *)value, SPP_TICK_NO_STACK, NULL);
}

/* A thread that sleeps in a call gets its tick when it wakes, maybe in a later run, where its slot may be another thread's: such
 * ticks tell the run that they are of, in bits that no address has. */
#define RUN_SHIFT 48
#define COOKIE_BITS (((uint64_t)1 << RUN_SHIFT) - 1)
static _Atomic uint64_t run_number; /* of the run that is on, or was last */

static uint64_t trap_data(const void *cookie) { return run_number << RUN_SHIFT | (uintptr_t)cookie; }

/* siginfo's si_code and si_perf_data of such a tick (include/uapi/asm-generic/siginfo.h); older headers lack both. */
#define TRAP_PERF_CODE 6
#define PERF_DATA_AT 24

/* What no tick says: a thread is only to look at the call that it is in. */
static const char nudged;

static void nudge(int32_t tid) {
    siginfo_t info;
    /* One that a new program ignores, where it can be: what is sent to a thread that is about to call exec waits for that one. */
    int by = poll_signal != 0 ? poll_signal : timer_signal();
    if (by == 0) return;
    memset(&info, 0, sizeof info);
    info.si_signo = by;
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_value.sival_ptr = (void *)(uintptr_t)&nudged;
    syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, info.si_signo, &info);
}

/* Handler. Whether a signal that is no trap is a tick of ours, and what it says; 0: nothing any more. */
static inline bool read_tick(const siginfo_t *info, uintptr_t *value) {
    *value = 0;
    if (info->si_code == POLL_IN || info->si_code == POLL_HUP) {
        int fd = info->si_fd;
        /* If the program closed the descriptor of this thread's event, another thread's may have its number by now. */
        if (fd < 0 || fd >= MAX_FD || atomic_load_explicit(&tid_of_fd[fd], memory_order_relaxed) != spp_os_tid()) return false;
        *value = atomic_load_explicit(&cookie_of_fd[fd], memory_order_acquire);
        return true;
    }
    if (info->si_code == SI_QUEUE) return info->si_value.sival_ptr == (const void *)&nudged;
    if (info->si_code != SI_TIMER) return false;
    *value = (uintptr_t)info->si_value.sival_ptr;
    return is_ours((void *)(*value & ~REMAINDER_BIT));
}

/* Handler. The same of a trap; the event's own data is the cookie. */
static inline bool read_trap(const siginfo_t *info, uintptr_t *value) {
    uint64_t data;
    *value = 0;
    if (spp_rare(info->si_code != TRAP_PERF_CODE)) return false;
    memcpy(&data, (const char *)info + PERF_DATA_AT, sizeof data);
    if (data >> RUN_SHIFT == run_number) *value = (uintptr_t)(data & COOKIE_BITS);
    return is_ours((void *)(uintptr_t)(data & COOKIE_BITS));
}

static bool is_tick(const siginfo_t *info) {
    uintptr_t value;
    return info->si_signo == SIGTRAP ? read_trap(info, &value) : spp_linux_is_sent(info) || read_tick(info, &value);
}

static void deliver_sent(const siginfo_t *info, void *uc) {
    spp_linux_instant of = {0, 0, false, 0};
    int saved = errno; /* its timer may be gone */
    uintptr_t value = spp_linux_sent(info, uc, &of);
    errno = saved;
    deliver(value, uc, false, &of);
}

/* Runs on any thread, at any instant. Async-signal-safe: reads a table, calls the core's handler, restores errno. */
static SPP_HOT void handle(int signum, siginfo_t *info, void *uc) {
    uintptr_t value;
    if (spp_linux_is_sent(info))
        deliver_sent(info, uc);
    else if (spp_usual(read_tick(info, &value)))
        deliver(value, uc, false, &any);
    else
        spp_linux_signal_pass(signum, info, uc);
}

static SPP_HOT void handle_trap(int signum, siginfo_t *info, void *uc) {
    uintptr_t value;
    if (spp_usual(read_trap(info, &value)))
        deliver(value, uc, true, &any);
    else
        spp_linux_signal_pass(signum, info, uc);
}

static int make_timer(timer_t *timer, int32_t tid, uintptr_t value) {
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = timer_signal() != 0 ? timer_signal() : SIGURG; /* to probe: it is never set */
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
    if (clock <= SPP_CLOCK_PERF_USER) {
        if (spp_linux_perf_probe(clock != SPP_CLOCK_PERF_USER) != 0) {
            *why = "perf_event_open";
            *error = errno;
            return -1;
        }
    }
    if (clock == SPP_CLOCK_SIGNAL &&
        syscall(SYS_rt_tgsigqueueinfo, getpid(), spp_os_tid(), 0, &(siginfo_t){.si_code = SI_QUEUE}) != 0) {
        *why = "rt_tgsigqueueinfo";
        *error = errno;
        return -1;
    }
    if (clock == SPP_CLOCK_PERF_USER || clock == SPP_CLOCK_TIMER) {
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
    if (spp_linux_signal_stands(SIGTRAP)) return true;
    return spp_linux_signal_free(SIGTRAP) && spp_linux_signal_take(SIGTRAP, handle_trap);
}

/* One that is ignored where nobody handles it: whatever becomes of our handler, by exec or by who resets all signals, a tick on
 * its way does nothing. And one that the program has no handler for: two signals with a number below 32 that wait for one thread
 * become one, so the program's might be taken for a tick. (SIGCHLD and SIGCONT are ignored too, but mean something to who waits
 * for a child, or is stopped.) */
static bool choose_poll_signal(void) {
    static const int candidates[] = {SIGURG, SIGWINCH};
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
        if (!spp_linux_signal_free(candidates[i]) || !spp_linux_signal_take(candidates[i], handle)) continue;
        poll_signal = candidates[i];
        return true;
    }
    return false;
}

static void nothing(void *unused) { (void)unused; }

/* glibc gives its own signal a handler when the first thread is made. */
static void make_first_thread(void) {
    static bool made;
    spp_os_worker *worker = made ? NULL : spp_os_worker_start("spprof-first", false, nothing, NULL);
    made = true;
    if (worker != NULL) spp_os_worker_join(worker);
}

int spp_os_signal_install(spp_os_tick_fn tick, bool (*valid)(const void *cookie), spp_clock clock, bool may_trap) {
    spp_linux_calls_init();
    spp_linux_sender_gives_to(give_here);
    on_tick = tick;
    is_ours = valid;
    spp_linux_perf_begin();
    run_number = (run_number + 1) & 0xffff;
    make_first_thread();
    /* Its default ends a program that is not told to expect it, as a trap does. */
    reserved = may_trap && SIGRTMIN > SPP_LINUX_RESERVED && spp_linux_signal_take(SPP_LINUX_RESERVED, handle);
    traps = clock == SPP_CLOCK_PERF_TRAP && may_trap && can_trap() && take_trap();
    poll_signal = 0;
    moving = false;
    bool polls = (traps && reserved) || choose_poll_signal();
    if (!polls && !reserved) return -1;
    spp_linux_alternates(true);
    spp_linux_apart_start();
    return 0;
}

/* Drain lock or not; the drain thread. */
bool spp_os_signal_taken(void) {
    bool was_trapping = traps, was_reserved = reserved;
    int polled = poll_signal;
    traps = traps && spp_linux_signal_stands(SIGTRAP);
    reserved = reserved && spp_linux_signal_stands(SPP_LINUX_RESERVED);
    bool needs = !traps || !reserved || polled != 0;
    bool lost = polled != 0 && !(spp_linux_signal_stands(polled) && spp_linux_signal_free(polled));
    /* None is to be had: timers serve, if they have a signal of their own. */
    if (needs && (polled == 0 || lost) && !choose_poll_signal() && reserved) poll_signal = 0;
    return moving = traps != was_trapping || reserved != was_reserved || (lost && poll_signal != polled);
}

static bool ticks_by(int signum) { return moving || poll_signal == signum || spp_linux_sender_sends(signum); }

/* Whether a tick by this signal may wait for a thread that blocks it: of a perf event. */
static bool pends(int signum) { return !spp_linux_sender_sends(signum); }

void spp_os_signal_look(void) {
    static const spp_linux_signals_others others = {is_tick, nudge,           spp_linux_end_call, ticks_by,
                                                    pends,   spp_linux_execs, spp_linux_alone,    spp_linux_alternate};
    spp_linux_signals_look(&others);
}

void spp_os_signal_take_back(void) { spp_linux_signals_take_back(); }

void spp_os_signal_remove(void) {
    spp_linux_alternates(false);
    spp_linux_signal_leave(SIGURG);
    spp_linux_signal_leave(SIGWINCH);
    poll_signal = 0;
    traps = false;
    spp_linux_sender_stop();
    spp_linux_apart_stop();
}

const bool spp_os_may_rest = true;

uint64_t spp_os_signal_threads(void) { return spp_linux_samplers() + (spp_linux_apart_tid() != 0 ? 1u : 0); }

void spp_os_signal_rest(void) {
    spp_linux_sender_rest();
    spp_linux_apart_stop();
}

void spp_os_signal_wake(void) {
    spp_linux_apart_start();
    spp_linux_sender_wake();
}

void spp_os_signal_child(void) {
    spp_linux_signals_child();
    spp_linux_sender_child();
    spp_linux_apart_child();
    poll_signal = 0;
    traps = false;
}

static int arm_perf(spp_os_trigger *trigger, int32_t tid, uint64_t period_ns, spp_clock clock, void *cookie) {
    uintptr_t value = (uintptr_t)cookie;
    bool trap = traps && clock == SPP_CLOCK_PERF_TRAP, kernel = clock != SPP_CLOCK_PERF_USER;
    if (!trap && poll_signal == 0) {
        errno = EBUSY;
        return -1;
    }
    int fd = spp_linux_perf_open(tid, period_ns, kernel, trap ? trap_data(cookie) : 0, &trigger->perf_id);
    if (fd < 0) return -1;
    struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = tid};
    if (trap) (void)fcntl(fd, F_SETOWN_EX, &owner); /* for spp_os_trigger_orphan: it is sent nothing */
    if (!trap && (fd >= MAX_FD || fcntl(fd, F_SETSIG, poll_signal) != 0 || fcntl(fd, F_SETOWN_EX, &owner) != 0 ||
                  fcntl(fd, F_SETFL, O_ASYNC) != 0)) {
        spp_linux_perf_close(fd, trigger->perf_id);
        return -1;
    }
    if (!trap) {
        atomic_store_explicit(&tid_of_fd[fd], tid, memory_order_relaxed);
        atomic_store_explicit(&cookie_of_fd[fd], value, memory_order_release);
    }
    trigger->perf_fd = fd;
    return (int)spp_linux_perf_call(fd, PERF_EVENT_IOC_ENABLE, NULL);
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
    if (clock == SPP_CLOCK_SIGNAL) {
        if (poll_signal == 0) (void)choose_poll_signal();
        if (poll_signal != 0) trigger->sender = spp_linux_sender_arm(tid, poll_signal, period_ns, cookie);
        failed |= trigger->sender == NULL;
    }
    if (clock == SPP_CLOCK_PERF_USER) failed |= arm_timer(trigger, tid, REMAINDER_NS, (uintptr_t)cookie | REMAINDER_BIT);
    if (clock <= SPP_CLOCK_PERF_USER) failed |= arm_perf(trigger, tid, period_ns, clock, cookie);
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
        spp_linux_perf_call(trigger->perf_fd, PERF_EVENT_IOC_PERIOD, &period_ns);
    } else if (trigger->sender != NULL) {
        spp_linux_sender_period(trigger->sender, period_ns);
    } else if (trigger->has_timer) {
        struct timespec every = {.tv_sec = (time_t)(period_ns / 1000000000u), .tv_nsec = (long)(period_ns % 1000000000u)};
        struct itimerspec spec = {.it_interval = every, .it_value = every};
        timer_settime((timer_t)trigger->timer, 0, &spec, NULL);
    }
}

bool spp_os_trigger_alive(const spp_os_trigger *trigger) {
    return trigger->perf_fd < 0 ? trigger->has_timer || trigger->sender != NULL
                                : spp_linux_perf_is(trigger->perf_fd, trigger->perf_id);
}

/* What was made for a thread keeps that one, whoever has its number now: of a thread that is gone a timer of its clock has
 * nothing to say (posix_cpu_timer_get in Linux's kernel/time/posix-cpu-timers.c), and an event's owner is 0 (f_getown_ex in
 * fs/fcntl.c; before 5.12 it is the number, so nothing is told). */
bool spp_os_trigger_orphan(const spp_os_trigger *trigger) {
    struct itimerspec left;
    struct f_owner_ex owner;
    if (trigger->has_timer && timer_gettime((timer_t)trigger->timer, &left) == 0)
        return left.it_value.tv_sec == 0 && left.it_value.tv_nsec == 0;
    return trigger->perf_fd >= 0 && spp_os_trigger_alive(trigger) && fcntl(trigger->perf_fd, F_GETOWN_EX, &owner) == 0 &&
           owner.type == F_OWNER_TID && owner.pid == 0;
}

bool spp_os_trigger_gave_up(const spp_os_trigger *trigger) {
    return trigger->sender != NULL && spp_linux_sender_unseen(trigger->sender);
}

void spp_os_trigger_disarm(spp_os_trigger *trigger) {
    if (trigger->sender != NULL) spp_linux_sender_disarm(trigger->sender);
    trigger->sender = NULL;
    if (trigger->has_timer) timer_delete((timer_t)trigger->timer);
    trigger->has_timer = 0;
    if (trigger->perf_fd >= 0) {
        bool alive = spp_os_trigger_alive(trigger);
        if (alive) spp_linux_perf_call(trigger->perf_fd, PERF_EVENT_IOC_DISABLE, NULL);
        if (alive && trigger->perf_fd < MAX_FD) atomic_store_explicit(&cookie_of_fd[trigger->perf_fd], 0, memory_order_release);
        spp_linux_perf_close(trigger->perf_fd, trigger->perf_id);
    }
    unwatch(trigger);
    trigger->perf_fd = -1;
}

void spp_os_trigger_drop(spp_os_trigger *trigger) {
    /* Timers are not inherited; a perf descriptor is, and shares the parent's event. */
    if (trigger->perf_fd >= 0 && trigger->perf_fd < MAX_FD) {
        atomic_store_explicit(&cookie_of_fd[trigger->perf_fd], 0, memory_order_relaxed);
        atomic_store_explicit(&tid_of_fd[trigger->perf_fd], 0, memory_order_relaxed);
    }
    if (trigger->perf_fd >= 0) spp_linux_perf_close(trigger->perf_fd, trigger->perf_id);
    trigger->perf_fd = -1;
    trigger->has_timer = 0;
    trigger->sender = NULL;
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

uint64_t spp_os_signal_cpu_ns(void) {
    uint64_t cpu = 0;
    int32_t tid = spp_linux_apart_tid();
    uint64_t files = tid != 0 && spp_os_thread_cpu_ns(tid, &cpu) == 0 ? cpu : 0;
    return files + spp_linux_sender_cpu_ns();
}
