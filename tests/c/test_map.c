/* The map against a plain array, through growth and removal. */
#include <string.h>

#include "base/map.h"
#include "check.h"

#define KEYS 3000u

static uint32_t truth[KEYS]; /* value + 1, or 0 */

/* Keys that differ in one word only, and that collide in whatever bits a hash may drop. */
static void key_of(uint32_t i, uint64_t *a, uint64_t *b) {
    *a = i % 3 == 0 ? (uint64_t)i << 40 : 5;
    *b = i % 3 == 0 ? 5 : i % 3 == 1 ? i : (uint64_t)i << 33;
}

static void random_life(void) {
    spp_map map = {0};
    unsigned long long random = 1;
    size_t n = 0;
    CHECK_EQUAL(spp_map_get(&map, 1, 2), SPP_MAP_NONE);
    CHECK_EQUAL(spp_map_remove(&map, 1, 2), SPP_MAP_NONE);
    for (int step = 0; step < 300000; step++) {
        uint32_t i = (uint32_t)check_random(&random) % KEYS;
        uint64_t a, b;
        key_of(i, &a, &b);
        uint32_t wanted = truth[i] ? truth[i] - 1 : SPP_MAP_NONE;
        /* More is added than removed in even thousands, else the other way round. */
        if ((int)(check_random(&random) % 10) < ((step / 20000) % 2 ? 3 : 7)) {
            CHECK_EQUAL(spp_map_get(&map, a, b), wanted);
            if (truth[i]) continue;
            CHECK_EQUAL(spp_map_add(&map, a, b, (uint32_t)step), 0);
            truth[i] = (uint32_t)step + 1;
            n++;
        } else {
            CHECK_EQUAL(spp_map_remove(&map, a, b), wanted);
            n -= truth[i] != 0;
            truth[i] = 0;
        }
        CHECK_EQUAL(map.n, n);
    }
    for (uint32_t i = 0; i < KEYS; i++) {
        uint64_t a, b;
        key_of(i, &a, &b);
        CHECK_EQUAL(spp_map_get(&map, a, b), truth[i] ? truth[i] - 1 : SPP_MAP_NONE);
    }
    spp_map_free(&map);
    CHECK_EQUAL(spp_map_get(&map, 5, 5), SPP_MAP_NONE);
}

int main(void) {
    random_life();
    /* Equal bytes hash alike wherever they lie; a seed gives another function. */
    char text[] = "xabcabc";
    CHECK(spp_hash_bytes(text + 1, 3, 0) == spp_hash_bytes(text + 4, 3, 0));
    CHECK(spp_hash_bytes("abc", 3, 0) != spp_hash_bytes("abc", 3, 1));
    CHECK(spp_hash_bytes("abc", 3, 0) != spp_hash_bytes("abd", 3, 0));
    return check_done();
}
