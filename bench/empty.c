/* The clocks of spprof with a handler that only counts: what a tick costs before any profiler does anything.
 * Loaded with ctypes by targets/says.py; arms the calling thread. Same signal, flags and attributes as csrc/os/linux/trigger.c.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define REMAINDER_NS 4000000u

static volatile uint64_t ticks;
static int perf_fd = -1;
static int has_timer;
static timer_t timer;

static void count(int signum, siginfo_t *info, void *context) {
    (void)signum, (void)info, (void)context;
    ticks++;
}

/* Linux 5.13's attr, whatever the headers: flags remove_on_exec and sigtrap. */
static int trap_perf(pid_t tid, uint64_t period_ns, int kernel) {
    union {
        struct perf_event_attr attr;
        uint64_t words[16];
    } a;
    memset(&a, 0, sizeof a);
    a.attr.size = sizeof a.words;
    a.attr.type = PERF_TYPE_SOFTWARE;
    a.attr.config = PERF_COUNT_SW_TASK_CLOCK;
    a.attr.sample_period = period_ns;
    a.attr.exclude_kernel = !kernel;
    a.attr.exclude_hv = 1;
    a.attr.disabled = 1;
    a.words[5] |= (uint64_t)3 << 36;
    struct utsname name;
    int major = 0, minor = 0;
    if (uname(&name) || sscanf(name.release, "%d.%d", &major, &minor) != 2 || major < 6 || (major == 6 && minor < 16)) return -1;
    return (int)syscall(SYS_perf_event_open, &a, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static int arm_perf(uint64_t period_ns, int kernel, int silent) {
    struct perf_event_attr attr = {.size = PERF_ATTR_SIZE_VER0,
                                   .type = PERF_TYPE_SOFTWARE,
                                   .config = PERF_COUNT_SW_TASK_CLOCK,
                                   .sample_period = period_ns,
                                   .exclude_kernel = !kernel,
                                   .exclude_hv = 1,
                                   .disabled = 1,
                                   .wakeup_events = 1};
    pid_t tid = (pid_t)syscall(SYS_gettid);
    struct f_owner_ex owner = {.type = F_OWNER_TID, .pid = tid};
    perf_fd = silent ? -1 : trap_perf(tid, period_ns, kernel);
    if (perf_fd >= 0) return ioctl(perf_fd, PERF_EVENT_IOC_ENABLE, 0);
    perf_fd = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (perf_fd < 0) return -1;
    if (!silent &&
        (fcntl(perf_fd, F_SETSIG, SIGPROF) || fcntl(perf_fd, F_SETOWN_EX, &owner) || fcntl(perf_fd, F_SETFL, O_ASYNC))) {
        return -1;
    }
    return ioctl(perf_fd, PERF_EVENT_IOC_ENABLE, 0);
}

static int arm_timer(uint64_t period_ns) {
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGPROF;
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer)) return -1;
    has_timer = 1;
    struct timespec every = {.tv_sec = (time_t)(period_ns / 1000000000u), .tv_nsec = (long)(period_ns % 1000000000u)};
    struct itimerspec spec = {.it_interval = every, .it_value = every};
    return timer_settime(timer, 0, &spec, NULL);
}

/* `clock`: perf, perf-silent, perf-user or timer. Returns 0, or -1 if the kernel refuses. */
int empty_arm(const char *clock, uint64_t period_ns) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = count;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigfillset(&action.sa_mask);
    if (sigaction(SIGPROF, &action, NULL) || sigaction(SIGTRAP, &action, NULL)) return -1;
    if (!strcmp(clock, "perf")) return arm_perf(period_ns, 1, 0);
    if (!strcmp(clock, "perf-silent")) return arm_perf(period_ns, 1, 1); /* the timer interrupt and no signal */
    if (!strcmp(clock, "perf-user")) return arm_perf(period_ns, 0, 0) || arm_timer(REMAINDER_NS) ? -1 : 0;
    return arm_timer(period_ns);
}

void empty_disarm(void) {
    if (perf_fd >= 0) close(perf_fd);
    if (has_timer) timer_delete(timer);
    perf_fd = -1;
    has_timer = 0;
    signal(SIGPROF, SIG_IGN);
    signal(SIGTRAP, SIG_IGN);
}

uint64_t empty_count(void) { return ticks; }
