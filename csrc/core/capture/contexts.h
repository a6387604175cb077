/* Values of context variables (contextvars), where CPython keeps them: thread state > context > its variables, a hash array
 * mapped trie that never changes once made (Python/hamt.c, the same from 3.9 to 3.15). */
#ifndef SPPROF_CORE_CAPTURE_CONTEXTS_H
#define SPPROF_CORE_CAPTURE_CONTEXTS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/capture/reader.h"

/* What the module knows of CPython. */
typedef struct {
    uintptr_t state;                   /* offset of a thread state's context */
    uintptr_t bitmap_type, array_type; /* of the trie's nodes; a third holds keys of equal hashes */
} spp_context_rules;
extern spp_context_rules spp_contexts;

/* A hash as hamt.c folds it. */
static inline uint32_t spp_context_fold(uint64_t hash) {
    uint32_t folded = (uint32_t)hash ^ (uint32_t)(hash >> 32);
    return folded == UINT32_MAX ? UINT32_MAX - 1 : folded;
}

/* What a thread's context has as a variable's value, 0: nothing. As the reader: a handler for its own thread, or any thread for
 * one that does not run. `hash`: folded. */
uintptr_t spp_context_value(spp_reader *r, uintptr_t tstate, uintptr_t variable, uint32_t hash);
/* Whether both ways of reading find this value. Not a handler. */
bool spp_context_has(uintptr_t tstate, uintptr_t variable, uint32_t hash, uintptr_t value);
/* The node at the top of the thread's context, 0: none. Not a handler. */
uintptr_t spp_context_root(uintptr_t tstate);

#endif
