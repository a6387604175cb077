/* Calls that a signal cuts short: what they moved is their result, so none is begun anew, and the caller of a write that blocks
 * may rely on all being written (Python's unbuffered streams do). The ticks of a clock that sends signals wait until such a call
 * is over: they show the thread in it still, as its function has not returned. Ticks of perf events and CPU timers cut nothing:
 * the kernel raises them on the way back to the program. */
#include <errno.h>
#include <limits.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "os/linux/linux.h"
#include "os/linux/machine.h"

#define SOME 1024 /* bytes that a socket takes in one piece, most likely */

static _Atomic uint64_t held; /* the signals that wait */

void spp_linux_transfers_hold(uint64_t signals) { atomic_store(&held, signals); }

/* Those of them that were not blocked yet and now are. */
static uint64_t begin(void) {
    uint64_t set = atomic_load_explicit(&held, memory_order_relaxed), old = 0;
    if (set != 0) raw_call(SYS_rt_sigprocmask, SIG_BLOCK, (uintptr_t)&set, (long)(uintptr_t)&old, sizeof set);
    return set & ~old;
}

/* The same for a read: only a device's is cut short, /dev/zero's say. Files give all they have; pipes and sockets what there is.
 * errno stays. */
static uint64_t begin_read(int fd) {
    struct stat is;
    int saved = errno;
    if (atomic_load_explicit(&held, memory_order_relaxed) == 0 || spp_linux_confined) return 0;
    bool device = fstat(fd, &is) == 0 && S_ISCHR(is.st_mode);
    errno = saved;
    return device ? begin() : 0;
}

/* Leaves errno as it is: so does the handler that may run now. */
static __attribute__((noinline)) void end(uint64_t set) {
    long result;
    if (set == 0) return;
    NAMED_CALL(spp_linux_transfer_end, result, SYS_rt_sigprocmask, SIG_UNBLOCK, (uintptr_t)&set, 0, sizeof set);
    (void)result;
}

extern const char spp_linux_transfer_end[];
bool spp_linux_transfer_ended(const ucontext_t *uc) { return program_counter(uc) == (uintptr_t)spp_linux_transfer_end; }

static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static ssize_t (*real_send)(int, const void *, size_t, int);
static ssize_t (*real_sendto)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
static ssize_t (*real_sendmsg)(int, const struct msghdr *, int);
static ssize_t (*real_sendfile)(int, int, off_t *, size_t);
static ssize_t (*real_recv)(int, void *, size_t, int);
static ssize_t (*real_recvfrom)(int, void *, size_t, int, struct sockaddr *, socklen_t *);

static ssize_t (*real_recvmsg)(int, struct msghdr *, int);
static ssize_t (*real_read)(int, void *, size_t);
static ssize_t (*real_readv)(int, const struct iovec *, int);
static ssize_t (*real_pread)(int, void *, size_t, off_t);
static ssize_t (*real_preadv)(int, const struct iovec *, int, off_t);
static ssize_t (*real_preadv2)(int, const struct iovec *, int, off_t, int);
static ssize_t (*real_getrandom)(void *, size_t, unsigned);
static ssize_t (*real_copy_file_range)(int, off_t *, int, off_t *, size_t, unsigned);
static int (*real_fallocate)(int, int, off_t, off_t);
static int (*real_posix_fallocate)(int, off_t, off_t);

/* A pipe takes so much in one piece (pipe(7)), and so much /dev/zero, /dev/urandom and getrandom() give before they look for
 * signals. */
#define IN_ONE(n) ((n) <= PIPE_BUF)

static ssize_t own_write(int fd, const void *from, size_t n) {
    uint64_t set = IN_ONE(n) ? 0 : begin();
    ssize_t moved = real_write(fd, from, n);
    end(set);
    return moved;
}

static ssize_t own_writev(int fd, const struct iovec *parts, int n) {
    uint64_t set = begin(); /* the parts are the kernel's to look at: they may be anywhere */
    ssize_t moved = real_writev(fd, parts, n);
    end(set);
    return moved;
}

static ssize_t own_send(int fd, const void *from, size_t n, int flags) {
    uint64_t set = n <= SOME || (flags & MSG_DONTWAIT) ? 0 : begin();
    ssize_t moved = real_send(fd, from, n, flags);
    end(set);
    return moved;
}

static ssize_t own_sendto(int fd, const void *from, size_t n, int flags, const struct sockaddr *to, socklen_t length) {
    uint64_t set = n <= SOME || (flags & MSG_DONTWAIT) ? 0 : begin();
    ssize_t moved = real_sendto(fd, from, n, flags, to, length);
    end(set);
    return moved;
}

static ssize_t own_sendmsg(int fd, const struct msghdr *message, int flags) {
    uint64_t set = flags & MSG_DONTWAIT ? 0 : begin();
    ssize_t moved = real_sendmsg(fd, message, flags);
    end(set);
    return moved;
}

static ssize_t own_sendfile(int to, int from, off_t *offset, size_t n) {
    uint64_t set = begin();
    ssize_t moved = real_sendfile(to, from, offset, n);
    end(set);
    return moved;
}

static ssize_t own_recv(int fd, void *to, size_t n, int flags) {
    uint64_t set = flags & MSG_WAITALL ? begin() : 0;
    ssize_t moved = real_recv(fd, to, n, flags);
    end(set);
    return moved;
}

static ssize_t own_recvfrom(int fd, void *to, size_t n, int flags, struct sockaddr *from, socklen_t *length) {
    uint64_t set = flags & MSG_WAITALL ? begin() : 0;
    ssize_t moved = real_recvfrom(fd, to, n, flags, from, length);
    end(set);
    return moved;
}

static ssize_t own_recvmsg(int fd, struct msghdr *message, int flags) {
    uint64_t set = flags & MSG_WAITALL ? begin() : 0;
    ssize_t moved = real_recvmsg(fd, message, flags);
    end(set);
    return moved;
}

static ssize_t own_read(int fd, void *to, size_t n) {
    uint64_t set = IN_ONE(n) ? 0 : begin_read(fd);
    ssize_t moved = real_read(fd, to, n);
    end(set);
    return moved;
}

static ssize_t own_readv(int fd, const struct iovec *parts, int n) {
    uint64_t set = begin_read(fd);
    ssize_t moved = real_readv(fd, parts, n);
    end(set);
    return moved;
}

static ssize_t own_pread(int fd, void *to, size_t n, off_t at) {
    uint64_t set = IN_ONE(n) ? 0 : begin_read(fd);
    ssize_t moved = real_pread(fd, to, n, at);
    end(set);
    return moved;
}

static ssize_t own_preadv(int fd, const struct iovec *parts, int n, off_t at) {
    uint64_t set = begin_read(fd);
    ssize_t moved = real_preadv(fd, parts, n, at);
    end(set);
    return moved;
}

static ssize_t own_preadv2(int fd, const struct iovec *parts, int n, off_t at, int flags) {
    uint64_t set = begin_read(fd);
    ssize_t moved = real_preadv2(fd, parts, n, at, flags);
    end(set);
    return moved;
}

static ssize_t own_getrandom(void *to, size_t n, unsigned flags) {
    uint64_t set = IN_ONE(n) ? 0 : begin();
    ssize_t moved = real_getrandom(to, n, flags);
    end(set);
    return moved;
}

/* Of all that a program calls by number only these: as Python does for `os.getrandom`; as Rust's locks wait, which a tick may
 * end; and as libseccomp confines a thread. */
long spp_linux_getrandom(long number, void *to, size_t n, unsigned flags);
long spp_linux_futex(long number, long word, long op, long value, long limit, long other, long mask);
long spp_linux_seccomp(long number, unsigned op, unsigned flags, void *arguments);
long spp_linux_syscall(long number, ...);
__attribute__((visibility("hidden"))) long (*spp_linux_real_syscall)(long, ...);
BY_NUMBER(spp_linux_syscall, SYS_getrandom, spp_linux_getrandom, SYS_futex, spp_linux_futex, SYS_seccomp, spp_linux_seccomp,
          spp_linux_real_syscall);

__attribute__((used, visibility("hidden"))) long spp_linux_getrandom(long number, void *to, size_t n, unsigned flags) {
    uint64_t set = IN_ONE(n) ? 0 : begin();
    long moved = spp_linux_real_syscall(number, to, n, flags);
    end(set);
    return moved;
}

void (*spp_linux_confine)(const struct sock_fprog *filter, bool all);

__attribute__((used, visibility("hidden"))) long spp_linux_seccomp(long number, unsigned op, unsigned flags, void *arguments) {
    bool strict = op == SECCOMP_SET_MODE_STRICT;
    if (spp_linux_confine != NULL && (strict || op == SECCOMP_SET_MODE_FILTER))
        spp_linux_confine(strict ? NULL : arguments, !strict && (flags & SECCOMP_FILTER_FLAG_TSYNC) != 0);
    return spp_linux_real_syscall(number, op, flags, arguments);
}

/* Not as a function of the C library, where the number of a call that has ended is nowhere any more (ended_number). */
__attribute__((used, visibility("hidden"))) long spp_linux_futex(long number, long word, long op, long value, long limit,
                                                                 long other, long mask) {
    long result;
    (void)number;
    NUMBERED_CALL(result, SYS_futex, word, op, value, limit, other, mask);
    if (result >= 0) return result;
    errno = (int)-result;
    return -1;
}

static ssize_t own_copy_file_range(int from, off_t *from_at, int to, off_t *to_at, size_t n, unsigned flags) {
    uint64_t set = begin();
    ssize_t moved = real_copy_file_range(from, from_at, to, to_at, n, flags);
    end(set);
    return moved;
}

/* Some file systems undo what they did and say EINTR: who tries again is never done, if ticks come faster. */
static int own_fallocate(int fd, int mode, off_t at, off_t n) {
    uint64_t set = begin();
    int result = real_fallocate(fd, mode, at, n);
    end(set);
    return result;
}

static int own_posix_fallocate(int fd, off_t at, off_t n) {
    uint64_t set = begin();
    int error = real_posix_fallocate(fd, at, n);
    end(set);
    return error;
}

const spp_linux_import spp_linux_transfers[] = {
    {"write", (void *)(uintptr_t)own_write, NULL, &real_write},
    {"writev", (void *)(uintptr_t)own_writev, NULL, &real_writev},
    {"send", (void *)(uintptr_t)own_send, NULL, &real_send},
    {"sendto", (void *)(uintptr_t)own_sendto, NULL, &real_sendto},
    {"sendmsg", (void *)(uintptr_t)own_sendmsg, NULL, &real_sendmsg},
    {"sendfile", (void *)(uintptr_t)own_sendfile, NULL, &real_sendfile},
    {"sendfile64", (void *)(uintptr_t)own_sendfile, NULL, NULL}, /* off_t has 64 bits */
    {"recv", (void *)(uintptr_t)own_recv, NULL, &real_recv},
    {"recvfrom", (void *)(uintptr_t)own_recvfrom, NULL, &real_recvfrom},
    {"recvmsg", (void *)(uintptr_t)own_recvmsg, NULL, &real_recvmsg},
    {"read", (void *)(uintptr_t)own_read, NULL, &real_read},
    {"readv", (void *)(uintptr_t)own_readv, NULL, &real_readv},
    {"pread", (void *)(uintptr_t)own_pread, NULL, &real_pread},
    {"pread64", (void *)(uintptr_t)own_pread, NULL, NULL},
    {"preadv", (void *)(uintptr_t)own_preadv, NULL, &real_preadv},
    {"preadv64", (void *)(uintptr_t)own_preadv, NULL, NULL},
    {"preadv2", (void *)(uintptr_t)own_preadv2, NULL, &real_preadv2},
    {"preadv64v2", (void *)(uintptr_t)own_preadv2, NULL, NULL},
    {"getrandom", (void *)(uintptr_t)own_getrandom, NULL, &real_getrandom},
    {"syscall", (void *)(uintptr_t)spp_linux_syscall, NULL, &spp_linux_real_syscall},
    {"copy_file_range", (void *)(uintptr_t)own_copy_file_range, NULL, &real_copy_file_range},
    {"fallocate", (void *)(uintptr_t)own_fallocate, NULL, &real_fallocate},
    {"fallocate64", (void *)(uintptr_t)own_fallocate, NULL, NULL},
    {"posix_fallocate", (void *)(uintptr_t)own_posix_fallocate, NULL, &real_posix_fallocate},
    {"posix_fallocate64", (void *)(uintptr_t)own_posix_fallocate, NULL, NULL},
};
