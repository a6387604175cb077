/* Reads a .spprof file from memory; the bytes may be anything. Pure: any thread, no lock. src/spprof/_reader.py is its slow
 * twin. */
#ifndef SPPROF_CORE_READ_H
#define SPPROF_CORE_READ_H

#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

typedef struct {
    const uint8_t *at;
    size_t n;
} spp_span;

/* Column numbers as in docs/file-format.md; in `columns` ids are absolute and signed values are as in int64_t. */
enum {
    SPP_COL_STRING_LEN,
    SPP_COL_STRING_BYTES, /* not in `columns`: see strings */
    SPP_COL_CODE_NAME,
    SPP_COL_CODE_QUALNAME,
    SPP_COL_CODE_FILE,
    SPP_COL_CODE_LINE,
    SPP_COL_FRAME_CODE,
    SPP_COL_FRAME_LINE,
    SPP_COL_FRAME_END_LINE,
    SPP_COL_FRAME_COL,
    SPP_COL_FRAME_END_COL,
    SPP_COL_NODE_PARENT,
    SPP_COL_NODE_FRAME,
    SPP_COL_THREAD,
    SPP_COL_TIME,   /* ns since the start of the run, of which the header tells */
    SPP_COL_WEIGHT, /* ns */
    SPP_COL_STACK,
    SPP_COL_COUNT, /* ticks, at least 1 */
    SPP_COL_FLAGS,
    SPP_COL_CODE_KIND, /* both missing where all would be 0 */
    SPP_COL_LABEL,
    SPP_COLS
};

typedef struct {
    spp_span header, account, end; /* JSON, into the file's bytes; at NULL: missing */
    spp_span *threads;             /* JSON arrays */
    size_t threads_n;
    spp_vec64 columns[SPP_COLS];
    spp_bytes strings;   /* all, one after the other; lengths in columns[SPP_COL_STRING_LEN] */
    const char *warning; /* why reading ended before the end, or NULL */
    /* private: time of each thread, frames that followed each frame in new nodes */
    uint64_t *clocks;
    size_t clocks_n;
    uint32_t *followers;
} spp_profile;

/* -1: not a .spprof file, or no memory (*why tells). Free it in either case. */
int spp_read(const uint8_t *file, size_t n, spp_profile *profile, const char **why);
void spp_profile_free(spp_profile *profile);

#endif
