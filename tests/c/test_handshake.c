/* A tick meets no call: a thread's calls have all the results that they have alone, at 20 kHz, though each tick that is sent
 * while it is in one would end or shorten it; what blocks a tick's signal has none pending; and a call that is left by longjmp,
 * or that a handler makes in the midst of another one, is no reason to be silent or to interrupt. */
#include "check.h"

#if defined(__linux__)
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/context.h"
#include "os/linux/handshake.h"
#include "os/linux/linux.h"
#include "os/lock.h"
#include "os/memory.h"
#include "os/signals.h"
#include "os/threads.h"
#include "os/ticks.h"
#include "processes.h"

#define PERIOD_NS 50000
#define ENOUGH 300u /* ticks of each kind */

static _Alignas(64) char cookie;
static atomic_uint ticks;

static bool is_ours(const void *value) { return value == &cookie; }

static void tick(void *value, spp_tick kind, const spp_os_context *context) {
    (void)kind, (void)context;
    CHECK(value == &cookie);
    atomic_fetch_add(&ticks, 1);
}

/* What other objects call instead of a function of the C library: this program is one of ours, and not changed. */
static void *own(const char *name) {
    const spp_linux_import *import = spp_linux_import_of(name);
    CHECK(import != NULL && import->own != NULL);
    return import->own;
}
static long (*calls[8])(long, long, long, long, long, long);
enum { READ, WRITE, POLL, NANOSLEEP, RECV, MASK, SYSCALL };

static void burn(unsigned n) {
    for (volatile unsigned i = 0; i < n; i++) {}
}

static unsigned drawn = 1;
static unsigned draw(unsigned below) {
    drawn = drawn * 1664525u + 1013904223u;
    return (drawn >> 8) % below;
}

static int pipe_ends[2], pair[2];
static atomic_bool over;

static void *drains(void *unused) {
    char bytes[700];
    (void)unused;
    while (read(pipe_ends[0], bytes, sizeof bytes) > 0) {}
    return NULL;
}

static void *feeds(void *unused) {
    (void)unused;
    while (!over && write(pair[1], "x", 1) == 1) {
        struct timespec pause = {0, 20000};
        nanosleep(&pause, NULL);
    }
    return NULL;
}

static int masked(int how, const sigset_t *set, sigset_t *old) {
    return (int)calls[MASK](how, (long)(uintptr_t)set, (long)(uintptr_t)old, 0, 0, 0);
}

static long called(int which, long a, long b, long c, long d) { return calls[which](a, b, c, d, 0, 0); }

/* TSan runs handlers with all signals blocked, and blocked they stay where the handler makes a call while another signal waits:
 * it keeps the mask of before once for each thread (ProcessPendingSignalsImpl, ThreadSignalContext.oldset). */
static void unblock(void) {
#if defined(__SANITIZE_THREAD__)
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
#endif
}

/* Each of them waits or moves much, and would be short, early or EINTR for any signal. */
static void results(void) {
    static char bytes[30000];
    struct timespec nap = {0, 100000}, left;
    atomic_store(&ticks, 0);
    for (unsigned i = 0; atomic_load(&ticks) < ENOUGH || i < 50; i++) {
        unblock();
        burn(draw(20000));
        CHECK_EQUAL((int)called(NANOSLEEP, (long)(uintptr_t)&nap, (long)(uintptr_t)&left, 0, 0), 0);
        burn(draw(20000));
        CHECK_EQUAL((int)called(POLL, 0, 0, 1, 0), 0);
        burn(draw(20000));
        CHECK_EQUAL(called(WRITE, pipe_ends[1], (long)(uintptr_t)bytes, sizeof bytes, 0), (long)sizeof bytes);
        burn(draw(20000));
        CHECK(called(RECV, pair[0], (long)(uintptr_t)bytes, sizeof bytes, 0) >= 8); /* SO_RCVLOWAT */
        burn(draw(20000));
        CHECK_EQUAL(called(SYSCALL, SYS_ppoll, 0, 0, (long)(uintptr_t)&nap), 0);
    }
}

/* Waits of spprof's own, in a thread of the program that asks it for something. */
static void waits_of_ours(void) {
    atomic_store(&ticks, 0);
    for (unsigned i = 0; atomic_load(&ticks) < ENOUGH || i < 1000; i++) {
        unblock();
        burn(draw(100000));
        spp_os_sleep_until(spp_os_now_ns() + draw(60000));
    }
}

/* One that blocks its signal is sent nothing: nothing waits, whenever it looks. */
static void blocked(int signum) {
    sigset_t one, waiting;
    sigemptyset(&one);
    sigaddset(&one, signum);
    for (int i = 0; i < 200; i++) {
        CHECK_EQUAL(masked(SIG_BLOCK, &one, NULL), 0);
        burn(draw(200000));
        sigpending(&waiting);
        CHECK(!sigismember(&waiting, signum));
        CHECK_EQUAL(masked(SIG_UNBLOCK, &one, NULL), 0);
    }
}

static sigjmp_buf back;
static void (*jump)(sigjmp_buf, int); /* siglongjmp() as other objects call it */
static volatile sig_atomic_t jumps;

static void alarmed(int signum) {
    struct timespec short_nap = {0, 30000};
    (void)signum;
    if (jumps) jump(back, 1);
    CHECK_EQUAL((int)calls[NANOSLEEP]((long)(uintptr_t)&short_nap, 0, 0, 0, 0, 0), 0);
}

static void alarm_in_us(long us) {
    struct itimerspec spec = {.it_value = {0, us * 1000}};
    static timer_t timer;
    static bool made;
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGALRM;
    if (!made) CHECK_EQUAL(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
    made = true;
    timer_settime(timer, 0, &spec, NULL);
}

/* The program's own handler interrupts a call and calls itself: its call is whole, the other one
 * ends for it, and no tick interrupts it before. */
static void in_the_midst(void) {
    struct timespec nap = {0, 400000}, left;
    for (int i = 0; i < 200; i++) {
        unblock();
        alarm_in_us(100);
        long result = called(NANOSLEEP, (long)(uintptr_t)&nap, (long)(uintptr_t)&left, 0, 0);
        CHECK(result == 0 || errno == EINTR);
    }
    nap.tv_nsec = 100000;
    for (int i = 0; i < 100; i++) CHECK_EQUAL((int)called(NANOSLEEP, (long)(uintptr_t)&nap, 0, 0, 0), 0);
}

static void until_ticked(void) {
    atomic_store(&ticks, 0);
    while (atomic_load(&ticks) < ENOUGH) burn(10000); /* for ever, if they do not come */
}

#if !defined(__SANITIZE_THREAD__)
/* So much deeper that the frames of what follows are below those of a call that is made at once. */
static __attribute__((noinline)) void deeper(void (*then)(void)) {
    volatile char below[4096];
    below[0] = 1;
    then();
    below[1] = below[0];
}

static void naps_and_ticks(void) {
    struct timespec nap = {0, 10000};
    CHECK_EQUAL((int)calls[NANOSLEEP]((long)(uintptr_t)&nap, 0, 0, 0, 0, 0), 0);
    until_ticked();
}

/* Left by a jump, a call is over: ticks go on, whether another one follows or not, and however deep. TSan keeps signals for
 * later, and if the handler of one that it kept jumps, it forgets the others: ThreadSignalContext, have_pending_signals. */
static void jumped_out(void) {
    struct timespec second = {1, 0};
    static void (*const afterwards[])(void) = {until_ticked, naps_and_ticks};
    for (volatile int i = 0; i < 4; i++) {
        jumps = 1;
        if (sigsetjmp(back, 1) == 0) {
            alarm_in_us(100);
            (void)calls[NANOSLEEP]((long)(uintptr_t)&second, 0, 0, 0, 0, 0);
            CHECK(false);
        }
        jumps = 0;
        if (i < 2)
            afterwards[i]();
        else
            deeper(afterwards[i - 2]);
    }
}
#endif

/* A handler that jumps within itself: the call that it interrupted is still under way. */
static volatile sig_atomic_t interrupted; /* calls by that handler */

static void jumps_within(int signum) {
    spp_linux_handshake *volatile h = spp_linux_handshake_own();
    volatile uintptr_t call = h->call;
    sigjmp_buf within;
    (void)signum;
    if (sigsetjmp(within, 0) == 0) jump(within, 1);
    CHECK_EQUAL(h->call, call);
    interrupted += call != 0;
}

static void handled(void (*handler)(int)) {
    struct timespec nap = {0, 1000000};
    struct sigaction action, before;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    sigaction(SIGALRM, &action, &before);
    for (interrupted = 0; interrupted < 20;) {
        unblock();
        alarm_in_us(100);
        (void)calls[NANOSLEEP]((long)(uintptr_t)&nap, 0, 0, 0, 0, 0);
    }
    sigaction(SIGALRM, &before, NULL);
}

#if defined(__GLIBC__) && !defined(__SANITIZE_THREAD__) /* others have no such function; TSan does not know the stack */
/* A handler that leaves its stack and comes back: meanwhile there are ticks, and calls, and then the call is under way again. */
static int (*swap)(ucontext_t *, const ucontext_t *);
static ucontext_t inside, outside;

static void comes_back(void) {
    for (;;) {
        naps_and_ticks();
        swap(&outside, &inside);
    }
}

static void swaps(int signum) {
    spp_linux_handshake *h = spp_linux_handshake_own();
    uintptr_t call = h->call;
    (void)signum;
    swap(&inside, &outside);
    CHECK_EQUAL(h->call, call);
    interrupted += call != 0;
}

static void swapped(void) {
    static char stack[256 * 1024];
    memcpy(&swap, &(void *){own("swapcontext")}, sizeof(void *));
    getcontext(&outside);
    outside.uc_stack = (stack_t){.ss_sp = stack, .ss_size = sizeof stack};
    makecontext(&outside, comes_back, 0);
    handled(swaps);
}
#endif

/* A thread that is cancelled in a call has ticks while it cleans up, where the C library unwinds its stack (musl does not). */
static void cleans_up(void *trigger) {
    until_ticked();
    spp_os_trigger_disarm(trigger);
}

static void *is_cancelled(void *unused) {
    spp_os_trigger trigger = {.perf_fd = -1};
    int state;
    (void)unused;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    if (spp_os_trigger_arm(&trigger, &spp_clock_signal, spp_os_tid(), PERIOD_NS, &cookie) != 0) return NULL;
    pthread_cleanup_push(cleans_up, &trigger);
    pthread_setcancelstate(state, NULL);
    for (;;) {
        struct timespec second = {1, 0};
        (void)calls[NANOSLEEP]((long)(uintptr_t)&second, 0, 0, 0, 0, 0);
    }
    pthread_cleanup_pop(0);
    return NULL;
}

static void cancelled(void) {
    pthread_t thread;
    void *result;
    CHECK_EQUAL(pthread_create(&thread, NULL, is_cancelled, NULL), 0);
    CHECK_EQUAL(pthread_cancel(thread), 0);
    CHECK_EQUAL(pthread_join(thread, &result), 0);
    CHECK(result == PTHREAD_CANCELED);
}

/* By a direct system call, so no fork handler runs; the child still has its parent's id for the C library. The sampler, which
 * would end such a tick, does not exist there. */
static void forked_while_a_tick_is_sent(void) {
    int status = -1;
    spp_linux_handshake *h = spp_linux_handshake_own();
    CHECK(h != NULL);
    if (h == NULL) return;
    signal(SIGALRM, SIG_DFL);
    atomic_store(&h->tick, SPP_TICK_SENDING);
    pid_t pid = (pid_t)syscall(SYS_clone, 17 /* SIGCHLD */, 0, 0, 0, 0);
    if (pid == 0) {
        alarm(60); /* it waits for ever */
        _exit(spp_linux_call_begins((uintptr_t)__builtin_frame_address(0)).of == h ? 7 : 1);
    }
    atomic_store(&h->tick, SPP_TICK_NONE);
    CHECK_EQUAL(waitpid(pid, &status, 0), pid);
    CHECK_EQUAL(status, 7 << 8);
}

int main(void) {
    spp_os_trigger trigger = {.perf_fd = -1};
    pthread_t reader, writer;
    struct sigaction action;
    int low = 8;
    memset(&action, 0, sizeof action);
    action.sa_handler = alarmed;
    sigaction(SIGALRM, &action, NULL);
    CHECK_EQUAL(spp_os_memory_init(), 0);
    CHECK(pipe(pipe_ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    setsockopt(pair[0], SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low);
    CHECK_EQUAL(spp_os_signal_install(tick, is_ours, &spp_clock_signal, false), 0);
    spp_os_signal_look();
    static const char *const names[] = {"read", "write", "poll", "nanosleep", "recv", "pthread_sigmask", "syscall"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) memcpy(&calls[i], &(void *){own(names[i])}, sizeof(void *));
    memcpy(&jump, &(void *){own("siglongjmp")}, sizeof(void *));
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_create(&reader, NULL, drains, NULL);
    pthread_create(&writer, NULL, feeds, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    CHECK_EQUAL(spp_os_trigger_arm(&trigger, &spp_clock_signal, spp_os_tid(), PERIOD_NS, &cookie), 0);
    results();
    waits_of_ours();
    if (!check_valgrind()) blocked(SIGURG); /* it keeps a signal for a while, so one that was sent before may wait */
    in_the_midst();
#if !defined(__SANITIZE_THREAD__)
    jumped_out();
#endif
    handled(jumps_within);
#if defined(__GLIBC__) && !defined(__SANITIZE_THREAD__)
    swapped();
#endif
    spp_os_trigger_disarm(&trigger);
#if !defined(__GLIBC__)
    (void)cancelled;
#elif defined(__SANITIZE_THREAD__) /* from its cancellation on, it sees no lock nor atomic that the thread uses */
    (void)cancelled;
#else
    cancelled();
#endif
    if (spp_os_lock_init(NULL) == 0) forked_while_a_tick_is_sent();
    CHECK_EQUAL(spp_os_calls_interrupted(), 0);
    spp_os_signal_remove();
    signal(SIGPIPE, SIG_IGN);
    over = true;
    close(pair[0]); /* a write that waits for space ends */
    pthread_join(writer, NULL);
    close(pipe_ends[1]);
    pthread_join(reader, NULL);
    return check_done();
}
#else
int main(void) { return check_done(); }
#endif
