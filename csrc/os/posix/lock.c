#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/hints.h"
#include "os/clock.h"
#include "os/lock.h"
#include "os/posix/posix.h"

#define LOADER_MOST_NS 100000000u
#define LOADER_STEP_NS 200000u

/* A mutex usually goes to the thread that has just released it. A thread of ours that works in small pieces would keep it from a
 * thread of the program's that waits with the GIL. So the thread that held it last lets waiting threads go first. */
typedef struct {
    pthread_mutex_t mutex;
    _Atomic uint32_t waiting;
    _Atomic uintptr_t last; /* the thread that held it last */
} fair;
#define FAIR \
    { .mutex = PTHREAD_MUTEX_INITIALIZER }
static fair lock = FAIR, work = FAIR;
static pthread_mutex_t loader = PTHREAD_MUTEX_INITIALIZER;
static bool loader_taken; /* by the fork under way */
static void (*in_child)(void);

static void after_fork_child(void) {
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    spp_posix_mark_child();
    memset(&lock, 0, sizeof lock);
    memset(&work, 0, sizeof work);
    lock.mutex = work.mutex = loader = fresh;
    spp_posix_files_child();
    spp_posix_workers_child();
    if (in_child != NULL) in_child();
}

void spp_os_fork_seen(void) { after_fork_child(); }

/* In a child of a fork that we did not notice, a lock may be held by a thread that does not exist. */
static void notice_fork(void) {
    if (spp_rare(spp_os_forked_unseen())) spp_os_fork_seen();
}

static void lock_fair(fair *f) {
    notice_fork();
    uintptr_t me = (uintptr_t)pthread_self();
    while (atomic_load(&f->last) == me && atomic_load(&f->waiting) != 0) spp_os_sleep_until(spp_os_now_ns() + 20000);
    atomic_fetch_add(&f->waiting, 1);
    pthread_mutex_lock(&f->mutex);
    atomic_fetch_sub(&f->waiting, 1);
    atomic_store(&f->last, me);
}

void spp_os_lock(void) { lock_fair(&lock); }
void spp_os_unlock(void) { pthread_mutex_unlock(&lock.mutex); }
void spp_os_work_begin(void) { lock_fair(&work); }
void spp_os_work_end(void) { pthread_mutex_unlock(&work.mutex); }
void spp_os_loader_begin(void) {
    notice_fork();
    pthread_mutex_lock(&loader);
}

void spp_os_loader_end(void) { pthread_mutex_unlock(&loader); }

/* In small steps: not every system has pthread_mutex_clocklock. */
bool spp_posix_lock_until(pthread_mutex_t *mutex, uint64_t until_ns) {
    while (pthread_mutex_trylock(mutex) != 0) {
        uint64_t now = spp_os_now_ns();
        if (now >= until_ns) return false;
        spp_os_sleep_until(now + LOADER_STEP_NS);
    }
    return true;
}

bool spp_os_lock_until(uint64_t until_ns) { return spp_posix_lock_until(&lock.mutex, until_ns); }

static void before_fork(void) {
    loader_taken = spp_posix_lock_until(&loader, spp_os_now_ns() + LOADER_MOST_NS);
    spp_os_work_begin();
    spp_os_lock();
}

static void after_fork(void) {
    spp_os_unlock();
    spp_os_work_end();
    if (loader_taken) spp_os_loader_end();
}

int spp_os_lock_init(void (*child)(void)) {
    in_child = child;
    spp_posix_mark();
    return pthread_atfork(before_fork, after_fork, after_fork_child) == 0 ? 0 : -1;
}
