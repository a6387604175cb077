#include "core/capture/contexts.h"

spp_context_rules spp_contexts;

/* The head of an object with a number of items. */
#define COUNTED (SPP_L_OB_SIZE + 8u)

#define BITS 5u
#define LEVELS 8u /* seven of five bits each, then keys of equal hashes */
#define ALIKE_MAX 64u

static uintptr_t root(uintptr_t tstate, spp_reader *r) {
    uint64_t context, variables, node;
    if (tstate == 0 || !spp_read_word(r, &context, tstate + spp_contexts.state) || context == 0) return 0;
    if (!spp_read_word(r, &variables, context + SPP_OBJECT + 8u) || variables == 0)
        return 0; /* after the context entered before it */
    return spp_read_word(r, &node, variables + SPP_OBJECT) ? node : 0;
}

/* The value of a variable in the trie below `node`; 0: it has none. */
static uintptr_t value_in(uintptr_t node, uintptr_t variable, uint32_t hash, spp_reader *r) {
    for (unsigned level = 0; node != 0 && level < LEVELS; level++, hash >>= BITS) {
        uint64_t type, word;
        if (!spp_read_word(r, &type, node + SPP_L_OB_TYPE)) return 0;
        if (type == spp_contexts.array_type) {
            if (!spp_read_word(r, &word, node + SPP_OBJECT + 8u * (hash & 31u))) return 0;
            node = word;
        } else if (type == spp_contexts.bitmap_type) {
            if (!spp_read_word(r, &word, node + COUNTED)) return 0;
            uint32_t map = (uint32_t)word, bit = 1u << (hash & 31u);
            if ((map & bit) == 0) return 0;
            uintptr_t pair = node + COUNTED + 8u + 16u * (unsigned)__builtin_popcount(map & (bit - 1u));
            uint64_t key, value;
            if (!spp_read_word(r, &key, pair) || !spp_read_word(r, &value, pair + 8u)) return 0;
            if (key != 0) return key == variable ? value : 0;
            node = value; /* another node */
        } else {
            if (!spp_read_word(r, &word, node + SPP_L_OB_SIZE)) return 0;
            for (uint64_t i = 0; i < word && i < ALIKE_MAX; i += 2) {
                uint64_t key, value;
                uintptr_t pair = node + COUNTED + 8u + 8u * i;
                if (!spp_read_word(r, &key, pair) || !spp_read_word(r, &value, pair + 8u)) return 0;
                if (key == variable) return value;
            }
            return 0;
        }
    }
    return 0;
}

uintptr_t spp_context_value(spp_reader *r, uintptr_t tstate, uintptr_t variable, uint32_t hash) {
    return value_in(root(tstate, r), variable, hash, r);
}

bool spp_context_has(uintptr_t tstate, uintptr_t variable, uint32_t hash, uintptr_t value) {
    spp_reader own = {.own = true}, other = {.own = false};
    return spp_context_value(&own, tstate, variable, hash) == value && spp_context_value(&other, tstate, variable, hash) == value;
}

uintptr_t spp_context_root(uintptr_t tstate) {
    spp_reader r = {.own = false};
    return root(tstate, &r);
}
