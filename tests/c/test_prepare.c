/* Threads that begin the first run at once: what is made for all runs is made once. */
#include "check.h"

#if !defined(_WIN32)
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/run/run.h"
#include "processes.h"

#define THREADS 2
static atomic_int there;

static void *prepares(void *unused) {
    const char *why = NULL;
    there++;
    while (there < THREADS) {}
    return spp_run_prepare(&why) == 0 ? unused : &there;
}

/* In a child, in which nothing is prepared yet. A fork that waits for itself is ended by the alarm. */
static int child(void) {
    pthread_t threads[THREADS];
    (void)setpgid(0, 0);
    alarm(10);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, prepares, NULL);
    for (int i = 0; i < THREADS; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        CHECK(failed == NULL);
    }
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    waitpid(pid, NULL, 0);
    return check_done();
}

int main(void) {
    int failed = 0;
    for (int i = 0; i < 300 && failed == 0; i++) {
        pid_t pid = check_fork();
        int status = 0;
        if (pid == 0) {
            int result = child();
            (void)fflush(stdout);
            _exit(result);
        }
        CHECK_EQUAL(waitpid(pid, &status, 0), pid);
        failed += status != 0;
        if (status != 0) (void)kill(-pid, SIGKILL); /* what it forked may wait for ever, with our output open */
    }
    CHECK_EQUAL(failed, 0);
    return check_done();
}
#else
int main(void) { return check_done(); }
#endif
