/* Unwind tables from those of Windows' objects, whose bytes are not trusted. Drain thread. */
#ifndef SPPROF_CORE_NATIVE_UNWIND_SEH_H
#define SPPROF_CORE_NATIVE_UNWIND_SEH_H

#include "core/native/unwind_table.h"

/* A Windows object as it lies in memory, or a copy of it. */
typedef struct {
    const uint8_t *at;
    size_t n;
    uintptr_t base;                    /* its address in the program */
    uint64_t functions, functions_end; /* its table of functions, from the base */
    uint32_t words;                    /* of the table's entries: 3 on x86_64, 2 on arm64 (SPP_SEH_WORDS) */
} spp_unwind_image;
/* Reads an object's rows; `low` and `high` are given. */
void spp_unwind_read_seh(spp_unwind_object *object, spp_unwind_rules *rules, const spp_unwind_image *image);

#endif
