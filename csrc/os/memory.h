/* Memory: guarded reads of addresses that may not be mapped, pages of our own, and the process's map. Returns 0 for success and
 * -1 for failure unless said otherwise. "Handler" marks what may be called in a signal handler: no lock, no allocation, bounded.
 */
#ifndef SPPROF_OS_MEMORY_H
#define SPPROF_OS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Finds a way to probe memory that works here; returns -1 if there is none. Call once before the next two. */
int spp_os_memory_init(void);
/* Handler. Whether the 8 bytes at addr (rounded down to a multiple of 8) can be read. About 0.1 us. */
bool spp_os_readable(uintptr_t addr);
/* Copies n bytes from addr, or fails without a fault. Rarely in a handler: it calls the kernel, and may change errno. About
 * 0.25 us. */
int spp_os_read(void *to, uintptr_t addr, size_t n);

/* A second way to read, independent of the first: it needs no spp_os_memory_init, and a build with faults (base/faults.h) does
 * not spoil it. For reading a few words of Python's; not in a handler. One thread uses a reader. */
typedef struct {
    int from, to; /* POSIX: both ends of a pipe, which children do not inherit */
} spp_os_reader;
int spp_os_reader_open(spp_os_reader *reader);
/* Copies n bytes (at most 4096) from addr, or fails without a fault. */
int spp_os_reader_read(const spp_os_reader *reader, void *to, uintptr_t addr, size_t n);
void spp_os_reader_close(spp_os_reader *reader);

/* Maps anonymous zeroed pages; NULL on failure. Any thread, not in a handler. */
void *spp_os_pages(size_t bytes);
void spp_os_pages_free(void *at, size_t bytes);
/* Enlarges such a mapping by `more` zeroed bytes, and may move it. Returns NULL, with nothing changed, if the system cannot do
 * that without copying. */
void *spp_os_pages_grow(void *at, size_t bytes, size_t more);

/* Finds the bounds of the mapped region that holds each of n addresses; 0 where there is none. One pass over the process's map.
 * Not in a handler. */
int spp_os_regions(const uintptr_t *addrs, uintptr_t *lows, uintptr_t *ends, size_t n);

#endif
