#include "core/capture/copies.h"

#include "os/memory.h"

const uint8_t *spp_copies_at(spp_copies *c, uintptr_t addr, size_t align) {
    if (addr & (align - 1) || addr < SPP_COPIES_PAGE) {
        c->failed = true;
        return NULL;
    }
    uintptr_t page = addr & ~(uintptr_t)(SPP_COPIES_PAGE - 1);
    for (uint32_t i = 0; i < SPP_COPIES_PAGES; i++) {
        if (c->page[i] == page) return c->bytes[i] + (addr - page);
    }
    uint32_t slot = c->next++ % SPP_COPIES_PAGES;
    c->page[slot] = 0;
    if (spp_os_read(c->bytes[slot], page, SPP_COPIES_PAGE) != 0) {
        c->failed = true;
        return NULL;
    }
    c->page[slot] = page;
    return c->bytes[slot] + (addr - page);
}
