/* Reading memory that may not be there: the kernel copies it, or says that it cannot. No lock of ours is taken and nothing
 * is allocated, so all of this may be done while a thread is suspended. */
#include <sys/mman.h>

#include "os/darwin/darwin.h"
#include "os/memory.h"

int spp_os_read(void *to, uintptr_t addr, size_t n) {
    mach_vm_size_t got = 0;
    if (addr + n < addr) return -1;
    kern_return_t failed =
        mach_vm_read_overwrite(mach_task_self(), (mach_vm_address_t)addr, n, (mach_vm_address_t)(uintptr_t)to, &got);
    return failed == KERN_SUCCESS && got == n ? 0 : -1;
}

bool spp_os_readable(uintptr_t addr) {
    uint64_t word;
    return spp_os_read(&word, addr & ~(uintptr_t)7, sizeof word) == 0;
}

int spp_os_memory_init(void) {
    uint64_t word = 0x5bd1e995, copy = 0;
    void *hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANON, -1, 0);
    if (hole == MAP_FAILED) return -1;
    bool reads = spp_os_read(&copy, (uintptr_t)&word, sizeof word) == 0 && copy == word;
    bool refuses = !spp_os_readable((uintptr_t)hole);
    munmap(hole, 4096);
    return reads && refuses ? 0 : -1;
}

void *spp_os_pages(size_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

void *spp_os_pages_grow(void *at, size_t bytes, size_t more) {
    (void)at, (void)bytes, (void)more;
    return NULL;
}

void spp_os_pages_free(void *at, size_t bytes) {
    if (at != NULL) munmap(at, bytes);
}

int spp_os_regions(const uintptr_t *addrs, uintptr_t *lows, uintptr_t *ends, size_t n) {
    for (size_t i = 0; i < n; i++) {
        mach_vm_address_t at = addrs[i];
        mach_vm_size_t size = 0;
        vm_region_basic_info_data_64_t info;
        mach_msg_type_number_t count = VM_REGION_BASIC_INFO_COUNT_64;
        mach_port_t object = MACH_PORT_NULL;
        lows[i] = ends[i] = 0;
        kern_return_t failed =
            mach_vm_region(mach_task_self(), &at, &size, VM_REGION_BASIC_INFO_64, (vm_region_info_t)&info, &count, &object);
        if (failed != KERN_SUCCESS) continue; /* nothing is mapped from there on */
        if (object != MACH_PORT_NULL) (void)mach_port_deallocate(mach_task_self(), object);
        if (at > addrs[i]) continue; /* the next region, above a hole */
        lows[i] = (uintptr_t)at;
        ends[i] = (uintptr_t)(at + size);
    }
    return 0;
}
