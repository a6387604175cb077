#include "base/map.h"
#include "base/heap.h"

#include <string.h>

/* Steele, Lea and Flood's SplitMix64 finaliser. */
static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

uint64_t spp_hash_bytes(const void *from, size_t n, uint64_t seed) {
    const uint8_t *at = from;
    uint64_t hash = 14695981039346656037u ^ seed;
    for (size_t i = 0; i < n; i++) hash = (hash ^ at[i]) * 1099511628211u;
    return mix(hash);
}

static size_t home(const spp_map *map, uint64_t a, uint64_t b) { return (size_t)mix(a * 0x9E3779B97F4A7C15u + b) & map->mask; }

uint32_t spp_map_get(const spp_map *map, uint64_t a, uint64_t b) {
    if (map->slots == NULL) return SPP_MAP_NONE;
    for (size_t i = home(map, a, b); map->slots[i].used; i = (i + 1) & map->mask) {
        if (map->slots[i].a == a && map->slots[i].b == b) return map->slots[i].value;
    }
    return SPP_MAP_NONE;
}

static void put(spp_map *map, uint64_t a, uint64_t b, uint32_t value) {
    size_t i = home(map, a, b);
    while (map->slots[i].used) i = (i + 1) & map->mask;
    map->slots[i] = (spp_map_slot){a, b, value, 1};
}

static int grow(spp_map *map) {
    size_t slots = map->slots ? (map->mask + 1) * 2 : 64;
    spp_map bigger = {spp_alloc_zeroed(slots, sizeof(spp_map_slot)), slots - 1, map->n};
    if (bigger.slots == NULL) return -1;
    for (size_t i = 0; map->slots && i <= map->mask; i++) {
        spp_map_slot *s = &map->slots[i];
        if (s->used) put(&bigger, s->a, s->b, s->value);
    }
    spp_free(map->slots);
    *map = bigger;
    return 0;
}

int spp_map_add(spp_map *map, uint64_t a, uint64_t b, uint32_t value) {
    if ((map->slots == NULL || (map->n + 1) * 3 > (map->mask + 1) * 2) && grow(map) != 0) return -1;
    put(map, a, b, value);
    map->n++;
    return 0;
}

uint32_t spp_map_remove(spp_map *map, uint64_t a, uint64_t b) {
    if (map->slots == NULL) return SPP_MAP_NONE;
    size_t i = home(map, a, b);
    while (map->slots[i].used && !(map->slots[i].a == a && map->slots[i].b == b)) i = (i + 1) & map->mask;
    if (!map->slots[i].used) return SPP_MAP_NONE;
    uint32_t value = map->slots[i].value;
    map->slots[i].used = 0;
    map->n--;
    /* No tombstones: put the rest of the run in again. */
    for (i = (i + 1) & map->mask; map->slots[i].used; i = (i + 1) & map->mask) {
        spp_map_slot moved = map->slots[i];
        map->slots[i].used = 0;
        put(map, moved.a, moved.b, moved.value);
    }
    return value;
}

void spp_map_free(spp_map *map) {
    spp_free(map->slots);
    memset(map, 0, sizeof *map);
}
