/* An open-addressed hash map from 128-bit keys to 32-bit values. Two 64-bit words are the key; nothing is ever confused. */
#ifndef SPPROF_BASE_MAP_H
#define SPPROF_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t a, b;
    uint32_t value;
    uint32_t used;
} spp_map_slot;

typedef struct {
    spp_map_slot *slots;
    size_t mask, n; /* mask + 1 slots; 0 slots: NULL */
} spp_map;

#define SPP_MAP_NONE UINT32_MAX

/* The value, or SPP_MAP_NONE. */
uint32_t spp_map_get(const spp_map *map, uint64_t a, uint64_t b);
/* Adds a key that is not there. -1: no memory. */
int spp_map_add(spp_map *map, uint64_t a, uint64_t b, uint32_t value);
/* Removes a key; its value or SPP_MAP_NONE. */
uint32_t spp_map_remove(spp_map *map, uint64_t a, uint64_t b);
void spp_map_free(spp_map *map);

/* FNV-1a with a final mix, of bytes. */
uint64_t spp_hash_bytes(const void *from, size_t n, uint64_t seed);

#endif
