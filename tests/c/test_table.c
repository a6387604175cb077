/* Long line tables, read in steps: each is bounded, and what they find is what reading from the table's beginning finds. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/resolve/resolve_table.h"
#include "os/memory.h"
#include "py/layout.h"

#define ENTRIES 60000u
#define BYTES (ENTRIES * 4)
#define FIRST 17

static spp_place whole(const uint8_t *table, size_t n, uint32_t offset) {
    return SPP_L_LINES == 1   ? spp_lines_lnotab(table, n, FIRST, offset)
           : SPP_L_LINES == 2 ? spp_lines_pep626(table, n, FIRST, offset)
                              : spp_lines_locations(table, n, FIRST, offset);
}

/* Any bytes are a table of 3.9 and 3.10. Of 3.11 on these are short entries, lines one further, entries without columns, none,
 * and long ones. */
static size_t make(uint8_t *to, unsigned long long *random) {
    size_t n = 0;
    for (unsigned i = 0; i < ENTRIES; i++) {
        static const uint8_t kinds[] = {3, 11, 13, 15, 14, 0, 10};
        uint8_t kind = kinds[check_random(random) % sizeof kinds], units = (uint8_t)(check_random(random) % 8);
        to[n++] = (uint8_t)(0x80 | kind << 3 | units);
        unsigned more = kind == 15 ? 0 : kind == 13 || kind < 10 ? 1 : kind == 14 ? 4 : 2;
        for (unsigned k = 0; k < more && n < BYTES; k++) to[n++] = (uint8_t)(check_random(random) % 64);
        if (n + 8 > BYTES) break;
    }
    return n;
}

static bool same(spp_place a, spp_place b) {
    return a.line == b.line && a.end_line == b.end_line && a.col == b.col && a.end_col == b.end_col;
}

static void steps(const uint8_t *table, size_t n, unsigned long long *random) {
    spp_table t;
    unsigned most = 0;
    CHECK(spp_table_open(&t, (uintptr_t)table, n, FIRST) == 0);
    for (int round = 0; round < 400; round++) {
        uint32_t offset = (uint32_t)(check_random(random) % (SPP_L_LINES == 3 ? ENTRIES * 9 : BYTES * 25));
        size_t at = t.reached.i, copied = t.copied;
        unsigned steps = 1;
        for (; !spp_table_step(&t, offset); steps++) {
            CHECK(t.reached.i > at && t.reached.i - at <= 64 * SPP_TABLE_STEP && t.copied - copied <= 65536);
            at = t.reached.i;
            copied = t.copied;
        }
        if (steps > most) most = steps;
        at = t.reached.i;
        spp_place place = spp_table_place(&t, offset);
        CHECK_EQUAL(t.reached.i, at); /* nothing was left to do */
        CHECK(same(place, whole(table, n, offset)));
    }
    CHECK(most > 3);
    spp_table_close(&t);
}

/* An interpreter's memory that cannot be read ends the table there. */
static void lost(const uint8_t *table) {
    spp_table t;
    CHECK(spp_table_open(&t, 4096, 1 << 20, FIRST) == 0);
    CHECK(same(spp_table_place(&t, 100), whole(table, 0, 100)));
    spp_table_close(&t);
    CHECK(spp_table_open(&t, (uintptr_t)table, 0, FIRST) == 0);
    CHECK(same(spp_table_place(&t, 0), whole(table, 0, 0)));
    spp_table_close(&t);
}

int main(void) {
    unsigned long long random = 11;
    uint8_t *table = malloc(BYTES);
    CHECK(spp_os_memory_init() == 0);
    for (int round = 0; round < 4; round++) {
        size_t n = make(table, &random), odd = round % 2 ? 1 : 0;
        steps(table, n - odd, &random);
    }
    lost(table);
    free(table);
    return check_done();
}
