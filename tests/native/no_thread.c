/* To be preloaded: the system refuses a thread, after so many that it grants. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

typedef int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static int granted = -1; /* -1: all are */

void grant(int n) { granted = n; }

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *), void *arg) {
    create real = (create)dlsym(RTLD_NEXT, "pthread_create");
    if (granted == 0) return EAGAIN;
    if (granted > 0) granted--;
    return real(thread, attr, body, arg);
}
