/* From a byte offset in a code object to its place in the source: CPython's three encodings of line tables.
 * Pure functions of bytes that may be anything; any thread, no lock. */
#ifndef SPPROF_CORE_RESOLVE_LINES_H
#define SPPROF_CORE_RESOLVE_LINES_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    int32_t line, end_line; /* 0: none */
    int32_t col, end_col;   /* UTF-8 bytes from the line's start; -1: none */
} spp_place;

/* 3.9: co_lnotab (Objects/lnotab_notes.txt). */
spp_place spp_lines_lnotab(const uint8_t *table, size_t n, int32_t first_line, uint32_t offset);
/* 3.10: co_linetable (PEP 626). */
spp_place spp_lines_pep626(const uint8_t *table, size_t n, int32_t first_line, uint32_t offset);
/* 3.11+: location table (PEP 657; Objects/locations.md, later InternalDocs/code_objects.md). */
spp_place spp_lines_locations(const uint8_t *table, size_t n, int32_t first_line, uint32_t offset);

#endif
