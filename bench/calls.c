/* Work and calls that wait by turns: how many were ended by a signal or too early, and how late the others were.
 * Called by ctypes (targets/calls.py), each kind on threads of its own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <semaphore.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MILLISECOND 1000000u
#define JIFFY_NS 10000000u /* the longest: CONFIG_HZ=100 */

/* FUTEX is made by syscall(), whose instruction has no number beside it, as Rust's library and ctypes make it; SEMAPHORE is the C
 * library's own futex, as CPython's locks make it. */
enum kind { NANOSLEEP, SELECT, FUTEX, SEMAPHORE, POLL, EPOLL_WAIT, RECV };

struct counts {
    uint64_t calls, ended, early, failed; /* `ended`: with EINTR */
    uint64_t late_ns, latest_ns;          /* sum of those that waited to the end, and the most */
};

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t draw(uint64_t *state, uint64_t low, uint64_t high) {
    *state ^= *state << 13, *state ^= *state >> 7, *state ^= *state << 17;
    return low + *state % (high - low + 1);
}

/* Waits so long, for nothing. Returns what the call returned, and -1 with ETIMEDOUT where it came to its end by an errno. */
static long wait_once(enum kind kind, int fd, uint64_t ns) {
    static uint32_t word;
    static sem_t semaphore; /* 0: nobody posts it */
    struct timespec t = {.tv_sec = 0, .tv_nsec = (long)ns};
    struct timeval tv = {.tv_sec = 0, .tv_usec = (suseconds_t)(ns / 1000)};
    struct epoll_event event;
    char byte;
    switch (kind) {
    case NANOSLEEP: return nanosleep(&t, NULL);
    case SELECT: return select(0, NULL, NULL, NULL, &tv);
    case FUTEX: return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0);
    case SEMAPHORE:
        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_sec += (t.tv_nsec + (long)ns) / 1000000000;
        t.tv_nsec = (t.tv_nsec + (long)ns) % 1000000000;
        return sem_timedwait(&semaphore, &t);
    case POLL: return poll(NULL, 0, (int)(ns / MILLISECOND));
    case EPOLL_WAIT: return epoll_wait(fd, &event, 1, (int)(ns / MILLISECOND));
    default: return recv(fd, &byte, 1, 0); /* its timeout is the socket's */
    }
}

/* `times` turns of work, 20 to 100 us, and a call of `kind`. Returns 0, or an errno if it cannot be made. */
int calls_make(int which, uint64_t times, uint64_t seed, struct counts *counts);
int calls_make(int which, uint64_t times, uint64_t seed, struct counts *counts) {
    enum kind kind = (enum kind)which;
    int pair[2] = {-1, -1};
    prctl(PR_SET_TIMERSLACK, 1);
    if (kind == EPOLL_WAIT && (pair[0] = epoll_create1(EPOLL_CLOEXEC)) < 0) return errno;
    if (kind == RECV) {
        struct timeval timeout = {.tv_sec = 0, .tv_usec = MILLISECOND / 1000};
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) return errno;
        if (setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout)) return errno;
    }
    uint64_t state = seed * 2654435761u + 88172645463325252u;
    for (uint64_t i = 0; i < times; i++) {
        for (uint64_t end = now() + draw(&state, 20000, 100000); now() < end;) {}
        /* Milliseconds are the least that poll() and epoll_wait() know, jiffies what a socket's timeout knows. */
        uint64_t ns = kind >= POLL ? MILLISECOND : draw(&state, 50, 150) * 1000;
        errno = 0;
        uint64_t began = now();
        long got = wait_once(kind, pair[0], ns);
        int error = errno;
        uint64_t took = now() - began;
        counts->calls++;
        if (got < 0 && error == EINTR) {
            counts->ended++;
        } else if (got > 0 || (got < 0 && error != ETIMEDOUT && error != EAGAIN)) {
            counts->failed++;
        } else if (took < ns && !(kind == RECV && ns < JIFFY_NS)) { /* the kernel itself ends a socket's wait within a jiffy */
            counts->early++;
        } else {
            uint64_t late = took > ns ? took - ns : 0;
            counts->late_ns += late;
            if (late > counts->latest_ns) counts->latest_ns = late;
        }
    }
    if (pair[0] >= 0) close(pair[0]);
    if (pair[1] >= 0) close(pair[1]);
    return 0;
}
