/* Guarded reads of Python's objects: words, types and the values of dicts, where they are; nothing of the program's is changed.
 */
#ifndef SPPROF_CORE_CAPTURE_READER_H
#define SPPROF_CORE_CAPTURE_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/peek.h"
#include "os/memory.h"
#include "py/layout.h"

#define SPP_READER_PAGE_SHIFT 12
#define SPP_READER_PAGES 8u
/* How long the head of an object is. */
#define SPP_OBJECT (SPP_L_OB_TYPE + 8u)

/* `own`: the memory belongs to the interrupted thread and is complete, except for stores that a compiler may have delayed. What
 * is another thread's may be freed meanwhile: then what was read makes no sense, and a check of types finds that out. */
typedef struct spp_reader {
    bool own;
    bool shared;                       /* other threads may free it meanwhile: each word is asked for just before it is read */
    uint32_t next;                     /* of these, which is replaced next */
    uintptr_t pages[SPP_READER_PAGES]; /* found readable: to ask costs 0.1 us and more */
} spp_reader;

static inline bool spp_reader_may(spp_reader *r, uintptr_t from) {
    for (uint32_t i = 0; i < SPP_READER_PAGES; i++) {
        if (r->pages[i] == from >> SPP_READER_PAGE_SHIFT) return true;
    }
    if (!spp_os_readable(from)) return false;
    if (r->shared) return true;
    r->pages[r->next++ % SPP_READER_PAGES] = from >> SPP_READER_PAGE_SHIFT;
    return true;
}

/* Handler if `own`, else not. One word. */
static inline bool spp_read_word(spp_reader *r, uint64_t *to, uintptr_t from) {
    if (!r->own) return spp_os_read(to, from, sizeof *to) == 0;
    if ((from & 7) || from >> SPP_READER_PAGE_SHIFT == 0 || !spp_reader_may(r, from)) return false;
    *to = spp_peek64(from);
    return true;
}

/* Likewise, as are those below. Whether an object is of this type. */
static inline bool spp_read_is(spp_reader *r, uintptr_t object, uintptr_t type) {
    uint64_t found;
    return object != 0 && spp_read_word(r, &found, object + SPP_L_OB_TYPE) && found == type;
}

/* The entries of a dict's keys. */
typedef struct {
    uintptr_t first, step, key; /* the first entry, the distance to the next, where in it the key is; the value follows */
    uint64_t n;
} spp_dict_entries;

/* Of a table of keys, also one that instances of a class share. */
bool spp_read_keys(spp_reader *r, uintptr_t keys, spp_dict_entries *e);
/* Of a dict that has a table of its own. */
bool spp_read_entries(spp_reader *r, uintptr_t dict, spp_dict_entries *e);
/* The value of a key, found by identity; 0: none. */
uintptr_t spp_read_value(spp_reader *r, uintptr_t dict, uintptr_t key);
/* Likewise, in a dict that lives and that other threads change. A new table is the dict's before it is filled, and lacks what the
 * dict has until it holds as many entries as that counts. False: so it was all the time, and nobody knows. */
bool spp_read_value_filled(spp_reader *r, uintptr_t dict, uintptr_t key, uintptr_t *value);

#endif
