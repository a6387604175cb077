/* A histogram of times whose buckets are narrower than 1/64 of what they hold, so that any quantile is known within 0.8 %. The
 * layout is that of HdrHistogram (Gil Tene): a row of 64 buckets for each power of two, here only where something was counted.
 * Zeroed: empty. One thread at a time. */
#ifndef SPPROF_BASE_HISTOGRAM_H
#define SPPROF_BASE_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#define SPP_HISTOGRAM_ROW 64u
#define SPP_HISTOGRAM_ROWS 59u

typedef struct {
    uint64_t *rows[SPP_HISTOGRAM_ROWS];
    uint64_t sum, most;
} spp_histogram;

/* Values below 64 have a bucket each. Bucket i from there on begins at (64 + i % 64) << (i / 64 - 1). */
static inline uint32_t spp_histogram_bucket(uint64_t value) {
    if (value < SPP_HISTOGRAM_ROW) return (uint32_t)value;
    uint32_t shift = 57u - (uint32_t)__builtin_clzll(value); /* the value's seven upper bits are left */
    return (shift + 1) * SPP_HISTOGRAM_ROW + (uint32_t)(value >> shift) - SPP_HISTOGRAM_ROW;
}

/* Counts a value. -1: no memory; then it is not counted. */
int spp_histogram_add(spp_histogram *histogram, uint64_t value);
/* Calls see(arg, bucket, count) for each bucket that has any, the lowest first. */
void spp_histogram_each(const spp_histogram *histogram, void (*see)(void *arg, uint32_t bucket, uint64_t count), void *arg);
void spp_histogram_free(spp_histogram *histogram);

#endif
