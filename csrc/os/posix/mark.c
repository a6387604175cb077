/* A word that the kernel zeroes in each child with a copy of the memory, however it was forked. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/lock.h"
#include "os/memory.h"
#include "os/posix/posix.h"

static uint32_t *mark; /* 1; NULL: not supported */

void spp_posix_mark(void) {
#ifdef MADV_WIPEONFORK
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint32_t *made = mark == NULL ? spp_os_pages(page) : NULL;
    if (made == NULL) return;
    *made = 1;
    if (madvise(made, page, MADV_WIPEONFORK) == 0)
        mark = made;
    else
        spp_os_pages_free(made, page);
#endif
}

void spp_posix_mark_child(void) {
    if (mark != NULL) *mark = 1;
}

bool spp_os_forked_unseen(void) { return mark != NULL && *mark == 0; }
