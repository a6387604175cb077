/* Checks for the C tests: each failing one is printed and counted; check_done() is main's result. */
#ifndef SPPROF_TESTS_CHECK_H
#define SPPROF_TESTS_CHECK_H

#include <stdio.h>

static unsigned long checks_passed, checks_failed;

#define CHECK(condition)                                                     \
    do {                                                                     \
        if (condition) {                                                     \
            checks_passed++;                                                 \
        } else if (checks_failed++ < 20) {                                   \
            printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
        }                                                                    \
    } while (0)

#define CHECK_EQUAL(got, wanted)                                                              \
    do {                                                                                      \
        long long got_ = (long long)(got), wanted_ = (long long)(wanted);                     \
        if (got_ == wanted_) {                                                                \
            checks_passed++;                                                                  \
        } else if (checks_failed++ < 20) {                                                    \
            printf("%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #got, got_, wanted_); \
        }                                                                                     \
    } while (0)

static inline int check_done(void) {
    printf("%lu passed, %lu failed\n", checks_passed, checks_failed);
    return checks_failed != 0;
}

/* SplitMix64 (Steele, Lea, Flood 2014): the same numbers in every run. */
static inline unsigned long long check_random(unsigned long long *state) {
    unsigned long long z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

#endif
