/* The process in which a test runs, and children of it; for systems that fork. */
#ifndef SPPROF_TESTS_PROCESSES_H
#define SPPROF_TESTS_PROCESSES_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

/* As fork(). The child has checks of its own: it counts none of its parent's, and ends by exit(check_done()) or flushes stdout,
 * so that what it printed is seen, once. */
static inline pid_t check_fork(void) {
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) checks_passed = checks_failed = 0;
    return pid;
}

/* Whether valgrind runs us. It takes no single steps, lets no signal interrupt another's handler, passes one on only when it
 * looks for some, and ends with status 1 if a trap that it did not cause comes while its own code runs. */
static inline bool check_valgrind(void) {
    const char *preloaded = getenv("LD_PRELOAD");
    return preloaded != NULL && strstr(preloaded, "vgpreload") != NULL;
}

#endif
