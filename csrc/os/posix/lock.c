#include <pthread.h>
#include <stddef.h>

#include "os/os.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*in_child)(void);

void spp_os_lock(void) { pthread_mutex_lock(&lock); }
void spp_os_unlock(void) { pthread_mutex_unlock(&lock); }

static void after_fork_child(void) {
    pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    lock = fresh;
    if (in_child != NULL) in_child();
}

int spp_os_lock_init(void (*child)(void)) {
    in_child = child;
    return pthread_atfork(spp_os_lock, spp_os_unlock, after_fork_child) == 0 ? 0 : -1;
}
