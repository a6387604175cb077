/* Lists threads, and what the kernel knows of one. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/peek.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "os/files.h"
#include "os/linux/linux.h"
#include "os/memory.h"
#include "os/slots.h"
#include "os/threads.h"
#include "os/ticks.h"

#define TASK_COMM_LEN 16 /* 15 bytes of a name, and a newline; the kernel's include/linux/sched.h */

bool spp_os_is_first_thread(void) { return spp_os_tid() == (int32_t)getpid(); }

int spp_os_thread_ready(int32_t tid, uint64_t *ns, uint64_t *times) {
    char text[96], *at;
    if (!spp_linux_task_text(tid != 0 ? tid : (int32_t)getpid(), "schedstat", text, sizeof text)) return -1;
    (void)strtoull(text, &at, 10); /* that it ran; that it waited in a run queue; how often it ran: sched-stats.rst of Linux */
    *ns = strtoull(at, &at, 10);
    *times = strtoull(at, NULL, 10);
    return *times != 0 ? 0 : -1; /* a kernel that does not count prints zeros */
}

uint64_t spp_os_thread_count(void) {
    struct stat st;
    return stat("/proc/self/task", &st) == 0 ? (uint64_t)st.st_nlink : 0;
}

/* Not by getrusage: a sandbox may allow no call but those that docs/containers.md lists. */
uint64_t spp_os_children_cpu_ns(void) {
    char text[512];
    if (!spp_linux_task_text((int32_t)getpid(), "stat", text, sizeof text)) return 0;
    const char *at = strrchr(text, ')'); /* proc_pid_stat(5): the name's end, field 2; 16 and 17 are of children, in ticks */
    for (int field = 2; field < 16 && at != NULL; field++) at = strchr(at + 1, ' ');
    if (at == NULL) return 0;
    char *next;
    uint64_t ticks = strtoull(at, &next, 10);
    return (ticks + strtoull(next, NULL, 10)) * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* The folder's link count is 2 plus the number of threads (proc_task_getattr in fs/proc/base.c). */
bool spp_os_threads_at_most(uint64_t n) {
    uint64_t links = spp_os_thread_count();
    return links > 2 && links - 2 <= n;
}

#define COMM_BYTES 24
/* All threads, and their names if many are new: one job reads them all, since each job switches between two threads. */
typedef struct {
    spp_vec64 tids;
    size_t known; /* how many there were the last time */
    char (*names)[COMM_BYTES];
} thread_list;

static void list_threads(void *arg) {
    thread_list *list = arg;
    /* Not opendir, which allocates by malloc: base/heap.h. */
    struct {
        uint64_t inode;
        int64_t place;
        uint16_t bytes;
        uint8_t type;
        char name[];
    } * entry;
    _Alignas(8) char entries[8192];
    long n;
    int dir = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) return;
    while ((n = syscall(SYS_getdents64, dir, entries, sizeof entries)) > 0) {
        for (long at = 0; at < n; at += entry->bytes) {
            entry = (void *)(entries + at);
            int32_t tid = (int32_t)strtol(entry->name, NULL, 10);
            if (tid > 0) (void)spp_vec64_push(&list->tids, (uint64_t)tid); /* no memory: seen by the next scan */
        }
    }
    close(dir);
    if (list->tids.n > list->known + 8) list->names = spp_alloc_zeroed(list->tids.n, sizeof *list->names);
    for (size_t i = 0; list->names != NULL && i < list->tids.n; i++) {
        (void)spp_linux_task_read_here((int32_t)list->tids.at[i], "comm", list->names[i], COMM_BYTES);
    }
}

static int32_t listed_tid; /* the thread that spp_os_threads() reports now, if its name is known */
static const char *listed_name;

int spp_os_threads(void (*see)(void *arg, int32_t tid), void *arg) {
    static size_t known;
    thread_list list = {.known = known};
    uint64_t own = (uint64_t)spp_linux_apart_tid();
    spp_linux_apart(list_threads, &list);
    for (size_t i = 0; i < list.tids.n; i++) {
        listed_tid = list.names != NULL && list.names[i][0] != 0 ? (int32_t)list.tids.at[i] : 0;
        listed_name = list.names != NULL ? list.names[i] : NULL;
        if (list.tids.at[i] != own && !spp_linux_is_sampler((int32_t)list.tids.at[i])) see(arg, (int32_t)list.tids.at[i]);
    }
    listed_tid = 0;
    known = list.tids.n;
    int failed = list.tids.n == 0;
    spp_free(list.names);
    spp_vec64_free(&list.tids);
    return failed ? -1 : 0;
}

bool spp_os_path_of(int fd, char *to, size_t size) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, to, size);
    if (n <= 0 || (size_t)n >= size) return false;
    to[n] = 0;
    return true;
}

bool spp_os_thread_blocks(int32_t tid, const spp_clock *clock) {
    uint64_t mask;
    int signum = clock->signal();
    return spp_linux_task_blocked(tid, &mask) && signum != 0 && (mask >> (signum - 1) & 1u);
}

int spp_os_thread_name(int32_t tid, char *to, size_t size) {
    if (tid == listed_tid && size >= COMM_BYTES) memcpy(to, listed_name, COMM_BYTES);
    ssize_t n = tid == listed_tid && size >= COMM_BYTES ? (ssize_t)strlen(to) : spp_linux_task_read(tid, "comm", to, size);
    if (n <= 0) return -1;
    if (to[n - 1] == '\n') to[n - 1] = 0;
    if (n == TASK_COMM_LEN) spp_utf8_trim(to); /* probably truncated by the kernel */
    return 0;
}

typedef struct {
    const uintptr_t *addrs;
    uintptr_t *lows, *ends;
    size_t n;
    int failed;
} region_job;

static void match_region(const region_job *j, const char *line) {
    char *dash;
    uintptr_t lo = strtoull(line, &dash, 16), hi = strtoull(dash + 1, NULL, 16);
    for (size_t i = 0; i < j->n; i++) {
        if (j->addrs[i] < lo || j->addrs[i] >= hi) continue;
        j->lows[i] = lo;
        j->ends[i] = hi;
    }
}

static void find_regions(void *arg) {
    region_job *j = arg;
    /* Not fopen, which allocates by malloc: base/heap.h. */
    char text[8192], *line = text;
    ssize_t n;
    size_t kept = 0; /* bytes of an incomplete line, at the start of `text`: its beginning is enough */
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (maps < 0) return;
    while ((n = read(maps, text + kept, sizeof text - 1 - kept)) > 0) {
        char *end = text + kept + n, *next;
        *end = 0;
        for (line = text; (next = memchr(line, '\n', (size_t)(end - line))) != NULL; line = next + 1) match_region(j, line);
        kept = (size_t)(end - line);
        if (kept > sizeof text / 2) kept = 64; /* the addresses of a very long line */
        memmove(text, line, kept);
    }
    close(maps);
    j->failed = 0;
}

int spp_os_regions(const uintptr_t *addrs, uintptr_t *lows, uintptr_t *ends, size_t n) {
    region_job job = {addrs, lows, ends, n, -1};
    memset(lows, 0, n * sizeof *lows);
    memset(ends, 0, n * sizeof *ends);
    spp_linux_apart(find_regions, &job);
    return job.failed;
}

/* glibc's thread descriptor, to which pthread_t points, holds a thread's first 32 slots. The thread-local variables of the
 * program and of the libraries loaded at its start are next to it: below on x86_64, above on aarch64. musl keeps slots elsewhere.
 */
intptr_t spp_os_own_place(uintptr_t value) {
    enum { REACH = 8192, PAGE = 4096 };
    uintptr_t self = (uintptr_t)pthread_self() & ~(uintptr_t)7, found = 0;
    for (int way = -8; way <= 8; way += 16) {
        uintptr_t at = way < 0 ? self - 8 : self;
        for (bool there = spp_os_readable(at); there && at - self + REACH < 2 * REACH; at += (uintptr_t)(intptr_t)way) {
            if (at % PAGE == (way < 0 ? PAGE - 8 : 0)) there = spp_os_readable(at);
            if (!there || spp_peek64(at) != value) continue;
            if (found != 0) return 0;
            found = at;
        }
    }
    return found != 0 ? (intptr_t)(found - (uintptr_t)pthread_self()) : 0;
}
