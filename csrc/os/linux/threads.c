/* Finding threads, and running our own. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "os/linux/linux.h"
#include "os/os.h"
#include "os/posix/posix.h"

int32_t spp_os_tid(void) { return (int32_t)syscall(SYS_gettid); }

uint64_t spp_os_thread_count(void) {
    struct stat st;
    return stat("/proc/self/task", &st) == 0 ? (uint64_t)st.st_nlink : 0;
}

int spp_os_threads(void (*see)(void *arg, int32_t tid), void *arg) {
    DIR *dir = opendir("/proc/self/task");
    if (dir == NULL) return -1;
    struct dirent *entry;
    while ((entry = readdir(dir)) != NULL) {
        int32_t tid = (int32_t)strtol(entry->d_name, NULL, 10);
        if (tid > 0) see(arg, tid);
    }
    closedir(dir);
    return 0;
}

/* Reads a small /proc file of a thread; returns its length or -1. */
static ssize_t read_task_file(int32_t tid, const char *name, char *to, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/%s", tid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t n = read(fd, to, size - 1);
    close(fd);
    if (n >= 0) to[n] = 0;
    return n;
}

bool spp_os_path_of(int fd, char *to, size_t size) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, to, size);
    if (n <= 0 || (size_t)n >= size) return false;
    to[n] = 0;
    return true;
}

bool spp_os_thread_blocks(int32_t tid) {
    char text[4096];
    if (read_task_file(tid, "status", text, sizeof text) < 0) return false;
    const char *line = strstr(text, "\nSigBlk:");
    if (line == NULL) return false;
    uint64_t mask = strtoull(line + 8, NULL, 16);
    if (spp_linux_traps() && (mask >> (SIGTRAP - 1) & 1u)) return true;
    return (mask >> (spp_linux_signal() - 1)) & 1u;
}

bool spp_linux_traced(void) {
    char text[4096];
    if (read_task_file(spp_os_tid(), "status", text, sizeof text) < 0) return false;
    const char *line = strstr(text, "\nTracerPid:");
    return line != NULL && strtol(line + 11, NULL, 10) != 0;
}

int spp_os_thread_name(int32_t tid, char *to, size_t size) {
    ssize_t n = read_task_file(tid, "comm", to, size);
    if (n <= 0) return -1;
    if (to[n - 1] == '\n') to[n - 1] = 0;
    return 0;
}

int spp_os_regions(const uintptr_t *addrs, uintptr_t *lows, uintptr_t *ends, size_t n) {
    memset(lows, 0, n * sizeof *lows);
    memset(ends, 0, n * sizeof *ends);
    FILE *maps = fopen("/proc/self/maps", "re");
    if (maps == NULL) return -1;
    char line[512];
    while (fgets(line, sizeof line, maps) != NULL) {
        char *dash;
        uintptr_t lo = strtoull(line, &dash, 16), hi = strtoull(dash + 1, NULL, 16);
        for (size_t i = 0; i < n; i++) {
            if (addrs[i] < lo || addrs[i] >= hi) continue;
            lows[i] = lo;
            ends[i] = hi;
        }
        while (strchr(line, '\n') == NULL && fgets(line, sizeof line, maps) != NULL) {}
    }
    fclose(maps);
    return 0;
}

/* Every libc keeps the tid in its thread descriptor, to which pthread_t points; where, is learned from our own. */
int32_t spp_os_tid_of_pthread(uintptr_t pthread) {
    static _Atomic long learned = -1;
    long offset = atomic_load_explicit(&learned, memory_order_relaxed);
    if (offset < 0) {
        int32_t own = spp_os_tid();
        const char *self = (const char *)(uintptr_t)pthread_self();
        for (long at = 0; at < 2048 && offset < 0; at += 4) {
            int32_t value;
            memcpy(&value, self + at, sizeof value);
            if (value == own) offset = at;
        }
        if (offset < 0) return -1;
        atomic_store_explicit(&learned, offset, memory_order_relaxed);
    }
    int32_t tid;
    return spp_os_read(&tid, pthread + (uintptr_t)offset, sizeof tid) == 0 ? tid : -1;
}

/* proc_pid_syscall(5): `running`, or the call's number, its arguments (unless that is -1), sp and pc. */
int spp_os_thread_where(int32_t tid, uintptr_t *pc, uintptr_t *sp) {
    char path[48], text[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) return -1;
    text[n] = 0;
    char *last = strrchr(text, ' ');
    if (last == NULL) return -1;
    *pc = strtoull(last, NULL, 16);
    *last = 0;
    last = strrchr(text, ' ');
    if (last == NULL) return -1;
    *sp = strtoull(last, NULL, 16);
    return *pc != 0 && *sp != 0 ? 0 : -1;
}

/* A short slice gives a waking thread an early deadline (EEVDF, Linux 6.12+; no right needed). Else a tick waits until who
 * runs on that processor sleeps, and lands on the sleep. */
static void ask_for_short_slice(void) {
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
        uint32_t util_min, util_max;
    } attr = {.size = sizeof attr, .runtime = 100000};
    syscall(SYS_sched_setattr, 0, &attr, 0);
}

void spp_posix_worker_begins(const char *name, bool prompt) {
    pthread_setname_np(pthread_self(), name);
    prctl(PR_SET_TIMERSLACK, 1L); /* wake when asked, not 50 us later */
    if (prompt) ask_for_short_slice();
}

void spp_os_bell_ring(spp_os_bell *bell) {
    if (atomic_exchange_explicit(&bell->rung, 1, memory_order_release) == 0) {
        syscall(SYS_futex, &bell->rung, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

bool spp_os_bell_wait(spp_os_bell *bell, uint64_t until_ns) {
    struct timespec t = {.tv_sec = (time_t)(until_ns / 1000000000u), .tv_nsec = (long)(until_ns % 1000000000u)};
    if (atomic_load_explicit(&bell->rung, memory_order_acquire) == 0) {
        syscall(SYS_futex, &bell->rung, FUTEX_WAIT_BITSET_PRIVATE, 0, &t, NULL, FUTEX_BITSET_MATCH_ANY);
    }
    return atomic_exchange_explicit(&bell->rung, 0, memory_order_acq_rel) != 0;
}

bool spp_posix_lock_until(pthread_mutex_t *lock, const struct timespec *until) {
    return pthread_mutex_timedlock(lock, until) == 0;
}
