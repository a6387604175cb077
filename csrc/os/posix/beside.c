/* The program's end of the socket to its supervisor. */
#include "os/beside.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/process.h"
#ifdef __linux__
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

/* Of the process. Written by the main thread before the program's first line, and by whoever ends it. */
static struct {
    int fd; /* -1: none */
    pid_t owner;
    struct stat is; /* a program may close all that it finds, and get the number for another */
    bool failed;    /* an exception ends the program */
    int verdict;    /* the exit code if the program's own is 0 */
} beside = {.fd = -1};

static bool is_ours(void) {
    struct stat now;
    return beside.fd >= 0 && beside.owner == getpid() && fstat(beside.fd, &now) == 0 && now.st_dev == beside.is.st_dev &&
           now.st_ino == beside.is.st_ino;
}

/* Signals that end a program, from people who want that; and what is not to be ignored. */
static const int asked[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
static const int kept[] = {SIGINT,  SIGQUIT, SIGTERM, SIGHUP,  SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,
                           SIGABRT, SIGTRAP, SIGSYS,  SIGTSTP, SIGTTIN, SIGTTOU, SIGCHLD, SIGCONT};

/* The program has ended: neither its timers nor whoever has not heard of that can end it by a signal. */
static void ignore_others(void) {
    for (int signum = 1; signum < NSIG; signum++) {
        struct sigaction action;
        bool stays = false;
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) stays = stays || signum == kept[i];
        if (!stays && sigaction(signum, NULL, &action) == 0 && action.sa_handler != SIG_IGN) signal(signum, SIG_IGN);
    }
}

/* It waits: whoever asks for its end gets it. */
static void heed_asked(void) {
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        struct sigaction action;
        if (sigaction(asked[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) signal(asked[i], SIG_DFL);
    }
}

void spp_os_beside_end(void) {
    char said = beside.failed ? 'f' : 'e';
    if (spp_os_barred() || !is_ours()) return;
    int fd = beside.fd;
    beside.fd = -1;
    ignore_others(); /* SIGPIPE too */
    ssize_t n = write(fd, &said, 1);
    heed_asked();
    if (n == 1) {
        do {
            n = read(fd, &said, 1);
        } while (n < 0 && errno == EINTR);
    }
    if (n == 1) beside.verdict = (unsigned char)said; /* else it is gone */
}

void spp_os_beside_failed(void) { beside.failed = true; }

bool spp_os_beside_waits(void) { return beside.fd >= 0 && beside.owner == getpid(); }

int spp_os_beside_wait(int status) {
    spp_os_beside_end();
    return status == 0 && beside.owner == getpid() ? beside.verdict : status;
}

/* Nothing of Python's is left, or exit() of C was called. */
#ifdef __GLIBC__
static void exits(int status, void *unused) {
    (void)unused;
    int end = spp_os_beside_wait(status);
    if (end == status) return;
    fflush(NULL);
    _exit(end);
}
#else
static void exits(void) { spp_os_beside_end(); } /* nobody tells with what */
#endif

bool spp_os_beside_take(int fd) {
    beside.fd = fd;
    beside.owner = getpid();
    if (fd < 0 || fstat(fd, &beside.is) != 0 || !S_ISSOCK(beside.is.st_mode)) {
        beside.fd = -1;
        return false;
    }
    spp_os_beside_keep();
#ifdef __GLIBC__
    (void)on_exit(exits, NULL);
#else
    (void)atexit(exits);
#endif
    return true;
}

int spp_os_beside_hand_on(void) { return is_ours() && fcntl(beside.fd, F_SETFD, 0) == 0 ? beside.fd : -1; }

void spp_os_beside_keep(void) {
    if (is_ours()) fcntl(beside.fd, F_SETFD, FD_CLOEXEC);
}

void spp_os_beside_forget(void) {
    beside.owner = getpid();
    if (is_ours()) close(beside.fd);
    beside.fd = -1;
    beside.verdict = 0;
}

#ifdef __linux__
/* The kernel gives an orphan to its nearest reaper; as one, this process would see its own in wait(). A child without a signal
 * for its end is seen by none that does not ask for such (__WALL). */
bool spp_os_reaps(void) {
    int reaps = 0;
    return getpid() == 1 || (prctl(PR_GET_CHILD_SUBREAPER, &reaps) == 0 && reaps);
}

int spp_os_fork_quietly(void) { return (int)syscall(SYS_clone, 0, 0, 0, 0, 0); }
#else
bool spp_os_reaps(void) { return false; }
int spp_os_fork_quietly(void) { return -1; }
#endif
