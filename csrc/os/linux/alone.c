/* Calls that require a process of one thread, calls that end it at once, and calls that confine it. */
#include <errno.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/linux/filter.h"
#include "os/linux/linux.h"
#include "os/process.h"
#include "os/worker.h"

static void (*rest)(void), (*wake)(void), (*leave)(void), (*finish)(void);

void spp_os_alone_notify(void (*before)(void), void (*after)(void)) {
    rest = before;
    wake = after;
}

void spp_os_leave_notify(void (*call)(void)) { leave = call; }
bool spp_os_barred(void) { return spp_linux_barred; }
bool spp_os_confined(void) { return spp_linux_confined; }

/* The kernel refuses threads in a process whose children will be in another PID namespace (copy_process in kernel/fork.c).
 * Without these files the kernel has no such namespaces, or is too old. */
bool spp_os_may_start(void) {
    struct stat own, children;
    if (spp_linux_barred) return false;
    if (stat("/proc/self/ns/pid", &own) != 0 || stat("/proc/self/ns/pid_for_children", &children) != 0) return true;
    return own.st_ino == children.st_ino;
}

static int (*real_unshare)(int), (*real_setns)(int, int);

/* Flags that require a process of one thread (check_unshare_flags in kernel/fork.c). */
#define NEED_ONE (CLONE_NEWUSER | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM)

static int own_unshare(int flags) {
    bool alone = (flags & NEED_ONE) != 0 && spp_linux_signals_own() && rest != NULL;
    if (alone) rest();
    int result = real_unshare(flags), saved = errno;
    if (alone) wake();
    errno = saved;
    return result;
}

/* Namespaces of users, time and mounts require one thread. Only the kernel knows which kind `fd` is. */
static int own_setns(int fd, int kinds) {
    bool alone = spp_linux_signals_own() && rest != NULL;
    if (alone) rest();
    int result = real_setns(fd, kinds), saved = errno;
    if (alone) wake();
    errno = saved;
    return result;
}

static void (*real_exit)(int);

/* A child that shares our memory also calls this, if its exec fails. */
static void own_exit(int status) {
    if (spp_linux_signals_own() && leave != NULL) leave();
    real_exit(status);
}

/* ---- filters of system calls. (An older filter allows what it allowed at the start.) */

/* As in csrc/README.md. Calls of handlers, and of the program's threads when they free code or a queue is full. */
static const uint16_t of_handlers[] = {SYS_rt_sigreturn, SYS_gettid,          SYS_getpid, SYS_clock_gettime, SYS_rt_sigprocmask,
                                       SYS_futex,        SYS_clock_nanosleep, SYS_mmap,   SYS_munmap};
static const uint16_t of_perf_handlers[] = {SYS_ioctl}; /* each group of ticks has a period of its own */
static const uint16_t of_looks[] = {SYS_fcntl, SYS_ppoll, SYS_newfstatat};
/* Calls on threads of the program that can be done without, and one of samplers. */
static const uint16_t of_the_free[] = {SYS_read,
                                       SYS_fcntl,
                                       SYS_ioctl,
                                       SYS_rt_sigpending,
                                       SYS_rt_sigtimedwait,
                                       SYS_rt_tgsigqueueinfo,
                                       SYS_timer_settime,
                                       SYS_sigaltstack,
                                       SYS_tgkill,
                                       SYS_sched_yield,
                                       SYS_mmap,
                                       SYS_mprotect,
                                       SYS_mremap,
                                       SYS_munmap,
                                       SYS_sched_getaffinity,
                                       SYS_sched_setaffinity};
/* Calls of our threads, and of the C library for a thread's life. */
static const uint16_t of_threads[] = {SYS_clock_gettime,
                                      SYS_clock_nanosleep,
                                      SYS_futex,
                                      SYS_gettid,
                                      SYS_getpid,
                                      SYS_newfstatat,
                                      SYS_ioctl,
                                      SYS_fcntl,
                                      SYS_close,
                                      SYS_mmap,
                                      SYS_mremap,
                                      SYS_munmap,
                                      SYS_rt_tgsigqueueinfo,
                                      SYS_rt_sigaction,
                                      SYS_rt_sigprocmask,
                                      SYS_read,
                                      SYS_pread64,
                                      SYS_write,
                                      SYS_flock,
                                      SYS_ftruncate,
                                      SYS_lseek,
                                      SYS_exit,
                                      SYS_prctl,
                                      SYS_clone,
                                      SYS_set_robust_list,
                                      SYS_mprotect,
                                      SYS_madvise,
                                      SYS_sched_yield};
/* Calls that may fail. Without /proc only Python's threads are known; without timers samples are taken at once. */
static const uint16_t of_threads_may_fail[] = {
    SYS_openat,
    SYS_getdents64,
    SYS_prlimit64,
    SYS_timer_create,
    SYS_timer_settime,
    SYS_timer_delete,
    SYS_process_vm_readv,
    SYS_perf_event_open,
    SYS_unshare,
    436 /* close_range */,
    SYS_kill,
    435 /* clone3 */,
    SYS_readlinkat,
    SYS_sched_getscheduler,
    SYS_sched_setattr,
    SYS_getpriority,
#ifdef SYS_rseq
    SYS_rseq,
#endif
#ifdef SYS_readlink /* missing on newer processors */
    SYS_readlink,
#endif
};

/* Where process_vm_readv is refused. */
static const uint16_t of_reads_may_fail[] = {SYS_pipe2};

#define ALLOWS(filter, calls, may_fail) \
    ((filter) != NULL && spp_linux_filter_allows(filter, calls, sizeof(calls) / sizeof *(calls), may_fail))

static void confine_by_filter(const struct sock_fprog *filter, bool all) {
    if (!spp_linux_signals_own()) return; /* a child that shares our memory */
    if (!ALLOWS(filter, of_the_free, false)) atomic_store(&spp_linux_confined, true);
    if (!ALLOWS(filter, of_looks, false)) atomic_store(&spp_linux_blinded, true);
    bool threads = ALLOWS(filter, of_threads, false) && ALLOWS(filter, of_threads_may_fail, true) &&
                   (!spp_linux_reads_by_pipe() || ALLOWS(filter, of_reads_may_fail, true));
    if (!threads) atomic_store(&spp_linux_barred, true);
    bool handlers = ALLOWS(filter, of_handlers, false) && (!spp_linux_perf_used() || ALLOWS(filter, of_perf_handlers, false));
    int saved = errno;
    if (((all && !threads) || !handlers) && finish != NULL) finish();
    errno = saved;
}

void spp_os_confine_notify(void (*call)(void)) {
    finish = call;
    spp_linux_confine = confine_by_filter;
}

static int (*real_prctl)(int, ...);

static int own_prctl(int option, ...) {
    va_list list;
    unsigned long rest_of_it[4];
    va_start(list, option);
    for (int i = 0; i < 4; i++) rest_of_it[i] = va_arg(list, unsigned long); /* as the C library reads them */
    va_end(list);
    if (option == PR_SET_SECCOMP)
        confine_by_filter(rest_of_it[0] == SECCOMP_MODE_FILTER ? (const void *)(uintptr_t)rest_of_it[1] : NULL, false);
    return real_prctl(option, rest_of_it[0], rest_of_it[1], rest_of_it[2], rest_of_it[3]);
}

const spp_linux_import spp_linux_alone[] = {
    {"prctl", (void *)(uintptr_t)own_prctl, NULL, (void *)&real_prctl},
    {"unshare", (void *)(uintptr_t)own_unshare, NULL, (void *)&real_unshare},
    {"setns", (void *)(uintptr_t)own_setns, NULL, (void *)&real_setns},
    {"_exit", (void *)(uintptr_t)own_exit, NULL, (void *)&real_exit},
    {"_Exit", (void *)(uintptr_t)own_exit, NULL, NULL},
};
