/* The clocks perf, perf-trap and perf-user: perf task-clock events. An event's signal carries its descriptor; a trap carries the
 * cookie. */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/hints.h"
#include "os/linux/linux.h"
#include "os/linux/machine.h"
#include "os/threads.h"
#include "os/ticks.h"

/* Descriptors beyond the table are refused, and their threads get a timer instead. */
#define MAX_FD 65536
/* Interval of the timer for the kernel's remainder. Thread-CPU timers fire at CONFIG_HZ at most. */
#define REMAINDER_NS 4000000u

/* For each descriptor number that an event has or once used: what its ticks mean (0: nothing any
 * more), and which thread gets them, by a signal. A thread that blocks the signal gets a tick when
 * it unblocks it, or takes it by sigwait(): by then the event may be closed and the number be
 * another event's. So a number that was once an event's stays known for good, in forked children
 * too. */
static _Atomic uintptr_t cookie_of_fd[MAX_FD];
static _Atomic uint64_t receiver_of_fd[MAX_FD];

static uint64_t receiver(int32_t tid, int signum) { return (uint64_t)signum << 32 | (uint32_t)tid; }

/* A thread that sleeps in a call gets its trap when it wakes, maybe in a later run, in which the cookie may be another thread's.
 * So a trap carries the number of its run in bits that addresses do not use. */
#define RUN_SHIFT 48
#define VALUE_BITS (((uint64_t)1 << RUN_SHIFT) - 1)
static _Atomic uint64_t run_number; /* of the current run, or the last one */

uint64_t spp_linux_perf_trap_data(uintptr_t value) { return run_number << RUN_SHIFT | value; }

void spp_linux_clock_perf_begin(void) {
    spp_linux_perf_begin();
    run_number = (run_number + 1) & 0xffff;
}

/* Handler. Whether a number that was an event's is now that of a file by which the program has such signals sent. errno stays. */
static bool is_theirs(int fd, int signum) {
    uint64_t id;
    if (atomic_load_explicit(&spp_linux_confined, memory_order_relaxed)) return false; /* it may not ask */
    return raw_call(SYS_fcntl, fd, F_GETSIG, 0, 0) == signum &&
           raw_call(SYS_ioctl, fd, PERF_EVENT_IOC_ID, (long)(uintptr_t)&id, 0) != 0;
}

/* The cookie is read first: if it is that of the event that has the number now, so is the receiver. */
bool spp_linux_perf_poll(const siginfo_t *info, uintptr_t *value) {
    int fd = info->si_fd;
    if (fd < 0 || fd >= MAX_FD) return false;
    uintptr_t cookie = atomic_load_explicit(&cookie_of_fd[fd], memory_order_acquire);
    uint64_t of = atomic_load_explicit(&receiver_of_fd[fd], memory_order_relaxed);
    *value = of == receiver(spp_os_tid(), info->si_signo) ? cookie : 0;
    return spp_usual(*value != 0) || (of != 0 && !is_theirs(fd, info->si_signo));
}

/* siginfo's si_code and si_perf_data of such a tick (include/uapi/asm-generic/siginfo.h); older headers lack both. */
#define TRAP_PERF_CODE 6
#define PERF_DATA_AT 24

bool spp_linux_perf_trap(const siginfo_t *info, uintptr_t *value, bool *due) {
    uint64_t data;
    if (spp_rare(info->si_code != TRAP_PERF_CODE)) return false;
    memcpy(&data, (const char *)info + PERF_DATA_AT, sizeof data);
    *value = (uintptr_t)(data & VALUE_BITS);
    *due = data >> RUN_SHIFT == run_number;
    return true;
}

/* ---- a thread's event */

int spp_linux_perf_polls(int fd, int signum, int32_t tid, uintptr_t value) {
    struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = tid};
    if (signum == 0 || fd >= MAX_FD) {
        errno = signum == 0 ? EBUSY : EMFILE;
        return -1;
    }
    if (fcntl(fd, F_SETSIG, signum) != 0 || fcntl(fd, F_SETOWN_EX, &owner) != 0 || fcntl(fd, F_SETFL, O_ASYNC) != 0) return -1;
    atomic_store_explicit(&receiver_of_fd[fd], receiver(tid, signum), memory_order_relaxed);
    atomic_store_explicit(&cookie_of_fd[fd], value, memory_order_release);
    return 0;
}

void spp_linux_perf_quiet(int fd) {
    if (fd >= 0 && fd < MAX_FD) atomic_store_explicit(&cookie_of_fd[fd], 0, memory_order_release);
}

static spp_linux_perf_event task_clock(uint64_t period_ns, bool kernel) {
    return (spp_linux_perf_event){PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, period_ns, kernel};
}

static int arm_perf(spp_os_trigger *trigger, int32_t tid, uint64_t period_ns, bool trap, bool kernel, void *cookie) {
    int fd = spp_linux_perf_open(tid, task_clock(period_ns, kernel), trap ? spp_linux_perf_trap_data((uintptr_t)cookie) : 0,
                                 &trigger->perf_id);
    if (fd < 0) return -1;
    struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = tid};
    if (trap) (void)fcntl(fd, F_SETOWN_EX, &owner); /* for spp_os_trigger_orphan: it is sent nothing */
    if (!trap && spp_linux_perf_polls(fd, spp_linux_poll_signal(), tid, (uintptr_t)cookie) != 0) {
        int saved = errno;
        spp_linux_perf_close(fd, trigger->perf_id);
        errno = saved;
        return -1;
    }
    trigger->perf_fd = fd;
    return (int)spp_linux_perf_call(fd, PERF_EVENT_IOC_ENABLE, NULL);
}

static int perf_arm(spp_os_trigger *trigger, int32_t tid, uint64_t period_ns, void *cookie) {
    return arm_perf(trigger, tid, period_ns, false, true, cookie);
}

static int arm_trap(spp_os_trigger *trigger, int32_t tid, uint64_t period_ns, void *cookie) {
    return arm_perf(trigger, tid, period_ns, spp_linux_traps(), true, cookie);
}

static int arm_user(spp_os_trigger *trigger, int32_t tid, uint64_t period_ns, void *cookie) {
    if (spp_linux_timer_arm(trigger, tid, REMAINDER_NS, (uintptr_t)cookie | SPP_LINUX_REMAINDER) != 0) return -1;
    return arm_perf(trigger, tid, period_ns, false, false, cookie);
}

/* Pages to lock at most. That is the kernel's limit for one processor (perf_event_mlock_kb), so other tools can lock some where
 * there are more processors. */
#define WATCHED_MAX 128
static int watched; /* under the drain lock */

/* Maps the event's page. The kernel updates it, and a counter in it, whenever the thread is switched in (task_clock_event_add in
 * kernel/events/core.c). It counts as one locked page of the user's. A forked child does not inherit the mapping (VM_DONTCOPY).
 * The mapping keeps the event alive. */
void spp_os_trigger_watch(spp_os_trigger *trigger) {
    if (trigger->perf_fd < 0 || watched == WATCHED_MAX) return;
    void *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, trigger->perf_fd, 0);
    if (page == MAP_FAILED) return;
    trigger->runs = &((const volatile struct perf_event_mmap_page *)page)->lock;
    watched++;
}

static void perf_unwatch(spp_os_trigger *trigger) {
    if (trigger->runs == NULL) return;
    uintptr_t page = (uintptr_t)trigger->runs - offsetof(struct perf_event_mmap_page, lock);
    munmap((void *)page, (size_t)sysconf(_SC_PAGESIZE));
    trigger->runs = NULL;
    watched--;
}

static void perf_set_period(spp_os_trigger *trigger, uint64_t period_ns) {
    if (trigger->perf_fd >= 0) spp_linux_perf_call(trigger->perf_fd, PERF_EVENT_IOC_PERIOD, &period_ns);
}

static bool perf_alive(const spp_os_trigger *trigger) {
    return trigger->perf_fd >= 0 && spp_linux_perf_is(trigger->perf_fd, trigger->perf_id);
}

/* An event belongs to the thread it was opened for, even if the thread's id is reused. When that thread ends, the descriptor's
 * owner becomes 0 (f_getown_ex in fs/fcntl.c). Before 5.12 it does not, so the result is false. */
static bool perf_orphan(const spp_os_trigger *trigger) {
    struct f_owner_ex owner;
    if (trigger->has_timer) return spp_linux_timer_orphan(trigger);
    return perf_alive(trigger) && fcntl(trigger->perf_fd, F_GETOWN_EX, &owner) == 0 && owner.type == F_OWNER_TID &&
           owner.pid == 0;
}

static void perf_disarm(spp_os_trigger *trigger) {
    spp_linux_timer_disarm(trigger); /* perf-user's */
    if (trigger->perf_fd >= 0) {
        bool is_ours = perf_alive(trigger);
        if (is_ours) spp_linux_perf_call(trigger->perf_fd, PERF_EVENT_IOC_DISABLE, NULL);
        if (is_ours) spp_linux_perf_quiet(trigger->perf_fd);
        spp_linux_perf_close(trigger->perf_fd, trigger->perf_id);
    }
    perf_unwatch(trigger);
    trigger->perf_fd = -1;
}

/* In a forked child: it inherits the descriptor, which shares the parent's event. */
static void perf_drop(spp_os_trigger *trigger) {
    spp_linux_perf_quiet(trigger->perf_fd);
    if (trigger->perf_fd >= 0) spp_linux_perf_close(trigger->perf_fd, trigger->perf_id);
    trigger->perf_fd = -1;
    trigger->has_timer = 0;
    if (trigger->runs != NULL) watched--;
    trigger->runs = NULL;
}

/* ---- the rows */

static int probe_event(bool kernel, const char **why) {
    *why = "perf_event_open";
    return spp_linux_perf_probe(task_clock(1000000, kernel));
}

static int perf_probe(const char **why) { return probe_event(true, why); }
static int probe_user(const char **why) { return probe_event(false, why) != 0 ? -1 : spp_linux_timer_probe(why); }
static int trap_signal(void) { return spp_linux_traps() ? SIGTRAP : spp_linux_poll_signal(); }

#define EVENT                                                                                                              \
    .weight = SPP_WEIGHT_PERIOD, .disarm = perf_disarm, .drop = perf_drop, .period = perf_set_period, .alive = perf_alive, \
    .orphan = perf_orphan

const spp_clock spp_clock_perf = {
    .name = "perf",
    .line = "perf task-clock with kernel samples: exact, any rate, dear at context switches; needs perf_event_paranoid <= 1",
    .kernel = true,
    .probe = perf_probe,
    .arm = perf_arm,
    .signal = spp_linux_poll_signal,
    EVENT,
};

const spp_clock spp_clock_perf_trap = {
    .name = "perf-trap",
    .line =
        "perf, by SIGTRAP: nothing is cut short, but a program that loses our handler, by an exec in C say, may die of a tick",
    .kernel = true,
    .probe = perf_probe,
    .arm = arm_trap,
    .signal = trap_signal,
    EVENT,
};

const spp_clock spp_clock_perf_user = {
    .name = "perf-user",
    .line = "perf task-clock for user time and a thread-CPU timer for the kernel's remainder; needs perf_event_paranoid <= 2",
    .probe = probe_user,
    .arm = arm_user,
    .signal = spp_linux_poll_signal,
    EVENT,
};
