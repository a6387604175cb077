/* System calls that a tick interrupts.
 *
 * A signal of the program's may interrupt a call, and a tick's signal may be delivered before it: the kernel delivers SIGTRAP
 * first (kernel/signal.c, get_signal), and lower numbers before higher ones. The kernel then restarts the call because our
 * handler has SA_RESTART. The program's handler runs, but the call that it should interrupt goes on waiting: Ctrl-C in a blocked
 * read would have no effect. So our handler ends the call with EINTR, as it would have ended without us.
 *
 * A call that will be restarted, with pc on its instruction, looks just like a call that is about to begin: in a loop all
 * registers are the same. So only a call that signals can interrupt and that is about to wait is ended, never one that does not
 * wait with these arguments, or whose descriptor is ready. (No program expects EINTR from fcntl(F_GETFD).) */
#include "os/linux/calls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/hints.h"
#include "os/clock.h"
#include "os/linux/actions.h"
#include "os/linux/linux.h"
#include "os/linux/machine.h"
#include "os/memory.h"
#include "os/posix/posix.h"
#include "os/signals.h"
#include "os/threads.h"

static bool registers_show;   /* registers alone show an interrupted call */
static volatile int *tripped; /* see spp_os_signals_wait_at */

void spp_linux_calls_init(void) {
    registers_show = machine_registers_show();
    spp_linux_libraries_find();
}

void spp_os_signals_wait_at(volatile int *flag) { tripped = flag; }

/* A guarded read, since code may be mapped for execution only. */
static bool is_call_at(uintptr_t pc) {
    uint8_t code[CALL_BYTES];
    return spp_os_read(code, pc, sizeof code) == 0 && is_call(code);
}

bool spp_linux_at_call(const ucontext_t *uc) {
    if (registers_show) return is_behind_call(uc) || is_on_call(uc);
    return is_call_at(program_counter(uc) - CALL_BYTES) || is_call_at(program_counter(uc));
}

static bool may_restart(const ucontext_t *uc) { return registers_show ? is_on_call(uc) : has_call_number(uc); }

/* Stores which signals are pending; none in a confined program, which may not make this call. */
static bool pending_signals(uint64_t *pending) {
    *pending = 0;
    return spp_linux_confined || raw_call(SYS_rt_sigpending, (long)pending, sizeof *pending, 0, 0) == 0;
}

/* ---- which calls wait */

/* Whether a read or write of a descriptor would wait now. Files that do not support poll(), such as regular files and /dev/null,
 * are always ready. */
static bool fd_waits(uintptr_t fd, short events) {
    struct pollfd one = {.fd = (int)fd, .events = events};
    struct timespec now = {0, 0};
    if (spp_linux_blinded) return true;
    long flags = raw_call(SYS_fcntl, one.fd, F_GETFL, 0, 0);
    if (flags < 0 || (flags & O_NONBLOCK)) return false;
    return raw_call(SYS_ppoll, (long)&one, 1, (long)&now, 0) == 0;
}

static bool message_waits(uintptr_t fd, short events, uintptr_t flags) { return !(flags & MSG_DONTWAIT) && fd_waits(fd, events); }

/* Terminals wait for their output to drain. Requests to sockets, files and disks do not wait. Those to other drivers may. */
static bool ioctl_waits(uintptr_t request) {
    switch (request) {
    case TCSBRK:
    case TCSBRKP:
    case 0x5403: /* TCSETSW, TCSETSF, TCSETAW, TCSETAF: their header conflicts with the C library's */
    case 0x5404:
    case 0x5407:
    case 0x5408: return true;
    }
    switch (request >> 8 & 0xff) { /* the driver's letter */
    case 'T':
    case 0x89:
    case 'f':
    case 'X':
    case 0x12:
    case '$': return false;
    }
    return true;
}

/* The kernel does not restart such a call if it has a time limit, but ends it itself. */
static bool futex_waits(uintptr_t word, uintptr_t op, uintptr_t expected, uintptr_t limit) {
    uint32_t value;
    op &= 127; /* FUTEX_CMD_MASK */
    if ((op != FUTEX_WAIT && op != FUTEX_WAIT_BITSET) || limit != 0) return false;
    return spp_os_read(&value, word, sizeof value) == 0 && value == (uint32_t)expected;
}

/* The newer calls. So far they support words of 32 bits only. */
static bool futex2_waits(uintptr_t word, uint64_t expected) { return futex_waits(word, FUTEX_WAIT, (uintptr_t)expected, 0); }

/* Waits for any of several words, unless one of them already differs from what is expected. */
static bool futexes_wait(uintptr_t list, uintptr_t n) {
    struct { /* struct futex_waitv, for older headers */
        uint64_t expected, word;
        uint32_t flags, reserved;
    } one;
    for (uintptr_t i = 0; i < n && i < 128; i++) { /* FUTEX_WAITV_MAX */
        if (spp_os_read(&one, list + i * sizeof one, sizeof one) != 0) return false;
        if (!futex2_waits((uintptr_t)one.word, one.expected)) return false;
    }
    return true;
}

/* Opening a FIFO waits for the other side; opening a terminal, for its line. */
static bool open_waits(long directory, uintptr_t path, uintptr_t flags) {
    struct stat what;
    if (spp_linux_blinded) return true;
    if ((flags & (O_NONBLOCK | O_PATH)) || raw_call(SYS_newfstatat, directory, path, (long)&what, 0) != 0) return false;
    return S_ISFIFO(what.st_mode) || S_ISCHR(what.st_mode);
}

static bool open_how_waits(long directory, uintptr_t path, uintptr_t how) {
    uint64_t flags;
    return spp_os_read(&flags, how, sizeof flags) == 0 && open_waits(directory, path, (uintptr_t)flags);
}

/* Calls that return ERESTARTSYS in the kernel, as of Linux 6.18. The kernel ends other waiting calls with EINTR in any case
 * (poll, select, epoll_wait, nanosleep, pause, sigsuspend, sigtimedwait, semop, msgrcv, io_uring_enter), and always restarts
 * those with ERESTARTNOINTR (fork, futex's FUTEX_LOCK_PI). */
bool spp_linux_would_wait(long number, const uintptr_t a[6]) {
    switch (number) {
    case SYS_read:
    case SYS_readv:
    case SYS_pread64:
    case SYS_preadv:
    case SYS_preadv2:
    case SYS_accept:
    case SYS_accept4:
    case SYS_mq_timedreceive: return fd_waits(a[0], POLLIN);
    case SYS_write:
    case SYS_writev:
    case SYS_pwrite64:
    case SYS_pwritev:
    case SYS_pwritev2:
    case SYS_connect:
    case SYS_sendfile:
    case SYS_mq_timedsend: return fd_waits(a[0], POLLOUT);
    case SYS_recvfrom: return message_waits(a[0], POLLIN, a[3]);
    case SYS_recvmsg: return message_waits(a[0], POLLIN, a[2]);
    case SYS_recvmmsg: return message_waits(a[0], POLLIN, a[3]);
    case SYS_sendto: return message_waits(a[0], POLLOUT, a[3]);
    case SYS_sendmsg: return message_waits(a[0], POLLOUT, a[2]);
    case SYS_sendmmsg: return message_waits(a[0], POLLOUT, a[3]);
    case SYS_splice: return !(a[5] & SPLICE_F_NONBLOCK) && (fd_waits(a[0], POLLIN) || fd_waits(a[2], POLLOUT));
    case SYS_tee: return !(a[3] & SPLICE_F_NONBLOCK) && (fd_waits(a[0], POLLIN) || fd_waits(a[1], POLLOUT));
    case SYS_vmsplice: return !(a[3] & SPLICE_F_NONBLOCK) && fd_waits(a[0], POLLOUT);
    case SYS_fcntl: return a[1] == F_SETLKW || a[1] == F_OFD_SETLKW;
    case SYS_flock: return !(a[1] & LOCK_NB) && !(a[1] & LOCK_UN);
    case SYS_ioctl: return ioctl_waits(a[1]);
    case SYS_wait4: return !(a[2] & WNOHANG);
    case SYS_waitid: return !(a[3] & WNOHANG);
    case SYS_futex: return futex_waits(a[0], a[1], a[2], a[3]);
    case SYS_openat: return open_waits((long)a[0], a[1], a[2]);
#ifdef SYS_open /* older calls, missing on newer processors */
    case SYS_open: return open_waits(AT_FDCWD, a[0], a[1]);
    case SYS_creat: return open_waits(AT_FDCWD, a[0], 0);
#endif
    /* By number, for older headers; the same on all processors since 5.1. */
    case 437 /* openat2 */: return open_how_waits((long)a[0], a[1], a[2]);
    case 449 /* futex_waitv */: return a[3] == 0 && futexes_wait(a[0], a[1]);
    case 455 /* futex_wait */: return a[4] == 0 && futex2_waits(a[0], a[1]);
    }
    return false;
}

/* ---- which signals end them */

static bool has_handler(int signum, spp_linux_kernel_action *action) {
    return spp_linux_action_ask(signum, NULL, action) == 0 && (uintptr_t)action->handler > 1; /* SIG_DFL, SIG_IGN */
}

/* How long to wait for Python's note of a signal. Less than the shortest interval, or a thread at a call would get the next tick
 * before it begins the call, and so on. */
#define NOTE_WAIT_NS 20000

/* Python's note of a signal is 1, and becomes 0 when its main thread sees it. Until then C code may make many calls, each of
 * which would be ended. So when one has ended, the note becomes 2, which is the same to Python. A new signal sets it to 1 again.
 */
static bool has_note(void) { return tripped != NULL && *tripped == 1; }

static bool use_note(void) {
    int noted = 1;
    return has_note() && __atomic_compare_exchange_n(tripped, &noted, 2, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Whether another thread has handled a signal that should end this call. While our handler blocks a signal of the process, the
 * kernel passes it to another thread (retarget_shared_pending). Python's handler there leaves a note for the main thread, whose
 * call must end so that it reads the note. Without a note, the call was interrupted by something that ends no call: the process
 * was stopped or frozen, and continued. If Python's note is not known, only calls that the tick cannot have interrupted itself
 * are ended. */
static bool noted_elsewhere(bool trapped) {
    if (spp_os_tid() != getpid()) return false;
    if (tripped == NULL) return trapped;
    uint64_t until = spp_os_now_ns() + NOTE_WAIT_NS;
    do { /* that thread may be about to write the note */
        if (use_note()) return true;
    } while (spp_os_now_ns() < until);
    return false;
}

/* The drain thread. A thread that returns from a tick takes signals of the process for which the kernel has already woken the
 * main thread. The main thread's call is then restarted, and no tick there could end it. So the main thread is sent a nudge. */
void spp_os_signals_care(void) {
    static bool before;
    bool waits = has_note();
    if (waits && before && spp_linux_thread_waits(getpid())) spp_linux_nudge(getpid());
    before = waits;
}

/* ---- calls that a tick interrupted */

static bool was_ended(const ucontext_t *uc) {
    if (spp_usual(call_result(uc) != -EINTR)) return false;
    return registers_show ? is_behind_call(uc) : is_call_at(program_counter(uc) - CALL_BYTES);
}

static SPP_COLD void end_for_pending(ucontext_t *uc, bool trapped) {
    uint64_t pending = 0, blocked = 0;
    uintptr_t arguments[6];
    bool some = false, ends = false;
    if (!is_call_at(program_counter(uc)) || !pending_signals(&pending)) return;
    for (size_t i = 0; i < sizeof blocked; i++) ((uint8_t *)&blocked)[i] = ((const uint8_t *)&uc->uc_sigmask)[i];
    pending &= ~blocked;
    for (int signum = 1; signum <= 64 && !ends; signum++) {
        spp_linux_kernel_action action;
        if (!(pending >> (signum - 1) & 1) || !has_handler(signum, &action)) continue;
        some = true;
        ends = !(action.flags & SA_RESTART);
    }
    if (some && !ends) return;
    call_arguments(uc, arguments);
    if (spp_linux_would_wait(call_number(uc), arguments) && (ends || noted_elsewhere(trapped))) interrupt_call(uc);
}

void spp_linux_see_call(ucontext_t *uc, bool trapped) {
    if (spp_rare(may_restart(uc)))
        end_for_pending(uc, trapped);
    else if (spp_rare(was_ended(uc)) && spp_os_tid() == getpid())
        (void)use_note();
}

/* A call whose wait ended early may return anything: io_uring_enter() returns the number of requests that it took. */
bool spp_linux_interrupted_call(const ucontext_t *uc) {
    if (!registers_show) return spp_linux_sleeps_in_call(uc);
    return is_behind_call(uc) ? is_call_at(program_counter(uc) - CALL_BYTES) : is_on_call(uc) && is_call_at(program_counter(uc));
}

bool spp_linux_ended_call(const ucontext_t *uc) { return was_ended(uc); }

bool spp_linux_sleeps_in_call(const ucontext_t *uc) {
    if (was_ended(uc)) return true;
    return may_restart(uc) && (registers_show || is_call_at(program_counter(uc)));
}

SPP_COLD void spp_linux_end_call(ucontext_t *uc) {
    uintptr_t arguments[6];
    if (!may_restart(uc) || !is_call_at(program_counter(uc))) return;
    call_arguments(uc, arguments);
    if (spp_linux_would_wait(call_number(uc), arguments)) interrupt_call(uc);
}
