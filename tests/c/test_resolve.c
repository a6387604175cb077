/* What a code object's death waits for, over code objects that are made up: only queues that may hold something are looked at,
 * and of long line tables only what is asked of the dying one. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/capture/queue.h"
#include "core/resolve/resolve_code.h"
#include "os/lock.h"
#include "os/memory.h"
#include "os/ticks.h"
#include "py/layout.h"

static unsigned looked; /* how often it was asked what a queue holds */
static uint64_t counted_ready(const spp_queue *queue) {
    looked++;
    return spp_queue_ready(queue);
}
static unsigned given_back; /* how often the lock was */
static void counted_unlock(void) {
    given_back++;
    spp_os_unlock();
}
#define spp_queue_ready counted_ready
#define spp_os_unlock counted_unlock
#define spp_code_read fake_read
int fake_read(uintptr_t address, spp_code *code);
#include "../../csrc/core/resolve/intern.c"
#include "../../csrc/core/resolve/live.c"
#include "../../csrc/core/resolve/resolve.c"

#define CODES 4
#define ADDRESS(i) ((uintptr_t)0x10000 * ((uintptr_t)(i) + 1))
#define LONG 3                      /* the one with a long table */
#define TABLE ((size_t)1024 * 1024) /* of entries of a byte or two: many steps */

static const char *names[CODES] = {"a", "b", "c", "long"};
static uint8_t *table;

int fake_read(uintptr_t address, spp_code *code) {
    size_t i = address / 0x10000 - 1;
    code->name.n = code->qualname.n = code->file.n = 0;
    if (i >= CODES || names[i] == NULL) return -1;
    spp_bytes_append(&code->name, names[i], strlen(names[i]));
    spp_bytes_append(&code->qualname, names[i], strlen(names[i]));
    spp_bytes_append(&code->file, "f.py", 4);
    code->first_line = 1;
    code->lines_known = true;
    code->lines = (uintptr_t)table;
    code->lines_n = i == LONG ? TABLE : 0;
    return 0;
}

static void sampled(spp_thread *t, uint64_t now, const spp_frame *stack, uint32_t depth) {
    const spp_record record = {.time_ns = now, .weight = 1000, .depth = (uint16_t)depth, .fresh = (uint16_t)depth};
    spp_frame leaf_first[4];
    CHECK(depth <= 4);
    for (uint32_t i = 0; i < depth; i++) leaf_first[i] = stack[depth - 1 - i];
    spp_record_put(&t->tick.queue, &record, 0, NULL, NULL, leaf_first);
    spp_queue_publish(&t->tick.queue, spp_record_words(&record));
    spp_threads_mark(t);
}

static spp_thread *begin(uint32_t slots, uint32_t slot) {
    names[0] = "a";
    spp_threads_used = slots;
    spp_cap.max_depth = 8;
    CHECK(spp_resolve_start() == 0);
    CHECK(spp_threads_prepare(&spp_threads[slot], 0, 0, spp_os_clock_last) == 0);
    return &spp_threads[slot];
}

/* The n-th that was resolved. */
static const spp_resolved_sample *sample(unsigned n) {
    const spp_resolved_sample *at = spp_resolved_at(&spp_resolved_now, 0);
    for (; n > 0; n--) at = spp_resolved_next(at);
    return at;
}

static void die(int code) {
    spp_os_lock();
    spp_resolve_death(ADDRESS(code));
    spp_os_unlock();
}

static void test_a_death_looks_at_queues_that_hold_something(void) {
    const spp_frame a = spp_frame_make(ADDRESS(0), 0);
    for (uint32_t slot = 0; slot < 9000; slot += 2999) {
        spp_thread *t = begin(9000, slot);
        sampled(t, 1, &a, 1);
        looked = 0;
        die(1);
        CHECK_EQUAL(spp_queue_ready(&t->tick.queue), 0);
        CHECK_EQUAL(spp_resolved_now.sample_count, 1);
        CHECK(looked < 10);
        looked = 0;
        die(1);
        CHECK_EQUAL(looked, 0);
    }
}

/* The record of a long function stays, with all behind it; but what dies has its name in it, and its table is not waited for. */
static void test_a_death_does_not_wait_for_a_long_table_of_others(void) {
    spp_thread *t = begin(8, 5);
    const spp_frame far = spp_frame_make(ADDRESS(LONG), TABLE / 4);
    const spp_frame first[] = {spp_frame_make(ADDRESS(1), 0), far}, second[] = {spp_frame_make(ADDRESS(0), 0), far};
    sampled(t, 1, first, 2);
    sampled(t, 2, second, 2);
    die(0);
    CHECK_EQUAL(spp_resolved_now.sample_count, 0);
    names[0] = NULL; /* its memory is another's */
    for (int i = 0; i < 3; i++) die(2);
    CHECK_EQUAL(spp_resolved_now.sample_count, 0);
    spp_os_lock();
    spp_resolve_sure(); /* on any idle thread */
    spp_os_unlock();
    CHECK_EQUAL(spp_resolved_now.sample_count, 2);
    CHECK_EQUAL(spp_queue_ready(&t->tick.queue), 0);
    const spp_resolved_sample *one = sample(0), *other = sample(1);
    CHECK_EQUAL(one->depth, 2);
    CHECK_EQUAL(other->depth, 2);
    CHECK_EQUAL(one->frames[1], other->frames[1]); /* the long one's */
    CHECK(one->frames[0] != other->frames[0]);
    const uint64_t code = spp_resolved_now.columns.of[SPP_COL_FRAME_CODE].at[other->frames[0]];
    const uint64_t before = spp_resolved_now.columns.of[SPP_COL_CODE_NAME].at[code]; /* "a" was the first string of all */
    CHECK_EQUAL(spp_resolved_now.columns.of[SPP_COL_STRING_LEN].at[before], 1);
    size_t from = 0;
    for (uint64_t i = 0; i < before; i++) from += spp_resolved_now.columns.of[SPP_COL_STRING_LEN].at[i];
    CHECK_EQUAL(spp_resolved_now.string_bytes.at[from], 'a');
}

static void fill_table(void) {
    /* An entry for each two bytes of code, each a line further (from 3.11 on without columns). */
    for (size_t i = 0; i < TABLE; i += 2) {
        table[i] = SPP_L_LINES == 3 ? 0x80 | 13 << 3 : 2;
        table[i + 1] = 2;
    }
}

static uint64_t line_of(const spp_resolved_sample *s) { return spp_resolved_now.columns.of[SPP_COL_FRAME_LINE].at[s->frames[0]]; }

/* The long one's own death has its places; but its table is only copied then, the lock is given back between, and its memory may
 * be another's before the copy is read. */
static void test_a_long_function_dies_with_its_places(void) {
    uint64_t lines[2][3];
    for (int dies = 0; dies < 2; dies++) {
        spp_thread *t = begin(8, 5);
        const uint32_t at[3] = {TABLE / 8, TABLE / 4, 3};
        for (int i = 0; i < 3; i++) {
            const spp_frame far = spp_frame_make(ADDRESS(LONG), at[i]);
            sampled(t, (uint64_t)i + 1, &far, 1);
        }
        if (dies) {
            given_back = 0;
            die(LONG);
            CHECK(given_back >= TABLE / 65536); /* the last time by this test */
            CHECK_EQUAL(spp_resolved_now.sample_count, 0);
            CHECK_EQUAL(orphans_n, 1);
            if (orphans_n == 0) return;
            const spp_table *copied = &live[orphans[0].index].lines;
            CHECK(copied->reached.i <= 4 * SPP_TABLE_STEP * 2); /* two steps before it was copied, two after */
            memset(table, 0xff, TABLE);
            names[LONG] = NULL;
            die(LONG); /* another one, which was not sampled */
            die(1);
        }
        spp_os_lock();
        spp_resolve_sure();
        spp_os_unlock();
        CHECK_EQUAL(orphans_n, 0);
        CHECK_EQUAL(spp_resolved_now.sample_count, 3);
        for (int i = 0; i < 3; i++) lines[dies][i] = line_of(sample((unsigned)i));
        CHECK(spp_map_get(&live_of_address, ADDRESS(LONG), 0) == (dies ? SPP_MAP_NONE : 0));
        names[LONG] = "long";
        fill_table();
        spp_os_lock();
        spp_resolve_stop();
        spp_os_unlock();
    }
    for (int i = 0; i < 3; i++) CHECK_EQUAL(lines[1][i], lines[0][i]);
    CHECK(lines[0][0] != lines[0][1] && lines[0][2] != lines[0][1] && lines[0][2] > 0);
}

/* A copy that is still named in a queue outlives what is forgotten of everything else. */
static void test_a_copy_is_kept_while_a_queue_names_it(void) {
    spp_thread *t = begin(8, 5);
    spp_resolved other = {0};
    const spp_frame far = spp_frame_make(ADDRESS(LONG), TABLE / 4);
    sampled(t, 1, &far, 1);
    die(LONG);
    CHECK_EQUAL(orphans_n, 1);
    frames.n += SPP_INTERN_MOST + 1; /* as if so many were known */
    spp_os_lock();
    spp_resolve_swap(&other);
    CHECK_EQUAL(orphans_n, 1);
    spp_resolve_sure();
    CHECK_EQUAL(spp_resolved_now.sample_count, 1);
    CHECK(line_of(sample(0)) > 0);
    spp_resolve_swap(&other);
    CHECK_EQUAL(live_n, 0);
    spp_os_unlock();
    spp_resolved_free(&other);
}

/* Samples of two threads by turns, and off-CPU ones of the first, and its weights: `n`, each a thousand. */
static void settled(int64_t open, int64_t *took, uint64_t weights[], uint32_t n) {
    const spp_frame a[] = {spp_frame_make(ADDRESS(0), 0), spp_frame_make(ADDRESS(1), 0)};
    uint64_t others = 0;
    uint32_t seen = 0;
    spp_thread *other = begin(8, 5), *t = begin(8, 6);
    for (uint32_t i = 0; i < n; i++) {
        sampled(other, 2 * i + 1, a, 2);
        spp_os_lock();
        spp_resolve_sure();
        t->wall.repeats = 1;
        t->wall.flags = SPP_SAMPLE_OFF_CPU;
        t->wall.off_ns = 1000;
        spp_resolve_flush(t);
        spp_os_unlock();
        sampled(t, 2 * i + 2, a, 1 + i % 2);
    }
    for (const spp_resolved_sample *s = sample(0); s < spp_resolved_end(&spp_resolved_now); s = spp_resolved_next(s))
        others += s->slot != 6 || s->flags != 0 ? s->weight : 0;
    spp_os_lock();
    *took = spp_resolve_settle(t, open);
    spp_os_unlock();
    CHECK_EQUAL(spp_queue_ready(&t->tick.queue), 0);
    for (const spp_resolved_sample *s = sample(0); s < spp_resolved_end(&spp_resolved_now); s = spp_resolved_next(s)) {
        if (s->slot != 6 || s->flags != 0)
            others -= s->weight;
        else if (seen < n)
            weights[seen++] = s->weight;
    }
    CHECK_EQUAL(seen, n);
    CHECK_EQUAL(others, 0);
}

static void test_what_is_open_goes_to_the_last_samples_of_that_thread(void) {
    static const int64_t opens[] = {0, 1, -1, 999, -7000, 7000, 8749, 8750, 20000, -8750, -20000};
    for (size_t k = 0; k < sizeof opens / sizeof *opens; k++) {
        uint64_t weights[10], sum = 0;
        int64_t took, most = 8750, open = opens[k] > most ? most : opens[k] < -most ? -most : opens[k];
        settled(opens[k], &took, weights, 10);
        CHECK_EQUAL(took, open);
        for (int i = 0; i < 10; i++) {
            int64_t due = 1000 + open / 10, off = (int64_t)weights[i] - due;
            CHECK(off >= -1 && off <= 1);
            sum += weights[i];
        }
        CHECK_EQUAL(sum, (uint64_t)(10000 + open));
    }
}

/* Those of a clock before this one, and those that are stored, stay as they are. */
static void test_what_is_open_crosses_no_gap(void) {
    const spp_frame a = spp_frame_make(ADDRESS(0), 0);
    spp_resolved other = {0};
    spp_thread *t = begin(8, 5);
    sampled(t, 1, &a, 1);
    spp_os_lock();
    CHECK_EQUAL(spp_resolve_settle(t, 0), 0);
    spp_threads_begin(t, 0);
    CHECK_EQUAL(spp_resolve_settle(t, 500), 0);
    spp_os_unlock();
    sampled(t, 2, &a, 1);
    spp_os_lock();
    CHECK_EQUAL(spp_resolve_settle(t, 500), 500);
    CHECK_EQUAL(sample(0)->weight, 1000);
    CHECK_EQUAL(sample(1)->weight, 1500);
    spp_resolve_swap(&other);
    CHECK_EQUAL(spp_resolve_settle(t, 500), 0);
    spp_os_unlock();
    spp_resolved_free(&other);
}

/* The reason that is written of a wait at `place`, where the thread was seen to wait for `seen`; the system counted `ready` ns
 * since the last one (-1: not read). */
static spp_reason written(spp_thread *t, uintptr_t place, spp_reason seen, int64_t off_ns, int64_t ready) {
    uint64_t before = spp_resolved_now.sample_count;
    spp_os_lock();
    t->wall.repeats = 1;
    t->wall.flags = SPP_SAMPLE_OFF_CPU;
    t->wall.leaf = place;
    t->wall.reason = seen;
    t->wall.held_by = seen == SPP_REASON_ready ? 0 : 7;
    t->wall.off_ns = off_ns;
    t->wall.ready_read = ready >= 0;
    t->wall.ready_ns = ready >= 0 ? (uint64_t)ready : 0;
    if (seen != SPP_REASON_ready) t->wall.waited = seen, t->wall.waited_n = 0;
    spp_resolve_flush(t);
    spp_os_unlock();
    CHECK_EQUAL(spp_resolved_now.sample_count, before + 1);
    const spp_resolved_sample *s = sample((unsigned)before);
    CHECK_EQUAL(s->weight, (uint64_t)off_ns);
    CHECK_EQUAL(s->held_by, s->reason == SPP_REASON_ready ? 0u : 7u); /* that of the wait, though its end was not seen */
    return (spp_reason)s->reason;
}

enum { MS = 1000000 };

/* The samples of a place are ready for as long as the system counted there, whatever the looks saw, and no others pay for it. */
static void test_as_much_time_is_ready_as_was_counted_there(void) {
    spp_thread *t = begin(8, 5);
    int64_t a = 0, b = 0;
    for (int i = 0; i < 1000; i++) {
        a += 5 * MS - (written(t, 0x1000, SPP_REASON_sleep, 55 * MS, 5 * MS) == SPP_REASON_ready ? 55 * MS : 0);
        CHECK(a <= 28 * MS && a >= -28 * MS);
        b += written(t, 0x2000, SPP_REASON_sleep, 2 * MS, 0) == SPP_REASON_ready;
    }
    CHECK_EQUAL(b, 0);
}

/* The looks find a thread without a processor that the sampler runs on: it sleeps most of that time. */
static void test_less_time_is_ready_than_was_seen(void) {
    spp_thread *t = begin(8, 5);
    int64_t sum = 0;
    for (int i = 0; i < 1000; i++) {
        (void)written(t, 0x1000, SPP_REASON_sleep, MS, 0);
        sum += written(t, 0x1000, SPP_REASON_ready, MS, MS / 10) == SPP_REASON_ready ? MS : 0;
    }
    CHECK(sum >= 100 * MS - 12 * MS && sum <= 100 * MS + 12 * MS);
}

static void test_what_is_not_known_stays_as_it_was_seen(void) {
    spp_thread *t = begin(8, 5);
    t->wall.waited = 0;
    for (int i = 0; i < 100; i++) { /* it was never seen to wait; nothing was read; it is the GIL */
        CHECK_EQUAL(written(t, 0x1000, SPP_REASON_ready, 20 * MS, 0), SPP_REASON_ready);
        CHECK_EQUAL(written(t, 0x1000, SPP_REASON_ready, 20 * MS, -1), SPP_REASON_ready);
    }
    (void)written(t, 0x1000, SPP_REASON_sleep, MS, -1);
    t->wall.waited_n = 8; /* that was long ago */
    CHECK_EQUAL(written(t, 0x1000, SPP_REASON_ready, 20 * MS, 0), SPP_REASON_ready);
    for (int i = 0; i < 100; i++) CHECK_EQUAL(written(t, 0x2000, SPP_REASON_gil, MS, MS), SPP_REASON_gil);
    CHECK_EQUAL(written(t, 0x3000, SPP_REASON_sleep, 0, MS), SPP_REASON_sleep);
    /* Time that was not counted while nothing else was known is no debt of what comes. */
    int64_t sum = 0;
    for (int i = 0; i < 100; i++) sum += written(t, 0x1000, SPP_REASON_sleep, MS, MS) == SPP_REASON_ready ? MS : 0;
    CHECK(sum >= 99 * MS);
}

/* A wait whose end was not seen has the holder that was known last, and at its own place alone. */
static void test_the_holder_of_a_wait_that_was_over(void) {
    spp_thread *t = begin(8, 5);
    (void)written(t, 0x1000, SPP_REASON_lock, MS, 0);
    spp_os_lock();
    t->wall.held_by = 8; /* another thread took it, and no sample was due until the wait was over */
    spp_resolve_flush(t);
    spp_os_unlock();
    unsigned turned = 0;
    for (uintptr_t place = 0x1000; place <= 0x2000; place += 0x1000) {
        for (int i = 0; i < 40; i++) {
            uint64_t before = spp_resolved_now.sample_count;
            spp_os_lock();
            t->wall.waited_n = 0;
            t->wall.repeats = 1;
            t->wall.leaf = place;
            t->wall.reason = SPP_REASON_ready;
            t->wall.held_by = 0;
            t->wall.off_ns = MS;
            t->wall.ready_read = true;
            t->wall.ready_ns = 0;
            spp_resolve_flush(t);
            spp_os_unlock();
            const spp_resolved_sample *s = sample((unsigned)before);
            if (s->reason != SPP_REASON_lock) continue;
            turned++;
            CHECK_EQUAL(s->held_by, place == 0x1000 ? 8 : 0);
        }
    }
    CHECK(turned > 40);
}

int main(void) {
    table = malloc(TABLE);
    fill_table();
    atomic_store(&spp_native_sure_ns, UINT64_MAX);
    CHECK(spp_os_memory_init() == 0 && spp_capture_init() == 0 && spp_os_lock_init(NULL) == 0);
    test_a_death_looks_at_queues_that_hold_something();
    test_a_death_does_not_wait_for_a_long_table_of_others();
    test_a_long_function_dies_with_its_places();
    test_a_copy_is_kept_while_a_queue_names_it();
    test_what_is_open_goes_to_the_last_samples_of_that_thread();
    test_what_is_open_crosses_no_gap();
    test_as_much_time_is_ready_as_was_counted_there();
    test_less_time_is_ready_than_was_seen();
    test_what_is_not_known_stays_as_it_was_seen();
    test_the_holder_of_a_wait_that_was_over();
    return check_done();
}
