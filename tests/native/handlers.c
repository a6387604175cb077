/* A program's own signal handlers, which count how often they are called, and what the kernel has in their place. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic unsigned counts[65], wrong;

static void count(int signum, siginfo_t *info, void *context) {
    (void)context;
    counts[signum]++;
    if (info->si_signo != signum || info->si_code != SI_TKILL || info->si_pid != getpid()) wrong++;
}

/* As raise(), without blocking the signal meanwhile, as some C libraries do: one that waits becomes one with a tick that does. */
static void send_one(int signum) { syscall(SYS_tgkill, getpid(), (int)syscall(SYS_gettid), signum); }

/* As billiard's reset_signals(full=True): every signal that there is. How many were set. */
int handle_all(void) {
    struct sigaction action;
    int handled = 0;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = count;
    action.sa_flags = SA_SIGINFO;
    for (int signum = 1; signum <= 64; signum++) handled += sigaction(signum, &action, NULL) == 0;
    return handled;
}

/* How many signals with our handler are reported with another one. */
int forgotten(void) {
    struct sigaction action;
    int n = 0;
    for (int signum = 1; signum <= 64; signum++) {
        if (signum == SIGKILL || signum == SIGSTOP || sigaction(signum, NULL, &action) != 0) continue;
        n += action.sa_sigaction != count || action.sa_flags & SA_RESTART;
    }
    return n;
}

/* Sends itself each of them `times` times. How many calls of handlers differ from that, or got something else. */
unsigned send_all(unsigned times) {
    unsigned differ = 0, before[65];
    for (int signum = 1; signum <= 64; signum++) before[signum] = counts[signum];
    for (unsigned i = 0; i < times; i++) {
        for (int signum = 1; signum <= 64; signum++) {
            if (signum != SIGKILL && signum != SIGSTOP && signum != 32 && signum != 33) send_one(signum);
        }
    }
    for (int signum = 1; signum <= 64; signum++) {
        unsigned sent = signum == SIGKILL || signum == SIGSTOP || signum == 32 || signum == 33 ? 0 : times;
        unsigned n = counts[signum] - before[signum];
        differ += n > sent ? n - sent : sent - n;
    }
    return differ + wrong;
}

unsigned calls(void) {
    unsigned sum = 0;
    for (int signum = 1; signum <= 64; signum++) sum += counts[signum];
    return sum;
}

/* ---- what a handler may ask for */

static volatile sig_atomic_t depth, deepest, total, blocked, seen, done;

static void nests(int signum) {
    depth++;
    if (depth > deepest) deepest = depth;
    if (++total < 3) send_one(signum);
    depth--;
}

static void looks(int signum) {
    sigset_t now;
    (void)signum;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    blocked = sigismember(&now, SIGUSR1) && !sigismember(&now, SIGUSR2);
}

static void simple(int signum) { seen = signum; }

static int set(int signum, void (*handler)(int), int flags, int also) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    if (also) sigaddset(&action.sa_mask, also);
    return sigaction(signum, &action, NULL);
}

static int nested(int signum, int flags) {
    deepest = total = 0;
    set(signum, nests, flags, 0);
    send_one(signum);
    /* A trap that its own handler blocks may become one with a tick that waits. */
    return total == 3 || (signum == SIGTRAP && !(flags & SA_NODEFER)) ? deepest : 0;
}

/* 0, or the number of the first thing that is not as POSIX has it. */
int as_it_should(int signum) {
    struct sigaction now;
    sigset_t before, after;
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    if (nested(signum, SA_NODEFER) != 3) return 1;
    if (nested(signum, 0) != 1) return 2;
    set(signum, looks, 0, SIGUSR1);
    send_one(signum);
    if (!blocked) return 3;
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    if (memcmp(&before, &after, 8) != 0) return 4;
    set(signum, simple, (int)SA_RESETHAND, 0);
    send_one(signum);
    if (seen != signum) return 5;
    if (sigaction(signum, NULL, &now) != 0 || now.sa_handler != SIG_DFL) return 6;
    if (signal(signum, simple) != SIG_DFL) return 7;
    if (signal(signum, SIG_IGN) != simple) return 8;
    seen = 0;
    send_one(signum);
    if (seen != 0) return 9;
    return signal(signum, SIG_DFL) == SIG_IGN ? 0 : 10;
}

static int ends[2], reader, sent, restart;

/* Until the read is over. One that goes on gets something to read when the handler has run. */
static void *send_often(void *unused) {
    while (!done) {
        usleep(1000);
        if (restart && seen) return (void *)(intptr_t)write(ends[1], "x", 1);
        syscall(SYS_tgkill, getpid(), reader, sent);
    }
    return unused;
}

/* Reads from an empty pipe while this signal comes: errno. */
int reads(int signum, int restarts) {
    pthread_t sender;
    char byte;
    seen = done = 0;
    reader = (int)syscall(SYS_gettid);
    sent = signum;
    restart = restarts;
    set(signum, simple, restarts ? SA_RESTART : 0, 0);
    if (pipe(ends) != 0 || pthread_create(&sender, NULL, send_often, NULL) != 0) return -1;
    int error = read(ends[0], &byte, 1) < 0 ? errno : 0;
    done = 1;
    pthread_join(sender, NULL);
    close(ends[0]);
    close(ends[1]);
    signal(signum, SIG_DFL);
    return error;
}

/* ---- another program in place of this one */

int replace(const char *program, const char *text) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    for (volatile long i = 0; i < 100000000; i++) {}
    return execl(program, program, "-c", text, (char *)NULL);
}
