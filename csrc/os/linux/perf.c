/* Perf events, and the choice of their descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/linux/linux.h"
#include "os/threads.h"

static _Atomic int events; /* open ones */

/* perf_event_attr of Linux 5.13, also with older headers. */
typedef union {
    struct perf_event_attr attr;
    uint64_t words[16];
} perf_attr;
#define ATTR_FLAGS 5     /* the word of its one-bit flags */
#define ATTR_SIG_DATA 15 /* what comes back as si_perf_data */
#define FLAG_REMOVE_ON_EXEC ((uint64_t)1 << 36)
#define FLAG_SIGTRAP ((uint64_t)1 << 37)

/* If `data` is not 0, ticks come as SIGTRAP and carry it. */
static long open_event(int32_t tid, spp_linux_perf_event of, uint64_t data) {
    perf_attr a;
    memset(&a, 0, sizeof a);
    a.attr.type = of.type;
    a.attr.config = of.config;
    a.attr.sample_period = of.period;
    a.attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    a.attr.exclude_kernel = !of.kernel;
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

void spp_linux_perf_begin(void) { events = 0; }

int spp_linux_perf_probe(spp_linux_perf_event of) {
    long fd = open_event(spp_os_tid(), of, 0);
    if (fd < 0) return -1;
    close((int)fd);
    return 0;
}

/* Descriptors of events. The first few are among the 64 that a process's table has from the start, because enlarging it waits for
 * a grace period of the kernel, 15 ms. Others are above FD_SETSIZE, so that the program's own stay small enough for select();
 * with a low limit, in its upper half. At least half of the allowed number is left to the program. */
#define LOWEST_FD 40
#define HIGHEST_FD 63
#define SELECT_FDS 1024

static int find_place(rlim_t limit) {
    for (int at = LOWEST_FD; at <= HIGHEST_FD; at++) {
        if (fcntl(at, F_GETFD) < 0) return at;
    }
    return limit >= 2 * SELECT_FDS ? SELECT_FDS : (int)(limit / 2);
}

bool spp_linux_perf_is(int fd, uint64_t event) {
    uint64_t id;
    return spp_linux_perf_call(fd, PERF_EVENT_IOC_ID, &id) == 0 && id == event;
}

/* Moves a new event to its descriptor. -1: none is free, or the program closed it. */
static int move_up(int fd, rlim_t limit, uint64_t *event) {
    if (spp_linux_perf_call(fd, PERF_EVENT_IOC_ID, event) != 0) return -1;
    int up = fcntl(fd, F_DUPFD_CLOEXEC, find_place(limit));
    if (spp_linux_perf_is(fd, *event)) close(fd);
    if (up >= 0 && spp_linux_perf_is(up, *event)) return up;
    if (up >= 0) close(up); /* a copy of a file of the program's, which had reused the number */
    return -1;
}

int spp_linux_perf_open(int32_t tid, spp_linux_perf_event of, uint64_t data, uint64_t *event) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = 2 * SELECT_FDS;
    if ((rlim_t)atomic_fetch_add(&events, 1) < limit.rlim_cur / 2) {
        long opened = open_event(tid, of, data);
        int fd = opened < 0 ? -1 : move_up((int)opened, limit.rlim_cur, event);
        if (fd >= 0) return fd;
    } else {
        errno = EMFILE;
    }
    int saved = errno;
    atomic_fetch_sub(&events, 1);
    errno = saved;
    return -1;
}

void spp_linux_perf_close(int fd, uint64_t event) {
    if (spp_linux_perf_is(fd, event)) close(fd);
    atomic_fetch_sub(&events, 1);
}

bool spp_linux_perf_used(void) { return atomic_load(&events) > 0; }
