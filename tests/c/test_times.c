/* Exact times: each value is in the bucket whose bounds hold it, and each call that begins ends once, whatever the order. */
#include "base/histogram.h"
#include "check.h"
#include "core/run/times.h"
#include "os/clock.h"
#include "os/lock.h"

static uint64_t low_of(uint32_t bucket) {
    return bucket < SPP_HISTOGRAM_ROW
               ? bucket
               : (uint64_t)(SPP_HISTOGRAM_ROW + bucket % SPP_HISTOGRAM_ROW) << (bucket / SPP_HISTOGRAM_ROW - 1);
}

static void check_value(uint64_t value) {
    uint32_t bucket = spp_histogram_bucket(value);
    CHECK(bucket < SPP_HISTOGRAM_ROW * SPP_HISTOGRAM_ROWS);
    CHECK(low_of(bucket) <= value);
    if (bucket + 1 < SPP_HISTOGRAM_ROW * SPP_HISTOGRAM_ROWS) {
        uint64_t next = low_of(bucket + 1);
        CHECK(value < next);
        CHECK((next - low_of(bucket) - 1) * 64 <= low_of(bucket)); /* what it holds differs by 1/64 at the most */
    }
}

static void test_every_value_has_its_bucket(void) {
    for (uint64_t value = 0; value < 100000; value++) check_value(value);
    for (int bit = 17; bit < 64; bit++) {
        uint64_t power = (uint64_t)1 << bit;
        const uint64_t some[] = {power - 1, power, power + 1, power + power / 3, power + (power - 1)};
        for (size_t i = 0; i < sizeof some / sizeof *some; i++) check_value(some[i]);
    }
}

typedef struct {
    uint64_t n, last, in_order;
} seen;

static void see(void *arg, uint32_t bucket, uint64_t count) {
    seen *all = arg;
    all->in_order += all->n == 0 || bucket > all->last ? 1 : 0;
    all->last = bucket;
    all->n += count;
}

static void test_a_histogram_counts_all(void) {
    spp_histogram h = {0};
    uint64_t sum = 0, buckets = 0;
    for (uint64_t i = 0; i < 5000; i++) {
        CHECK(spp_histogram_add(&h, i * i * 7) == 0);
        sum += i * i * 7;
    }
    seen all = {0};
    spp_histogram_each(&h, see, &all);
    for (uint32_t i = 0; i < SPP_HISTOGRAM_ROWS * SPP_HISTOGRAM_ROW; i++) {
        const uint64_t *row = h.rows[i / SPP_HISTOGRAM_ROW];
        buckets += row != NULL && row[i % SPP_HISTOGRAM_ROW] != 0;
    }
    CHECK(all.n == 5000 && all.in_order == buckets && h.sum == sum && h.most == (uint64_t)4999 * 4999 * 7);
    spp_histogram_free(&h);
}

static uint64_t released;
static void release(uintptr_t code) {
    CHECK(code != 0);
    released++;
}

#define CODE(i) ((uintptr_t)0x7f0000000000u + 16u * (uintptr_t)(i))
#define FRAME(i) ((uintptr_t)0x7e0000000000u + 88u * (uintptr_t)(i))

static void test_calls_end_in_any_order(void) {
    bool added;
    CHECK(spp_times_start(false) == 0);
    spp_times_follow(false);
    CHECK(spp_times_find(CODE(1)) == NULL);
    spp_timed *f = spp_times_add(CODE(1), true, &added);
    CHECK(f != NULL && added && spp_times_find(CODE(1)) == f);
    CHECK(spp_times_add(CODE(1), true, &added) == f && !added);
    enum { CALLS = 20000 };
    uint64_t before = spp_os_now_ns();
    for (uint32_t i = 0; i < CALLS; i++) spp_times_begin(f, FRAME(i));
    uint32_t ended = 0;
    spp_timed_call call;
    for (uint32_t i = 0; i < CALLS; i++) {
        call.took = 0;
        bool slow = spp_times_end(FRAME(i * 7919u % CALLS), false, &call);
        ended += call.took != 0;
        CHECK(call.began_ns >= before && call.ran == call.took);
        if (slow) spp_times_slow(f, &call, NULL, 0, false, 0);
    }
    CHECK(ended == CALLS);
    CHECK(!spp_times_end(FRAME(5), false, &call)); /* it has ended */
    released = 0;
    spp_times_stop(release);
    CHECK(released == 1);
}

static void test_time_between_steps_does_not_run(void) {
    bool added;
    CHECK(spp_times_start(false) == 0);
    spp_times_follow(false);
    spp_timed *f = spp_times_add(CODE(1), true, &added);
    spp_timed_call call;
    uint64_t a = spp_os_now_ns();
    spp_times_begin(f, FRAME(1));
    spp_times_suspend(FRAME(1));
    uint64_t b = spp_os_now_ns();
    while (spp_os_now_ns() < b + 2000000) continue;
    uint64_t c = spp_os_now_ns();
    spp_times_resume(FRAME(1));
    spp_times_resume(FRAME(2)); /* has not begun */
    CHECK(spp_times_end(FRAME(1), true, &call));
    uint64_t d = spp_os_now_ns();
    CHECK(call.raised && call.began_ns >= a && call.took >= c - b && call.took <= d - a);
    CHECK(call.ran <= (b - a) + (d - c));
    spp_times_stop(release);
}

static void test_so_many_functions_fit(void) {
    bool added;
    CHECK(spp_times_start(true) == 0);
    uint64_t n = 0;
    for (uint32_t i = 0; i < 10000; i++) n += spp_times_add(CODE(i), false, &added) != NULL && added;
    CHECK(n == 4096);
    for (uint32_t i = 0; i < 4096; i++) CHECK(spp_times_find(CODE(i)) != NULL);
    CHECK(spp_times_find(CODE(5000)) == NULL);
    CHECK(spp_times_name(CODE(20000), &added) && added);
    CHECK(spp_times_name(CODE(20000), &added) && !added);
    released = 0;
    spp_times_stop(release);
    CHECK(released == 4097);
}

static void test_what_was_closed_counts_no_more(void) {
    bool added;
    CHECK(spp_times_start(false) == 0);
    spp_times_follow(false);
    CHECK(atomic_load(&spp_times_on));
    spp_times_follow(true);
    CHECK(!atomic_load(&spp_times_on) && atomic_load(&spp_times_open));
    spp_timed_call call = {0};
    spp_timed *f = spp_times_add(CODE(1), false, &added);
    spp_times_begin(f, FRAME(1));
    spp_times_close();
    CHECK(!spp_times_end(FRAME(1), false, &call) && call.took == 0);
    spp_times_follow(false);
    CHECK(!atomic_load(&spp_times_on));
    spp_times_stop(release);
}

int main(void) {
    CHECK(spp_os_lock_init(NULL) == 0);
    test_every_value_has_its_bucket();
    test_a_histogram_counts_all();
    test_calls_end_in_any_order();
    test_time_between_steps_does_not_run();
    test_so_many_functions_fit();
    test_what_was_closed_counts_no_more();
    return check_done();
}
