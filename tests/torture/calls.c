/* Calls that may wait or move data, with sizes, times and peers drawn by a seed, and what must come of each.
 *
 * Called by ctypes (caller.py). A caller has a peer, which is a thread that writes, reads, signals or lets go at the drawn
 * instant, and a helper, which is a process. Each call is judged by its own rule: the result, errno, and the least time that it
 * takes. While a signal of the program's own is on its way (a timer of the caller's brings it, to a handler that restarts calls
 * or to one that ends them), a call may also end with EINTR, or short, but only if the handler ran in it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define MICROSECOND 1000u
#define MILLISECOND 1000000u
#define SECOND 1000000000u
#define MOST (256 << 10) /* bytes of a call */
#define PACKETS 8
#define RESTARTS SIGUSR1
#define ENDS SIGUSR2
#define QUEUED (SIGRTMIN + 2)
#define READ_BY_FD (SIGRTMIN + 3)
#define JUMPS (SIGRTMIN + 4)
/* A socket's timeout is kept in steps of the kernel's tick, and may end one early. */
#define TICK_NS 10000000u

/* clang-format off */
#define KINDS(X)                                                                                                               \
    X(nanosleep) X(clock_nanosleep) X(usleep) X(select) X(pselect) X(poll) X(ppoll) X(epoll_wait) X(epoll_pwait)               \
    X(sem_timedwait) X(sem_clockwait) X(cond_timedwait) X(futex) X(sigtimedwait) X(semtimedop) X(mq_timedreceive)              \
    X(io_getevents) X(recv_timeout) X(accept_timeout) X(connect_timeout) X(mutex_timedlock) X(timedjoin)                       \
    X(send_timeout) X(mq_timedsend) X(futex_bitset)                                                                            \
    X(write_pipe) X(write_terminal) X(write_tcp) X(write_unix) X(read_message) X(read_full_pipe) X(read_terminal)              \
    X(recv_all) X(recv_lowat) X(sendmmsg) X(recvmmsg) X(splice) X(tee) X(vmsplice) X(sendfile) X(copy_file_range)              \
    X(getrandom) X(read_device) X(pread) X(pwrite)                                                                             \
    X(poll_event) X(select_event) X(epoll_event) X(accept) X(connect) X(sem_wait) X(cond_wait) X(mutex_lock) X(flock)          \
    X(ofd_lock) X(posix_lock) X(open_fifo) X(msgrcv) X(msgsnd) X(semop) X(mq_receive) X(mq_send) X(inotify) X(eventfd)         \
    X(eventfd_read) X(timerfd) X(signalfd) X(sigwaitinfo) X(sigwait) X(sigpending) X(pause) X(sigsuspend) X(read_ended)        \
    X(wait4) X(waitid) X(pidfd) X(linger) X(stream_read) X(stream_write) X(stream_timeout) X(stream_delayed)    \
    X(getaddrinfo) X(tcdrain) X(jump) X(cancel)
/* clang-format on */
#define INDEX(name) KIND_##name,
enum { KINDS(INDEX) KIND_peer, KIND_COUNT };

/* The numbers that go out: caller.py's Counts has the same. */
struct counts {
    uint64_t calls, signalled, differences;
    uint64_t timed, late_ns; /* of those that waited for a time of their own */
    char first[160];         /* the first difference */
};

/* For a helper. */
struct order {
    int64_t what, ns;
};
enum { LOCK, CHILD };

struct caller {
    uint64_t state;
    pthread_t self, peer;
    int number;
    const char *folder;
    struct counts *counts;
    int kind;

    /* the call */
    long got;
    int error;
    bool quiet, signalled;
    uint64_t began, took;
    uint32_t handled_before;
    timer_t timers[3], *armed; /* [2]: for JUMPS */

    /* what the peer does */
    sem_t go, done, ready, release;
    void (*act)(struct caller *);
    uint64_t delay;
    atomic_bool over;
    int fd;
    size_t n, pieces;
    uint8_t salt;

    /* [0] is read from, or the caller's end */
    int pipe[2], silent[2], wide[2], copies[2], unix_[2], tcp[2], packets[2], timed[2], tty[2], locks[2], devices[2];
    int epoll, event, timer, signals, inotify, file, copy, helper, accepted, connected;
    pid_t helpers_pid;
    int listening[2], full, lingering, waiting; /* listening: UNIX, TCP */
    struct sockaddr_un name, full_name, waiting_name;
    struct sockaddr_in port, lingering_port;
    char fifo[200], touched[200];
    int letters, semaphores;
    mqd_t queue;
    FILE *in, *out, *in_time, *out_time;
    size_t sizes[PACKETS];
    struct mmsghdr messages[PACKETS];
    struct iovec parts[PACKETS];
    atomic_bool began_to_read;
    aio_context_t aio;
    sem_t semaphore;
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    bool set;
    uint8_t *buffer, *theirs;
};

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static uint64_t draw(struct caller *c, uint64_t low, uint64_t high) {
    c->state ^= c->state << 13, c->state ^= c->state >> 7, c->state ^= c->state << 17;
    return low + c->state % (high - low + 1);
}

static struct timespec span(uint64_t ns) {
    return (struct timespec){.tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND)};
}

static struct timespec in(clockid_t clock, uint64_t ns) {
    struct timespec t;
    clock_gettime(clock, &t);
    return span((uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec + ns);
}

static void nap(uint64_t ns) {
    struct timespec t = span(ns);
    if (ns != 0)
        while (nanosleep(&t, &t)) {}
}

/* ---- signals of the program's own */

static __thread volatile uint32_t handled __attribute__((tls_model("initial-exec")));

static void handle(int signum) {
    (void)signum;
    handled++;
}

static void arm(struct caller *c, uint64_t ns) {
    struct itimerspec t = {.it_value = span(ns)};
    c->armed = &c->timers[draw(c, 0, 1)];
    timer_settime(*c->armed, 0, &t, NULL);
}

static void begin(struct caller *c) {
    c->handled_before = handled;
    if (!c->quiet && draw(c, 0, 7) == 0) arm(c, draw(c, 1, 400) * MICROSECOND);
    errno = 0;
    c->began = now();
}

static void end(struct caller *c) {
    struct itimerspec none = {.it_value = {0, 0}};
    c->error = errno;
    c->took = now() - c->began;
    if (c->armed != NULL) timer_settime(*c->armed, 0, &none, NULL); /* one that waits comes at this call's end */
    c->armed = NULL;
    c->signalled = handled != c->handled_before;
}

#define CALL(c, expression) (begin(c), (c)->got = (long)(expression), end(c))

/* ---- judging */

static const char *const names[] = {
#define NAME(name) #name,
    KINDS(NAME) "peer"};

static void differs(struct caller *c, int kind, const char *text) {
    struct counts *counts = &c->counts[kind];
    if (counts->differences++ == 0) snprintf(counts->first, sizeof counts->first, "%s: %s", names[kind], text);
}

/* The call gave this, and not before so long. False: it did not, because of a signal of ours, or it differs. */
static bool expect(struct caller *c, long must, int error, uint64_t least) {
    struct counts *counts = &c->counts[c->kind];
    char text[128];
    counts->calls++;
    counts->signalled += c->signalled;
    bool same = c->got == must && (must >= 0 || c->error == error);
    if (same && c->took >= least) {
        if (least != 0 && !c->signalled) counts->timed++, counts->late_ns += c->took - least;
        return true;
    }
    if (c->signalled && !same && ((c->got == -1 && c->error == EINTR) || (c->got > 0 && c->got < must))) return false;
    snprintf(text, sizeof text, "got %ld, errno %d after %lu us; must be %ld, errno %d, %lu us; %ssignalled", c->got, c->error,
             (unsigned long)(c->took / 1000), must, error, (unsigned long)(least / 1000), c->signalled ? "" : "not ");
    differs(c, c->kind, text);
    return false;
}

/* An absolute time: from `start`, which was read before the time was computed, so long. */
static uint64_t since(const struct caller *c, uint64_t start, uint64_t ns) {
    uint64_t passed = c->began - start + MICROSECOND;
    return passed < ns ? ns - passed : 0;
}

static uint8_t byte_of(uint8_t salt, size_t i) { return (uint8_t)(salt + i * 131 + (i >> 8)); }

static void fill(uint8_t *at, size_t n, uint8_t salt, size_t from) {
    for (size_t i = 0; i < n; i++) at[i] = byte_of(salt, from + i);
}

static bool is_filled(const uint8_t *at, size_t n, uint8_t salt, size_t from) {
    for (size_t i = 0; i < n; i++)
        if (at[i] != byte_of(salt, from + i)) return false;
    return true;
}

static void same(struct caller *c, bool is) {
    if (!is) differs(c, c->kind, "other contents");
}

/* ---- the peer */

static void *peer(void *of) {
    struct caller *c = of;
    prctl(PR_SET_TIMERSLACK, 1);
    for (;;) {
        while (sem_wait(&c->go)) {}
        if (c->act == NULL) return NULL;
        nap(c->delay);
        c->act(c);
        sem_post(&c->done);
    }
}

/* In so many pieces at most, of what has `salt`. */
static void peer_does_in(struct caller *c, void (*act)(struct caller *), uint64_t pieces, uint8_t salt) {
    c->act = act;
    c->delay = draw(c, 0, 3) == 0 ? 0 : draw(c, 1, 300) * MICROSECOND;
    c->pieces = draw(c, 1, pieces);
    c->salt = salt;
    atomic_store(&c->over, false);
    sem_post(&c->go);
}

static void peer_does(struct caller *c, void (*act)(struct caller *)) { peer_does_in(c, act, 4, (uint8_t)draw(c, 0, 255)); }

static void peer_is_done(struct caller *c) {
    atomic_store(&c->over, true);
    while (sem_wait(&c->done)) {}
}

static void peer_judges(struct caller *c, long got, long must) {
    char text[128];
    c->counts[KIND_peer].calls++;
    if (got == must) return;
    snprintf(text, sizeof text, "of %s: got %ld, errno %d; must be %ld", names[c->kind], got, errno, must);
    differs(c, KIND_peer, text);
}

/* Writes in some pieces, each by one call. */
static void writes(struct caller *c) {
    size_t size = c->n / c->pieces + 1;
    fill(c->theirs, c->n, c->salt, 0);
    for (size_t at = 0; at < c->n;) {
        size_t part = c->n - at < size ? c->n - at : size;
        long got = write(c->fd, c->theirs + at, part);
        peer_judges(c, got, (long)part);
        if (got <= 0) return;
        at += (size_t)got;
        if (at < c->n) nap(c->delay / 4);
    }
}

static void reads(struct caller *c) {
    size_t at = 0, size = c->n / c->pieces + 1;
    while (at < c->n) {
        size_t part = c->n - at < size ? c->n - at : size;
        long got = read(c->fd, c->theirs + at, part);
        if (got <= 0) {
            peer_judges(c, got, (long)part);
            return;
        }
        at += (size_t)got;
    }
    c->counts[KIND_peer].calls++;
    if (!is_filled(c->theirs, c->n, c->salt, 0)) differs(c, KIND_peer, names[c->kind]);
}

/* ---- calls whose time runs out */

static void do_nanosleep(struct caller *c) {
    uint64_t ns = draw(c, 20, 400) * MICROSECOND;
    struct timespec t = span(ns);
    CALL(c, nanosleep(&t, NULL));
    expect(c, 0, 0, ns);
}

static void do_clock_nanosleep(struct caller *c) {
    uint64_t ns = draw(c, 20, 400) * MICROSECOND, start = now();
    bool absolute = draw(c, 0, 1);
    struct timespec t = absolute ? in(CLOCK_MONOTONIC, ns) : span(ns);
    CALL(c, clock_nanosleep(CLOCK_MONOTONIC, absolute ? TIMER_ABSTIME : 0, &t, NULL));
    if (c->got == EINTR) c->got = -1, c->error = EINTR;
    expect(c, 0, 0, absolute ? since(c, start, ns) : ns);
}

static void do_usleep(struct caller *c) {
    uint64_t us = draw(c, 20, 400);
    CALL(c, usleep((useconds_t)us));
    expect(c, 0, 0, us * MICROSECOND);
}

static void do_select(struct caller *c) {
    struct timeval t = {.tv_usec = (suseconds_t)draw(c, 20, 400)};
    uint64_t ns = (uint64_t)t.tv_usec * MICROSECOND;
    fd_set set;
    FD_ZERO(&set);
    FD_SET(c->silent[0], &set);
    CALL(c, select(c->silent[0] + 1, &set, NULL, NULL, &t));
    expect(c, 0, 0, ns);
}

static void do_pselect(struct caller *c) {
    uint64_t ns = draw(c, 20, 400) * MICROSECOND;
    struct timespec t = span(ns);
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    CALL(c, pselect(0, NULL, NULL, NULL, &t, draw(c, 0, 1) ? &mask : NULL));
    expect(c, 0, 0, ns);
}

static void do_poll(struct caller *c) {
    struct pollfd one = {.fd = c->silent[0], .events = POLLIN};
    CALL(c, poll(&one, 1, 1));
    expect(c, 0, 0, MILLISECOND);
}

static void do_ppoll(struct caller *c) {
    uint64_t ns = draw(c, 20, 400) * MICROSECOND;
    struct timespec t = span(ns);
    struct pollfd one = {.fd = c->silent[0], .events = POLLIN};
    if (draw(c, 0, 1))
        CALL(c, ppoll(&one, 1, &t, NULL));
    else
        CALL(c, syscall(SYS_ppoll, &one, 1, &t, NULL, 8));
    expect(c, 0, 0, ns);
}

static void do_epoll_wait(struct caller *c) {
    struct epoll_event event;
    CALL(c, epoll_wait(c->epoll, &event, 1, 1));
    expect(c, 0, 0, MILLISECOND);
}

static void do_epoll_pwait(struct caller *c) {
    struct epoll_event event;
    uint64_t ns = draw(c, 20, 400) * MICROSECOND;
    struct timespec t = span(ns);
    if (draw(c, 0, 1)) {
        CALL(c, epoll_pwait(c->epoll, &event, 1, 1, NULL));
        ns = MILLISECOND;
    } else {
        CALL(c, syscall(441 /* epoll_pwait2 */, c->epoll, &event, 1, &t, NULL, 8));
    }
    expect(c, 0, 0, ns);
}

static void do_sem_timedwait(struct caller *c) {
    uint64_t ns = draw(c, 20, 400) * MICROSECOND, start = now();
    struct timespec t = in(CLOCK_REALTIME, ns);
    CALL(c, sem_timedwait(&c->semaphore, &t));
    expect(c, -1, ETIMEDOUT, since(c, start, ns));
}

static void do_sem_clockwait(struct caller *c) {
    uint64_t ns = draw(c, 20, 400) * MICROSECOND, start = now();
    struct timespec t = in(CLOCK_MONOTONIC, ns);
    CALL(c, sem_clockwait(&c->semaphore, CLOCK_MONOTONIC, &t));
    expect(c, -1, ETIMEDOUT, since(c, start, ns));
}

static void do_cond_timedwait(struct caller *c) {
    uint64_t ns = draw(c, 20, 400) * MICROSECOND, start = now();
    bool real = draw(c, 0, 1);
    struct timespec t = in(real ? CLOCK_REALTIME : CLOCK_MONOTONIC, ns);
    pthread_mutex_lock(&c->mutex);
    if (real)
        CALL(c, pthread_cond_timedwait(&c->condition, &c->mutex, &t));
    else
        CALL(c, pthread_cond_clockwait(&c->condition, &c->mutex, CLOCK_MONOTONIC, &t));
    pthread_mutex_unlock(&c->mutex);
    expect(c, ETIMEDOUT, 0, since(c, start, ns));
}

static void do_futex(struct caller *c) {
    uint64_t ns = draw(c, 20, 400) * MICROSECOND;
    struct timespec t = span(ns);
    uint32_t word = 0;
    CALL(c, syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0));
    expect(c, -1, ETIMEDOUT, ns);
}

static void do_futex_bitset(struct caller *c) {
    uint64_t ns = draw(c, 20, 400) * MICROSECOND, start = now();
    struct timespec t = in(CLOCK_MONOTONIC, ns);
    uint32_t word = 0;
    CALL(c, syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, &t, NULL, FUTEX_BITSET_MATCH_ANY));
    expect(c, -1, ETIMEDOUT, since(c, start, ns));
}

static void do_sigtimedwait(struct caller *c) {
    uint64_t ns = draw(c, 20, 400) * MICROSECOND;
    struct timespec t = span(ns);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, QUEUED);
    CALL(c, sigtimedwait(&set, NULL, &t));
    expect(c, -1, EAGAIN, ns);
}

static void do_semtimedop(struct caller *c) {
    uint64_t ns = draw(c, 20, 400) * MICROSECOND;
    struct timespec t = span(ns);
    struct sembuf down = {.sem_op = -1};
    CALL(c, semtimedop(c->semaphores, &down, 1, &t));
    expect(c, -1, EAGAIN, ns);
}

static void do_mq_timedreceive(struct caller *c) {
    uint64_t ns = draw(c, 20, 400) * MICROSECOND, start = now();
    struct timespec t = in(CLOCK_REALTIME, ns);
    CALL(c, mq_timedreceive(c->queue, (char *)c->buffer, 64, NULL, &t));
    expect(c, -1, ETIMEDOUT, since(c, start, ns));
}

static void do_mq_timedsend(struct caller *c) {
    struct timespec past = {0, 0};
    while (mq_timedsend(c->queue, (char *)c->buffer, 1, 0, &past) == 0) {}
    uint64_t ns = draw(c, 20, 400) * MICROSECOND, start = now();
    struct timespec t = in(CLOCK_REALTIME, ns);
    CALL(c, mq_timedsend(c->queue, (char *)c->buffer, 1, 0, &t));
    expect(c, -1, ETIMEDOUT, since(c, start, ns));
    while (mq_timedreceive(c->queue, (char *)c->buffer, 64, NULL, &past) >= 0) {}
}

static void do_io_getevents(struct caller *c) {
    uint64_t ns = draw(c, 20, 400) * MICROSECOND;
    struct timespec t = span(ns);
    struct io_event event;
    CALL(c, syscall(SYS_io_getevents, c->aio, 1, 1, &event, &t));
    expect(c, 0, 0, ns);
}

static void set_timeout(int fd, int option, uint64_t us) {
    struct timeval t = {.tv_usec = (suseconds_t)us};
    setsockopt(fd, SOL_SOCKET, option, &t, sizeof t);
}

static uint64_t least_of_socket(uint64_t us) { return us * MICROSECOND > TICK_NS ? us * MICROSECOND - TICK_NS : 0; }

static void do_recv_timeout(struct caller *c) {
    uint64_t us = draw(c, 1, 14000);
    set_timeout(c->tcp[0], SO_RCVTIMEO, us);
    CALL(c, draw(c, 0, 1) ? recv(c->tcp[0], c->buffer, 64, 0) : read(c->tcp[0], c->buffer, 64));
    set_timeout(c->tcp[0], SO_RCVTIMEO, 0);
    expect(c, -1, EAGAIN, least_of_socket(us));
}

/* Nobody reads, and there is no space. */
static void do_send_timeout(struct caller *c) {
    uint64_t us = draw(c, 1, 14000);
    while (send(c->unix_[0], c->buffer, 4096, MSG_DONTWAIT) > 0) {}
    set_timeout(c->unix_[0], SO_SNDTIMEO, us);
    CALL(c, draw(c, 0, 1) ? send(c->unix_[0], c->buffer, 64, 0) : write(c->unix_[0], c->buffer, 64));
    set_timeout(c->unix_[0], SO_SNDTIMEO, 0);
    expect(c, -1, EAGAIN, least_of_socket(us));
    while (recv(c->unix_[1], c->buffer, MOST, MSG_DONTWAIT) > 0) {}
}

static void do_accept_timeout(struct caller *c) {
    uint64_t us = draw(c, 1, 14000);
    set_timeout(c->listening[1], SO_RCVTIMEO, us);
    CALL(c, accept(c->listening[1], NULL, NULL));
    set_timeout(c->listening[1], SO_RCVTIMEO, 0);
    expect(c, -1, EAGAIN, least_of_socket(us));
}

/* Nobody accepts there, and the queue is full. */
static void do_connect_timeout(struct caller *c) {
    uint64_t us = draw(c, 1, 14000);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    set_timeout(fd, SO_SNDTIMEO, us);
    CALL(c, connect(fd, (struct sockaddr *)&c->full_name, sizeof c->full_name));
    close(fd);
    expect(c, -1, EAGAIN, least_of_socket(us));
}

static void holds_mutex(struct caller *c) {
    pthread_mutex_lock(&c->mutex);
    sem_post(&c->ready);
    while (sem_wait(&c->release)) {}
    pthread_mutex_unlock(&c->mutex);
}

static void do_mutex_timedlock(struct caller *c) {
    uint64_t ns = draw(c, 20, 400) * MICROSECOND;
    peer_does(c, holds_mutex);
    while (sem_wait(&c->ready)) {}
    uint64_t start = now();
    struct timespec t = in(CLOCK_REALTIME, ns);
    CALL(c, pthread_mutex_timedlock(&c->mutex, &t));
    sem_post(&c->release);
    peer_is_done(c);
    expect(c, ETIMEDOUT, 0, since(c, start, ns));
}

static void do_timedjoin(struct caller *c) {
    uint64_t ns = draw(c, 20, 400) * MICROSECOND, start = now();
    struct timespec t = in(CLOCK_REALTIME, ns);
    CALL(c, pthread_timedjoin_np(c->peer, NULL, &t));
    expect(c, ETIMEDOUT, 0, since(c, start, ns));
}

/* ---- transfers: all is moved, by one call if no signal of ours came */

static void moves(struct caller *c, long (*call)(struct caller *, size_t at, size_t n), size_t n) {
    for (size_t at = 0; at < n;) {
        CALL(c, call(c, at, n - at));
        expect(c, (long)(n - at), 0, 0);
        if (c->got > 0)
            at += (size_t)c->got;
        else if (c->error != EINTR)
            break;
    }
}

static long writes_by(struct caller *c, int fd, size_t at, size_t n, bool socket) {
    struct iovec parts[2] = {{c->buffer + at, n / 3}, {c->buffer + at + n / 3, n - n / 3}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    switch (draw(c, 0, socket ? 5 : 2)) {
    case 0: return write(fd, c->buffer + at, n);
    case 1: return writev(fd, parts, 2);
    case 2: return syscall(SYS_write, fd, c->buffer + at, n);
    case 3: return send(fd, c->buffer + at, n, MSG_NOSIGNAL);
    case 4: return sendto(fd, c->buffer + at, n, 0, NULL, 0);
    default: return sendmsg(fd, &message, MSG_NOSIGNAL);
    }
}

static long to_pipe(struct caller *c, size_t at, size_t n) { return writes_by(c, c->pipe[1], at, n, false); }
static long to_terminal(struct caller *c, size_t at, size_t n) { return writes_by(c, c->tty[0], at, n, false); }
static long to_tcp(struct caller *c, size_t at, size_t n) { return writes_by(c, c->tcp[0], at, n, true); }
static long to_unix(struct caller *c, size_t at, size_t n) { return writes_by(c, c->unix_[0], at, n, true); }

static void writes_to(struct caller *c, long (*call)(struct caller *, size_t, size_t), int fd, size_t most) {
    c->n = draw(c, 1, draw(c, 1, most));
    c->fd = fd;
    peer_does(c, reads);
    fill(c->buffer, c->n, c->salt, 0);
    moves(c, call, c->n);
    peer_is_done(c);
}

static void do_write_pipe(struct caller *c) { writes_to(c, to_pipe, c->pipe[0], MOST); }
static void do_write_terminal(struct caller *c) { writes_to(c, to_terminal, c->tty[1], 12000); }
static void do_write_tcp(struct caller *c) { writes_to(c, to_tcp, c->tcp[1], MOST); }
static void do_write_unix(struct caller *c) { writes_to(c, to_unix, c->unix_[1], MOST); }

/* Until the call gave what it must, or failed otherwise than by a signal. */
static void gives(struct caller *c, long (*call)(struct caller *), long must) {
    do {
        CALL(c, call(c));
        expect(c, must, 0, 0);
    } while (c->got == -1 && c->error == EINTR);
}

/* What is written to a pipe at once comes at once. */
static long message(struct caller *c) {
    struct iovec buffer = {c->buffer, MOST};
    return draw(c, 0, 1) ? readv(c->pipe[0], &buffer, 1) : read(c->pipe[0], c->buffer, MOST);
}

static void do_read_message(struct caller *c) {
    c->n = draw(c, 1, 4096);
    c->fd = c->pipe[1];
    peer_does_in(c, writes, 1, (uint8_t)draw(c, 0, 255));
    gives(c, message, (long)c->n);
    peer_is_done(c);
    same(c, is_filled(c->buffer, c->n, c->salt, 0));
}

static long to_wide(struct caller *c, size_t at, size_t n) { return write(c->wide[1], c->buffer + at, n); }
static long from_wide(struct caller *c, size_t at, size_t n) { return read(c->wide[0], c->buffer + at, n); }
static long from_copy(struct caller *c, size_t at, size_t n) { return read(c->copies[0], c->buffer + at, n); }

static void fills_wide(struct caller *c) {
    c->n = draw(c, 1, MOST);
    c->salt = (uint8_t)draw(c, 0, 255);
    fill(c->buffer, c->n, c->salt, 0);
    moves(c, to_wide, c->n);
}

static void do_read_full_pipe(struct caller *c) {
    fills_wide(c);
    memset(c->buffer, 0, c->n);
    moves(c, from_wide, c->n);
    same(c, is_filled(c->buffer, c->n, c->salt, 0));
}

static void reads_from(struct caller *c, long (*call)(struct caller *, size_t, size_t), int fd, size_t most) {
    c->n = draw(c, 1, draw(c, 1, most));
    c->fd = fd;
    peer_does(c, writes);
    moves(c, call, c->n);
    peer_is_done(c);
    same(c, is_filled(c->buffer, c->n, c->salt, 0));
}

static long from_terminal(struct caller *c, size_t at, size_t n) { return read(c->tty[0], c->buffer + at, n); }

static void do_read_terminal(struct caller *c) {
    struct termios how;
    c->n = draw(c, 1, 64); /* the kernel moves so many at a time, and may return after each */
    c->quiet = true;       /* the least number is not lowered for what is left */
    tcgetattr(c->tty[0], &how);
    how.c_cc[VMIN] = (cc_t)c->n;
    tcsetattr(c->tty[0], TCSANOW, &how);
    c->fd = c->tty[1];
    peer_does(c, writes);
    moves(c, from_terminal, c->n);
    peer_is_done(c);
    same(c, is_filled(c->buffer, c->n, c->salt, 0));
}

static long all_of_tcp(struct caller *c, size_t at, size_t n) { return recv(c->tcp[0], c->buffer + at, n, MSG_WAITALL); }

static long all_of_unix(struct caller *c, size_t at, size_t n) {
    struct iovec part = {c->buffer + at, n};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    return recvmsg(c->unix_[0], &message, MSG_WAITALL);
}

static void do_recv_all(struct caller *c) {
    if (draw(c, 0, 1))
        reads_from(c, all_of_tcp, c->tcp[1], MOST);
    else
        reads_from(c, all_of_unix, c->unix_[1], MOST);
}

static long enough(struct caller *c) {
    struct pollfd one = {.fd = c->tcp[0], .events = POLLIN};
    return poll(&one, 1, -1);
}

static long from_unix(struct caller *c, size_t at, size_t n) {
    int least = (int)n;
    setsockopt(c->unix_[0], SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least);
    return draw(c, 0, 1) ? read(c->unix_[0], c->buffer + at, n) : recv(c->unix_[0], c->buffer + at, n, 0);
}

static long from_tcp(struct caller *c, size_t at, size_t n) { return recv(c->tcp[0], c->buffer + at, n, 0); }

/* TCP wakes no reader that has a part already and lacks less than the mark, so we wait by poll() there. */
static void do_recv_lowat(struct caller *c) {
    int least, one = 1, fd = draw(c, 0, 1) ? c->tcp[0] : c->unix_[0];
    if (fd != c->tcp[0]) {
        reads_from(c, from_unix, c->unix_[1], 2000);
    } else {
        c->n = draw(c, 1, 2000), least = (int)c->n;
        setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least);
        c->fd = c->tcp[1];
        peer_does(c, writes);
        gives(c, enough, 1);
        moves(c, from_tcp, c->n);
        peer_is_done(c);
        same(c, is_filled(c->buffer, c->n, c->salt, 0));
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one);
}

static void draws_packets(struct caller *c) {
    c->n = draw(c, 1, PACKETS);
    for (size_t i = 0; i < c->n; i++) {
        c->sizes[i] = draw(c, 1, 3000);
        c->parts[i] = (struct iovec){c->buffer + i * 4096, 4096};
        c->messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &c->parts[i], .msg_iovlen = 1}};
    }
}

static void reads_packets(struct caller *c) {
    for (size_t i = 0; i < c->n; i++) {
        peer_judges(c, recv(c->packets[1], c->theirs, 4096, 0), (long)c->sizes[i]);
        if (!is_filled(c->theirs, c->sizes[i], c->salt, i)) differs(c, KIND_peer, "a packet has other contents");
        nap(c->delay / 4);
    }
}

static void writes_packets(struct caller *c) {
    for (size_t i = 0; i < c->n; i++) {
        fill(c->theirs, c->sizes[i], c->salt, i);
        peer_judges(c, send(c->packets[1], c->theirs, c->sizes[i], 0), (long)c->sizes[i]);
        nap(c->delay / 4);
    }
}

static long packets(struct caller *c, size_t at, size_t n) { return sendmmsg(c->packets[0], c->messages + at, (unsigned)n, 0); }

static void do_sendmmsg(struct caller *c) {
    draws_packets(c);
    peer_does(c, reads_packets);
    for (size_t i = 0; i < c->n; i++) {
        c->parts[i].iov_len = c->sizes[i];
        fill(c->parts[i].iov_base, c->sizes[i], c->salt, i);
    }
    moves(c, packets, c->n);
    peer_is_done(c);
}

static void do_recvmmsg(struct caller *c) {
    draws_packets(c);
    c->quiet = true; /* the kernel keeps EINTR for the socket's next call */
    peer_does(c, writes_packets);
    CALL(c, recvmmsg(c->packets[0], c->messages, (unsigned)c->n, 0, NULL));
    expect(c, (long)c->n, 0, 0);
    for (size_t i = c->got > 0 ? (size_t)c->got : 0; i < c->n; i++)
        while (recv(c->packets[0], c->parts[i].iov_base, 4096, 0) < 0) {}
    peer_is_done(c);
    for (size_t i = 0; i < c->n; i++) same(c, is_filled(c->parts[i].iov_base, c->sizes[i], c->salt, i));
}

static long spliced(struct caller *c, size_t at, size_t n) {
    (void)at;
    return splice(c->wide[0], NULL, c->unix_[0], NULL, n, 0);
}

static void do_splice(struct caller *c) {
    fills_wide(c);
    c->fd = c->unix_[1];
    peer_does_in(c, reads, 4, c->salt);
    moves(c, spliced, c->n);
    peer_is_done(c);
}

static long teed(struct caller *c) { return tee(c->wide[0], c->copies[1], c->n, 0); }

static void do_tee(struct caller *c) {
    fills_wide(c);
    gives(c, teed, (long)c->n);
    moves(c, from_wide, c->n);
    moves(c, from_copy, c->n);
    same(c, is_filled(c->buffer, c->n, c->salt, 0));
}

static long given(struct caller *c, size_t at, size_t n) {
    struct iovec part = {c->buffer + at, n};
    return vmsplice(c->wide[1], &part, 1, 0);
}

static void do_vmsplice(struct caller *c) {
    c->n = draw(c, 1, MOST);
    c->salt = (uint8_t)draw(c, 0, 255);
    fill(c->buffer, c->n, c->salt, 0);
    c->quiet = true; /* the rest would begin in the midst of a page, and take one more of the pipe's */
    moves(c, given, c->n);
    for (size_t at = 0; at < c->n;) {
        long got = read(c->wide[0], c->theirs + at, c->n - at);
        if (got <= 0) break;
        at += (size_t)got;
    }
    same(c, is_filled(c->theirs, c->n, c->salt, 0));
}

#define SALT_OF_FILE 7

static long sent_to_tcp(struct caller *c, size_t at, size_t n) {
    off_t from = (off_t)at;
    return sendfile(c->tcp[0], c->file, &from, n);
}

static long sent_to_unix(struct caller *c, size_t at, size_t n) {
    off_t from = (off_t)at;
    return sendfile(c->unix_[0], c->file, &from, n);
}

static void do_sendfile(struct caller *c) {
    bool tcp = draw(c, 0, 1);
    c->n = draw(c, 1, draw(c, 1, MOST));
    c->fd = tcp ? c->tcp[1] : c->unix_[1];
    peer_does_in(c, reads, 4, SALT_OF_FILE);
    moves(c, tcp ? sent_to_tcp : sent_to_unix, c->n);
    peer_is_done(c);
}

static long copied(struct caller *c, size_t at, size_t n) {
    off_t from = (off_t)at, here = (off_t)at;
    return copy_file_range(c->file, &from, c->copy, &here, n, 0);
}

static void do_copy_file_range(struct caller *c) { moves(c, copied, draw(c, 1, MOST)); }

static long random_(struct caller *c, size_t at, size_t n) {
    return draw(c, 0, 1) ? getrandom(c->buffer + at, n, 0) : syscall(SYS_getrandom, c->buffer + at, n, 0);
}

static void do_getrandom(struct caller *c) { moves(c, random_, draw(c, 1, draw(c, 1, MOST))); }

static long of_device(struct caller *c, size_t at, size_t n) { return read(c->devices[c->salt & 1], c->buffer + at, n); }

static void do_read_device(struct caller *c) {
    c->salt = (uint8_t)draw(c, 0, 1);
    moves(c, of_device, draw(c, 1, draw(c, 1, MOST)));
}

static long pread_at(struct caller *c, size_t at, size_t n) {
    struct iovec part = {c->buffer + at, n};
    return draw(c, 0, 1) ? pread(c->file, c->buffer + at, n, (off_t)at) : preadv(c->file, &part, 1, (off_t)at);
}

static void do_pread(struct caller *c) {
    c->n = draw(c, 1, MOST);
    moves(c, pread_at, c->n);
    same(c, is_filled(c->buffer, c->n, SALT_OF_FILE, 0));
}

static long pwrite_at(struct caller *c, size_t at, size_t n) {
    struct iovec part = {c->buffer + at, n};
    return draw(c, 0, 1) ? pwrite(c->copy, c->buffer + at, n, (off_t)at) : pwritev(c->copy, &part, 1, (off_t)at);
}

static void do_pwrite(struct caller *c) { moves(c, pwrite_at, draw(c, 1, MOST)); }

/* ---- what a peer brings */

static void writes_byte(struct caller *c) { peer_judges(c, write(c->pipe[1], "x", 1), 1); }

static void takes_byte(struct caller *c) {
    char byte;
    while (read(c->pipe[0], &byte, 1) < 0) {}
}

static long polled(struct caller *c) {
    struct pollfd one = {.fd = c->pipe[0], .events = POLLIN};
    return poll(&one, 1, draw(c, 0, 1) ? -1 : 60000);
}

static long selected(struct caller *c) {
    struct timeval t = {.tv_sec = 60};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(c->pipe[0], &set);
    return select(c->pipe[0] + 1, &set, NULL, NULL, draw(c, 0, 1) ? &t : NULL);
}

static long waited_by_epoll(struct caller *c) {
    struct epoll_event event;
    return draw(c, 0, 1) ? epoll_wait(c->epoll, &event, 1, -1) : epoll_pwait(c->epoll, &event, 1, 60000, NULL);
}

static void comes(struct caller *c, long (*call)(struct caller *)) {
    peer_does(c, writes_byte);
    gives(c, call, 1);
    takes_byte(c);
    peer_is_done(c);
}

static void do_poll_event(struct caller *c) { comes(c, polled); }
static void do_select_event(struct caller *c) { comes(c, selected); }

static void do_epoll_event(struct caller *c) {
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(c->epoll, EPOLL_CTL_ADD, c->pipe[0], &event);
    comes(c, waited_by_epoll);
    epoll_ctl(c->epoll, EPOLL_CTL_DEL, c->pipe[0], NULL);
}

/* Ends without a wait of its port for late packets. */
static void abort_connection(int fd) {
    struct linger none = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
    close(fd);
}

static void connects(struct caller *c) {
    bool tcp = c->n;
    c->connected = socket(tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    peer_judges(c,
                tcp ? connect(c->connected, (struct sockaddr *)&c->port, sizeof c->port)
                    : connect(c->connected, (struct sockaddr *)&c->name, sizeof c->name),
                0);
}

static long accepted(struct caller *c) {
    c->accepted = draw(c, 0, 1) ? accept(c->listening[c->n], NULL, NULL) : accept4(c->listening[c->n], NULL, NULL, SOCK_CLOEXEC);
    return c->accepted < 0 ? -1 : 0;
}

static void do_accept(struct caller *c) {
    c->n = draw(c, 0, 1);
    peer_does(c, connects);
    gives(c, accepted, 0);
    peer_is_done(c);
    abort_connection(c->connected);
    close(c->accepted);
}

static void accepts(struct caller *c) {
    c->accepted = accept(c->waiting, NULL, NULL);
    peer_judges(c, c->accepted < 0, 0);
}

static long connected(struct caller *c) {
    return connect(c->connected, (struct sockaddr *)&c->waiting_name, sizeof c->waiting_name);
}

/* The queue has one already, and no space for another. */
static void do_connect(struct caller *c) {
    int first = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    connect(first, (struct sockaddr *)&c->waiting_name, sizeof c->waiting_name);
    c->connected = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    peer_does(c, accepts);
    gives(c, connected, 0);
    peer_is_done(c);
    close(c->accepted);
    close(accept(c->waiting, NULL, NULL));
    close(first);
    close(c->connected);
}

static void posts(struct caller *c) { sem_post(&c->semaphore); }
static long waited_for_post(struct caller *c) { return sem_wait(&c->semaphore); }

static void do_sem_wait(struct caller *c) {
    peer_does(c, posts);
    gives(c, waited_for_post, 0);
    peer_is_done(c);
}

static void notifies(struct caller *c) {
    pthread_mutex_lock(&c->mutex);
    c->set = true;
    pthread_cond_signal(&c->condition);
    pthread_mutex_unlock(&c->mutex);
}

static void do_cond_wait(struct caller *c) {
    c->set = false;
    peer_does(c, notifies);
    pthread_mutex_lock(&c->mutex);
    while (!c->set) {
        CALL(c, pthread_cond_wait(&c->condition, &c->mutex));
        expect(c, 0, 0, 0);
    }
    pthread_mutex_unlock(&c->mutex);
    peer_is_done(c);
}

/* Holds it until a little later. */
static void has_mutex(struct caller *c) {
    pthread_mutex_lock(&c->mutex);
    sem_post(&c->ready);
    nap(c->delay);
    pthread_mutex_unlock(&c->mutex);
}

static void do_mutex_lock(struct caller *c) {
    peer_does(c, has_mutex);
    while (sem_wait(&c->ready)) {}
    CALL(c, pthread_mutex_lock(&c->mutex));
    pthread_mutex_unlock(&c->mutex);
    expect(c, 0, 0, 0);
    peer_is_done(c);
}

static void has_flock(struct caller *c) {
    peer_judges(c, flock(c->locks[1], LOCK_EX), 0);
    sem_post(&c->ready);
    nap(c->delay);
    flock(c->locks[1], LOCK_UN);
}

static long flocked(struct caller *c) { return flock(c->locks[0], LOCK_EX); }

static void do_flock(struct caller *c) {
    peer_does(c, has_flock);
    while (sem_wait(&c->ready)) {}
    gives(c, flocked, 0);
    flock(c->locks[0], LOCK_UN);
    peer_is_done(c);
}

static long lock_region(int fd, int how, short type, int at) {
    struct flock region = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    return fcntl(fd, how, &region);
}

static void has_ofd_lock(struct caller *c) {
    peer_judges(c, lock_region(c->locks[1], F_OFD_SETLK, F_WRLCK, 0), 0);
    sem_post(&c->ready);
    nap(c->delay);
    lock_region(c->locks[1], F_OFD_SETLK, F_UNLCK, 0);
}

static long ofd_locked(struct caller *c) { return lock_region(c->locks[0], F_OFD_SETLKW, F_WRLCK, 0); }

static void do_ofd_lock(struct caller *c) {
    peer_does(c, has_ofd_lock);
    while (sem_wait(&c->ready)) {}
    gives(c, ofd_locked, 0);
    lock_region(c->locks[0], F_OFD_SETLK, F_UNLCK, 0);
    peer_is_done(c);
}

/* A process of its own: what it has are no locks of ours, and what it makes are children of ours. */
static void help(int from, int locks) {
    struct order order;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (read(from, &order, sizeof order) == sizeof order) {
        int32_t answer = 0;
        if (order.what == LOCK) {
            lock_region(locks, F_SETLKW, F_WRLCK, 1);
        } else if ((answer = (int32_t)syscall(SYS_clone, 0x8000 /* CLONE_PARENT */ | SIGCHLD, 0, 0, 0, 0)) == 0) {
            nap((uint64_t)order.ns);
            _exit((int)(order.ns & 127));
        }
        if (write(from, &answer, sizeof answer) < 0) break;
        if (order.what != LOCK) continue;
        nap((uint64_t)order.ns);
        lock_region(locks, F_SETLK, F_UNLCK, 1);
    }
    _exit(0);
}

static int32_t helper_does(struct caller *c, int64_t what, uint64_t ns) {
    struct order order = {what, (int64_t)ns};
    int32_t answer = -1;
    if (write(c->helper, &order, sizeof order) < 0) return -1;
    while (read(c->helper, &answer, sizeof answer) < 0 && errno == EINTR) {}
    return answer;
}

static long posix_locked(struct caller *c) { return lock_region(c->locks[0], F_SETLKW, F_WRLCK, 1); }

static void do_posix_lock(struct caller *c) {
    helper_does(c, LOCK, draw(c, 0, 300) * MICROSECOND);
    gives(c, posix_locked, 0);
    lock_region(c->locks[0], F_SETLK, F_UNLCK, 1);
}

static void opens_fifo(struct caller *c) { c->connected = open(c->fifo, O_WRONLY | O_CLOEXEC); }

static long opened(struct caller *c) {
    c->accepted = draw(c, 0, 1) ? open(c->fifo, O_RDONLY | O_CLOEXEC) : openat(AT_FDCWD, c->fifo, O_RDONLY | O_CLOEXEC);
    return c->accepted < 0 ? -1 : 0;
}

static void do_open_fifo(struct caller *c) {
    peer_does(c, opens_fifo);
    gives(c, opened, 0);
    peer_is_done(c);
    close(c->accepted);
    close(c->connected);
}

struct letter {
    long type;
    uint8_t text[1024];
};

static void sends_letter(struct caller *c) {
    struct letter letter = {.type = 1};
    fill(letter.text, c->n, c->salt, 0);
    peer_judges(c, msgsnd(c->letters, &letter, c->n, 0), 0);
}

static void takes_letter(struct caller *c) {
    struct letter letter;
    peer_judges(c, msgrcv(c->letters, &letter, sizeof letter.text, 0, 0), (long)c->n);
}

static long letter_came(struct caller *c) { return msgrcv(c->letters, c->buffer, 1024, 0, 0); }

static void do_msgrcv(struct caller *c) {
    c->n = draw(c, 1, 1024);
    peer_does(c, sends_letter);
    gives(c, letter_came, (long)c->n);
    peer_is_done(c);
    same(c, is_filled(c->buffer + sizeof(long), c->n, c->salt, 0));
}

static long letter_left(struct caller *c) {
    struct letter letter = {.type = 1};
    return msgsnd(c->letters, &letter, c->n, 0);
}

static void do_msgsnd(struct caller *c) {
    struct letter letter = {.type = 1};
    c->n = 1024;
    while (msgsnd(c->letters, &letter, c->n, IPC_NOWAIT) == 0) {}
    peer_does(c, takes_letter);
    gives(c, letter_left, 0);
    peer_is_done(c);
    while (msgrcv(c->letters, &letter, sizeof letter.text, 0, IPC_NOWAIT) >= 0) {}
}

static void raises(struct caller *c) {
    struct sembuf up = {.sem_op = 1};
    peer_judges(c, semop(c->semaphores, &up, 1), 0);
}

static long lowered(struct caller *c) {
    struct sembuf down = {.sem_op = -1};
    return semop(c->semaphores, &down, 1);
}

static void do_semop(struct caller *c) {
    peer_does(c, raises);
    gives(c, lowered, 0);
    peer_is_done(c);
}

static void sends_message(struct caller *c) { peer_judges(c, mq_send(c->queue, (char *)c->theirs, c->n, 0), 0); }
static void takes_message(struct caller *c) { peer_judges(c, mq_receive(c->queue, (char *)c->theirs, 64, NULL), (long)c->n); }
static long message_came(struct caller *c) { return mq_receive(c->queue, (char *)c->buffer, 64, NULL); }
static long message_left(struct caller *c) { return mq_send(c->queue, (char *)c->buffer, c->n, 0); }

static void do_mq_receive(struct caller *c) {
    c->n = draw(c, 1, 64);
    peer_does(c, sends_message);
    gives(c, message_came, (long)c->n);
    peer_is_done(c);
}

static void do_mq_send(struct caller *c) {
    struct timespec past = {0, 0};
    c->n = draw(c, 1, 64);
    while (mq_timedsend(c->queue, (char *)c->buffer, c->n, 0, &past) == 0) {}
    peer_does(c, takes_message);
    gives(c, message_left, 0);
    peer_is_done(c);
    while (mq_timedreceive(c->queue, (char *)c->buffer, 64, NULL, &past) >= 0) {}
}

static void touches(struct caller *c) { peer_judges(c, utimensat(AT_FDCWD, c->touched, NULL, 0), 0); }
static long noticed(struct caller *c) { return read(c->inotify, c->buffer, 4096); }

static void do_inotify(struct caller *c) {
    struct inotify_event event;
    peer_does(c, touches);
    gives(c, noticed, sizeof event);
    peer_is_done(c);
    memcpy(&event, c->buffer, sizeof event);
    same(c, event.mask == IN_ATTRIB);
}

static void adds(struct caller *c) { peer_judges(c, eventfd_write(c->event, c->n), 0); }
static long counted(struct caller *c) { return read(c->event, c->buffer, 8); }
static long counted_by_function(struct caller *c) { return eventfd_read(c->event, (eventfd_t *)(void *)c->buffer); }

static void counts_events(struct caller *c, long (*call)(struct caller *), long must) {
    uint64_t value;
    c->n = draw(c, 1, 1u << 30);
    peer_does(c, adds);
    gives(c, call, must);
    peer_is_done(c);
    memcpy(&value, c->buffer, sizeof value);
    same(c, value == c->n);
}

static void do_eventfd(struct caller *c) { counts_events(c, counted, 8); }
static void do_eventfd_read(struct caller *c) { counts_events(c, counted_by_function, 0); }

static void do_timerfd(struct caller *c) {
    uint64_t ns = draw(c, 20, 400) * MICROSECOND, times = 0;
    struct itimerspec t = {.it_value = span(ns)};
    uint64_t start = now();
    timerfd_settime(c->timer, 0, &t, NULL);
    do {
        CALL(c, read(c->timer, &times, 8));
        expect(c, 8, 0, since(c, start, ns));
    } while (c->got == -1 && c->error == EINTR);
    same(c, times == 1);
}

/* ---- signals: a peer sends them, once or until they were heard */

static void sends_signals(struct caller *c) {
    for (int i = 0; i < (int)c->pieces; i++) {
        union sigval value = {.sival_int = c->salt + i};
        peer_judges(c, pthread_sigqueue(c->self, (int)c->n, value), 0);
        nap(c->delay / 4);
    }
}

static long read_signal(struct caller *c) { return read(c->signals, c->buffer, sizeof(struct signalfd_siginfo)); }

static void do_signalfd(struct caller *c) {
    struct signalfd_siginfo info;
    c->n = (size_t)READ_BY_FD;
    peer_does(c, sends_signals);
    for (size_t i = 0; i < c->pieces; i++) {
        gives(c, read_signal, sizeof info);
        memcpy(&info, c->buffer, sizeof info);
        same(c, (int)info.ssi_signo == READ_BY_FD && info.ssi_int == c->salt + (int)i && info.ssi_pid == (uint32_t)getpid());
    }
    peer_is_done(c);
}

static long waited_for_signal(struct caller *c) {
    sigset_t set;
    siginfo_t info;
    sigemptyset(&set);
    sigaddset(&set, QUEUED);
    int got = sigwaitinfo(&set, &info);
    memcpy(c->buffer, &info, sizeof info);
    return got;
}

static void do_sigwaitinfo(struct caller *c) {
    siginfo_t info;
    c->n = (size_t)QUEUED;
    peer_does(c, sends_signals);
    for (size_t i = 0; i < c->pieces; i++) {
        gives(c, waited_for_signal, QUEUED);
        memcpy(&info, c->buffer, sizeof info);
        same(c, info.si_value.sival_int == c->salt + (int)i && info.si_pid == getpid() && info.si_code == SI_QUEUE);
    }
    peer_is_done(c);
}

static void do_sigwait(struct caller *c) {
    sigset_t set;
    int signum = 0;
    c->n = (size_t)QUEUED;
    sigemptyset(&set);
    sigaddset(&set, QUEUED);
    peer_does(c, sends_signals);
    for (size_t i = 0; i < c->pieces; i++) {
        CALL(c, sigwait(&set, &signum));
        expect(c, 0, 0, 0);
        same(c, signum == QUEUED);
    }
    peer_is_done(c);
}

static void do_sigpending(struct caller *c) {
    struct timespec none = {0, 0};
    sigset_t set, only;
    sigemptyset(&only);
    sigaddset(&only, QUEUED);
    pthread_kill(c->self, QUEUED);
    c->quiet = true;
    CALL(c, sigpending(&set));
    expect(c, 0, 0, 0);
    for (int i = 1; i <= SIGRTMAX; i++) same(c, sigismember(&set, i) == (i == QUEUED));
    CALL(c, sigtimedwait(&only, NULL, &none));
    expect(c, QUEUED, 0, 0);
}

static void ends(struct caller *c) {
    while (!atomic_load(&c->over)) {
        pthread_kill(c->self, ENDS);
        nap(500 * MICROSECOND);
    }
}

static long read_nothing(struct caller *c) { return read(c->silent[0], c->buffer, 1); }

static long paused(struct caller *c) {
    (void)c;
    return pause();
}

static void is_ended(struct caller *c, long (*call)(struct caller *)) {
    c->quiet = true;
    peer_does(c, ends);
    CALL(c, call(c));
    bool heard = c->signalled;
    c->signalled = false;
    expect(c, -1, EINTR, 0);
    if (!heard) differs(c, c->kind, "ended, and no handler ran");
    peer_is_done(c);
}

static void do_pause(struct caller *c) { is_ended(c, paused); }
static void do_read_ended(struct caller *c) { is_ended(c, read_nothing); }

static void ends_once(struct caller *c) { pthread_kill(c->self, ENDS); }

static void do_sigsuspend(struct caller *c) {
    sigset_t one, before;
    sigemptyset(&one);
    sigaddset(&one, ENDS);
    pthread_sigmask(SIG_BLOCK, &one, &before);
    c->quiet = true;
    peer_does(c, ends_once);
    CALL(c, sigsuspend(&before));
    c->signalled = false;
    expect(c, -1, EINTR, 0);
    if (handled != c->handled_before + 1) differs(c, c->kind, "ended, and not by one handler");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    peer_is_done(c);
}

/* ---- children */

static long waited_for_child(struct caller *c) {
    int said = 0;
    long got = draw(c, 0, 1) ? wait4((pid_t)c->n, &said, 0, NULL) : waitpid((pid_t)c->n, &said, 0);
    memcpy(c->buffer, &said, sizeof said);
    return got;
}

static long child_ended(struct caller *c) {
    siginfo_t info = {0};
    long got = waitid(P_PID, (id_t)c->n, &info, WEXITED);
    memcpy(c->buffer, &info, sizeof info);
    return got;
}

static long polled_child(struct caller *c) {
    struct pollfd one = {.fd = c->fd, .events = POLLIN};
    return poll(&one, 1, -1);
}

static uint64_t makes_child(struct caller *c) {
    uint64_t ns = draw(c, 0, 600) * MICROSECOND;
    c->n = (size_t)helper_does(c, CHILD, ns);
    return ns & 127;
}

static void do_wait4(struct caller *c) {
    int said = (int)makes_child(c), answer;
    gives(c, waited_for_child, (long)c->n);
    memcpy(&answer, c->buffer, sizeof answer);
    same(c, WIFEXITED(answer) && WEXITSTATUS(answer) == said);
}

static void do_waitid(struct caller *c) {
    int said = (int)makes_child(c);
    siginfo_t info;
    gives(c, child_ended, 0);
    memcpy(&info, c->buffer, sizeof info);
    same(c, info.si_status == said && info.si_pid == (pid_t)c->n);
}

static void do_pidfd(struct caller *c) {
    makes_child(c);
    c->fd = (int)syscall(434 /* pidfd_open */, c->n, 0);
    gives(c, polled_child, 1);
    close(c->fd);
    gives(c, child_ended, 0);
}

/* ---- the rest */

static void reads_late(struct caller *c) {
    nap(300 * MICROSECOND);
    atomic_store(&c->began_to_read, true);
    while (read(c->accepted, c->theirs, MOST) > 0) {}
    close(c->accepted);
}

/* What was sent fills all there is between the two, so it is not acknowledged before the peer reads. */
static void do_linger(struct caller *c) {
    struct linger wait = {.l_onoff = 1, .l_linger = 60};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    connect(fd, (struct sockaddr *)&c->lingering_port, sizeof c->lingering_port);
    c->accepted = accept(c->lingering, NULL, NULL);
    while (send(fd, c->buffer, 4096, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {}
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &wait, sizeof wait);
    atomic_store(&c->began_to_read, false);
    c->quiet = true; /* a signal ends the wait, not the call */
    peer_does(c, reads_late);
    CALL(c, close(fd));
    bool late = atomic_load(&c->began_to_read);
    expect(c, 0, 0, 0);
    if (!late) differs(c, c->kind, "did not wait for the peer");
    peer_is_done(c);
}

static long of_stream(FILE *stream, uint8_t *buffer, size_t n) {
    size_t got = fread(buffer, 1, n, stream);
    bool failed = ferror(stream);
    clearerr(stream);
    return got == 0 && failed ? -1 : (long)got;
}

static long from_stream(struct caller *c, size_t at, size_t n) { return of_stream(c->in, c->buffer + at, n); }

static long from_timed(struct caller *c, size_t at, size_t n) {
    if (n > 1) return of_stream(c->in_time, c->buffer + at, n);
    int byte = getc(c->in_time);
    if (byte < 0) return clearerr(c->in_time), -1;
    c->buffer[at] = (uint8_t)byte;
    return 1;
}

static void do_stream_read(struct caller *c) { reads_from(c, from_stream, c->pipe[1], 100000); }

/* A read with a time limit is not restarted after a signal's handler, whatever that says. */
static void do_stream_timeout(struct caller *c) { reads_from(c, from_timed, c->timed[1], 100000); }

static void writes_stream(struct caller *c, FILE *stream, int fd) {
    c->n = draw(c, 1, draw(c, 1, MOST));
    c->fd = fd;
    c->quiet = true; /* what a stream has kept after a failure is not defined */
    peer_does(c, reads);
    fill(c->buffer, c->n, c->salt, 0);
    for (size_t at = 0; at < c->n;) {
        size_t part = draw(c, 1, c->n - at);
        if (part == 1)
            CALL(c, fputc(c->buffer[at], stream) == c->buffer[at] ? 1 : -1);
        else
            CALL(c, fwrite(c->buffer + at, 1, part, stream));
        if (!expect(c, (long)part, 0, 0)) break;
        at += part;
    }
    CALL(c, fflush(stream));
    expect(c, 0, 0, 0);
    peer_is_done(c);
}

static void do_stream_write(struct caller *c) { writes_stream(c, c->out, c->pipe[0]); }
static void do_stream_delayed(struct caller *c) { writes_stream(c, c->out_time, c->timed[1]); }

static void do_getaddrinfo(struct caller *c) {
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found = NULL;
    c->quiet = true;
    CALL(c, getaddrinfo("localhost", "1", &hints, &found));
    if (found != NULL) freeaddrinfo(found);
    expect(c, 0, 0, 0);
}

static void do_tcdrain(struct caller *c) {
    c->quiet = true;
    CALL(c, tcdrain(c->tty[0]));
    expect(c, 0, 0, 0);
}

/* ---- calls that are left without a return */

static void waits_for_ever(struct caller *c, uint64_t how) {
    struct pollfd one = {.fd = c->silent[0], .events = POLLIN};
    struct timespec hour = {.tv_sec = 3600};
    char byte;
    if (how == 0) (void)poll(&one, 1, -1);
    if (how == 1) (void)!read(c->silent[0], &byte, 1);
    if (how == 2) nanosleep(&hour, NULL);
    if (how == 3) syscall(SYS_ppoll, &one, 1, &hour, NULL, 8);
}

static __thread sigjmp_buf back __attribute__((tls_model("initial-exec")));

static void jumps(int signum) {
    (void)signum;
    siglongjmp(back, 1);
}

/* Nothing but the handler's jump ends the wait. The next call is whole, and the signals are blocked that were before. */
static void do_jump(struct caller *c) {
    const uint64_t ns = draw(c, 20, 400) * MICROSECOND, how = draw(c, 0, 3);
    const struct itimerspec t = {.it_value = span(ns)};
    sigset_t before, after;
    c->quiet = true;
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    begin(c);
    if (sigsetjmp(back, 1) == 0) {
        timer_settime(c->timers[2], 0, &t, NULL);
        waits_for_ever(c, how);
        differs(c, c->kind, "the wait ended");
        return;
    }
    end(c);
    c->got = 0;
    expect(c, 0, 0, ns);
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    for (int i = 1; i < 65; i++) {
        if (sigismember(&before, i) != sigismember(&after, i)) differs(c, c->kind, "another mask");
    }
    do_nanosleep(c);
}

struct cancelled {
    struct caller *c;
    uint64_t how, ns, took;
    long got;
    int cleanups;
};

static void cleans_up(void *of) {
    struct cancelled *it = of;
    struct timespec t = span(it->ns);
    uint64_t began = now();
    it->got = nanosleep(&t, NULL);
    it->took = now() - began;
    it->cleanups++;
}

static void *is_cancelled(void *of) {
    struct cancelled *it = of;
    pthread_cleanup_push(cleans_up, it);
    waits_for_ever(it->c, it->how);
    pthread_cleanup_pop(0);
    return NULL;
}

/* A thread is cancelled in a call, or before it. What it calls while it cleans up is whole. */
static void do_cancel(struct caller *c) {
    struct cancelled it = {.c = c, .how = draw(c, 0, 2), .ns = draw(c, 20, 400) * MICROSECOND};
    uint64_t delay = draw(c, 0, 400) * MICROSECOND;
    pthread_t thread;
    void *result = NULL;
    c->quiet = true;
    if (pthread_create(&thread, NULL, is_cancelled, &it) != 0) return;
    nap(delay);
    pthread_cancel(thread);
    CALL(c, pthread_join(thread, &result));
    expect(c, 0, 0, 0);
    if (result != PTHREAD_CANCELED) differs(c, c->kind, "the wait ended");
    if (it.cleanups != 1 || it.got != 0 || it.took < it.ns) differs(c, c->kind, "what cleans up was hurt");
}

/* ---- all of it */

static void (*const does[])(struct caller *) = {
#define DOES(name) do_##name,
    KINDS(DOES)};

/* Those that take a millisecond and more, or make processes: one of eight is made. */
static bool is_slow(int kind) {
    switch (kind) {
    case KIND_poll:
    case KIND_epoll_wait:
    case KIND_recv_timeout:
    case KIND_accept_timeout:
    case KIND_send_timeout:
    case KIND_connect_timeout:
    case KIND_wait4:
    case KIND_waitid:
    case KIND_pidfd:
    case KIND_linger:
    case KIND_getaddrinfo:
    case KIND_cancel: return true;
    default: return false;
    }
}

static struct caller *callers;
static int callers_n;

static void name_socket(struct sockaddr_un *name, int number, const char *what) {
    *name = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "torture %d %d %s", getpid(), number, what);
}

static int listens(int family, void *name, socklen_t size, int backlog) {
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), little = 4096;
    if (backlog == 1) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
    if (bind(fd, name, size) || getsockname(fd, name, &size) || listen(fd, backlog)) return -1;
    return fd;
}

static int wide_pipe(int ends[2]) { return pipe2(ends, O_CLOEXEC) || fcntl(ends[1], F_SETPIPE_SZ, MOST) < 0 ? -1 : 0; }

static int tcp_pair(int ends[2]) {
    struct sockaddr_in port = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listening = listens(AF_INET, &port, sizeof port, 8), one = 1;
    ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listening < 0 || connect(ends[0], (struct sockaddr *)&port, sizeof port)) return -1;
    ends[1] = accept(listening, NULL, NULL);
    for (int i = 0; i < 2; i++) setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return close(listening);
}

static int make_sockets(struct caller *c) {
    int little = 4608;
    struct timeval minute = {.tv_sec = 60};
    c->port = c->lingering_port = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    name_socket(&c->name, c->number, "listens");
    name_socket(&c->full_name, c->number, "is full");
    name_socket(&c->waiting_name, c->number, "waits");
    if (tcp_pair(c->tcp) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, c->unix_)) return -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, c->timed)) return -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, c->packets)) return -1;
    for (int i = 0; i < 2; i++) setsockopt(c->packets[i], SOL_SOCKET, SO_SNDBUF, &little, sizeof little);
    setsockopt(c->timed[0], SOL_SOCKET, SO_RCVTIMEO, &minute, sizeof minute);
    setsockopt(c->timed[0], SOL_SOCKET, SO_SNDTIMEO, &minute, sizeof minute);
    c->in_time = fdopen(c->timed[0], "r"), c->out_time = fdopen(dup(c->timed[0]), "w");
    c->listening[0] = listens(AF_UNIX, &c->name, sizeof c->name, 8);
    c->listening[1] = listens(AF_INET, &c->port, sizeof c->port, 8);
    c->waiting = listens(AF_UNIX, &c->waiting_name, sizeof c->waiting_name, 0);
    c->full = listens(AF_UNIX, &c->full_name, sizeof c->full_name, 0);
    c->lingering = listens(AF_INET, &c->lingering_port, sizeof c->lingering_port, 1);
    int fills = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fills, (struct sockaddr *)&c->full_name, sizeof c->full_name)) return -1;
    return c->listening[0] < 0 || c->listening[1] < 0 || c->waiting < 0 || c->full < 0 || c->lingering < 0 ? -1 : 0;
}

static int make_files(struct caller *c) {
    char path[220];
    struct termios raw;
    snprintf(c->fifo, sizeof c->fifo, "%s/fifo-%d", c->folder, c->number);
    snprintf(c->touched, sizeof c->touched, "%s/touched-%d", c->folder, c->number);
    if (mkfifo(c->fifo, 0600) || close(open(c->touched, O_CREAT | O_RDWR, 0600))) return -1;
    snprintf(path, sizeof path, "%s/file-%d", c->folder, c->number);
    c->file = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    snprintf(path, sizeof path, "%s/copy-%d", c->folder, c->number);
    c->copy = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    c->locks[0] = open(c->touched, O_RDWR | O_CLOEXEC), c->locks[1] = open(c->touched, O_RDWR | O_CLOEXEC);
    fill(c->buffer, MOST, SALT_OF_FILE, 0);
    if (write(c->file, c->buffer, MOST) != MOST || c->copy < 0 || c->locks[1] < 0) return -1;
    c->devices[0] = open("/dev/zero", O_RDONLY | O_CLOEXEC), c->devices[1] = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (pipe2(c->pipe, O_CLOEXEC) || pipe2(c->silent, O_CLOEXEC) || wide_pipe(c->wide) || wide_pipe(c->copies)) return -1;
    c->in = fdopen(dup(c->pipe[0]), "r"), c->out = fdopen(dup(c->pipe[1]), "w");
    if (openpty(&c->tty[1], &c->tty[0], NULL, NULL, NULL) || tcgetattr(c->tty[0], &raw)) return -1;
    cfmakeraw(&raw);
    return tcsetattr(c->tty[0], TCSANOW, &raw);
}

static int make_others(struct caller *c) {
    struct mq_attr attributes = {.mq_maxmsg = 4, .mq_msgsize = 64};
    struct epoll_event event = {.events = EPOLLIN};
    sigset_t set;
    char name[40];
    int ends[2];
    sigemptyset(&set);
    sigaddset(&set, READ_BY_FD);
    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    epoll_ctl(c->epoll, EPOLL_CTL_ADD, c->silent[0], &event);
    c->event = eventfd(0, EFD_CLOEXEC);
    c->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    c->signals = signalfd(-1, &set, SFD_CLOEXEC);
    c->inotify = inotify_init1(IN_CLOEXEC);
    if (inotify_add_watch(c->inotify, c->touched, IN_ATTRIB) < 0) return -1;
    c->letters = msgget(IPC_PRIVATE, 0600), c->semaphores = semget(IPC_PRIVATE, 1, 0600);
    snprintf(name, sizeof name, "/torture-%d-%d", getpid(), c->number);
    c->queue = mq_open(name, O_CREAT | O_EXCL | O_RDWR, 0600, &attributes);
    mq_unlink(name);
    if (c->letters < 0 || c->semaphores < 0 || c->queue < 0 || syscall(SYS_io_setup, 4, &c->aio)) return -1;
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->condition, NULL);
    sem_init(&c->semaphore, 0, 0), sem_init(&c->go, 0, 0), sem_init(&c->done, 0, 0);
    sem_init(&c->ready, 0, 0), sem_init(&c->release, 0, 0);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) return -1;
    c->helper = ends[0];
    c->helpers_pid = fork();
    if (c->helpers_pid == 0) help(ends[1], c->locks[1]);
    close(ends[1]);
    return c->helpers_pid < 0 ? -1 : 0;
}

int calls_prepare(const char *folder, int n, uint64_t seed);
const char *calls_at(int i);
int calls_kinds(void);
const char *calls_name(int kind);
int calls_make(int i, uint64_t turns, struct counts *counts);
void calls_clean(void);

/* Before the profile begins. 0, or an errno. */
int calls_prepare(const char *folder, int n, uint64_t seed) {
    struct sigaction restarts = {.sa_handler = handle, .sa_flags = SA_RESTART}, ending = {.sa_handler = handle},
                     jumping = {.sa_handler = jumps};
    sigaction(RESTARTS, &restarts, NULL);
    sigaction(ENDS, &ending, NULL);
    sigaction(JUMPS, &jumping, NULL);
    signal(SIGPIPE, SIG_IGN);
    callers = calloc((size_t)n, sizeof *callers);
    callers_n = n;
    for (int i = 0; i < n; i++) {
        struct caller *c = &callers[i];
        c->number = i, c->folder = folder;
        c->state = (seed * 1000 + (uint64_t)i + 1) * 0x9e3779b97f4a7c15u;
        c->buffer = aligned_alloc(4096, MOST), c->theirs = aligned_alloc(4096, MOST);
        if (make_files(c) || make_sockets(c) || make_others(c)) return errno ? errno : EINVAL;
    }
    return 0;
}

/* Any thread. What the caller is doing, for a thread that waits in vain for its end. */
const char *calls_at(int i) { return names[callers[i].kind]; }

int calls_kinds(void) { return KIND_COUNT; }
const char *calls_name(int kind) { return names[kind]; }

/* A thread of its own: so many turns of work and of a drawn kind. */
int calls_make(int i, uint64_t turns, struct counts *counts) {
    struct caller *c = &callers[i];
    sigset_t waited, before;
    sigemptyset(&waited);
    sigaddset(&waited, QUEUED), sigaddset(&waited, READ_BY_FD);
    pthread_sigmask(SIG_BLOCK, &waited, &before);
    prctl(PR_SET_TIMERSLACK, 1);
    c->self = pthread_self(), c->counts = counts;
    for (int k = 0; k < 3; k++) {
        const int by[] = {RESTARTS, ENDS, JUMPS};
        struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = by[k]};
        event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
        if (timer_create(CLOCK_MONOTONIC, &event, &c->timers[k])) return errno;
    }
    if (pthread_create(&c->peer, NULL, peer, c)) return EAGAIN;
    for (uint64_t turn = 0; turn < turns; turn++) {
        do c->kind = (int)draw(c, 0, KIND_peer - 1);
        while (is_slow(c->kind) && draw(c, 0, 7) != 0);
        for (uint64_t until = now() + draw(c, 0, 60) * MICROSECOND; now() < until;) {}
        c->quiet = false;
        does[c->kind](c);
    }
    c->act = NULL;
    sem_post(&c->go);
    pthread_join(c->peer, NULL);
    for (int k = 0; k < 3; k++) timer_delete(c->timers[k]);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return 0;
}

/* What would outlive the process. */
void calls_clean(void) {
    for (int i = 0; i < callers_n; i++) {
        msgctl(callers[i].letters, IPC_RMID, NULL);
        semctl(callers[i].semaphores, 0, IPC_RMID);
        kill(callers[i].helpers_pid, SIGKILL);
        waitpid(callers[i].helpers_pid, NULL, 0);
    }
}
