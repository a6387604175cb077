#ifdef _WIN32
#include <malloc.h>
#else
#include <alloca.h>
#endif
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "frames.h"

#define KIND __attribute__((noinline, visibility("default")))

static volatile uint64_t sink;

/* So that samples find these frames at the leaf, too. */
static inline void spin(int n) {
    for (int i = 0; i < n; i++) sink += (uint64_t)i * sink;
}

KIND int apply_plain(callback f, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        spin(300);
        sum += f(i);
    }
    return sum;
}

KIND int apply_alloca(callback f, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        volatile char *space = alloca((size_t)(i % 5 + 1) * 100);
        space[0] = (char)i;
        spin(300);
        sum += f(i) + space[0];
    }
    return sum;
}

/* A realigned stack. */
KIND int apply_wide(callback f, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        _Alignas(64) volatile uint64_t wide[8];
        volatile char *space = alloca((size_t)(i % 3 + 1) * 64);
        wide[i % 8] = (uint64_t)i;
        space[0] = 1;
        spin(300);
        sum += f(i) + (int)wide[i % 8] + space[0];
    }
    return sum;
}

/* Deep, and without frame pointers. */
KIND __attribute__((optimize("omit-frame-pointer"))) int apply_deep(callback f, int n) {
    if (n > 20) return apply_deep(f, 20);
    spin(100);
    return n > 0 ? apply_deep(f, n - 1) + n : f(n) + f(n);
}

/* The last call of a function that never comes back. */
static __attribute__((noinline)) void leave(callback f, int n, int *sum) {
    spin(200);
    *sum += f(n);
    pthread_exit(NULL);
}

typedef struct {
    callback f;
    int n, sum;
} job;

KIND void *apply_thread_body(void *arg) {
    job *j = arg;
    struct timespec now, began;
    clock_gettime(CLOCK_MONOTONIC, &began);
    now = began;
    for (int i = 1; (now.tv_sec - began.tv_sec) * 1000 + (now.tv_nsec - began.tv_nsec) / 1000000 < j->n; i++) {
        spin(300);
        j->sum += j->f(i);
        clock_gettime(CLOCK_MONOTONIC, &now);
    }
    leave(j->f, 0, &j->sum);
    return NULL;
}

/* For n milliseconds, on a thread that Python knows nothing of. */
KIND int apply_thread(callback f, int n) {
    job j = {f, n, 0};
    pthread_t thread;
    if (pthread_create(&thread, NULL, apply_thread_body, &j) != 0) return -1;
    pthread_join(thread, NULL);
    return j.sum;
}

/* The callback waits. */
KIND int apply_wait(callback f, int n) { return f(n) + 1; }

static callback compare_with;
static int compare(const void *a, const void *b) { return compare_with(*(const int *)a) - compare_with(*(const int *)b); }

/* Through frames of the C library. */
KIND int apply_qsort(callback f, int n) {
    int numbers[64], outer = n < 64 ? n : 64;
    callback before = compare_with;
    for (int i = 0; i < outer; i++) numbers[i] = i * 7919 % 101;
    compare_with = f;
    qsort(numbers, (size_t)outer, sizeof *numbers, compare);
    compare_with = before;
    return numbers[0];
}
