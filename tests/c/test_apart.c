/* The thread with a table of descriptors of its own: others ask it for files while it is started and stopped. */
#include "check.h"

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/linux/linux.h"

#define ROUNDS 2000
#define MEANWHILE_NS 200000000u

typedef struct {
    _Atomic int begun, may_end, done;
} job;

/* Runs until another thread stops ours: until the stop has made the thread none, or waits for the
 * job's end. */
static void lasts(void *arg) {
    job *j = arg;
    j->begun = 1;
    while (!j->may_end) sched_yield();
    uint64_t until = spp_os_now_ns() + MEANWHILE_NS;
    while (spp_linux_apart_tid() != 0 && spp_os_now_ns() < until) sched_yield();
    until = spp_os_now_ns() + MEANWHILE_NS / 10; /* the caller would come back too early, and withdraw the stop */
    while (spp_os_now_ns() < until) sched_yield();
    j->done = 1;
}

static void *asks(void *arg) {
    job *j = arg;
    spp_linux_apart(lasts, j);
    return j->done ? j : NULL;
}

static void a_stop_within_a_job_waits_for_it(void) {
    job j = {0};
    pthread_t thread;
    void *whole;
    spp_linux_apart_start();
    if (spp_linux_apart_tid() == 0) return; /* no such tables here */
    pthread_create(&thread, NULL, asks, &j);
    while (!j.begun) sched_yield();
    j.may_end = 1;
    spp_linux_apart_stop();
    CHECK_EQUAL(spp_linux_apart_tid(), 0);
    pthread_join(thread, &whole);
    CHECK(whole != NULL);
}

static _Atomic int over;

static void adds(void *arg) { ++*(long *)arg; }

static void *asks_again(void *arg) {
    long done = 0;
    for (long asked = 1; !over; asked++) {
        spp_linux_apart(adds, &done);
        if (done != asked) return arg;
        sched_yield();
    }
    return NULL;
}

static void each_job_is_done_once_with_any_starts_and_stops(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, asks_again, &over);
    for (int i = 0; i < ROUNDS; i++) {
        spp_linux_apart_start();
        spp_linux_apart_stop();
    }
    over = 1;
    for (int i = 0; i < 2; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        CHECK(wrong == NULL);
    }
}

/* By a direct system call, so no fork handler runs: the owner of the thread in the parent does not exist here. */
static void a_child_that_was_forked_within_a_job_has_its_own(void) {
    job j = {0};
    pthread_t thread;
    int status = -1;
    spp_linux_apart_start();
    if (spp_linux_apart_tid() == 0) return;
    pthread_create(&thread, NULL, asks, &j);
    while (!j.begun) sched_yield();
#if defined(SYS_fork)
    pid_t pid = (pid_t)syscall(SYS_fork);
#else
    pid_t pid = (pid_t)syscall(SYS_clone, 17 /* SIGCHLD */, 0, 0, 0, 0);
#endif
    if (pid == 0) {
        long done = 0;
        alarm(60);
        spp_linux_apart(adds, &done);
        _exit(spp_linux_apart_tid() == 0 && done == 1 ? 0 : 1);
    }
    CHECK_EQUAL(waitpid(pid, &status, 0), pid);
    CHECK_EQUAL(status, 0);
    j.may_end = 1;
    pthread_join(thread, NULL);
    spp_linux_apart_stop();
}

int main(void) {
    alarm(60); /* a stop that waits for ever */
    a_stop_within_a_job_waits_for_it();
    a_child_that_was_forked_within_a_job_has_its_own();
    each_job_is_done_once_with_any_starts_and_stops();
    return check_done();
}
#else
int main(void) { return check_done(); }
#endif
