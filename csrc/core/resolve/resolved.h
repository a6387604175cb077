/* What comes out of the queues, until it is stored. */
#ifndef SPPROF_CORE_RESOLVE_RESOLVED_H
#define SPPROF_CORE_RESOLVE_RESOLVED_H

#include "base/vec.h"
#include "core/resolve/columns.h"

/* Definitions and samples in the order in which they arose; ids count over the whole run. */
typedef struct {
    spp_columns columns; /* of strings, codes and frames, as in the file */
    spp_bytes string_bytes;
    /* samples: slot | flags << 16 | count << 32 (one word); time ns; weight; depth | label << 32; then frame ids, root first.
     * A label is the string id of a set of labels, + 1; 0: none */
    spp_vec64 samples;
    uint64_t sample_count;
    spp_vec64 collections; /* of garbage, SPP_COLLECTION_WORDS each */
} spp_resolved;

/* thread id + 1 (0: unknown), beginning ns, duration ns, generation, objects collected and uncollectable */
#define SPP_COLLECTION_WORDS 6u

/* What is being collected, under the drain lock. */
extern spp_resolved spp_resolved_now;

void spp_resolved_clear(spp_resolved *resolved);
void spp_resolved_free(spp_resolved *resolved);

#endif
