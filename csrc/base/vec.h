/* Growable arrays. `spp_vec64` holds numbers, `spp_bytes` bytes. -1 from a push: no memory, nothing changed. */
#ifndef SPPROF_BASE_VEC_H
#define SPPROF_BASE_VEC_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t *at;
    size_t n, capacity;
} spp_vec64;

typedef struct {
    uint8_t *at;
    size_t n, capacity;
} spp_bytes;

int spp_vec64_push(spp_vec64 *vec, uint64_t value);
int spp_vec64_reserve(spp_vec64 *vec, size_t more); /* reserves space for `more` elements */
int spp_bytes_append(spp_bytes *bytes, const void *from, size_t n);
int spp_bytes_reserve(spp_bytes *bytes, size_t more);
void spp_vec64_free(spp_vec64 *vec);
void spp_bytes_free(spp_bytes *bytes);

#endif
