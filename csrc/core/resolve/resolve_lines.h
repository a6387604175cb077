/* From a byte offset in a code object to its place in the source: CPython's three encodings of line tables.
 * Pure functions of bytes that may be anything; any thread, no lock. */
#ifndef SPPROF_CORE_RESOLVE_RESOLVE_LINES_H
#define SPPROF_CORE_RESOLVE_RESOLVE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int32_t line, end_line; /* 0: none */
    int32_t col, end_col;   /* UTF-8 bytes from the line's start; -1: none */
} spp_place;

/* The position of a reader in a table: byte, offset in the code, line. Initially {.line = first
 * line}. */
typedef struct {
    size_t i;
    uint64_t at;
    int64_t line;
} spp_lines_cursor;

/* One encoding. `next` reads an entry: the cursor moves on to the first offset that it does not hold for. False: there is none.
 */
typedef struct {
    bool (*next)(const uint8_t *table, size_t n, spp_lines_cursor *cursor, spp_place *place);
    bool goes_on; /* what follows the last entry has a line too */
} spp_lines_rules;
extern const spp_lines_rules spp_lines_of_lnotab, spp_lines_of_pep626, spp_lines_of_locations;

/* The place of an offset that is not before the cursor. */
spp_place spp_lines_find(const spp_lines_rules *rules, const uint8_t *table, size_t n, spp_lines_cursor from, uint32_t offset);

/* 3.9: co_lnotab (Objects/lnotab_notes.txt). */
spp_place spp_lines_lnotab(const uint8_t *table, size_t n, int32_t first_line, uint32_t offset);
/* 3.10: co_linetable (PEP 626). */
spp_place spp_lines_pep626(const uint8_t *table, size_t n, int32_t first_line, uint32_t offset);
/* 3.11+: location table (PEP 657; Objects/locations.md, later InternalDocs/code_objects.md). */
spp_place spp_lines_locations(const uint8_t *table, size_t n, int32_t first_line, uint32_t offset);

#endif
