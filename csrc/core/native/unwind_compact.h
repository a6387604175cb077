/* Unwind tables from Mach-O's compact unwind information (Apple's
 * mach-o/compact_unwind_encoding.h), which describes each function's frame in four bytes; arch.h
 * turns these into rows. The bytes of an object are not trusted. Drain thread. */
#ifndef SPPROF_CORE_NATIVE_UNWIND_COMPACT_H
#define SPPROF_CORE_NATIVE_UNWIND_COMPACT_H

#include "core/native/unwind_table.h"

/* Copies of an object's bytes: __unwind_info; __eh_frame, for functions that it leaves to that; its code, from `low` on, where
 * its header lies; and LC_FUNCTION_STARTS: distances between functions, as ULEB128. The last three may be empty. */
typedef struct {
    spp_unwind_section compact, frames, code, starts;
} spp_unwind_compact;

/* Reads an object's rows; `low` and `high` are given. */
void spp_unwind_read_compact(spp_unwind_object *object, spp_unwind_rules *rules, const spp_unwind_compact *image);

#endif
