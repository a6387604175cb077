/* A library with a function of its own that has the name of one of the C library's, and one whose loading takes long. */
#define _GNU_SOURCE
#include <time.h>

int siginterrupt(int signum, int interrupts);

int siginterrupt(int signum, int interrupts) { return signum + interrupts; }

int calls_its_own(void) { return siginterrupt(4000, 2); }

__attribute__((constructor)) static void take_long(void) {
    struct timespec now = {0, 0};
    while (now.tv_sec < 2) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
}
