/* Blocks by size classes, four to each doubling (Berger et al., Reconsidering Custom Memory Allocation, 2002, call it segregated
 * free lists); large ones are mappings. One lock: most callers have the drain lock. */
#include "base/heap.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/spinlock.h"
#include "os/memory.h"

/* Sanitizers and valgrind know malloc's blocks and not ours. */
#if defined(SPP_HEAP_IS_MALLOC)
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SPP_HEAP_IS_MALLOC
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SPP_HEAP_IS_MALLOC
#endif
#endif

#if defined(SPP_HEAP_IS_MALLOC) && !defined(SPP_HEAP_TESTED)

void *spp_alloc(size_t bytes) { return malloc(bytes); }
void *spp_alloc_zeroed(size_t n, size_t size) { return calloc(n, size); }
void *spp_realloc(void *at, size_t bytes) { return realloc(at, bytes); }
void spp_free(void *at) { free(at); }
void spp_heap_child(void) {}

#else

#define SMALL_MOST 32768u /* with its head; larger blocks are mappings */
#define CHUNK 262144u
#define PAGE 4096u
#define CLASSES 40u

/* Before each block. */
typedef union block {
    struct {
        size_t bytes;   /* with this head */
        uint32_t class; /* CLASSES: a mapping */
    } is;
    union block *next; /* a free one */
    long double aligned;
} block;
_Static_assert(sizeof(block) == 16, "blocks are aligned to 16 bytes");

typedef struct chunk {
    struct chunk *next;
    uint64_t pad;
} chunk;

static struct {
    block *free[CLASSES];
    chunk *chunks;
    uint8_t *fresh, *end; /* of the newest chunk, not used yet */
    size_t used;          /* small blocks that are not free */
} heap;
static spp_spinlock lock;

/* 16, 32, 48, 64; then 80, 96, 112, 128; 160, 192, ... up to SMALL_MOST. */
static uint32_t class_of(size_t bytes) {
    if (bytes <= 64) return (uint32_t)((bytes + 15) / 16) - 1;
    uint32_t doubling = 63u - (uint32_t)__builtin_clzll((unsigned long long)(bytes - 1)); /* 6: 65 to 128 */
    return 4 * (doubling - 5) + (uint32_t)((bytes - 1) >> (doubling - 2) & 3);
}

static size_t bytes_of(uint32_t class) {
    if (class < 4) return 16 * (class + 1);
    uint32_t doubling = class / 4 + 5;
    return ((size_t)1 << doubling) + ((size_t)(class % 4 + 1) << (doubling - 2));
}

/* Lock held. */
static block *carve(uint32_t class) {
    size_t bytes = bytes_of(class);
    block *found = heap.free[class];
    if (found != NULL) {
        heap.free[class] = found->next;
    } else {
        if ((size_t)(heap.end - heap.fresh) < bytes) {
            chunk *more = spp_os_pages(CHUNK);
            if (more == NULL) return NULL;
            more->next = heap.chunks;
            heap.chunks = more;
            heap.fresh = (uint8_t *)(more + 1);
            heap.end = (uint8_t *)more + CHUNK;
        }
        found = (block *)(void *)heap.fresh;
        heap.fresh += bytes;
    }
    heap.used++;
    return found;
}

/* *fresh: it is zero already. */
static void *make(size_t bytes, bool *fresh) {
    block *made;
    *fresh = false;
    if (bytes > SIZE_MAX - sizeof *made - PAGE) return NULL;
    bytes += sizeof *made;
    if (bytes > SMALL_MOST) {
        bytes = (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
        made = spp_os_pages(bytes);
        if (made == NULL) return NULL;
        made->is.bytes = bytes;
        made->is.class = CLASSES;
        *fresh = true;
        return made + 1;
    }
    uint32_t class = class_of(bytes);
    spp_spin_lock(&lock);
    made = carve(class);
    spp_spin_unlock(&lock);
    if (made == NULL) return NULL;
    made->is.bytes = bytes_of(class);
    made->is.class = class;
    return made + 1;
}

void *spp_alloc(size_t bytes) {
    bool fresh;
    return make(bytes, &fresh);
}

void *spp_alloc_zeroed(size_t n, size_t size) {
    bool fresh;
    if (size != 0 && n > SIZE_MAX / size) return NULL;
    void *made = make(n * size, &fresh);
    if (made != NULL && !fresh) memset(made, 0, n * size);
    return made;
}

void *spp_realloc(void *at, size_t bytes) {
    if (at == NULL) return spp_alloc(bytes);
    size_t payload = ((block *)at - 1)->is.bytes - sizeof(block);
    if (bytes <= payload && bytes >= payload / 2) return at;
    if (((block *)at - 1)->is.class == CLASSES && bytes > payload &&
        bytes < SIZE_MAX / 2) { /* not copied: a table may be large */
        size_t more = (bytes - payload + PAGE - 1) & ~(size_t)(PAGE - 1);
        block *grown = spp_os_pages_grow((block *)at - 1, payload + sizeof(block), more);
        if (grown != NULL) {
            grown->is.bytes += more;
            return grown + 1;
        }
    }
    void *made = spp_alloc(bytes);
    if (made == NULL) return NULL;
    memcpy(made, at, bytes < payload ? bytes : payload);
    spp_free(at);
    return made;
}

/* Lock held. Nothing is used: all goes back to the system but one chunk, for the next run. */
static void trim(void) {
    memset(heap.free, 0, sizeof heap.free);
    while (heap.chunks->next != NULL) {
        chunk *gone = heap.chunks;
        heap.chunks = gone->next;
        spp_os_pages_free(gone, CHUNK);
    }
    heap.fresh = (uint8_t *)(heap.chunks + 1);
    heap.end = (uint8_t *)heap.chunks + CHUNK;
}

void spp_free(void *at) {
    if (at == NULL) return;
    block *gone = (block *)at - 1;
    uint32_t class = gone->is.class;
    if (class == CLASSES) {
        spp_os_pages_free(gone, gone->is.bytes);
        return;
    }
    spp_spin_lock(&lock);
    gone->next = heap.free[class];
    heap.free[class] = gone;
    if (--heap.used == 0 && heap.chunks->next != NULL) trim();
    spp_spin_unlock(&lock);
}

/* A thread may have been inside: its lists are in an unknown state and are left, with their memory. Allocated blocks stay valid.
 */
void spp_heap_child(void) {
    if (atomic_load(&lock.taken) == 0) return;
    memset(&heap, 0, sizeof heap);
    heap.used = SIZE_MAX / 2; /* blocks of before come back to these lists, so no chunk may be given back any more */
    spp_spin_reset(&lock);
}

#endif
