/* An allocator in the place of the C library's, which notes callers that do not have the program's descriptors. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *at, size_t bytes);

#define NAMES 16
static char names[NAMES][16];
static _Atomic unsigned counts[NAMES], used;

/* By the names that they gave themselves. */
static void count(void) {
    char name[16] = "";
    int saved = errno;
    if (fcntl(1, F_GETFD) >= 0) return;
    errno = saved;
    prctl(PR_GET_NAME, name);
    unsigned i = 0;
    while (i < used && strcmp(names[i], name) != 0) i++;
    if (i == used && i < NAMES) strcpy(names[used++], name); /* two at once: listed twice */
    if (i < NAMES) counts[i]++;
}

void *malloc(size_t bytes) {
    count();
    return __libc_malloc(bytes);
}

void *calloc(size_t n, size_t bytes) {
    count();
    return __libc_calloc(n, bytes);
}

void *realloc(void *at, size_t bytes) {
    count();
    return __libc_realloc(at, bytes);
}

const char *caller(unsigned i) { return i < used ? names[i] : NULL; }
unsigned calls(unsigned i) { return counts[i]; }
