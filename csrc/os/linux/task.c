/* A thread's files in /proc. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/files.h"
#include "os/linux/linux.h"
#include "os/threads.h"

/* Descriptors of files that stay open. The kernel keeps a page for each. */
#define KEPT_LEAST 16
#define KEPT_MOST 256

typedef struct {
    int32_t tid;
    const char *name;
    char *to;
    size_t size;
    ssize_t n;
} task_file;

static int open_file(int32_t tid, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/%s", tid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static void read_file(void *arg) {
    task_file *f = arg;
    int fd = open_file(f->tid, f->name);
    if (fd < 0) return;
    f->n = read(fd, f->to, f->size - 1);
    close(fd);
    if (f->n >= 0) f->to[f->n] = 0;
}

ssize_t spp_linux_task_read_here(int32_t tid, const char *name, char *to, size_t size) {
    task_file f = {tid, name, to, size, -1};
    read_file(&f);
    return f.n;
}

ssize_t spp_linux_task_read(int32_t tid, const char *name, char *to, size_t size) {
    task_file f = {tid, name, to, size, -1};
    spp_linux_apart(read_file, &f);
    return f.n;
}

bool spp_linux_task_blocked(int32_t tid, uint64_t *mask) {
    char text[4096];
    if (spp_linux_task_read(tid, "status", text, sizeof text) < 0) return false;
    const char *line = strstr(text, "\nSigBlk:");
    if (line == NULL) return false;
    *mask = strtoull(line + 8, NULL, 16);
    return true;
}

bool spp_linux_traced(void) {
    char text[4096];
    if (spp_linux_task_read(spp_os_tid(), "status", text, sizeof text) < 0) return false;
    const char *line = strstr(text, "\nTracerPid:");
    return line != NULL && strtol(line + 11, NULL, 10) != 0;
}

static _Thread_local bool own_files;

bool spp_os_own_files(int but) {
    own_files = false; /* set it first: the first use of a thread-local variable may allocate */
    own_files = spp_linux_own_table(but);
    return own_files;
}

void spp_linux_with_files(void (*job)(void *arg), void *arg) {
    if (own_files)
        job(arg);
    else
        spp_linux_apart(job, arg);
}

bool spp_linux_task_text(int32_t tid, const char *name, char *to, size_t size) {
    task_file f = {tid, name, to, size, -1};
    spp_linux_with_files(read_file, &f);
    return f.n > 0;
}

/* The same for a file that stays open, which takes a third of the time. Such files have high descriptors, so that low ones remain
 * to open a file for each reading if the program lowers its limit, or if there are too many. */
static bool read_kept(int *kept, int32_t tid, const char *name, char *to, size_t size) {
    if (!own_files) return spp_linux_task_text(tid, name, to, size);
    ssize_t n = *kept > 0 ? pread(*kept, to, size - 1, 0) : -1;
    if (n < 0) { /* not open yet, or the thread ended */
        if (*kept > 0) close(*kept);
        *kept = 0;
        int fd = open_file(tid, name);
        if (fd < 0) return false;
        n = pread(fd, to, size - 1, 0);
        *kept = fcntl(fd, F_DUPFD_CLOEXEC, KEPT_LEAST);
        close(fd);
        if (*kept > KEPT_MOST) {
            close(*kept);
            *kept = 0;
        }
    }
    if (n > 0) to[n] = 0;
    return n > 0;
}

static spp_linux_files *files_for(spp_linux_files *f, int32_t tid) {
    if (f->tid == tid) return f;
    if (f->stat > 0) close(f->stat);
    if (f->sched > 0) close(f->sched);
    if (f->schedstat > 0) close(f->schedstat);
    if (f->syscall > 0) close(f->syscall);
    *f = (spp_linux_files){.tid = tid};
    return f;
}

int spp_linux_thread_ready(int32_t tid, spp_linux_files *f) {
    char text[512];
    if (!read_kept(&files_for(f, tid)->stat, tid, "stat", text, sizeof text)) return SPP_LINUX_UNKNOWN;
    const char *at = strrchr(text, ')'); /* proc_pid_stat(5): the name's end, field 2 */
    if (at == NULL || at[1] != ' ' || at[2] != 'R') return SPP_LINUX_SLEEPS;
    for (int field = 2; field < 39 && at != NULL; field++) at = strchr(at + 1, ' ');
    return at != NULL ? atoi(at) : SPP_LINUX_UNKNOWN;
}

bool spp_linux_thread_call(int32_t tid, spp_linux_files *f, char *to, size_t size) {
    return read_kept(&files_for(f, tid)->syscall, tid, "syscall", to, size);
}

/* Returns the time after `name` at the start of a line: milliseconds with six decimals. 0: none. */
static uint64_t time_after(const char *text, const char *name) {
    const char *at = strstr(text, name);
    at = at != NULL ? strchr(at, ':') : NULL;
    if (at == NULL) return 0;
    char *point;
    uint64_t ms = strtoull(at + 1, &point, 10);
    return *point == '.' ? ms * 1000000 + strtoull(point + 1, NULL, 10) : 0;
}

bool spp_linux_thread_ran_until(int32_t tid, spp_linux_files *f, uint64_t *until_ns, uint64_t *cpu_ns) {
    char text[1024]; /* the first lines of proc_sched_show_task() in kernel/sched/debug.c */
    if (!read_kept(&files_for(f, tid)->sched, tid, "sched", text, sizeof text)) return false;
    *until_ns = time_after(text, "\nse.exec_start");
    *cpu_ns = time_after(text, "\nse.sum_exec_runtime");
    return *until_ns != 0;
}

bool spp_linux_thread_waited(int32_t tid, spp_linux_files *f, uint64_t *waited_ns) {
    char text[128], *rest; /* proc_pid_schedstat() in fs/proc/base.c: on a processor, waiting for one, turns; or all 0 */
    if (!own_files || !read_kept(&files_for(f, tid)->schedstat, tid, "schedstat", text, sizeof text)) return false;
    uint64_t ran_ns = strtoull(text, &rest, 10);
    *waited_ns = strtoull(rest, NULL, 10);
    return ran_ns != 0;
}
