#include "core/resolve/resolve_table.h"

#include <string.h>

#include "base/heap.h"
#include "os/memory.h"
#include "py/layout.h"

#define COPY_STEP 65536u
#define ENTRY_MOST 64u /* bytes of an entry, and more: no varint of CPython's has more than six */

static const spp_lines_rules *const rules = SPP_L_LINES == 1   ? &spp_lines_of_lnotab
                                            : SPP_L_LINES == 2 ? &spp_lines_of_pep626
                                                               : &spp_lines_of_locations;

int spp_table_open(spp_table *t, uintptr_t from, size_t n, int32_t first_line) {
    memset(t, 0, sizeof *t);
    t->bytes = spp_alloc(n + 1); /* touched as it is copied */
    if (t->bytes == NULL) return -1;
    t->from = from;
    t->n = n;
    t->reached.line = t->first_line = first_line;
    return 0;
}

void spp_table_close(spp_table *t) {
    spp_free(t->bytes);
    spp_free(t->marks);
    memset(t, 0, sizeof *t);
}

static void copy(spp_table *t) {
    size_t n = t->n - t->copied < COPY_STEP ? t->n - t->copied : COPY_STEP;
    if (spp_os_read(t->bytes + t->copied, t->from + t->copied, n) == 0)
        t->copied += n;
    else
        t->n = t->copied; /* it ends here */
}

void spp_table_copy(spp_table *t) {
    if (t->copied < t->n) copy(t);
}

bool spp_table_is_copied(const spp_table *t) { return t->copied >= t->n; }

uintptr_t spp_table_address(const spp_table *t) { return (uintptr_t)t->bytes; }

static void mark(spp_table *t) {
    t->since_mark = 0;
    if (t->marks_n == t->marks_capacity) {
        uint32_t capacity = t->marks_capacity ? t->marks_capacity * 2 : 64;
        spp_lines_cursor *more = spp_realloc(t->marks, capacity * sizeof *more);
        if (more == NULL) return; /* found by more reading */
        t->marks = more;
        t->marks_capacity = capacity;
    }
    t->marks[t->marks_n++] = t->reached;
}

bool spp_table_step(spp_table *t, uint32_t offset) {
    if (offset < t->reached.at || t->reached.i >= t->n) return true;
    if (t->copied < t->n && t->reached.i + ENTRY_MOST >= t->copied) copy(t);
    size_t last = t->copied < t->n ? t->copied - ENTRY_MOST : t->n; /* an entry that begins before it is whole */
    for (uint32_t i = 0; i < SPP_TABLE_STEP && t->reached.i < last && offset >= t->reached.at; i++) {
        spp_place place;
        if (!rules->next(t->bytes, t->copied, &t->reached, &place)) t->reached.i = t->n;
        if (++t->since_mark == SPP_TABLE_MARK) mark(t);
    }
    return offset < t->reached.at || t->reached.i >= t->n;
}

spp_place spp_table_place(spp_table *t, uint32_t offset) {
    while (!spp_table_step(t, offset)) {}
    uint32_t low = 0, high = t->marks_n; /* the last mark that is not beyond the offset is before `high` */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (t->marks[middle].at <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    spp_lines_cursor begin = {.line = t->first_line};
    return spp_lines_find(rules, t->bytes, t->copied, low > 0 ? t->marks[low - 1] : begin, offset);
}
