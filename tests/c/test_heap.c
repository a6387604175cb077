/* Our own memory: blocks keep what is written in them, are aligned, and go back to the system. */
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "check.h"

/* Other tests have malloc in its place, for sanitizers and valgrind. */
#define SPP_HEAP_TESTED
#define spp_alloc own_alloc
#define spp_alloc_zeroed own_alloc_zeroed
#define spp_realloc own_realloc
#define spp_free own_free
#define spp_heap_child own_heap_child
#define spp_os_pages counted_pages
#define spp_os_pages_free counted_pages_free
#define spp_os_pages_grow counted_pages_grow
#include "../../csrc/base/heap.c"
#include "os/memory.h"
#undef spp_os_pages
#undef spp_os_pages_free
#undef spp_os_pages_grow
void *spp_os_pages(size_t bytes);
void *spp_os_pages_grow(void *at, size_t bytes, size_t more);
void spp_os_pages_free(void *at, size_t bytes);

static _Atomic size_t mapped;
static bool none; /* no memory */
void *counted_pages(size_t bytes) {
    if (none) return NULL;
    mapped += bytes;
    return spp_os_pages(bytes);
}
void counted_pages_free(void *at, size_t bytes) {
    mapped -= bytes;
    spp_os_pages_free(at, bytes);
}
void *counted_pages_grow(void *at, size_t bytes, size_t more) {
    void *grown = none ? NULL : spp_os_pages_grow(at, bytes, more);
    if (grown != NULL) mapped += more;
    return grown;
}

static void each_size_has_a_class_that_fits(void) {
    for (size_t bytes = 1; bytes <= SMALL_MOST; bytes++) {
        uint32_t class = class_of(bytes);
        if (class >= CLASSES || bytes_of(class) < bytes || (class > 0 && bytes_of(class - 1) >= bytes) ||
            bytes_of(class) % 16 != 0)
            CHECK_EQUAL(bytes, 0); /* the first that is wrong */
    }
}

#define BLOCKS 400
typedef struct {
    uint8_t *at[BLOCKS];
    size_t n[BLOCKS];
    unsigned long long random;
    uint32_t wrong;
} worker;

/* Random blocks, each filled with a number of its own that must still be there. */
static void *work(void *arg) {
    worker *w = arg;
    for (int round = 0; round < 40000; round++) {
        uint32_t i = (uint32_t)(check_random(&w->random) % BLOCKS);
        size_t n = check_random(&w->random) % (check_random(&w->random) % 50 == 0 ? 200000 : 700);
        uint8_t mark = (uint8_t)(i + 1);
        for (size_t k = 0; k < w->n[i]; k += 1 + k / 8) w->wrong += w->at[i][k] != mark;
        size_t kept = 0;
        switch (check_random(&w->random) % 3) {
        case 0:
            own_free(w->at[i]);
            w->at[i] = own_alloc(n);
            break;
        case 1:
            own_free(w->at[i]);
            w->at[i] = own_alloc_zeroed(n, 1);
            for (size_t k = 0; k < n; k++) w->wrong += w->at[i][k] != 0;
            break;
        default:
            kept = w->n[i] < n ? w->n[i] : n;
            w->at[i] = own_realloc(w->at[i], n);
            for (size_t k = 0; k < kept; k += 1 + k / 8) w->wrong += w->at[i][k] != mark;
        }
        w->wrong += (uintptr_t)w->at[i] % 16 != 0;
        w->n[i] = n;
        memset(w->at[i], mark, n);
    }
    for (uint32_t i = 0; i < BLOCKS; i++) own_free(w->at[i]);
    return NULL;
}

static void blocks_are_nobody_elses(void) {
    static worker workers[4];
    pthread_t threads[4];
    for (uint32_t i = 0; i < 4; i++) {
        workers[i].random = i + 1;
        CHECK_EQUAL(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (uint32_t i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQUAL(workers[i].wrong, 0);
    }
    CHECK(mapped <= CHUNK); /* all is given back, but one chunk for what comes */
}

static void where_there_is_no_memory(void) {
    void *some = own_alloc(100000);
    memset(some, 7, 100000);
    none = true;
    CHECK(own_alloc(100000) == NULL);
    CHECK(own_realloc(some, 300000) == NULL);
    CHECK_EQUAL(((uint8_t *)some)[99999], 7);
    CHECK(own_alloc_zeroed(SIZE_MAX / 2, 3) == NULL);
    CHECK(own_alloc(SIZE_MAX) == NULL && own_alloc(SIZE_MAX - 20) == NULL);
    none = false;
    own_free(some);
    own_free(NULL);
}

/* A fork came while another thread was within. */
static void a_child_goes_on(void) {
    void *before = own_alloc(64);
    lock.taken = 1;
    own_heap_child();
    void *after = own_alloc(64);
    CHECK(after != NULL && after != before);
    own_free(before);
    CHECK(own_alloc(64) == before);
    own_free(after);
    own_free(before);
}

int main(void) {
    each_size_has_a_class_that_fits();
    blocks_are_nobody_elses();
    where_there_is_no_memory();
    a_child_goes_on();
    return check_done();
}
