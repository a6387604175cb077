#include "base/vec.h"
#include "base/heap.h"

#include <string.h>

static int grow(void **at, size_t *capacity, size_t need, size_t size) {
    if (need <= *capacity) return 0;
    size_t want = *capacity ? *capacity * 2 : 64;
    while (want < need) want *= 2;
    void *moved = spp_realloc(*at, want * size);
    if (moved == NULL) return -1;
    *at = moved;
    *capacity = want;
    return 0;
}

int spp_vec64_reserve(spp_vec64 *vec, size_t more) {
    void *at = vec->at;
    int failed = grow(&at, &vec->capacity, vec->n + more, sizeof *vec->at);
    vec->at = at;
    return failed;
}

int spp_vec64_push(spp_vec64 *vec, uint64_t value) {
    if (vec->n == vec->capacity && spp_vec64_reserve(vec, 1) != 0) return -1;
    vec->at[vec->n++] = value;
    return 0;
}

int spp_bytes_reserve(spp_bytes *bytes, size_t more) {
    void *at = bytes->at;
    int failed = grow(&at, &bytes->capacity, bytes->n + more, 1);
    bytes->at = at;
    return failed;
}

int spp_bytes_append(spp_bytes *bytes, const void *from, size_t n) {
    if (spp_bytes_reserve(bytes, n) != 0) return -1;
    if (n != 0) memcpy(bytes->at + bytes->n, from, n);
    bytes->n += n;
    return 0;
}

void spp_vec64_free(spp_vec64 *vec) {
    spp_free(vec->at);
    memset(vec, 0, sizeof *vec);
}

void spp_bytes_free(spp_bytes *bytes) {
    spp_free(bytes->at);
    memset(bytes, 0, sizeof *bytes);
}
