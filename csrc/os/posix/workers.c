/* Background threads of our own. */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/heap.h"
#include "os/posix/posix.h"
#include "os/threads.h"
#include "os/worker.h"

struct spp_os_worker {
    pthread_t thread;
    const char *name;
    bool prompt;
    void (*body)(void *);
    void *arg;
    _Atomic int32_t tid;
};

static void *run_worker(void *arg) {
    spp_os_worker *worker = arg;
    int place = spp_posix_worker_enters((uintptr_t)__builtin_frame_address(0));
    spp_posix_worker_begins(worker->name, worker->prompt);
    worker->tid = spp_os_tid();
    worker->body(worker->arg);
    spp_posix_worker_leaves(place);
    return NULL;
}

/* Not 0 on failure. */
static int make_thread(spp_os_worker *worker) {
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0) return -1;
    int failed = pthread_attr_setstacksize(&attr, SPP_POSIX_STACK_BYTES);
    if (!failed) failed = pthread_create(&worker->thread, &attr, run_worker, worker);
    pthread_attr_destroy(&attr);
    /* Thread-local variables of the program's libraries are on the stack too, and may be larger: then the default size. */
    return failed ? pthread_create(&worker->thread, NULL, run_worker, worker) : 0;
}

spp_os_worker *spp_os_worker_start(const char *name, bool prompt, void (*body)(void *), void *arg) {
    spp_os_worker *worker = spp_alloc_zeroed(1, sizeof *worker);
    if (worker == NULL) return NULL;
    worker->name = name;
    worker->prompt = prompt;
    worker->body = body;
    worker->arg = arg;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    int failed = make_thread(worker);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed) {
        spp_free(worker);
        return NULL;
    }
    /* From the C library, before the thread runs, which may take a millisecond. */
    int32_t tid = spp_posix_worker_tid(worker->thread), none = 0;
    if (tid > 0) atomic_compare_exchange_strong(&worker->tid, &none, tid);
    while (worker->tid == 0) sched_yield();
    return worker;
}

int32_t spp_os_worker_tid(const spp_os_worker *worker) { return worker->tid; }
bool spp_os_worker_was_ended(const spp_os_worker *worker) { return (void)worker, false; }

void spp_os_worker_join(spp_os_worker *worker) {
    pthread_join(worker->thread, NULL);
    spp_free(worker);
}

/* Does not free the worker, since the thread may not have read it yet. */
void spp_os_worker_leave(spp_os_worker *worker) { pthread_detach(worker->thread); }
