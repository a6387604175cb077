/* Memory that is made up for the frame walker: what tests/c/test_frames.c and fuzz/fuzz_frames.c share. */
#ifndef SPPROF_TEST_INVENTED_H
#define SPPROF_TEST_INVENTED_H

#include <stdint.h>
#include <string.h>

#include "core/capture/frames.h"

static inline void set(uintptr_t at, uint64_t value) { memcpy((void *)at, &value, sizeof value); }

/* The interpreter's own objects; nothing may ever be read at them, so they lie where nothing is mapped. */
static inline void invent_types(uintptr_t unmapped) {
    spp_py.code_type = unmapped + 8;
    spp_py.gen_type = unmapped + 16;
    spp_py.coro_type = unmapped + 24;
    spp_py.async_gen_type = unmapped + 32;
    spp_py.none = unmapped + 40;
    spp_py.frame_type = unmapped + 48;
}

#endif
