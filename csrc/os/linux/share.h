/* Shares of events, such as the share of looks that came late: moving averages in 65536ths, of which the newest event counts
 * 1/256. Handler. */
#ifndef SPPROF_OS_LINUX_SHARE_H
#define SPPROF_OS_LINUX_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#define SPP_SHARE_ONE 65536u
#define SPP_SHARE_MEMORY 8

/* The share after one more event, which is one of them (`up`) or not. */
static inline uint32_t spp_share_shift(uint32_t share, bool up) {
    return up ? share + ((SPP_SHARE_ONE - share) >> SPP_SHARE_MEMORY) : share - (share >> SPP_SHARE_MEMORY);
}

#endif
