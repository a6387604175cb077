/* Forks and locks of ours: the time of day is set while a fork waits for one; a child has one of another thread's. */
#include "check.h"

#if defined(__linux__)
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "emulated.h"
#include "os/clock.h"
#include "os/lock.h"

/* The C library's, for this whole program: gettimeofday returns a time that is an hour ahead of what the kernel
 * has, as before it was set back. A deadline made of that is an hour away. */
#define HOUR 3600
static _Atomic bool ahead;
static _Atomic int asked;

int clock_gettime(clockid_t clock, struct timespec *at) {
    int failed = (int)syscall(SYS_clock_gettime, clock, at);
    if (clock == CLOCK_REALTIME && ahead) {
        asked++;
        at->tv_sec += HOUR;
    }
    return failed;
}

static _Atomic bool taken, over;

static void *keeps(void *unused) {
    spp_os_loader_begin();
    taken = true;
    while (!over) usleep(1000);
    spp_os_loader_end();
    return unused;
}

static uint64_t fork_ns(void) {
    uint64_t began = spp_os_now_ns();
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    uint64_t took = spp_os_now_ns() - began;
    CHECK_EQUAL(waitpid(pid, NULL, 0), pid);
    return took;
}

/* It waits 0.1 s for a thread that looks at the loaded objects, and goes on then. */
static void test_a_fork_waits_no_longer_where_the_time_of_day_is_set(void) {
    struct timespec now;
    pthread_t thread;
    alarm(60);
    taken = over = false;
    CHECK(pthread_create(&thread, NULL, keeps, NULL) == 0);
    while (!taken) usleep(1000);
    ahead = true;
    clock_gettime(CLOCK_REALTIME, &now);
    CHECK_EQUAL(asked, 1);
    uint64_t took = fork_ns();
    CHECK(took >= 100000000u && took < 30000000000u);
    CHECK_EQUAL(asked, 1); /* nobody else did */
    ahead = false;
    over = true;
    pthread_join(thread, NULL);
    CHECK(fork_ns() < 30000000000u);
}

/* The C library calls no handler for a fork by a system call. */
static int child_takes(void (*take)(void)) {
    int status = -1;
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        alarm(30); /* else it waits for ever */
        take();
        _exit(spp_os_forked_unseen());
    }
    CHECK_EQUAL(waitpid(pid, &status, 0), pid);
    return status;
}

static void *keeps_all(void *unused) {
    spp_os_loader_begin();
    spp_os_work_begin();
    spp_os_lock();
    taken = true;
    while (!over) usleep(1000);
    spp_os_unlock();
    spp_os_work_end();
    spp_os_loader_end();
    return unused;
}

static void test_a_child_of_a_system_call_takes_a_lock_that_its_parent_has(void) {
#if !defined(__SANITIZE_THREAD__) /* which knows a mutex by where it is, so a new one in its place is still locked */
    pthread_t thread;
    taken = over = false;
    CHECK(pthread_create(&thread, NULL, keeps_all, NULL) == 0);
    while (!taken) usleep(1000);
    CHECK_EQUAL(child_takes(spp_os_lock), 0);
    CHECK_EQUAL(child_takes(spp_os_work_begin), 0);
    CHECK_EQUAL(child_takes(spp_os_loader_begin), 0);
    over = true;
    pthread_join(thread, NULL);
#else
    (void)child_takes, (void)keeps_all;
#endif
}

int main(void) {
    CHECK_EQUAL(spp_os_lock_init(NULL), 0);
    if (is_emulated())
        printf("emulated: a child's memory is not wiped\n");
    else
        test_a_child_of_a_system_call_takes_a_lock_that_its_parent_has();
    test_a_fork_waits_no_longer_where_the_time_of_day_is_set();
    return check_done();
}
#else
int main(void) { return check_done(); }
#endif
