/* Reads a .spprof file from memory; the bytes may be anything. Pure: any thread, no lock. src/spprof/readers/spprof.py is its
 * slow twin. */
#ifndef SPPROF_CORE_FILE_READ_H
#define SPPROF_CORE_FILE_READ_H

#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "core/resolve/columns.h"

typedef struct {
    const uint8_t *at;
    size_t n;
} spp_span;

typedef struct {
    spp_span header, tick_stats, end; /* JSON, into the file's bytes; at NULL: missing */
    spp_span *threads;                /* JSON arrays */
    size_t threads_n;
    /* By number; ids are absolute and signed values are as in int64_t. That of string bytes is empty: see strings. */
    spp_vec64 columns[SPP_COLS];
    spp_bytes strings;   /* all, one after the other; lengths in columns[SPP_COL_STRING_LEN] */
    const char *warning; /* why reading ended before the end, or NULL */
    /* private: times of each thread, frames that followed each frame in new nodes */
    uint64_t budget; /* values that the blocks read so far are allowed to hold */
    uint64_t held;   /* values that they hold */
    uint64_t *clocks;
    size_t clocks_n;
    uint32_t *followers;
} spp_profile;

/* -1: not a .spprof file, or no memory (*why says which). Free it in either case. */
int spp_read(const uint8_t *file, size_t n, spp_profile *profile, const char **why);
void spp_profile_free(spp_profile *profile);

#endif
