/* Flights of exceptions: each is counted once at every instant, where it ended or is, whatever object was in that place before.
 */
#include "check.h"
#include "core/run/raises.c"
#include "os/lock.h"

enum { THREAD = 16, TYPE_A = 32, TYPE_B = 48, ERROR = 64, F = 1024, G = 2048, H = 4096 };

static uint64_t held, released;
static void hold(uintptr_t object) {
    CHECK(object != 0);
    held++;
}
static void release(uintptr_t object) {
    CHECK(object != 0);
    released++;
}

static void start(void) {
    held = released = 0;
    spp_raises_start(hold);
    spp_raises_name(TYPE_A, "A");
    spp_raises_name(TYPE_B, "B");
}

static void stop(void) {
    spp_raises_stop(release);
    CHECK_EQUAL(held, released);
}

/* A frame has its own address as code, too. */
static spp_flight_at at(uintptr_t error, uintptr_t type, uintptr_t frame, uint32_t offset) {
    return (spp_flight_at){THREAD, error, type, frame, frame, offset};
}

#define AT(what, ...)                        \
    do {                                     \
        spp_flight_at now = at(__VA_ARGS__); \
        spp_raises_##what(&now);             \
    } while (0)

static uint64_t all(void) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < state.rows_n; i++) sum += state.rows[i].count;
    return sum;
}

static const row *row_at(uintptr_t type, uintptr_t raised, uintptr_t ended, how ends) {
    const row *found = NULL;
    for (uint32_t i = 0; i < state.rows_n; i++) {
        const row *r = &state.rows[i];
        if (r->count == 0 || r->type != type || r->raised != raised || r->ended != ended || r->how != (uint32_t)ends) continue;
        CHECK(found == NULL);
        found = r;
    }
    return found;
}

static uint64_t count(uintptr_t type, uintptr_t raised, uintptr_t ended, how ends) {
    const row *r = row_at(type, raised, ended, ends);
    return r != NULL ? r->count : 0;
}

static void test_a_way_through_frames(void) {
    start();
    AT(raised, ERROR, TYPE_A, F, 2);
    CHECK_EQUAL(count(TYPE_A, F, F, BY_C), 1);
    AT(left, ERROR, TYPE_A, G, 4);
    CHECK_EQUAL(count(TYPE_A, F, G, BY_C), 1);
    AT(raised, ERROR, TYPE_A, G, 4);
    AT(left, ERROR, TYPE_A, H, 6);
    AT(raised, ERROR, TYPE_A, H, 6);
    AT(handled, ERROR, TYPE_A, H, 8);
    CHECK_EQUAL(count(TYPE_A, F, H, BY_HANDLER), 1);
    CHECK_EQUAL(row_at(TYPE_A, F, H, BY_HANDLER)->frames, 2);
    CHECK_EQUAL(all(), 1);
    AT(again, ERROR, TYPE_A, H, 10);
    AT(left, ERROR, TYPE_A, 0, SPP_OFFSET_NONE);
    CHECK_EQUAL(count(TYPE_A, F, 0, LEFT), 1);
    CHECK_EQUAL(row_at(TYPE_A, F, 0, LEFT)->frames, 3);
    CHECK_EQUAL(all(), 1);
    stop();
}

/* C code took the first; another one has its place, from the same caller, from itself, or of another type. */
static void test_an_address_that_is_used_again(void) {
    start();
    for (int i = 0; i < 10; i++) {
        AT(raised, ERROR, TYPE_A, F, 2);
        AT(left, ERROR, TYPE_A, G, 4);
    }
    CHECK_EQUAL(count(TYPE_A, F, G, BY_C), 10);
    AT(raised, ERROR, TYPE_B, G, 4);
    AT(handled, ERROR, TYPE_B, G, 8);
    CHECK_EQUAL(count(TYPE_B, G, G, BY_HANDLER), 1);
    AT(raised, ERROR, TYPE_A, G, 6);
    CHECK_EQUAL(count(TYPE_A, G, G, BY_C), 1);
    CHECK_EQUAL(all(), 12);
    stop();
}

/* A `for` over an iterator: its end is raised in the loop's frame, too, and taken there. */
static void test_the_same_end_again_and_again(void) {
    start();
    for (int i = 0; i < 5; i++) {
        AT(raised, ERROR, TYPE_A, G, 4);
    }
    CHECK_EQUAL(count(TYPE_A, G, G, BY_C), 5);
    for (int i = 0; i < 5; i++) {
        AT(raised, ERROR, TYPE_A, F, 2);
        AT(left, ERROR, TYPE_A, G, 4);
        AT(raised, ERROR, TYPE_A, G, 4);
    }
    CHECK_EQUAL(count(TYPE_A, F, G, BY_C), 5);
    CHECK_EQUAL(all(), 10);
    stop();
}

/* Thrown into a generator while a handler has it. */
static void test_two_handlers_have_one(void) {
    start();
    AT(raised, ERROR, TYPE_A, F, 2);
    AT(handled, ERROR, TYPE_A, F, 4);
    AT(raised, ERROR, TYPE_A, G, 2);
    AT(handled, ERROR, TYPE_A, G, 4);
    AT(again, ERROR, TYPE_A, F, 6);
    AT(left, ERROR, TYPE_A, H, 2);
    CHECK_EQUAL(count(TYPE_A, F, H, BY_C), 1);
    CHECK_EQUAL(count(TYPE_A, G, G, BY_HANDLER), 1);
    stop();
}

static void test_those_before_the_start_are_not_counted(void) {
    start();
    AT(left, ERROR, TYPE_A, G, 4);
    AT(handled, ERROR, TYPE_A, G, 6);
    AT(again, ERROR, TYPE_A, G, 8);
    AT(left, ERROR, TYPE_A, H, 4);
    AT(raised, ERROR, TYPE_A, H, 4);
    AT(handled, ERROR, TYPE_A, H, 8);
    CHECK_EQUAL(all(), 0);
    stop();
}

static void test_what_does_not_fit(void) {
    start();
    for (uint32_t i = 0; i < 70000; i++) AT(raised, ERROR, TYPE_A, F + 16 * (uintptr_t)i, 2);
    CHECK(state.uncounted > 0);
    CHECK_EQUAL(all() + state.uncounted, 70000);
    AT(raised, ERROR, TYPE_A, F, 2); /* what has a row is counted on */
    CHECK_EQUAL(count(TYPE_A, F, F, BY_C), 2);
    CHECK_EQUAL(state.forgotten, 0);
    for (uint32_t i = 0; i < FLIGHTS_MOST + 5; i++) AT(raised, ERROR + 16 * (uintptr_t)i, TYPE_A, F, 2);
    CHECK_EQUAL(state.forgotten, 1);
    CHECK_EQUAL(all() + state.uncounted, 70001 + FLIGHTS_MOST + 5);
    stop();
}

int main(void) {
    CHECK(spp_os_lock_init(NULL) == 0);
    test_a_way_through_frames();
    test_an_address_that_is_used_again();
    test_the_same_end_again_and_again();
    test_two_handlers_have_one();
    test_those_before_the_start_are_not_counted();
    test_what_does_not_fit();
    return check_done();
}
