/* Background threads of our own. */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "os/os.h"
#include "os/posix/posix.h"

struct spp_os_worker {
    pthread_t thread;
    const char *name;
    bool prompt;
    void (*body)(void *);
    void *arg;
    _Atomic int32_t tid;
};

static void *worker_main(void *arg) {
    spp_os_worker *worker = arg;
    spp_posix_worker_begins(worker->name, worker->prompt);
    worker->tid = spp_os_tid();
    worker->body(worker->arg);
    return NULL;
}

spp_os_worker *spp_os_worker_start(const char *name, bool prompt, void (*body)(void *), void *arg) {
    spp_os_worker *worker = calloc(1, sizeof *worker);
    if (worker == NULL) return NULL;
    worker->name = name;
    worker->prompt = prompt;
    worker->body = body;
    worker->arg = arg;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int failed = pthread_create(&worker->thread, NULL, worker_main, worker);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed) {
        free(worker);
        return NULL;
    }
    while (worker->tid == 0) sched_yield();
    return worker;
}

int32_t spp_os_worker_tid(const spp_os_worker *worker) { return worker->tid; }

void spp_os_worker_join(spp_os_worker *worker) {
    pthread_join(worker->thread, NULL);
    free(worker);
}
