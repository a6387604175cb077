/* Tables of exact counts: every call is counted once, in its place, however many places there are; and so is what does not fit.
 */
#include "check.h"
#include "core/run/calls.h"
#include "os/lock.h"

static uint64_t released;
static void release(uintptr_t code) {
    CHECK(code != 0);
    released++;
}

/* Keys that differ in one part only. */
static void make_key(uint32_t i, uintptr_t *callee, uintptr_t *caller, uint32_t *at, spp_call_kind *kind) {
    *callee = 0x7f0000000000u + 16u * (i % 97 + 1);
    *caller = i % 5 == 0 ? 0 : 0x7f0000100000u + 16u * (i / 97 % 89);
    *at = 2 * (i / (97 * 89) % 1000);
    *kind = i % 2 ? SPP_CALL_PYTHON : SPP_CALL_RESUME;
}

static void count(spp_calls *t, uint32_t i) {
    uintptr_t callee, caller;
    uint32_t at;
    spp_call_kind kind;
    make_key(i, &callee, &caller, &at, &kind);
    if (!spp_calls_count(t, callee, caller, at, kind)) (void)spp_calls_add(t, callee, caller, at, kind, NULL);
}

static uint64_t sum(const spp_calls *t) {
    uint64_t all = 0;
    for (size_t i = 0; i <= t->mask; i++) all += atomic_load(&t->slots[i].count);
    return all;
}

static void test_every_call_is_counted(void) {
    spp_calls_start();
    spp_calls *t = spp_calls_table();
    CHECK(t != NULL);
    enum { KEYS = 30000, TIMES = 3 };
    for (int times = 0; times < TIMES; times++) {
        for (uint32_t i = 0; i < KEYS; i++) count(t, i);
    }
    CHECK(sum(t) == (uint64_t)KEYS * TIMES);
    CHECK(t->n * 2 <= t->mask + 1); /* at the most half full: no search is long */
    CHECK(atomic_load(&t->uncounted) == 0);
    uint64_t references = 0;
    for (size_t i = 0; i <= t->mask; i++) references += (t->slots[i].callee != 0 ? 1u : 0u) + (t->slots[i].caller != 0 ? 1u : 0u);
    released = 0;
    spp_calls_stop(release);
    CHECK(released == references);
}

static void test_what_does_not_fit_is_counted_as_that(void) {
    spp_calls_start();
    spp_calls *first = spp_calls_table(), *t = spp_calls_table();
    CHECK(first != NULL && t != NULL);
    enum { KEYS = 1200000 };
    for (uint32_t i = 0; i < KEYS; i++) {
        if (!spp_calls_count(t, 16 * (uintptr_t)(i + 1), 32, 0, SPP_CALL_PYTHON))
            (void)spp_calls_add(t, 16 * (uintptr_t)(i + 1), 32, 0, SPP_CALL_PYTHON, NULL);
    }
    uint64_t uncounted = atomic_load(&t->uncounted);
    CHECK(uncounted > 0 && sum(t) + uncounted == KEYS);
    CHECK(spp_calls_count(t, 16, 32, 0, SPP_CALL_PYTHON)); /* what has a place is counted on */
    CHECK(sum(t) + uncounted == KEYS + 1u);
    spp_calls_stop(release);
}

static void test_two_tables_do_not_mix(void) {
    spp_calls_start();
    spp_calls *a = spp_calls_table(), *b = spp_calls_table();
    CHECK(spp_calls_add(a, 16, 32, 4, SPP_CALL_PYTHON, NULL));
    CHECK(!spp_calls_count(b, 16, 32, 4, SPP_CALL_PYTHON));
    CHECK(!spp_calls_count(a, 16, 32, 6, SPP_CALL_PYTHON));
    CHECK(!spp_calls_count(a, 16, 32, 4, SPP_CALL_RESUME));
    CHECK(spp_calls_add(a, 48, 32, 4, SPP_CALL_C, "builtins\0len"));
    released = 0;
    spp_calls_stop(release);
    CHECK(released == 3); /* a function in C is nobody's code */
}

int main(void) {
    CHECK(spp_os_lock_init(NULL) == 0);
    test_every_call_is_counted();
    test_what_does_not_fit_is_counted_as_that();
    test_two_tables_do_not_mix();
    return check_done();
}
