/* A library that has handled a signal before anybody could see it call sigaction(): in its constructor. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct sigaction found;
static volatile int firsts, seconds;

static void first(int signum) {
    (void)signum;
    firsts++;
}

static void second(int signum) {
    (void)signum;
    seconds++;
}

__attribute__((constructor)) static void handle(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = first;
    sigaction(SIGTRAP, &action, &found);
}

void fire(int signum) { syscall(SYS_tgkill, getpid(), (int)syscall(SYS_gettid), signum); }

/* Whether another handler takes the first one's place. */
int replaces(void) {
    struct sigaction action, old;
    memset(&action, 0, sizeof action);
    action.sa_handler = second;
    return sigaction(SIGTRAP, &action, &old) == 0 && old.sa_handler == first;
}

/* How often each was called. */
int calls_of_first(void) { return firsts; }
int calls_of_second(void) { return seconds; }

/* As a library does that is to be unloaded. */
int put_back(void) { return sigaction(SIGTRAP, &found, NULL); }

/* ---- what the C library has besides sigaction() */

static int restarts(int signum) {
    struct sigaction action;
    return sigaction(signum, NULL, &action) == 0 && action.sa_flags & SA_RESTART;
}

/* 0, or the number of the first thing that is not as the C library has it. */
int by_other_names(int signum) {
    struct sigaction now;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signum);
    signal(signum, SIG_DFL);
#ifdef __GLIBC__
    siginterrupt(signum, 1);
    if (signal(signum, second) != SIG_DFL || restarts(signum)) return 1;
    siginterrupt(signum, 0);
    if (signal(signum, second) != second || !restarts(signum)) return 2;
#endif
    signal(signum, second);
    if (sigset(signum, SIG_HOLD) != second) return 3;
    if (sigset(signum, second) != SIG_HOLD) return 4;
    if (sigset(signum, SIG_DFL) != second) return 5;
    if (sigignore(signum) != 0 || sigaction(signum, NULL, &now) != 0 || now.sa_handler != SIG_IGN) return 6;
    return signal(signum, SIG_DFL) == SIG_IGN ? 0 : 7;
}

/* Waits, while the signal is blocked otherwise, for one whose default ends the process. */
void ends_in_sigsuspend(int signum) {
    sigset_t set, none;
    sigemptyset(&none);
    sigemptyset(&set);
    sigaddset(&set, signum);
    sigprocmask(SIG_BLOCK, &set, NULL);
    fire(signum);
    sigsuspend(&none);
}

/* Waits for whatever comes, for ever: what came. A tick waits first. */
int waits_for_ever(void) {
    struct timespec longest = {LONG_MAX, 0};
    sigset_t set;
    sigfillset(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (volatile long i = 0; i < 100000000; i++) {}
    ualarm(100000, 0);
    int signum = sigtimedwait(&set, NULL, &longest);
    return signum < 0 ? -errno : signum;
}

/* ---- another program in place of this one, from a handler that interrupts whatever there is */

static const char *replacement;

static void replace_now(int signum) {
    (void)signum;
    execl(replacement, replacement, (char *)NULL);
    _exit(9);
}

static void forks(void) { raise(SIGALRM); }

/* When the process forks: handlers registered later have done their work before a fork, and taken their locks. */
int replace_at_fork(const char *program) {
    replacement = strdup(program);
    return signal(SIGALRM, replace_now) == SIG_ERR || pthread_atfork(forks, NULL, NULL) != 0;
}

/* ---- by bare system calls */

extern char **environ;

/* Another program in place of this one. Returns only if that fails. */
void replace_bare(const char *program) {
    const char *arguments[] = {program, NULL};
    syscall(SYS_execve, program, arguments, environ);
}

/* Every signal that may be set has its default action; how many are set. */
int reset_bare(void) {
    struct {
        void *handler;
        unsigned long flags;
        void *restorer;
        uint64_t mask;
    } none = {NULL, 0, NULL, 0};
    int set = 0;
    for (int signum = 1; signum <= 64; signum++) set += syscall(SYS_rt_sigaction, signum, &none, NULL, sizeof none.mask) == 0;
    return set;
}
