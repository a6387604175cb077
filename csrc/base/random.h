/* Random numbers: xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016). Enough
 * to keep samples from running in step with a program. Handler; each state is used by one thread at a time. */
#ifndef SPPROF_BASE_RANDOM_H
#define SPPROF_BASE_RANDOM_H

#include <stdint.h>

/* A state that may not be 0. */
#define SPP_RANDOM_SEED 0x9E3779B97F4A7C15u

/* A number in [0, 1), as a fraction of 2^32. */
static inline uint64_t spp_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (*state * 0x2545F4914F6CDD1Du) >> 32;
}

/* A number below `below`, which is at most 2^32. */
static inline uint64_t spp_random_below(uint64_t *state, uint64_t below) { return spp_random(state) * below >> 32; }

#endif
