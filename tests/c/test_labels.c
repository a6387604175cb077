/* Finding the current labels in invented memory, and their texts through births and deaths. */
#include <string.h>

#include "check.h"
#include "core/capture/contexts.h"
#include "core/capture/labels.h"
#include "os/clock.h"
#include "os/memory.h"
#include "py/layout.h"

enum { BITMAP = 0x1000, ARRAY = 0x2000, ALIKE = 0x3000, SET = 0x4000, OTHER = 0x5000 }; /* types, by their addresses */
#define CONTEXT 264u

/* Objects of 64 words; what points to them is their address. */
#define OBJECTS 16u
#define WORDS 64u
static uint64_t memory[OBJECTS][WORDS];

static uintptr_t object(unsigned i) { return (uintptr_t)memory[i]; }
static void put(unsigned i, size_t byte, uint64_t value) { memory[i][byte / 8] = value; }

#define HEADER (SPP_L_OB_TYPE + 8u)
#define ITEMS (SPP_L_OB_SIZE + 16u) /* of a bitmap node after its map, of a node of equal hashes after its hash */

/* 0 thread state > 1 context > 2 variables > 3, the first node; 15 is a set with number 77. */
static void invent(uint32_t hash) {
    memset(memory, 0, sizeof memory);
    spp_contexts.state = CONTEXT;
    spp_labels.variable = object(14);
    spp_labels.hash = hash;
    spp_contexts.bitmap_type = BITMAP;
    spp_contexts.array_type = ARRAY;
    spp_labels.set_type = SET;
    spp_labels.number = HEADER;
    put(0, CONTEXT, object(1));
    put(1, HEADER + 8, object(2));
    put(2, HEADER, object(3));
    put(15, SPP_L_OB_TYPE, SET);
    put(15, HEADER, 77);
}

static void bitmap(unsigned i, uint32_t map) {
    put(i, SPP_L_OB_TYPE, BITMAP);
    put(i, SPP_L_OB_SIZE + 8, 0xABCDEF0100000000u | map); /* the upper half is no part of it */
}

static void pair(unsigned i, unsigned at, uint64_t key, uint64_t value) {
    put(i, ITEMS + 16 * at, key);
    put(i, ITEMS + 16 * at + 8, value);
}

static void expect(uint64_t number) {
    CHECK_EQUAL(spp_label_own(object(0)), number);
    CHECK_EQUAL(spp_label_other(object(0)), number);
}

static void one_level(void) {
    invent(0x7); /* index 7 */
    expect(0);   /* node 3 is of no known type and holds nothing */
    bitmap(3, 1u << 7 | 1u << 2 | 1u << 9);
    pair(3, 0, object(13), object(12));
    pair(3, 1, object(14), object(15));
    pair(3, 2, object(11), object(12));
    expect(77);
    CHECK_EQUAL(spp_context_root(object(0)), object(3));
    bitmap(3, 1u << 2 | 1u << 9); /* not in the map */
    expect(0);
    bitmap(3, 1u << 7 | 1u << 2);
    pair(3, 1, object(13), object(15)); /* another variable in its place */
    expect(0);
    pair(3, 1, object(14), object(12)); /* a value that is no set of ours */
    expect(0);
}

static void many_levels(void) {
    invent(7u | 31u << 5 | 0u << 10 | 3u << 30); /* indexes 7, 31, 0, 0, 0, 0, 3 */
    put(3, SPP_L_OB_TYPE, ARRAY);
    put(3, HEADER + 8 * 7, object(4));
    bitmap(4, 1u << 31 | 1u);
    pair(4, 1, 0, object(5)); /* no key: another node */
    for (unsigned i = 5; i < 9; i++) {
        bitmap(i, 1);
        pair(i, 0, 0, object(i + 1));
    }
    bitmap(9, 1u << 3);
    pair(9, 0, 0, object(10));
    put(10, SPP_L_OB_TYPE, ALIKE);
    put(10, SPP_L_OB_SIZE, 4);
    pair(10, 0, object(13), object(12));
    pair(10, 1, object(14), object(15));
    expect(77);
    put(10, SPP_L_OB_SIZE, 2); /* only the first pair is in use */
    expect(0);
    put(10, SPP_L_OB_SIZE, UINT64_MAX); /* nonsense is bounded */
    pair(10, 1, object(13), 0);
    expect(0);
    put(3, HEADER + 8 * 7, 0);
    expect(0);
}

static void hostile(void) {
    unsigned char *gone = spp_os_pages(4096);
    invent(0);
    CHECK_EQUAL(spp_label_own(0), 0);
    CHECK_EQUAL(spp_label_other(0), 0);
    bitmap(3, 1);
    pair(3, 0, 0, object(3)); /* a circle */
    expect(0);
    pair(3, 0, 0, object(4) + 1); /* odd */
    expect(0);
    pair(3, 0, object(14), 8); /* not mapped */
    expect(0);
    pair(3, 0, object(14), (uintptr_t)1 << 63);
    expect(0);
    uint64_t at = (uintptr_t)gone + 64;
    spp_os_pages_free(gone, 4096);
    unsigned places[][2] = {{0, CONTEXT}, {1, HEADER + 8}, {2, HEADER}};
    for (size_t i = 0; i < 3; i++) {
        invent(0);
        bitmap(3, 1);
        pair(3, 0, object(14), object(15));
        expect(77);
        put(places[i][0], places[i][1], at); /* freed */
        expect(0);
        put(places[i][0], places[i][1], 0);
        expect(0);
    }
}

static void texts(void) {
    size_t n = 0;
    uint64_t a = spp_label_add("{\"a\"}", 5), b = spp_label_add("{\"bb\"}", 6), empty = spp_label_add("", 0);
    CHECK(a != 0 && b != 0 && a != b && empty != 0);
    CHECK(memcmp(spp_label_text(a, &n), "{\"a\"}", 5) == 0);
    CHECK_EQUAL(n, 5);
    CHECK(spp_label_text(0, &n) == NULL);
    CHECK(spp_label_text(a + 100, &n) == NULL);
    CHECK(spp_label_text(empty, &n) != NULL);
    CHECK_EQUAL(n, 0);

    spp_label_drop(a, true); /* samples may name it still */
    CHECK(spp_label_text(a, &n) != NULL);
    uint64_t died = spp_os_now_ns(), between;
    while ((between = spp_os_now_ns()) == died) {} /* the clock goes in steps */
    while (spp_os_now_ns() == between) {}
    spp_label_drop(b, true);
    spp_label_forget(between); /* what died before: a, not b */
    CHECK(spp_label_text(a, &n) == NULL);
    CHECK(spp_label_text(b, &n) != NULL);
    uint64_t again = spp_label_add("new", 3); /* a's place, another number */
    CHECK_EQUAL((uint32_t)again, (uint32_t)a);
    CHECK(again != a && spp_label_text(a, &n) == NULL);
    spp_label_forget(UINT64_MAX);
    CHECK(spp_label_text(b, &n) == NULL);
    CHECK(spp_label_text(again, &n) != NULL);
    spp_label_drop(again, false); /* nothing is sampled: at once */
    CHECK(spp_label_text(again, &n) == NULL);
    spp_label_drop(again, false); /* twice, or never there: nothing */
    spp_label_drop(0, false);
    spp_label_drop(empty, false);
}

/* Many at a time, in a random order, against an array. */
static void crowd(void) {
    enum { MANY = 500 };
    static uint64_t numbers[MANY];
    unsigned long long random = 3;
    for (int step = 0; step < 100000; step++) {
        unsigned i = (unsigned)(check_random(&random) % MANY);
        size_t n = 0;
        if (numbers[i] == 0) {
            numbers[i] = spp_label_add((const char *)&i, sizeof i);
        } else {
            const char *text = spp_label_text(numbers[i], &n);
            CHECK(text != NULL && n == sizeof i && memcmp(text, &i, sizeof i) == 0);
            spp_label_drop(numbers[i], step % 2 != 0);
            numbers[i] = 0;
        }
        if (step % 1000 == 0) spp_label_forget(UINT64_MAX);
    }
    for (unsigned i = 0; i < MANY; i++) spp_label_drop(numbers[i], false);
    spp_label_forget(UINT64_MAX);
}

int main(void) {
    if (spp_os_memory_init() != 0) return 1;
    one_level();
    many_levels();
    hostile();
    texts();
    crowd();
    return check_done();
}
