/* Whether qemu-user runs this program. It answers madvise(MADV_WIPEONFORK) with 0 and wipes nothing (7.2), and in /proc the
 * kernel shows its system calls and addresses, not the program's. */
#ifndef SPPROF_TESTS_EMULATED_H
#define SPPROF_TESTS_EMULATED_H

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* It makes the first link name the program, and leaves the second one as the kernel has it. */
static inline bool is_emulated(void) {
    char program[4096] = {0}, runs[4096] = {0};
    return readlink("/proc/self/exe", program, sizeof program - 1) > 0 &&
           readlink("/proc/thread-self/exe", runs, sizeof runs - 1) > 0 && strcmp(program, runs) != 0;
}

#endif
