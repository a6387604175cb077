/* Samples and definitions from the queues, until they are stored. */
#ifndef SPPROF_CORE_RESOLVE_RESOLVED_H
#define SPPROF_CORE_RESOLVE_RESOLVED_H

#include <stdint.h>

#include "base/vec.h"
#include "core/resolve/columns.h"

/* Definitions and samples in the order in which they arose; ids count over the whole run. */
typedef struct {
    spp_columns columns; /* of strings, codes and frames, as in the file */
    spp_bytes string_bytes;
    spp_vec64 samples; /* each a spp_resolved_sample */
    uint64_t sample_count;
    spp_vec64 collections; /* of garbage, SPP_COLLECTION_WORDS each */
    spp_vec64 requests;    /* SPP_REQUEST_WORDS each */
} spp_resolved;

/* thread id + 1 (0: unknown), beginning ns, duration ns, generation, objects collected and uncollectable */
#define SPP_COLLECTION_WORDS 6u
/* beginning ns, duration ns, the string id of its labels + 1 */
#define SPP_REQUEST_WORDS 3u

/* A sample, which is as long as its stack is deep. */
typedef struct {
    uint16_t slot;  /* of its thread, in spp_threads */
    uint16_t flags; /* base/sample.h, and its source */
    uint32_t count; /* how many ticks it stands for */
    uint64_t time_ns, weight;
    uint32_t depth;
    uint32_t label;      /* the string id of a set of labels, + 1; 0: none */
    uint32_t reason;     /* base/reasons.h */
    uint32_t waits_on;   /* the string id of what it waits for, + 1; 0: none */
    uint32_t task;       /* the string id of its task's name, + 1; 0: none */
    uint32_t held_by;    /* the id of the thread that held what it waits for, + 1; 0: nobody knows */
    uint32_t span;       /* the string id of the ids of its span, + 1; 0: none */
    uint32_t awaited_by; /* the string id of the names of the tasks that await its task, + 1; 0: none */
    uint64_t frames[];   /* ids, root first */
} spp_resolved_sample;

/* Space for a sample of a stack that is so deep at the most; NULL: no memory. It is one of the samples once it is filled in and
 * kept. */
spp_resolved_sample *spp_resolved_reserve(spp_resolved *resolved, uint32_t depth);
void spp_resolved_keep(spp_resolved *resolved, const spp_resolved_sample *sample);

/* The samples in turn: from the one at a word of `samples` (0: the first) to the end, which is none. */
static inline spp_resolved_sample *spp_resolved_at(const spp_resolved *resolved, uint64_t word) {
    return (spp_resolved_sample *)(void *)(resolved->samples.at + word);
}
static inline spp_resolved_sample *spp_resolved_end(const spp_resolved *resolved) {
    return spp_resolved_at(resolved, resolved->samples.n);
}
static inline spp_resolved_sample *spp_resolved_next(const spp_resolved_sample *sample) {
    return (spp_resolved_sample *)(uintptr_t)(sample->frames + sample->depth);
}

/* What is being collected, under the drain lock. */
extern spp_resolved spp_resolved_now;

void spp_resolved_clear(spp_resolved *resolved);
void spp_resolved_free(spp_resolved *resolved);

#endif
