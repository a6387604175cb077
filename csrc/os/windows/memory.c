/* Reads memory that may not be mapped, without an exception: each would call the program's vectored
 * handlers (faulthandler has one), and the dispatcher takes locks that a suspended thread may hold.
 * The kernel is asked instead. */
#include "os/windows/windows.h"

#include <string.h>

#include "base/faults.h"
#include "os/clock.h"
#include "os/memory.h"

#define READABLE \
    (PAGE_READONLY | PAGE_READWRITE | PAGE_WRITECOPY | PAGE_EXECUTE_READ | PAGE_EXECUTE_READWRITE | PAGE_EXECUTE_WRITECOPY)

/* The readable region that holds `addr`: until which address. 0: none does. 0.2 us under wine; takes no lock of the process's
 * (under wine: one that its holder cannot be suspended with). */
static uintptr_t readable_until(uintptr_t addr) {
    MEMORY_BASIC_INFORMATION is;
    if (VirtualQuery((const void *)addr, &is, sizeof is) != sizeof is) return 0;
    if (is.State != MEM_COMMIT || !(is.Protect & READABLE) || (is.Protect & PAGE_GUARD)) return 0;
    return (uintptr_t)is.BaseAddress + is.RegionSize;
}

bool spp_os_readable(uintptr_t addr) { return readable_until(addr & ~(uintptr_t)7) != 0 && !spp_at_fault(); }

static bool kernel_copies;
#define QUICK_NS 20000u

/* Where the kernel's copy is slow (wine: 90 us), or copies what is not there: ask, then copy. Another thread may free the memory
 * in between; what is read so is code objects, which cannot die meanwhile, and what they own. */
static int read_by_query(void *to, uintptr_t addr, size_t n) {
    uintptr_t end = addr + n;
    if (end < addr) return -1;
    for (uintptr_t at = addr; at < end;) {
        at = readable_until(at);
        if (at == 0) return -1;
    }
    const volatile uint8_t *from = (const volatile uint8_t *)addr;
    for (size_t i = 0; i < n; i++) ((uint8_t *)to)[i] = from[i];
    return 0;
}

int spp_os_read(void *to, uintptr_t addr, size_t n) {
    SIZE_T done = 0;
    if (spp_at_fault()) return -1;
    if (!kernel_copies) return read_by_query(to, addr, n);
    return ReadProcessMemory(GetCurrentProcess(), (const void *)addr, to, n, &done) && done == n ? 0 : -1;
}

int spp_os_memory_init(void) {
    uint64_t word = 0x5bd1e995, copy = 0, shortest = UINT64_MAX;
    spp_windows_clock_start();
    void *hole = VirtualAlloc(NULL, 4096, MEM_RESERVE, PAGE_NOACCESS);
    if (hole == NULL) return -1;
    bool probes = spp_os_readable((uintptr_t)&word) && !spp_os_readable((uintptr_t)hole);
    for (int i = 0; i < 3; i++) {
        SIZE_T done = 0;
        uint64_t began = spp_os_now_ns();
        bool read = ReadProcessMemory(GetCurrentProcess(), &word, &copy, sizeof copy, &done) && copy == word;
        uint64_t took = spp_os_now_ns() - began;
        if (read && took < shortest) shortest = took;
    }
    /* Seen under wine, when it happened to be quick: pages to which nothing was committed are copied, as zeros. */
    SIZE_T done = 0;
    bool refuses = !ReadProcessMemory(GetCurrentProcess(), hole, &copy, sizeof copy, &done);
    kernel_copies = shortest < QUICK_NS && refuses;
    VirtualFree(hole, 0, MEM_RELEASE);
    return probes ? 0 : -1;
}

int spp_os_reader_open(spp_os_reader *reader) {
    (void)reader;
    return 0;
}

int spp_os_reader_read(const spp_os_reader *reader, void *to, uintptr_t addr, size_t n) {
    SIZE_T done = 0;
    (void)reader;
    return ReadProcessMemory(GetCurrentProcess(), (const void *)addr, to, n, &done) && done == n ? 0 : -1;
}

void spp_os_reader_close(spp_os_reader *reader) { (void)reader; }

void *spp_os_pages(size_t bytes) { return VirtualAlloc(NULL, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE); }

void *spp_os_pages_grow(void *at, size_t bytes, size_t more) {
    (void)at, (void)bytes, (void)more;
    return NULL;
}

void spp_os_pages_free(void *at, size_t bytes) {
    (void)bytes;
    if (at != NULL) VirtualFree(at, 0, MEM_RELEASE);
}

int spp_os_regions(const uintptr_t *addrs, uintptr_t *lows, uintptr_t *ends, size_t n) {
    for (size_t i = 0; i < n; i++) {
        MEMORY_BASIC_INFORMATION is;
        lows[i] = ends[i] = 0;
        if (VirtualQuery((const void *)addrs[i], &is, sizeof is) != sizeof is || is.State != MEM_COMMIT) continue;
        lows[i] = (uintptr_t)is.BaseAddress;
        ends[i] = (uintptr_t)is.BaseAddress + is.RegionSize;
    }
    return 0;
}
