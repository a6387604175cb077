/* Memory of our own. Threads of ours have tables of descriptors of their own (os/linux/apart.c), so they must not call the
 * program's malloc: one that is preloaded may open files in it (tcmalloc walks the stack by libunwind, which makes a pipe), and
 * keep their numbers for all threads. What was a pipe in our table was the program's standard output in its own. Nor do
 * allocators that count or record (memray, heaptrack, tracemalloc's domains) see what is ours.
 *
 * Any thread, not in handlers, nor while a thread is suspended. Like malloc, calloc, realloc and free; blocks are aligned to 16
 * bytes. NULL: no memory. */
#ifndef SPPROF_BASE_HEAP_H
#define SPPROF_BASE_HEAP_H

#include <stddef.h>

void *spp_alloc(size_t bytes);
void *spp_alloc_zeroed(size_t n, size_t size);
void *spp_realloc(void *at, size_t bytes); /* on failure `at` stays */
void spp_free(void *at);
/* In a forked child, before anything else of these: another thread may have been in one of them. */
void spp_heap_child(void);

#endif
