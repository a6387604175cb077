/* Strings and functions of a block of exact numbers: the columns with which blocks B, C, K and M begin (docs/file-format.md). One
 * thread; no lock: the code objects live as long as the tables that refer to them. No memory: something is missing. */
#ifndef SPPROF_CORE_RUN_NAMED_H
#define SPPROF_CORE_RUN_NAMED_H

#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "base/vec.h"
#include "core/resolve/resolve_code.h"

enum {
    SPP_NAMED_STRING_LEN, /* the text comes behind it */
    SPP_NAMED_FUNCTION,   /* string of the name, of the qualified name, of the file, first line, kind (1: in C) */
    SPP_NAMED_FUNCTION_WORDS = 5,
    SPP_NAMED_COLUMNS = SPP_NAMED_FUNCTION + SPP_NAMED_FUNCTION_WORDS
};

typedef struct {
    spp_bytes text;
    spp_vec64 *of; /* the block's columns, of which these are the first */
    spp_map strings, codes, functions, lines;
    spp_code code; /* scratch space */
} spp_named;

uint64_t spp_named_string(spp_named *named, const void *at, size_t n);
uint32_t spp_named_function(spp_named *named, const uint64_t row[SPP_NAMED_FUNCTION_WORDS]);
/* The function of a code object. */
uint32_t spp_named_code(spp_named *named, uintptr_t code);
/* The line of an instruction; or, if it has none, of the next one within `look_on` bytes. 0: none is known. */
uint32_t spp_named_line(spp_named *named, uintptr_t code, uint32_t offset, uint32_t look_on);
/* All but the columns. */
void spp_named_free(spp_named *named);

#endif
