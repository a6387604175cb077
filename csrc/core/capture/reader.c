#include "core/capture/reader.h"

/* Keys are compared by identity and entries read in turn, the latest first: the dicts that are read are small, and entries are
 * used up one after the other until a new table is made. */

#define ENTRIES_OWN 64u
#define ENTRIES_OTHER 100000u

bool spp_read_keys(spp_reader *r, uintptr_t keys, spp_dict_entries *e) {
    uint64_t shape;
    if (!spp_read_word(r, &shape, keys + 8u) || !spp_read_word(r, &e->n, keys + SPP_L_KEYS_USED)) return false;
    uint64_t indices;
    if (SPP_L_KEYS_SHAPE) { /* a byte each: log2 of the slots, log2 of the bytes of all indices, the kind of keys */
        uint64_t kind = shape >> 16 & 0xFF;
        if ((shape >> 8 & 0xFF) > 40 || kind > 2) return false;
        indices = (uint64_t)1 << (shape >> 8 & 0xFF);
        e->key = kind == 0 ? 8 : 0; /* behind its hash */
    } else {                        /* how many slots */
        if (shape > UINT32_MAX) return false;
        indices = shape * (shape <= 0xFF ? 1u : shape <= 0xFFFF ? 2u : 4u);
        e->key = 8;
    }
    e->first = keys + SPP_L_KEYS_USED + 8u + indices;
    e->step = e->key + 16;
    return true;
}

bool spp_read_entries(spp_reader *r, uintptr_t dict, spp_dict_entries *e) {
    uint64_t keys, values;
    if (!spp_read_word(r, &keys, dict + SPP_L_DICT_KEYS) || !spp_read_word(r, &values, dict + SPP_L_DICT_KEYS + 8u)) return false;
    return values == 0 && spp_read_keys(r, keys, e);
}

/* *held: how many entries are in use, of a key that is not found. */
static uintptr_t value_among(spp_reader *r, const spp_dict_entries *e, uintptr_t key, uint64_t *held) {
    uint64_t most = r->own ? ENTRIES_OWN : ENTRIES_OTHER;
    *held = 0;
    for (uint64_t i = e->n; i-- > 0 && e->n - i <= most;) {
        uint64_t found, value;
        if (!spp_read_word(r, &found, e->first + i * e->step + e->key)) return 0;
        if (found == key) return spp_read_word(r, &value, e->first + i * e->step + e->key + 8u) ? value : 0;
        *held += found != 0;
    }
    return 0;
}

/* Another thread may replace the table meanwhile: then the old one may lack the key. */
#define TRIES 4

uintptr_t spp_read_value(spp_reader *r, uintptr_t dict, uintptr_t key) {
    spp_dict_entries e, after;
    uint64_t held;
    if (dict == 0 || key == 0 || !spp_read_entries(r, dict, &e)) return 0;
    for (int try = 0; try < TRIES; try++, e = after) {
        uintptr_t value = value_among(r, &e, key, &held);
        if (value != 0) return value;
        if (!spp_read_entries(r, dict, &after) || (e.first == after.first && e.n == after.n)) return 0;
    }
    return 0;
}

/* A table is replaced in less, by a thread that has a processor; and not in vain for long, if it is our own that replaces it. */
#define TRIES_OWN 8
#define TRIES_OTHER 16

bool spp_read_value_filled(spp_reader *r, uintptr_t dict, uintptr_t key, uintptr_t *value) {
    for (int try = r->own ? TRIES_OWN : TRIES_OTHER; try > 0; try--) {
        spp_dict_entries e, after;
        uint64_t used, held;
        if (!spp_read_word(r, &used, dict + SPP_OBJECT) || !spp_read_entries(r, dict, &e)) continue;
        *value = value_among(r, &e, key, &held);
        if (*value != 0) return true;
        bool same = spp_read_entries(r, dict, &after) && e.first == after.first && e.n == after.n;
        if (same && (held == used || (r->own && e.n > ENTRIES_OWN))) return true;
    }
    return false;
}
