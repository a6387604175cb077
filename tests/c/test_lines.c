/* The three line tables of CPython, with values worked out by hand from its own descriptions of them. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/resolve/resolve_lines.h"

typedef spp_place decoder(const uint8_t *, size_t, int32_t, uint32_t);

/* A copy that ends where its memory ends, so that a sanitizer sees every byte read too far. */
static spp_place at(decoder *decode, const uint8_t *table, size_t n, int32_t first, uint32_t offset) {
    uint8_t *copy = malloc(n ? n : 1);
    if (n) memcpy(copy, table, n);
    spp_place place = decode(copy, n, first, offset);
    free(copy);
    return place;
}

#define IS(place, l, e, c, d)        \
    do {                             \
        spp_place p_ = (place);      \
        CHECK_EQUAL(p_.line, l);     \
        CHECK_EQUAL(p_.end_line, e); \
        CHECK_EQUAL(p_.col, c);      \
        CHECK_EQUAL(p_.end_col, d);  \
    } while (0)
#define LINE(place, l) IS(place, l, l, -1, -1)

/* Objects/lnotab_notes.txt of 3.9: offsets 0, 6, 50, 350, 361 are at lines 1, 2, 7, 207, 208. Increments above 255 bytes
 * or 127 lines are split. */
static void lnotab(void) {
    static const uint8_t table[] = {6, 1, 44, 5, 255, 0, 45, 127, 0, 73, 11, 1};
    static const struct {
        uint32_t offset;
        int32_t line;
    } wanted[] = {
        {0, 1}, {5, 1}, {6, 2}, {49, 2}, {50, 7}, {304, 7}, {305, 7}, {349, 7}, {350, 207}, {360, 207}, {361, 208}, {9999, 208},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        LINE(at(spp_lines_lnotab, table, sizeof table, 1, wanted[i].offset), wanted[i].line);
    }
    /* Since 3.6 lines may go back: signed. */
    static const uint8_t back[] = {2, 10, 4, (uint8_t)-7, 2, (uint8_t)-128, 0, (uint8_t)-2};
    LINE(at(spp_lines_lnotab, back, sizeof back, 200, 1), 200);
    LINE(at(spp_lines_lnotab, back, sizeof back, 200, 2), 210);
    LINE(at(spp_lines_lnotab, back, sizeof back, 200, 6), 203);
    LINE(at(spp_lines_lnotab, back, sizeof back, 200, 8), 73);
    LINE(at(spp_lines_lnotab, NULL, 0, 42, 0), 42);
}

/* Objects/lnotab_notes.txt of 3.10: [0, 6) line 1, [6, 50) 2, [50, 350) 7, [350, 360) none, [360, 376) 8, [376, 380) 208. */
static void pep626(void) {
    static const uint8_t table[] = {6, 0, 44, 1, 254, 5, 46, 0, 10, 128, 16, 1, 0, 127, 4, 73};
    static const struct {
        uint32_t offset;
        int32_t line;
    } wanted[] = {
        {0, 1},   {4, 1},   {6, 2},   {48, 2},  {50, 7},    {302, 7},   {304, 7}, {348, 7},
        {350, 0}, {358, 0}, {360, 8}, {374, 8}, {376, 208}, {378, 208}, {380, 0},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        LINE(at(spp_lines_pep626, table, sizeof table, 1, wanted[i].offset), wanted[i].line);
    }
    LINE(at(spp_lines_pep626, NULL, 0, 42, 0), 0);
}

/* Objects/locations.md of 3.11. First byte: 1, four bits of kind, three bits of length - 1 in units of two bytes. */
#define ENTRY(kind, units) (uint8_t)(0x80 | (kind) << 3 | ((units)-1))
static void locations(void) {
    static const uint8_t table[] = {
        ENTRY(14, 1), 2,    2,    5,    3,                /* [0, 2): long: line +1 (svarint 2), end +2, columns 5 - 1, 3 - 1 */
        ENTRY(11, 2), 7,    30,                           /* [2, 6): one line, +1: columns 7 to 30 */
        ENTRY(3, 8),  0x2a,                               /* [6, 22): short: column 3 * 8 + 2, 10 long */
        ENTRY(15, 1),                                     /* [22, 24): none */
        ENTRY(13, 1), 11,                                 /* [24, 26): no columns: line -5 (svarint 5 * 2 + 1) */
        ENTRY(14, 3), 0x50, 0x1f, 0x64, 1, 0x78, 0x2e, 0, /* [26, 32): line +1000, end +100, column 3000 - 1, no end */
        ENTRY(0, 1),  0x7f,                               /* [32, 34): column 7, 15 long */
        ENTRY(10, 1), 255,  254,                          /* [34, 36): same line, columns above 127 */
        ENTRY(12, 1), 0,    1,                            /* [36, 38): two lines on */
    };
    static const struct {
        uint32_t offset;
        int32_t line, end_line, col, end_col;
    } wanted[] = {
        {0, 11, 13, 4, 2},          {2, 12, 12, 7, 30},      {4, 12, 12, 7, 30},         {6, 12, 12, 26, 36},
        {20, 12, 12, 26, 36},       {22, 0, 0, -1, -1},      {24, 7, 7, -1, -1},         {26, 1007, 1107, 2999, -1},
        {30, 1007, 1107, 2999, -1}, {32, 1007, 1007, 7, 22}, {34, 1007, 1007, 255, 254}, {36, 1009, 1009, 0, 1},
        {38, 0, 0, -1, -1},         {4000, 0, 0, -1, -1},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        IS(at(spp_lines_locations, table, sizeof table, 10, wanted[i].offset), wanted[i].line, wanted[i].end_line, wanted[i].col,
           wanted[i].end_col);
    }
}

/* Whatever the bytes are, nothing is read beyond them and what comes out makes sense. */
static void anything(void) {
    static decoder *const all[] = {spp_lines_lnotab, spp_lines_pep626, spp_lines_locations};
    unsigned long long random = 7;
    for (int round = 0; round < 60000; round++) {
        uint8_t table[40];
        size_t n = check_random(&random) % sizeof table;
        for (size_t i = 0; i < n; i++) table[i] = (uint8_t)check_random(&random);
        uint32_t offset = (uint32_t)(round % 7 ? check_random(&random) % 300 : check_random(&random));
        int32_t first = (int32_t)(round % 5 ? check_random(&random) % 1000 : check_random(&random));
        for (size_t k = 0; k < 3; k++) {
            spp_place p = at(all[k], table, n, first, offset);
            CHECK(p.line >= 0 && p.end_line >= 0 && p.col >= -1 && p.end_col >= -1);
            CHECK(p.line != 0 || (p.end_line == 0 && p.col == -1 && p.end_col == -1));
        }
    }
}

int main(void) {
    lnotab();
    pep626();
    locations();
    anything();
    return check_done();
}
