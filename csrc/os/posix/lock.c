#include <pthread.h>
#include <stddef.h>

#include "os/os.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, work = PTHREAD_MUTEX_INITIALIZER;
static void (*in_child)(void);

void spp_os_lock(void) { pthread_mutex_lock(&lock); }
void spp_os_unlock(void) { pthread_mutex_unlock(&lock); }
void spp_os_work_begin(void) { pthread_mutex_lock(&work); }
void spp_os_work_end(void) { pthread_mutex_unlock(&work); }

static void before_fork(void) {
    spp_os_work_begin();
    spp_os_lock();
}

static void after_fork(void) {
    spp_os_unlock();
    spp_os_work_end();
}

static void after_fork_child(void) {
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    lock = work = fresh;
    if (in_child != NULL) in_child();
}

int spp_os_lock_init(void (*child)(void)) {
    in_child = child;
    return pthread_atfork(before_fork, after_fork, after_fork_child) == 0 ? 0 : -1;
}
