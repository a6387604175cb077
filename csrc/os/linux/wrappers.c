/* Wrappers of functions that may wait or transfer data: see handshake.h. There is one for each name that objects call. The
 * functions take integers and pointers only. One form serves those that take six at most, also those with variable arguments;
 * another one those that take up to eight, some of them on the stack (System V psABI for AMD64, "Parameter Passing"; AAPCS64).
 *
 * Not here:
 * - functions that wait but are not ended by a signal, since the C library repeats the call: mutexes, barriers, system(),
 * pclose();
 * - printf(), scanf() and the like, which may take floating-point registers. A stream continues a short write, and our handlers
 * have SA_RESTART; but the kernel does not restart calls on a socket with a time limit, and then the stream fails;
 * - vfork() and clone(), which return twice on one stack or on another; a child that shares our memory calls exec next;
 * - calls that objects make without the C library. After a tick interrupts one, its thread gets no more ticks of the clock
 * `signal`: see spp_os_trigger_gave_up(). */
#include <errno.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

#include "os/linux/handshake.h"
#include "os/linux/linux.h"
#include "os/linux/machine.h"

/* clang-format off */
#define EACH(X)                                                                                                                \
    /* files, pipes, terminals */                                                                                              \
    X(read) X(__read) X(__read_chk) X(readv) X(pread) X(pread64) X(__pread64) X(__pread_chk) X(__pread64_chk) X(preadv)        \
    X(preadv64) X(preadv2) X(preadv64v2) X(write) X(__write) X(writev) X(pwrite) X(pwrite64) X(__pwrite64) X(pwritev)          \
    X(pwritev64) X(pwritev2) X(pwritev64v2) X(open) X(open64) X(__open) X(__open64) X(__open_2) X(__open64_2) X(openat)        \
    X(openat64) X(__openat_2) X(__openat64_2) X(creat) X(creat64) X(close) X(__close)           \
    X(flock) X(lockf) X(lockf64) X(fsync) X(fdatasync) X(msync) X(syncfs) X(sync_file_range) X(fallocate)             \
    X(fallocate64) X(posix_fallocate) X(posix_fallocate64) X(ftruncate) X(ftruncate64) X(sendfile) X(sendfile64) X(splice)     \
    X(tee) X(vmsplice) X(copy_file_range) X(getrandom) X(getentropy) X(tcdrain) X(tcflow) X(tcsendbreak) X(tcsetattr)          \
    /* streams */                                                                                                              \
    X(fread) X(fread_unlocked) X(__fread_chk) X(__fread_unlocked_chk) X(fgets) X(fgets_unlocked) X(__fgets_chk)                \
    X(__fgets_unlocked_chk) X(getline) X(getdelim) X(__getdelim) X(fgetc) X(fgetc_unlocked) X(getc) X(_IO_getc) X(__uflow)     \
    X(__underflow) X(fwrite) X(fwrite_unlocked) X(fputs) X(fputs_unlocked) X(fputc) X(fputc_unlocked) X(putc) X(_IO_putc)      \
    X(__overflow) X(fflush) X(fflush_unlocked) X(fclose)                                                                       \
    /* sockets, names of hosts */                                                                                              \
    X(accept) X(accept4) X(connect) X(__connect) X(send) X(__send) X(sendto) X(sendmsg) X(__sendmsg) X(sendmmsg)               \
    X(__sendmmsg) X(recv) X(__recv) X(__recv_chk) X(recvfrom) X(recvmsg) X(recvmmsg) X(getaddrinfo) X(gethostbyname)           \
    X(gethostbyname2) X(gethostbyname_r) X(gethostbyaddr)                                                                      \
    /* many at once; time */                                                                                                   \
    X(poll) X(__poll) X(__poll_chk) X(ppoll) X(__ppoll_chk) X(select) X(__select) X(pselect) X(epoll_wait) X(epoll_pwait)      \
    X(epoll_pwait2) X(nanosleep) X(__nanosleep) X(clock_nanosleep) X(usleep) X(sleep) X(thrd_sleep)                            \
    /* children, signals */                                                                                                    \
    X(fork) X(__fork) X(wait) X(__wait) X(waitpid) X(__waitpid) X(wait3) X(wait4) X(waitid) X(pause)             \
    X(sigpause) X(__sigpause)                                                                                    \
    /* threads, processes */                                                                                                   \
    X(sem_wait) X(sem_timedwait) X(sem_clockwait) X(pthread_cond_wait) X(pthread_cond_timedwait) X(pthread_cond_clockwait)     \
    X(pthread_join) X(pthread_timedjoin_np) X(pthread_clockjoin_np) X(pthread_tryjoin_np) X(semop) X(semtimedop) X(msgsnd)     \
    X(msgrcv) X(mq_send) X(mq_timedsend) X(mq_receive) X(mq_timedreceive) X(aio_suspend) X(aio_suspend64) X(lio_listio)        \
    X(lio_listio64)
/* clang-format on */
#define EACH_REQUEST(X) X(fcntl) X(fcntl64) X(__fcntl) X(ioctl)
#define EACH_LONG(X) X(__recvfrom_chk) X(getnameinfo) X(gethostbyname2_r) X(gethostbyaddr_r)

typedef long (*any_function)(long, long, long, long, long, long);
typedef long (*long_function)(long, long, long, long, long, long, long, long);

#define INDEX(name) NTH_##name,
enum { EACH(INDEX) EACH_REQUEST(INDEX) EACH_LONG(INDEX) COUNT };

static void *real[COUNT];

/* The body of all wrappers. Inlined, so that a wrapper has one return: where the kernel's mitigations leave no return addresses
 * predicted (SRSO), each return after a system call is mispredicted, and takes 5 ns. */
static inline __attribute__((always_inline)) long call_wrapped(const void *function, long a, long b, long c, long d, long e,
                                                               long f) {
    SPP_LINUX_UNWINDS;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    spp_linux_call call = spp_linux_call_begins(here);
    long result = ((any_function)(uintptr_t)function)(a, b, c, d, e, f);
    spp_linux_call_ends(call, here, (uintptr_t)function);
    return result;
}

#define WRAPPER(name)                                                        \
    static long own_##name(long a, long b, long c, long d, long e, long f) { \
        return call_wrapped(real[NTH_##name], a, b, c, d, e, f);             \
    }
EACH(WRAPPER)

/* The same for those that may make a descriptor send signals. */
#define REQUEST_WRAPPER(name)                                                \
    static long own_##name(long a, long b, long c, long d, long e, long f) { \
        spp_linux_signals_owner((int)b, c);                                  \
        return call_wrapped(real[NTH_##name], a, b, c, d, e, f);             \
    }
EACH_REQUEST(REQUEST_WRAPPER)

/* The same with eight arguments. If the caller passed seven, the last one is a word of the caller's frame, which is not used. */
static inline __attribute__((always_inline)) long call_wrapped_long(const void *function, long a, long b, long c, long d, long e,
                                                                    long f, long g, long h) {
    SPP_LINUX_UNWINDS;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    spp_linux_call call = spp_linux_call_begins(here);
    long result = ((long_function)(uintptr_t)function)(a, b, c, d, e, f, g, h);
    spp_linux_call_ends(call, here, (uintptr_t)function);
    return result;
}

#define LONG_WRAPPER(name)                                                                   \
    static long own_##name(long a, long b, long c, long d, long e, long f, long g, long h) { \
        return call_wrapped_long(real[NTH_##name], a, b, c, d, e, f, g, h);                  \
    }
EACH_LONG(LONG_WRAPPER)

/* ---- syscall(): only these numbers, since some of the others return twice or never */

/* clang-format off */
#define CALLS(X)                                                                                                               \
    X(SYS_read) X(SYS_readv) X(SYS_pread64) X(SYS_preadv) X(SYS_preadv2) X(SYS_write) X(SYS_writev) X(SYS_pwrite64)            \
    X(SYS_pwritev) X(SYS_pwritev2) X(SYS_openat) X(SYS_close) X(SYS_fcntl) X(SYS_ioctl) X(SYS_flock) X(SYS_fsync)              \
    X(SYS_fdatasync) X(SYS_fallocate) X(SYS_sendfile) X(SYS_splice) X(SYS_tee) X(SYS_vmsplice) X(SYS_copy_file_range)          \
    X(SYS_getrandom) X(SYS_accept) X(SYS_accept4) X(SYS_connect) X(SYS_sendto) X(SYS_sendmsg) X(SYS_sendmmsg)                  \
    X(SYS_recvfrom) X(SYS_recvmsg) X(SYS_recvmmsg) X(SYS_ppoll) X(SYS_pselect6) X(SYS_epoll_pwait) X(SYS_nanosleep)            \
    X(SYS_clock_nanosleep) X(SYS_wait4) X(SYS_waitid) X(SYS_rt_sigsuspend) X(SYS_rt_sigtimedwait) X(SYS_semop)                 \
    X(SYS_semtimedop) X(SYS_msgsnd) X(SYS_msgrcv) X(SYS_mq_timedsend) X(SYS_mq_timedreceive) X(SYS_io_getevents)               \
    X(SYS_futex)
#ifdef SYS_poll /* older calls, missing on newer processors */
#define OLDER_CALLS(X) X(SYS_poll) X(SYS_select) X(SYS_epoll_wait) X(SYS_pause) X(SYS_open) X(SYS_creat)
#else
#define OLDER_CALLS(X)
#endif
/* By number, for older headers; the same on all processors since 5.1: io_pgetevents, io_uring_enter, openat2, epoll_pwait2,
 * futex_waitv, futex_wait, pidfd's waits are of poll. */
#define NEWER_CALLS(X) X(426) X(437) X(441) X(449) X(455)

/* clang-format on */

#define SPP_LINUX_NUMBERS 512 /* the kernel has less */
#define ROW(number) [number] = 1,
__attribute__((visibility("hidden"))) const uint8_t spp_linux_wrapped[SPP_LINUX_NUMBERS] = {
    CALLS(ROW) OLDER_CALLS(ROW) NEWER_CALLS(ROW)[SYS_seccomp] = 1,
};

long spp_linux_syscall(long number, ...);
long spp_linux_wrapped_call(long number, long a, long b, long c, long d, long e, long f);
__attribute__((visibility("hidden"))) long (*spp_linux_real_syscall)(long, ...);
BY_NUMBER(spp_linux_syscall, spp_linux_wrapped, SPP_LINUX_NUMBERS, spp_linux_wrapped_call, spp_linux_real_syscall);

void (*spp_linux_confine)(const struct sock_fprog *filter, bool all);

static void confine_by_seccomp(unsigned op, unsigned flags, const void *arguments) {
    bool strict = op == SECCOMP_SET_MODE_STRICT;
    if (spp_linux_confine != NULL && (strict || op == SECCOMP_SET_MODE_FILTER))
        spp_linux_confine(strict ? NULL : arguments, !strict && (flags & SECCOMP_FILTER_FLAG_TSYNC) != 0);
}

__attribute__((used, visibility("hidden"))) long spp_linux_wrapped_call(long number, long a, long b, long c, long d, long e,
                                                                        long f) {
    if (spp_rare(number == SYS_seccomp)) {
        confine_by_seccomp((unsigned)a, (unsigned)b, (const void *)(uintptr_t)c);
        return spp_linux_real_syscall(number, a, b, c);
    }
    if (number == SYS_fcntl || number == SYS_ioctl) spp_linux_signals_owner((int)b, c);
    SPP_LINUX_UNWINDS;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    spp_linux_call call = spp_linux_call_begins(here);
    long result = spp_linux_real_syscall(number, a, b, c, d, e, f);
    spp_linux_call_ends(call, here, (uintptr_t)spp_linux_real_syscall);
    return result;
}

/* ---- which signals a thread blocks: a tick would stay pending, and a signal of the program's with that number would be lost */

static int (*real_mask)(int, const sigset_t *, sigset_t *);

static int own_mask(int how, const sigset_t *set, sigset_t *old) {
    SPP_LINUX_UNWINDS;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    spp_linux_call call = spp_linux_call_begins(here);
    int result = real_mask(how, set, old);
    uint64_t now = 0;
    if (call.of != NULL && set != NULL && raw_call(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)(uintptr_t)&now, sizeof now) == 0)
        atomic_store(&call.of->blocks, now);
    spp_linux_call_ends(call, here, (uintptr_t)real_mask);
    return result;
}

/* sigsuspend() returns after a signal. If a perf event's tick comes together with a signal of the program's, the tick is
 * delivered first, the call returns, and the program's signal is blocked again: so the call is repeated. */
static int (*real_sigsuspend)(const sigset_t *);

static bool is_still_pending(const sigset_t *mask) {
    uint64_t pending = 0, blocked;
    if (atomic_load_explicit(&spp_linux_confined, memory_order_relaxed)) return false;
    memcpy(&blocked, mask, sizeof blocked);
    return raw_call(SYS_rt_sigpending, (long)(uintptr_t)&pending, sizeof pending, 0, 0) == 0 && (pending & ~blocked) != 0;
}

static int own_sigsuspend(const sigset_t *mask) {
    SPP_LINUX_UNWINDS;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    int result;
    do {
        spp_linux_call call = spp_linux_call_begins(here);
        result = real_sigsuspend(mask);
        spp_linux_call_ends(call, here, (uintptr_t)real_sigsuspend);
    } while (result < 0 && errno == EINTR && is_still_pending(mask));
    return result;
}

/* As own_mask(), but returns -1 and errno. */
static int own_sigprocmask(int how, const sigset_t *set, sigset_t *old) {
    int error = own_mask(how, set, old);
    if (error == 0) return 0;
    errno = error;
    return -1;
}

#define IMPORT(name) {#name, (void *)(uintptr_t)own_##name, NULL, &real[NTH_##name]},
const spp_linux_import spp_linux_wrappers[] = {
    EACH(IMPORT) EACH_REQUEST(IMPORT)
        EACH_LONG(IMPORT){"syscall", (void *)(uintptr_t)spp_linux_syscall, NULL, (void *)&spp_linux_real_syscall},
    {"pthread_sigmask", (void *)(uintptr_t)own_mask, NULL, (void *)&real_mask},
    {"sigsuspend", (void *)(uintptr_t)own_sigsuspend, NULL, (void *)&real_sigsuspend},
    {"__sigsuspend", (void *)(uintptr_t)own_sigsuspend, NULL, NULL},
    {"sigprocmask", (void *)(uintptr_t)own_sigprocmask, NULL, NULL},
};
const size_t spp_linux_wrappers_n = sizeof spp_linux_wrappers / sizeof *spp_linux_wrappers;
