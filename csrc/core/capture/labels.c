#include "core/capture/labels.h"

#include <string.h>

#include "base/heap.h"
#include "base/peek.h"
#include "os/clock.h"
#include "os/memory.h"
#include "py/layout.h"

spp_label_rules spp_labels;

/* Headers of an object, and of an object with a number of items. */
#define OBJECT (SPP_L_OB_TYPE + 8u)
#define COUNTED (SPP_L_OB_SIZE + 8u)

/* ---- finding the current set */

#define BITS 5u
#define LEVELS 8u /* seven of five bits each, then keys of equal hashes */
#define ALIKE_MAX 64u

typedef bool reader(uint64_t *to, uintptr_t from);

/* Handler. The memory belongs to the interrupted thread and is complete, except for stores that a
 * compiler may have delayed. */
static bool read_own(uint64_t *to, uintptr_t from) {
    if ((from & 7) || !spp_os_readable(from)) return false;
    *to = spp_peek64(from);
    return true;
}

static bool read_other(uint64_t *to, uintptr_t from) { return spp_os_read(to, from, sizeof *to) == 0; }

static uintptr_t root(uintptr_t tstate, reader *get) {
    uint64_t context, variables, node;
    if (tstate == 0 || !get(&context, tstate + spp_labels.context) || context == 0) return 0;
    if (!get(&variables, context + OBJECT + 8u) || variables == 0) return 0; /* after the context entered before it */
    return get(&node, variables + OBJECT) ? node : 0;
}

/* The value of our variable in the trie below `node`; 0: it has none. */
static uintptr_t value_in(uintptr_t node, reader *get) {
    uint32_t hash = spp_labels.hash;
    for (unsigned level = 0; node != 0 && level < LEVELS; level++, hash >>= BITS) {
        uint64_t type, word;
        if (!get(&type, node + SPP_L_OB_TYPE)) return 0;
        if (type == spp_labels.array_type) {
            if (!get(&word, node + OBJECT + 8u * (hash & 31u))) return 0;
            node = word;
        } else if (type == spp_labels.bitmap_type) {
            if (!get(&word, node + COUNTED)) return 0;
            uint32_t map = (uint32_t)word, bit = 1u << (hash & 31u);
            if ((map & bit) == 0) return 0;
            uintptr_t pair = node + COUNTED + 8u + 16u * (unsigned)__builtin_popcount(map & (bit - 1u));
            uint64_t key, value;
            if (!get(&key, pair) || !get(&value, pair + 8u)) return 0;
            if (key != 0) return key == spp_labels.variable ? value : 0;
            node = value; /* another node */
        } else {
            if (!get(&word, node + SPP_L_OB_SIZE)) return 0;
            for (uint64_t i = 0; i < word && i < ALIKE_MAX; i += 2) {
                uint64_t key, value;
                uintptr_t pair = node + COUNTED + 8u + 8u * i;
                if (!get(&key, pair) || !get(&value, pair + 8u)) return 0;
                if (key == spp_labels.variable) return value;
            }
            return 0;
        }
    }
    return 0;
}

static uint64_t number_of(uintptr_t tstate, reader *get) {
    uintptr_t set = value_in(root(tstate, get), get);
    uint64_t type, number;
    if (set == 0 || !get(&type, set + SPP_L_OB_TYPE) || type != spp_labels.set_type) return 0;
    return get(&number, set + spp_labels.number) ? number : 0;
}

uint64_t spp_label_own(uintptr_t tstate) { return number_of(tstate, read_own); }
uint64_t spp_label_other(uintptr_t tstate) { return number_of(tstate, read_other); }
uintptr_t spp_label_root(uintptr_t tstate) { return root(tstate, read_other); }

/* ---- the texts of sets. A number is an index into the table and how often that entry was used
 * before. */

typedef struct {
    char *text; /* NULL: free */
    uint32_t n;
    uint32_t uses;
    uint64_t died_ns; /* 0: the program still has it */
    uint32_t next;    /* free or dead place after this one, + 1 */
} place;

static place *places;
static uint32_t places_n, places_capacity, first_free, first_dead;

static place *place_of(uint64_t number) {
    uint32_t at = (uint32_t)number - 1u;
    return number != 0 && at < places_n && places[at].text != NULL && places[at].uses == number >> 32 ? &places[at] : NULL;
}

uint64_t spp_label_add(const char *text, size_t n) {
    if (n > UINT32_MAX) return 0;
    if (first_free == 0 && places_n == places_capacity) {
        uint32_t capacity = places_capacity ? places_capacity * 2 : 64;
        place *more = spp_realloc(places, capacity * sizeof *more);
        if (more == NULL) return 0;
        places = more;
        places_capacity = capacity;
    }
    char *copy = spp_alloc(n ? n : 1);
    if (copy == NULL) return 0;
    memcpy(copy, text, n);
    uint32_t at = first_free ? first_free - 1 : places_n++;
    uint32_t uses = 0;
    if (first_free) {
        uses = places[at].uses + 1;
        first_free = places[at].next;
    }
    places[at] = (place){.text = copy, .n = (uint32_t)n, .uses = uses};
    return (uint64_t)uses << 32 | (at + 1u);
}

static void release(uint32_t at) {
    spp_free(places[at].text);
    places[at].text = NULL;
    places[at].next = first_free;
    first_free = at + 1;
}

void spp_label_drop(uint64_t number, bool sampling) {
    place *p = place_of(number);
    if (p == NULL) return;
    if (!sampling) {
        release((uint32_t)(p - places));
        return;
    }
    p->died_ns = spp_os_now_ns();
    p->next = first_dead;
    first_dead = (uint32_t)(p - places) + 1;
}

const char *spp_label_text(uint64_t number, size_t *n) {
    const place *p = place_of(number);
    if (p == NULL) return NULL;
    *n = p->n;
    return p->text;
}

/* Dead sets are listed latest first: if one may be freed, so may all that follow. */
void spp_label_forget(uint64_t before_ns) {
    uint32_t *link = &first_dead;
    while (*link != 0 && places[*link - 1].died_ns >= before_ns) link = &places[*link - 1].next;
    uint32_t at = *link;
    *link = 0;
    while (at != 0) {
        uint32_t next = places[at - 1].next;
        release(at - 1);
        at = next;
    }
}
