#include "core/native/unwind_compact.h"

#include <string.h>

/* What is used of the numbers of mach-o/compact_unwind_encoding.h. */
enum { VERSION = 1, HEADER_BYTES = 28, INDEX_BYTES = 12, REGULAR = 2, COMPRESSED = 3 };

typedef struct {
    spp_unwind_object *object;
    spp_unwind_rules *rules;
    const spp_unwind_compact *image;
    /* the function starts: where the reading is, and the last two that were read */
    size_t starts_at;
    uint64_t start, next_start;
    uint64_t end_place; /* up to there rows are made */
} reading;

static uint32_t number(const spp_unwind_section *s, uint64_t at, uint32_t bytes) {
    uint32_t value = 0;
    if (at <= s->n && s->n - at >= bytes) memcpy(&value, s->at + at, bytes); /* little-endian, as both architectures are */
    return value;
}

/* Moves on to the function that begins at `place` or is the last before. Without function starts none is known to begin. */
static void seek_start(reading *r, uint64_t place) {
    const spp_unwind_section *s = &r->image->starts;
    while (r->next_start <= place) {
        uint64_t step = 0, byte = 0x80;
        r->start = r->next_start;
        for (uint32_t shift = 0; byte >= 0x80 && r->starts_at < s->n && shift < 64; shift += 7) {
            byte = s->at[r->starts_at++];
            step |= (byte & 0x7f) << shift;
        }
        if (step == 0 || byte >= 0x80) { /* the list has ended */
            r->next_start = UINT64_MAX;
            return;
        }
        r->next_start += step;
    }
}

static void add_rows(reading *r, uint64_t place, uint64_t end, uint32_t encoding) {
    static const spp_unwind_rule none = {0};
    spp_compact_row rows[SPP_COMPACT_ROWS];
    uint32_t entry = 0;
    bool begins = place == r->start;
    bool readable = place < r->image->code.n && end <= r->image->code.n;
    spp_compact_function f = {.encoding = encoding, .begins = begins};
    if (readable) {
        f.code = r->image->code.at + place;
        f.n = (uint32_t)(end - place);
    }
    uint32_t n = spp_arch_compact_rows(&f, rows, &entry);
    if (place > r->end_place) spp_unwind_add(r->object, r->rules, r->end_place, &none);
    r->end_place = end;
    if (n == SPP_COMPACT_DWARF) {
        if (begins && spp_unwind_add_entry(r->object, r->rules, r->image->frames, entry, place, end)) return;
        n = 0;
    }
    if (n == 0) spp_unwind_add(r->object, r->rules, place, &none);
    for (uint32_t i = 0; i < n; i++) {
        spp_unwind_rule rule = {.kind = SPP_CFA_REG, .off = rows[i].off};
        rule.reg = rows[i].by_fp ? SPP_REG_FP : SPP_REG_SP;
        rule.fp = rows[i].fp == SPP_COMPACT_SAME ? SPP_UNWIND_SAME : rows[i].fp;
        rule.ra = rows[i].ra == SPP_COMPACT_SAME ? SPP_UNWIND_SAME : rows[i].ra;
        spp_unwind_add(r->object, r->rules, place + rows[i].at, &rule);
    }
}

/* From `place` to `end` an encoding holds, for as many functions as begin there. */
static void add_range(reading *r, uint64_t place, uint64_t end, uint32_t encoding) {
    if (place < r->end_place || end > r->object->high - r->object->low) {
        r->object->refused++; /* not in order */
        return;
    }
    while (place < end && !r->object->out_of_memory) {
        seek_start(r, place);
        uint64_t until = r->next_start < end ? r->next_start : end;
        if (place == r->start) {
            const uint32_t function[] = {(uint32_t)place, (uint32_t)until};
            if (spp_bytes_append(&r->object->functions, function, sizeof function) != 0) r->object->out_of_memory = true;
        }
        add_rows(r, place, until, encoding);
        place = until;
    }
}

/* A page of the second level; [low, high) is what the index says that it is for. */
static void read_page(reading *r, uint32_t page, uint64_t low, uint64_t high) {
    const spp_unwind_section *s = &r->image->compact;
    uint32_t kind = number(s, page, 4), entries = page + number(s, page + 4u, 2), n = number(s, page + 6u, 2);
    uint32_t own = page + number(s, page + 8u, 2), own_n = number(s, page + 10u, 2);
    uint32_t shared = number(s, 4, 4), shared_n = number(s, 8, 4);
    uint32_t bytes = kind == REGULAR ? 8 : 4;
    if ((kind != REGULAR && kind != COMPRESSED) || entries > s->n || n > (s->n - entries) / bytes) {
        r->object->refused++;
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = entries + (uint64_t)i * bytes;
        uint64_t place = number(s, at, 4), end = i + 1 < n ? number(s, at + bytes, 4) : high;
        uint32_t encoding = number(s, at + 4, 4);
        if (kind == COMPRESSED) {
            uint32_t which = (uint32_t)place >> 24;
            place = low + (place & 0xffffff);
            if (i + 1 < n) end = low + (end & 0xffffff);
            encoding = which < shared_n           ? number(s, shared + 4ull * which, 4)
                       : which - shared_n < own_n ? number(s, own + 4ull * (which - shared_n), 4)
                                                  : 0;
        }
        if (place < end && end <= high) add_range(r, place, end, encoding);
    }
}

void spp_unwind_read_compact(spp_unwind_object *o, spp_unwind_rules *rules, const spp_unwind_compact *image) {
    static const spp_unwind_rule none = {0};
    const spp_unwind_section *s = &image->compact;
    reading r = {.object = o, .rules = rules, .image = image, .start = UINT64_MAX};
    uint32_t index = number(s, 20, 4), n = number(s, 24, 4);
    o->n = 0;
    if (s->n < HEADER_BYTES || number(s, 0, 4) != VERSION || index > s->n || n > (s->n - index) / INDEX_BYTES ||
        o->high - o->low > UINT32_MAX) {
        o->refused++;
        return;
    }
    /* The last entry only says where the one before ends. */
    for (uint32_t i = 0; i + 1 < n; i++) {
        uint64_t at = index + (uint64_t)i * INDEX_BYTES;
        uint32_t page = number(s, at + 4, 4);
        if (page != 0) read_page(&r, page, number(s, at, 4), number(s, at + INDEX_BYTES, 4));
    }
    if (o->n > 0) spp_unwind_add(o, rules, r.end_place, &none);
}
