#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "os/os.h"
#include "os/posix/posix.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, work = PTHREAD_MUTEX_INITIALIZER, loader = PTHREAD_MUTEX_INITIALIZER;
static bool loader_taken; /* by the fork that goes on */
static void (*in_child)(void);

void spp_os_lock(void) { pthread_mutex_lock(&lock); }
void spp_os_unlock(void) { pthread_mutex_unlock(&lock); }
void spp_os_work_begin(void) { pthread_mutex_lock(&work); }
void spp_os_work_end(void) { pthread_mutex_unlock(&work); }
void spp_os_loader_begin(void) { pthread_mutex_lock(&loader); }
void spp_os_loader_end(void) { pthread_mutex_unlock(&loader); }

static void before_fork(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 100000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    loader_taken = spp_posix_lock_until(&loader, &until);
    spp_os_work_begin();
    spp_os_lock();
}

static void after_fork(void) {
    spp_os_unlock();
    spp_os_work_end();
    if (loader_taken) spp_os_loader_end();
}

static void after_fork_child(void) {
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    lock = work = loader = fresh;
    if (in_child != NULL) in_child();
}

int spp_os_lock_init(void (*child)(void)) {
    in_child = child;
    return pthread_atfork(before_fork, after_fork, after_fork_child) == 0 ? 0 : -1;
}
