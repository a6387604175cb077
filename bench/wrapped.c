/* Calls that do not wait, by way of a wrapper and without it: called by ctypes (targets/wrapped.py). Each is timed in short
 * blocks by turns, so that the least and the median do not depend on what else the machine does. A block's first calls train the
 * processor's predictors and are not timed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 100 /* calls */
#define FIRST 20

typedef ssize_t (*reading)(int, void *, size_t);
typedef long (*calling)(long, ...);

/* The loader puts the C library's functions here, and a profile that begins replaces them. */
static volatile reading by_read = read;
static volatile calling by_number = syscall;

/* Before the profile begins: */
static reading real_read;
static calling real_syscall;

void keep(void) {
    real_read = by_read;
    real_syscall = by_number;
}

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double time_read(reading call, int fd) {
    char byte;
    for (int i = 0; i < FIRST; i++) call(fd, &byte, 1);
    double began = now_ns();
    for (int i = 0; i < BLOCK; i++) call(fd, &byte, 1);
    return (now_ns() - began) / BLOCK;
}

static double time_number(calling call, long number, int fd) {
    char byte;
    for (int i = 0; i < FIRST; i++) call(number, fd, &byte, 1);
    double began = now_ns();
    for (int i = 0; i < BLOCK; i++) call(number, fd, &byte, 1);
    return (now_ns() - began) / BLOCK;
}

/* Stores the ns of a call, in each of n blocks: rows are read(), syscall(SYS_read), syscall(SYS_getppid); each without and with
 * the wrapper. Returns whether there are wrappers. */
int measure(int n, double *to) {
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < n; i++) {
        to[0 * n + i] = time_read(real_read, fd);
        to[1 * n + i] = time_read(by_read, fd);
        to[2 * n + i] = time_number(real_syscall, SYS_read, fd);
        to[3 * n + i] = time_number(by_number, SYS_read, fd);
        to[4 * n + i] = time_number(real_syscall, SYS_getppid, fd);
        to[5 * n + i] = time_number(by_number, SYS_getppid, fd);
    }
    close(fd);
    return by_read != real_read && by_number != real_syscall;
}
