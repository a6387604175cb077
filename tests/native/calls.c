/* System calls under a profiler: those that no signal can end, in loops whose registers are the same each time, and reads that
 * wait. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/openat2.h>
#include <mqueue.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atomic_long handled;

static void count(int signum) {
    (void)signum;
    handled++;
}

/* A handler that ends calls. */
static void take_alarms(int signum) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = count;
    sigaction(signum, &action, NULL);
}

/* ---- calls that never fail with EINTR, run while alarms come */

static int file, null, full[2], empty[2], sockets[2], udp;
static int word = 1;
static char byte[16], path[4096];
static struct iovec vector = {byte, 1};
static struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
static struct mmsghdr messages = {.msg_hdr = {.msg_iov = &vector, .msg_iovlen = 1}};
static struct flock region = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
static struct sockaddr_un nobody = {.sun_family = AF_UNIX, .sun_path = "no such socket"};
static struct mq_attr one_byte = {.mq_maxmsg = 1, .mq_msgsize = 1};
static struct open_how for_reading = {.flags = O_RDONLY};
static struct futex_waitv waits = {.val = 0, .uaddr = (uintptr_t)&word, .flags = 2 /* FUTEX2_SIZE_U32 */};
static struct sembuf no_wait = {.sem_op = -1, .sem_flg = IPC_NOWAIT};
static int listening, queue_empty, queue_full, semaphores, letters, epoll;
static struct {
    long kind;
    char text[1];
} letter = {1, ""};
static struct flock any_region = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
static char buffer[4096];
static int folder, two[2], other;
static void *page;
static sigset_t none;

/* With nothing between a call and the next of the same but a loop's end. -errno. */
static inline long raw(long number, long a, long b, long c, long d, long e, long f) {
#if defined(__x86_64__)
    long result;
    register long fourth __asm__("r10") = d, fifth __asm__("r8") = e, sixth __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(a), "S"(b), "d"(c), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "rcx", "r11", "memory");
    return result;
#else
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c,
                     x3 __asm__("x3") = d, x4 __asm__("x4") = e, x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory", "cc");
    return x0;
#endif
}
#define RAW6(number, a, b, c, d, e, f) raw(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define RAW(number, a, b, c, d) RAW6(number, a, b, c, d, 0, 0)

#define CALLS(X)                                                                                                     \
    X(fcntl_getfd, RAW(SYS_fcntl, file, F_GETFD, 0, 0))                                                              \
    X(fcntl_setfl, RAW(SYS_fcntl, null, F_SETFL, 0, 0))                                                              \
    X(ioctl_fionread, RAW(SYS_ioctl, udp, FIONREAD, byte, 0))                                                        \
    X(read_file, RAW(SYS_read, file, byte, 0, 0))                                                                    \
    X(pread_file, RAW(SYS_pread64, file, byte, 1, 0))                                                                \
    X(read_nonblocking, RAW(SYS_read, empty[0], byte, 1, 0))                                                         \
    X(write_nonblocking, RAW(SYS_write, full[1], byte, 1, 0))                                                        \
    X(write_null, RAW(SYS_write, null, byte, 1, 0))                                                                  \
    X(readv_file, RAW(SYS_preadv, file, &vector, 1, 0))                                                              \
    X(recv_dontwait, RAW(SYS_recvfrom, sockets[0], byte, 1, MSG_DONTWAIT))                                           \
    X(open_file, RAW(SYS_close, RAW(SYS_openat, AT_FDCWD, path, O_RDONLY, 0), 0, 0, 0))                              \
    X(futex_wake, RAW(SYS_futex, &word, FUTEX_WAKE, 1, 0))                                                           \
    X(futex_changed, RAW(SYS_futex, &word, FUTEX_WAIT, 0, 0))                                                        \
    X(wait_nohang, RAW(SYS_wait4, -1, 0, WNOHANG, 0))                                                                \
    X(flock_nb, RAW(SYS_flock, file, LOCK_SH | LOCK_NB, 0, 0))                                                       \
    X(getpid, RAW(SYS_getpid, 0, 0, 0, 0))                                                                           \
    X(lseek, RAW(SYS_lseek, file, 0, SEEK_SET, 0))                                                                   \
    X(readv, RAW(SYS_readv, empty[0], &vector, 1, 0))                                                                \
    X(preadv2, RAW6(SYS_preadv2, file, &vector, 1, 0, 0, 0))                                                         \
    X(writev, RAW(SYS_writev, full[1], &vector, 1, 0))                                                               \
    X(pwrite, RAW(SYS_pwrite64, file, byte, 1, 0))                                                                   \
    X(pwritev, RAW(SYS_pwritev, file, &vector, 1, 0))                                                                \
    X(pwritev2, RAW6(SYS_pwritev2, file, &vector, 1, 0, 0, 0))                                                       \
    X(copy_file_range, RAW6(SYS_copy_file_range, file, 0, file, 0, 0, 0))                                            \
    X(accept, RAW(SYS_accept, listening, 0, 0, 0))                                                                   \
    X(accept4, RAW(SYS_accept4, listening, 0, 0, SOCK_CLOEXEC))                                                      \
    X(connect, RAW(SYS_connect, udp, &nobody, sizeof nobody, 0))                                                     \
    X(recvmsg, RAW(SYS_recvmsg, sockets[0], &message, MSG_DONTWAIT, 0))                                              \
    X(recvmmsg, RAW(SYS_recvmmsg, sockets[0], &messages, 1, MSG_DONTWAIT))                                           \
    X(sendto, RAW(SYS_sendto, sockets[0], byte, 1, MSG_DONTWAIT))                                                    \
    X(sendmsg, RAW(SYS_sendmsg, sockets[0], &message, MSG_DONTWAIT, 0))                                              \
    X(sendmmsg, RAW(SYS_sendmmsg, sockets[0], &messages, 1, MSG_DONTWAIT))                                           \
    X(vmsplice, RAW(SYS_vmsplice, full[1], &vector, 1, SPLICE_F_NONBLOCK))                                           \
    X(mq_timedreceive, RAW(SYS_mq_timedreceive, queue_empty, byte, sizeof byte, 0))                                  \
    X(mq_timedsend, RAW(SYS_mq_timedsend, queue_full, byte, 1, 0))                                                   \
    X(fcntl_setlk, RAW(SYS_fcntl, file, F_SETLK, &region, 0))                                                        \
    X(fcntl_getlk, RAW(SYS_fcntl, file, F_OFD_GETLK, &any_region, 0))                                                \
    X(flock_un, RAW(SYS_flock, file, LOCK_UN, 0, 0))                                                                 \
    X(waitid, RAW(SYS_waitid, P_ALL, 0, 0, WEXITED | WNOHANG))                                                       \
    X(futex_bitset, RAW6(SYS_futex, &word, FUTEX_WAIT_BITSET, 0, 0, 0, ~0u))                                         \
    X(futex_requeue, RAW6(SYS_futex, &word, FUTEX_CMP_REQUEUE, 1, 0, &other, 1))                                     \
    X(futex_trylock, RAW(SYS_futex, &other, FUTEX_TRYLOCK_PI, 0, 0) + RAW(SYS_futex, &other, FUTEX_UNLOCK_PI, 0, 0)) \
    X(futex_waitv, RAW(449, &waits, 1, 0, 0))                                                                        \
    X(futex_wait, RAW6(455, &word, 0, ~0u, 2, 0, 0))                                                                 \
    X(openat2, close_if(RAW(437, AT_FDCWD, path, &for_reading, sizeof for_reading)))                                 \
    X(epoll_wait, RAW6(SYS_epoll_pwait, epoll, byte, 1, 0, 0, 8))                                                    \
    X(semop, RAW(SYS_semtimedop, semaphores, &no_wait, 1, 0))                                                        \
    X(msgrcv, RAW6(SYS_msgrcv, letters, &letter, 1, 0, IPC_NOWAIT, 0))                                               \
    X(msgsnd, RAW(SYS_msgsnd, letters, &letter, 1, IPC_NOWAIT))                                                      \
    X(getrandom, RAW(SYS_getrandom, byte, sizeof byte, 0, 0))                                                        \
    X(sched_yield, RAW(SYS_sched_yield, 0, 0, 0, 0))                                                                 \
    X(fstat, RAW(SYS_fstat, file, buffer, 0, 0))                                                                     \
    X(stat, RAW(SYS_newfstatat, AT_FDCWD, path, buffer, 0))                                                          \
    X(getdents, RAW(SYS_getdents64, folder, buffer, sizeof buffer, 0))                                               \
    X(ftruncate, RAW(SYS_ftruncate, file, 100, 0, 0))                                                                \
    X(dup, close_if(RAW(SYS_dup, file, 0, 0, 0)))                                                                    \
    X(pipe, RAW(SYS_pipe2, two, 0, 0, 0) + RAW(SYS_close, two[0], 0, 0, 0) + RAW(SYS_close, two[1], 0, 0, 0))        \
    X(mprotect, RAW(SYS_mprotect, page, 4096, PROT_READ, 0))                                                         \
    X(madvise, RAW(SYS_madvise, page, 4096, MADV_DONTNEED, 0))                                                       \
    X(kill, RAW(SYS_kill, RAW(SYS_getpid, 0, 0, 0, 0), 0, 0, 0))                                                     \
    X(sigprocmask, RAW(SYS_rt_sigprocmask, SIG_BLOCK, &none, 0, 8))                                                  \
    X(sigpending, RAW(SYS_rt_sigpending, buffer, 8, 0, 0))                                                           \
    X(clock_gettime, RAW(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, buffer, 0, 0))

static long close_if(long fd) { return fd < 0 ? fd : RAW(SYS_close, fd, 0, 0, 0); }

/* Then it would say nothing. A system without message queues has none to be called with; older ones lack the last calls. */
static int is_wrong(long result) {
    return result == -EFAULT || result == -EINVAL || result == -ENOTSOCK || (result == -EBADF && queue_full >= 0);
}

/* One that nobody else knows. */
static int queue(const char *name) {
    long fd = RAW(SYS_mq_open, name, O_RDWR | O_CREAT | O_NONBLOCK, 0600, &one_byte);
    RAW(SYS_mq_unlink, name, 0, 0, 0);
    return (int)fd;
}

/* What they work on; 0, or what could not be made. */
static const char *prepare(void) {
    struct sockaddr_un own = {.sun_family = AF_UNIX}; /* the system chooses the address */
    listening = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (bind(listening, (struct sockaddr *)&own, sizeof own.sun_family) || listen(listening, 1)) return "a socket";
    queue_empty = queue("spprof_empty");
    queue_full = queue("spprof_full");
    if (queue_full >= 0) RAW(SYS_mq_timedsend, queue_full, byte, 1, 0);
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    letters = msgget(IPC_PRIVATE, 0600);
    epoll = epoll_create1(0);
    folder = open("/", O_RDONLY | O_DIRECTORY);
    page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return semaphores < 0 || letters < 0 || epoll < 0 || folder < 0 || page == MAP_FAILED ? "something to work on" : NULL;
}

/* Runs each of them for so long; the first that failed with EINTR, or NULL. `ran` gets how often in all, `kinds` how many
 * they are. */
#define ONE(name, call) +1
const char *calls_that_cannot_wait(const char *at, double seconds, long *ran, long *kinds) {
    struct itimerval often = {{0, 150}, {0, 150}}, never = {{0, 0}, {0, 0}};
    const char *failed = NULL;
    snprintf(path, sizeof path, "%s", at);
    file = open(at, O_RDWR);
    null = open("/dev/null", O_RDWR);
    udp = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (pipe2(empty, O_NONBLOCK) || pipe2(full, O_NONBLOCK) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets)) return "pipe";
    while (write(full[1], path, sizeof path) > 0) {}
    failed = prepare();
    take_alarms(SIGALRM);
    setitimer(ITIMER_REAL, &often, NULL);
    *ran = 0;
#define LOOP(name, call)                                                                   \
    if (is_wrong(call) && failed == NULL) failed = #name " is not called as it should be"; \
    for (clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC); clock() < end;) {    \
        for (int i = 0; i < 2000; i++, ++*ran) {                                           \
            if ((call) == -EINTR && failed == NULL) failed = #name;                        \
        }                                                                                  \
    }
    CALLS(LOOP)
    setitimer(ITIMER_REAL, &never, NULL);
    semctl(semaphores, 0, IPC_RMID);
    msgctl(letters, IPC_RMID, NULL);
    *kinds = 0 CALLS(ONE);
    return failed;
}

/* ---- reads that wait */

static int waiting[2];
static atomic_int turn, reader, whole_process;

static void burn(void) {
    for (volatile int i = 0; i < 20000; i++) {}
}

/* Whether a thread sleeps. */
static int sleeps(int pid, int tid) {
    char name[64], text[256];
    snprintf(name, sizeof name, "/proc/%d/task/%d/stat", pid, tid);
    int fd = open(name, O_RDONLY);
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    char *end = strrchr(text, ')');
    return end != NULL && end[2] == 'S';
}

/* Waits until the thread sleeps, again and again, and stops and continues its process; then a byte comes. For a parent. */
void stop_and_continue(int pid, int bytes, int rounds) {
    int status;
    for (int i = 0; i < rounds; i++) {
        while (!sleeps(pid, pid)) {}
        kill(pid, SIGSTOP);
        waitpid(pid, &status, WUNTRACED);
        kill(pid, SIGCONT);
        waitpid(pid, &status, WCONTINUED);
        if (write(bytes, "x", 1) != 1) return;
    }
}

/* How many of so many reads failed. */
int reads(int bytes, int rounds) {
    int failed = 0;
    char got;
    for (int i = 0; i < rounds; i++) {
        burn();
        while (read(bytes, &got, 1) < 0) failed++;
    }
    return failed;
}

static void *sends(void *unused) {
    (void)unused;
    for (int seen = 0; turn >= 0;) {
        if (turn == seen || !sleeps(getpid(), reader)) continue;
        seen = turn;
        if (whole_process)
            kill(getpid(), SIGALRM);
        else
            syscall(SYS_tgkill, getpid(), reader, SIGALRM);
        for (int i = 0; i < 400000 && turn == seen; i++) usleep(100); /* 40 seconds and more: it was not heard */
        if (turn == seen && write(waiting[1], "x", 1) != 1) break;
    }
    return NULL;
}

/* A signal is sent to this thread, or to the process, each time that this thread sleeps in a read. `own`: the handler is set
 * here, else there is one. How many reads it did not end: stops at the first. */
int signalled_reads(int rounds, int whole, int own) {
    pthread_t sender;
    sigset_t all, before;
    char got;
    int failed = 0;
    if (pipe(waiting)) return -1;
    if (own) take_alarms(SIGALRM);
    turn = 0;
    reader = (int)syscall(SYS_gettid);
    whole_process = whole;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_create(&sender, NULL, sends, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    for (int i = 0; i < rounds && failed == 0; i++) {
        burn();
        turn++;
        failed += read(waiting[0], &got, 1) >= 0;
    }
    turn = -1;
    pthread_join(sender, NULL);
    return failed;
}

/* ---- calls that end with EINTR whatever a handler says */

/* How many of so many naps a signal ended. */
int naps(int n, unsigned us) {
    int ended = 0;
    for (int i = 0; i < n; i++) ended += usleep(us) != 0;
    return ended;
}

/* Which of these calls fail with EINTR though no signal of the program's comes: a bit for each. */
unsigned limited_calls(int rounds) {
    int ends[2], poll = epoll_create1(0);
    struct timeval limit = {0, 100};
    struct timespec ms = {0, 1000000};
    char bytes[100];
    struct iovec part = {bytes, sizeof bytes};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
    struct epoll_event event;
    struct sockaddr_storage from;
    socklen_t length = sizeof from;
    sigset_t none;
    FILE *stream;
    unsigned failed = 0;
    sigemptyset(&none);
    if (poll < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return ~0u;
    if ((stream = fdopen(ends[0], "r")) == NULL) return ~0u;
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
#define TRY(bit, call) burn(), failed |= (unsigned)((call) < 0 && errno == EINTR) << bit
    for (int i = 0; i < rounds; i++) {
        TRY(0, read(ends[0], bytes, sizeof bytes));
        TRY(1, readv(ends[0], &part, 1));
        TRY(2, recvfrom(ends[0], bytes, sizeof bytes, 0, (struct sockaddr *)&from, &length));
        TRY(3, recvmmsg(ends[0], &message, 1, 0, NULL));
        TRY(4, pselect(0, NULL, NULL, NULL, &ms, &none));
        TRY(5, epoll_pwait(poll, &event, 1, 1, &none));
        TRY(6, usleep(1000));
        TRY(7, fread(bytes, 1, sizeof bytes, stream) == 0 ? -1 : 0);
        TRY(8, fgets(bytes, sizeof bytes, stream) == NULL ? -1 : 0);
        TRY(9, getc(stream));
        clearerr(stream);
    }
    fclose(stream);
    close(ends[1]);
    close(poll);
    return failed;
}
