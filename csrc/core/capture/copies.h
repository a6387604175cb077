/* A few pages of another thread's memory, copied whole: a walk reads its frames' pages many times. One thread, not in a handler.
 */
#ifndef SPPROF_CORE_CAPTURE_COPIES_H
#define SPPROF_CORE_CAPTURE_COPIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPP_COPIES_PAGE 4096u
#define SPP_COPIES_PAGES 16u

typedef struct {
    uintptr_t page[SPP_COPIES_PAGES];
    uint32_t next;
    bool failed; /* something could not be read */
    uint8_t bytes[SPP_COPIES_PAGES][SPP_COPIES_PAGE];
} spp_copies;

/* The copy of what is at `addr`, up to the end of its page, until as many other pages were asked for. `align`: the address must
 * be a multiple of it. NULL: it has failed. */
const uint8_t *spp_copies_at(spp_copies *c, uintptr_t addr, size_t align);

#endif
