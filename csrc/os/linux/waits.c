/* Why a thread is off the CPU: the system call that it waits in, by /proc. */
#include "os/waits.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/syscall.h>

#include "os/linux/linux.h"
#include "os/memory.h"
#include "os/threads.h"

enum { ARGUMENTS = 6 };

#ifndef F_OFD_SETLKW /* missing in older headers, as are some calls below */
#define F_OFD_SETLKW 38
#endif

typedef struct {
    long number; /* -1: it waits in the kernel, and in no call: a page fault */
    unsigned long arguments[ARGUMENTS];
} call;

/* Reads what proc_pid_syscall(5) says of a thread that waits. False: it says something else. */
static bool parse(const char *text, call *c, uintptr_t *pc, uintptr_t *sp) {
    char *at;
    c->number = strtol(text, &at, 10);
    if (at == text) return false;
    for (int i = 0; c->number >= 0 && i < ARGUMENTS; i++) c->arguments[i] = strtoul(at, &at, 16);
    *sp = strtoull(at, &at, 16);
    *pc = strtoull(at, &at, 16);
    return *sp != 0 && *pc != 0;
}

static void wait_for(spp_os_wait *wait, int fd) {
    if (wait->several_n < SPP_OS_FDS) wait->several[wait->several_n++] = fd;
}

/* poll: of a time alone, of one descriptor, or of several. */
static void polls(const call *c, spp_os_wait *wait) {
    struct pollfd first[SPP_OS_FDS];
    size_t all = c->arguments[1], n = all < SPP_OS_FDS ? all : SPP_OS_FDS;
    wait->reason = all == 0 ? SPP_REASON_sleep : SPP_REASON_io;
    if (n == 0 || spp_os_read(first, c->arguments[0], n * sizeof *first) != 0) return;
    if (all == 1) wait->fd = first[0].fd;
    for (size_t i = 0; all > 1 && i < n; i++) wait_for(wait, first[i].fd);
}

/* select: likewise. */
static void selects(const call *c, spp_os_wait *wait) {
    enum { WORD = 8 * sizeof(unsigned long), WORDS = FD_SETSIZE / WORD };
    unsigned long words[WORDS], all[WORDS] = {0};
    size_t n = (c->arguments[0] + WORD - 1) / WORD;
    int found = 0;
    wait->reason = SPP_REASON_io;
    if (n > WORDS) return;
    for (int set = 1; set <= 3; set++) {
        if (c->arguments[set] == 0 || n == 0) continue;
        if (spp_os_read(words, c->arguments[set], n * sizeof *words) != 0) return;
        for (size_t i = 0; i < n; i++) all[i] |= words[i];
    }
    for (size_t i = 0; i < n; i++) {
        for (unsigned long left = all[i]; left != 0; left &= left - 1, found++) {
            wait_for(wait, (int)(i * WORD) + __builtin_ctzl(left));
        }
    }
    if (found == 0) wait->reason = SPP_REASON_sleep;
    if (found == 1) {
        wait->fd = wait->several[0];
        wait->several_n = 0;
    }
}

/* Calls that wait for a lock of a file if their arguments ask for it. */
static bool waits_for_file_lock(const call *c) {
    return c->number == SYS_flock || (c->number == SYS_fcntl && (c->arguments[1] == F_SETLKW || c->arguments[1] == F_OFD_SETLKW));
}

/* Calls whose first argument is a descriptor that they wait for. */
static bool waits_for_descriptor(long number) {
    switch (number) {
    case SYS_read:
    case SYS_write:
    case SYS_pread64:
    case SYS_pwrite64:
    case SYS_readv:
    case SYS_writev:
    case SYS_preadv:
    case SYS_pwritev:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_connect:
    case SYS_sendfile:
    case SYS_splice:
    case SYS_tee:
    case SYS_vmsplice:
    case SYS_fsync:
    case SYS_fdatasync:
    case SYS_sync_file_range:
    case SYS_ftruncate:
    case SYS_fallocate:
    case SYS_ioctl:
    case SYS_mq_timedreceive:
#ifdef SYS_preadv2
    case SYS_preadv2:
    case SYS_pwritev2:
#endif
#ifdef SYS_copy_file_range
    case SYS_copy_file_range:
#endif
#ifdef SYS_io_uring_enter
    case SYS_io_uring_enter:
#endif
    case SYS_mq_timedsend: return true;
    default: return false;
    }
}

/* Calls in which nothing is done until somebody else wants something: an event loop's, a server's. */
static bool waits_for_work(long number) {
    switch (number) {
#ifdef SYS_epoll_wait /* missing on newer processors, as are others below */
    case SYS_epoll_wait:
#endif
    case SYS_epoll_pwait:
#ifdef SYS_epoll_pwait2
    case SYS_epoll_pwait2:
#endif
#ifdef SYS_pause
    case SYS_pause:
#endif
    case SYS_accept:
    case SYS_accept4:
    case SYS_rt_sigsuspend:
    case SYS_rt_sigtimedwait: return true;
    default: return false;
    }
}

static void classify(const call *c, spp_os_wait *wait) {
    if (waits_for_descriptor(c->number) || waits_for_file_lock(c)) {
        wait->reason = waits_for_file_lock(c) ? SPP_REASON_lock : SPP_REASON_io;
        wait->fd = (int)c->arguments[0];
        return;
    }
    if (waits_for_work(c->number)) {
        wait->reason = SPP_REASON_idle;
        if (c->number == SYS_accept || c->number == SYS_accept4) wait->fd = (int)c->arguments[0];
        return;
    }
    switch (c->number) {
    case SYS_futex:
        wait->reason = SPP_REASON_lock;
        wait->address = c->arguments[0];
        break;
#ifdef SYS_futex_waitv
    case SYS_futex_waitv:
#endif
    case SYS_semtimedop:
    case SYS_semop: wait->reason = SPP_REASON_lock; break;
    case SYS_nanosleep:
    case SYS_clock_nanosleep: wait->reason = SPP_REASON_sleep; break;
#ifdef SYS_poll
    case SYS_poll:
#endif
    case SYS_ppoll: polls(c, wait); break;
#ifdef SYS_select
    case SYS_select:
#endif
    case SYS_pselect6: selects(c, wait); break;
#ifdef SYS_vfork
    case SYS_vfork:
#endif
    case SYS_wait4:
    case SYS_waitid: wait->reason = SPP_REASON_child; break;
    case SYS_clone: wait->reason = c->arguments[0] & CLONE_VFORK ? SPP_REASON_child : SPP_REASON_kernel; break;
    case SYS_restart_syscall: break; /* one of those that wait for a time, and the kernel does not say which */
    default: wait->reason = SPP_REASON_kernel;
    }
}

/* ---- whose calls and registers the file has. Under an emulator they are the emulator's: numbers of another system, and a stack
 * that is not the thread's own. */

enum { UNKNOWN, NEITHER, CALLS, BOTH };

/* The thread reads the file about itself, and so it has to show that read, made on this stack. */
static void look_at_own(void *arg) {
    enum { NEAR = 65536 };
    char text[256];
    uintptr_t pc, sp, here = (uintptr_t)__builtin_frame_address(0);
    call c = {0};
    int *whose = arg;
    if (spp_linux_task_read_here(spp_os_tid(), "syscall", text, sizeof text) <= 0 || !parse(text, &c, &pc, &sp)) return;
    bool calls = c.number == SYS_read && c.arguments[1] == (uintptr_t)text && c.arguments[2] == sizeof text - 1;
    *whose = !calls ? NEITHER : sp < here && here - sp < NEAR ? BOTH : CALLS;
}

/* Any thread of ours. What was not found out, as the file could not be read, is asked again. */
static int whose(void) {
    static atomic_int known;
    int now = atomic_load_explicit(&known, memory_order_relaxed);
    if (now != UNKNOWN) return now;
    spp_linux_with_files(look_at_own, &now);
    atomic_store_explicit(&known, now, memory_order_relaxed);
    return now;
}

bool spp_linux_thread_waits(int32_t tid) {
    char text[256];
    uintptr_t pc, sp;
    call c = {0};
    return spp_linux_task_text(tid, "syscall", text, sizeof text) && parse(text, &c, &pc, &sp);
}

spp_os_wait spp_os_thread_waits(int32_t tid) {
    spp_os_wait wait = {.fd = -1};
    char text[256];
    call c = {0};
    if (!spp_linux_task_text(tid, "syscall", text, sizeof text)) return wait;
    if (parse(text, &c, &wait.pc, &wait.sp)) {
        int known = whose();
        if (known == CALLS || known == BOTH) classify(&c, &wait);
        if (known != BOTH) wait.pc = wait.sp = 0;
    } else if (strncmp(text, "running", 7) == 0)
        wait.reason = SPP_REASON_ready;
    return wait;
}

bool spp_linux_thread_waits_past(int32_t tid, spp_linux_files *f) {
    char text[256];
    uintptr_t pc, sp;
    call c = {0};
    spp_os_wait wait = {.fd = -1};
    if (whose() != BOTH || !spp_linux_thread_call(tid, f, text, sizeof text) || !parse(text, &c, &pc, &sp)) return false;
    if (c.number == SYS_read || c.number == SYS_write || spp_linux_in_own_code(pc)) return false;
    classify(&c, &wait);
    return wait.reason == SPP_REASON_sleep || wait.reason == SPP_REASON_io || wait.reason == SPP_REASON_idle;
}

int spp_os_thread_where(int32_t tid, uintptr_t *pc, uintptr_t *sp) {
    spp_os_wait wait = spp_os_thread_waits(tid);
    *pc = wait.pc;
    *sp = wait.sp;
    return wait.pc != 0 ? 0 : -1;
}
