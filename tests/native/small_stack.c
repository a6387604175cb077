/* Code that computes with next to nothing left of its C stack: a thread's of 16 KB, a coroutine's of 8. */
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define LEFT 1024 /* for the functions below */
#define OF_THREAD 16384
#define OF_COROUTINE 8192
#define GUARD 4096

static volatile int done;
static uintptr_t low;

void stop(void) { done = 1; }

static void compute(void) {
    volatile unsigned long n = 0;
    while (!done) n++;
}

static void use_all(void) {
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    volatile char *most = alloca(here - low - LEFT);
    most[0] = 1;
    compute();
}

static void *body(void *unused) {
    pthread_attr_t attributes;
    void *at;
    size_t size;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return NULL;
    pthread_attr_getstack(&attributes, &at, &size);
    pthread_attr_destroy(&attributes);
    low = (uintptr_t)at;
    use_all();
    return unused;
}

int thread(void) {
    pthread_attr_t attributes;
    pthread_t made;
    done = 0;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, OF_THREAD);
    if (pthread_create(&made, &attributes, body, NULL) != 0) return -1;
    return pthread_join(made, NULL);
}

static ucontext_t outside, inside;

int coroutine(void) {
    uint8_t *at = mmap(NULL, GUARD + OF_COROUTINE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || mprotect(at, GUARD, PROT_NONE) != 0) return -1;
    done = 0;
    low = (uintptr_t)at + GUARD;
    getcontext(&inside);
    inside.uc_stack.ss_sp = at + GUARD;
    inside.uc_stack.ss_size = OF_COROUTINE;
    inside.uc_link = &outside;
    makecontext(&inside, use_all, 0);
    swapcontext(&outside, &inside);
    return munmap(at, GUARD + OF_COROUTINE);
}

/* ---- what a thread sees of its stack for signals: as if there were none but its own. 0: all is so */

static char own[65536];

static void *look(void *wrong) {
    stack_t mine = {.ss_sp = own, .ss_size = sizeof own}, none = {.ss_flags = SS_DISABLE}, old;
    int *n = wrong;
    *n += sigaltstack(NULL, &old) != 0 || old.ss_flags != SS_DISABLE;
    *n += sigaltstack(&none, &old) != 0 || old.ss_flags != SS_DISABLE;
    *n += sigaltstack(&mine, &old) != 0 || old.ss_flags != SS_DISABLE;
    *n += sigaltstack(NULL, &old) != 0 || old.ss_flags != 0 || old.ss_sp != own;
    *n += sigaltstack(&none, &old) != 0 || old.ss_sp != own;
    *n += sigaltstack(NULL, &old) != 0 || old.ss_flags != SS_DISABLE;
    return NULL;
}

int sees(void) {
    pthread_t made;
    int wrong = 0;
    look(&wrong);
    if (pthread_create(&made, NULL, look, &wrong) != 0 || pthread_join(made, NULL) != 0) return -1;
    return wrong;
}
