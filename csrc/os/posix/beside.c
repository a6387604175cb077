/* The program's end of the socket to its supervisor. */
#include "os/beside.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/process.h"
#ifdef __linux__
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

/* Of the process. Written by the main thread before the program's first line, and by the thread that ends the process. */
static struct {
    int fd; /* -1: none */
    pid_t owner;
    struct stat is; /* to notice that the program closed it and reused the number */
    bool failed;    /* an exception ends the program */
    int verdict;    /* the exit code if the program's own is 0 */
} beside = {.fd = -1};

static bool is_our_socket(void) {
    struct stat now;
    return beside.fd >= 0 && beside.owner == getpid() && fstat(beside.fd, &now) == 0 && now.st_dev == beside.is.st_dev &&
           now.st_ino == beside.is.st_ino;
}

/* Signals by which users end a program; and signals that are not ignored at its end. */
static const int asked[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
static const int kept[] = {SIGINT,  SIGQUIT, SIGTERM, SIGHUP,  SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,
                           SIGABRT, SIGTRAP, SIGSYS,  SIGTSTP, SIGTTIN, SIGTTOU, SIGCHLD, SIGCONT};

/* The program has ended: its timers and other processes must not end the rest by a signal. */
static void ignore_others(void) {
    for (int signum = 1; signum < NSIG; signum++) {
        struct sigaction action;
        bool stays = false;
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) stays = stays || signum == kept[i];
        if (!stays && sigaction(signum, NULL, &action) == 0 && action.sa_handler != SIG_IGN) signal(signum, SIG_IGN);
    }
}

/* While it waits for the supervisor, users can end it. */
static void heed_asked(void) {
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        struct sigaction action;
        if (sigaction(asked[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) signal(asked[i], SIG_DFL);
    }
}

void spp_os_beside_end(void) {
    char said = beside.failed ? 'f' : 'e';
    if (spp_os_barred() || !is_our_socket()) return;
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
    if (n == 1) beside.verdict = (unsigned char)said; /* else the supervisor is gone */
}

void spp_os_beside_failed(void) { beside.failed = true; }

bool spp_os_beside_waits(void) { return beside.fd >= 0 && beside.owner == getpid(); }

int spp_os_beside_wait(int status) {
    spp_os_beside_end();
    return status == 0 && beside.owner == getpid() ? beside.verdict : status;
}

static void (*at_exit)(void);

void spp_os_at_exit(void (*call)(void)) { at_exit = call; }

__attribute__((destructor)) static void call_at_exit(void) {
    void (*call)(void) = at_exit;
    at_exit = NULL;
    if (call != NULL) call();
}

/* At exit(), after Python is finalized. */
#ifdef __GLIBC__
static void finish_at_exit(int status, void *unused) {
    (void)unused;
    call_at_exit();
    int end = spp_os_beside_wait(status);
    if (end == status) return;
    fflush(NULL);
    _exit(end);
}
#else
static void finish_at_exit(void) { /* the exit status is unknown here */
    call_at_exit();
    spp_os_beside_end();
}
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
    (void)on_exit(finish_at_exit, NULL);
#else
    (void)atexit(finish_at_exit);
#endif
    return true;
}

/* The supervisor has sent one byte before the program began (src/spprof/launching/supervisor.py). */
bool spp_os_beside_claim(int fd) {
    char token;
    ssize_t n = recv(fd, &token, 1, MSG_DONTWAIT);
    return n == 1 || (n < 0 && (errno == EBADF || errno == ENOTSOCK));
}

int spp_os_beside_hand_on(void) { return is_our_socket() && fcntl(beside.fd, F_SETFD, 0) == 0 ? beside.fd : -1; }

void spp_os_beside_keep(void) {
    if (is_our_socket()) fcntl(beside.fd, F_SETFD, FD_CLOEXEC);
}

void spp_os_beside_forget(void) {
    beside.owner = getpid();
    if (is_our_socket()) close(beside.fd);
    beside.fd = -1;
    beside.verdict = 0;
}

#ifdef __linux__
/* The kernel gives an orphan to the nearest reaper. If that is this process, the program's wait() would return ours. A child that
 * sends no signal at its end is only returned to callers that ask for such children (__WALL). */
bool spp_os_reaps(void) {
    int reaps = 0;
    return getpid() == 1 || (prctl(PR_GET_CHILD_SUBREAPER, &reaps) == 0 && reaps);
}

int spp_os_fork_quietly(void) { return (int)syscall(SYS_clone, 0, 0, 0, 0, 0); }
#else
bool spp_os_reaps(void) { return false; }
int spp_os_fork_quietly(void) { return -1; }
#endif
