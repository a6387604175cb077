/* The line table of one code object, copied and read in pieces as far as needed: a function of
 * 300,000 lines has one of 4 MB, and threads that wait for the drain lock must not wait for all of
 * it. Under the drain lock. */
#ifndef SPPROF_CORE_RESOLVE_RESOLVE_TABLE_H
#define SPPROF_CORE_RESOLVE_RESOLVE_TABLE_H

#include <stdbool.h>

#include "core/resolve/resolve_lines.h"

typedef struct {
    uintptr_t from; /* its address in the interpreter */
    uint8_t *bytes; /* the first `copied` of n */
    size_t n, copied;
    spp_lines_cursor reached; /* entries before it were read */
    spp_lines_cursor *marks;  /* one for each SPP_TABLE_MARK entries */
    uint32_t marks_n, marks_capacity, since_mark;
    int32_t first_line;
} spp_table;

#define SPP_TABLE_MARK 256u  /* entries between two marks */
#define SPP_TABLE_STEP 8192u /* entries of a step: 50 us */

/* -1: no memory; then no offset has a place. */
int spp_table_open(spp_table *table, uintptr_t from, size_t n, int32_t first_line);
void spp_table_close(spp_table *table);
/* Whether the place of this byte offset is known. If not, this call did a part of the work; call
 * again. */
bool spp_table_step(spp_table *table, uint32_t offset);
/* Copies up to 64 KB more. */
void spp_table_copy(spp_table *table);
/* Whether the interpreter's table is no longer needed. */
bool spp_table_is_copied(const spp_table *table);
/* Identifies the copy: a number that is unique while it is open. */
uintptr_t spp_table_address(const spp_table *table);
/* Does all remaining steps. */
spp_place spp_table_place(spp_table *table, uint32_t offset);

#endif
