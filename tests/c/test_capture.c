/* The handler's count of ticks beside a truth of its own: CPU clocks that are made up and jump by a known number of intervals.
 * What did not come must be counted, to the tick: that taken and lost ones add up says nothing, since that is how many were
 * expected. */
#include "check.h"
#include "core/capture/capture.h"
#include "core/capture/record.h"
#include "core/capture/weigh.h"
#include "os/clock.h"
#include "os/context.h"
#include "os/memory.h"
#include "os/threads.h"
#include "os/ticks.h"

#include <stdatomic.h>
#include <string.h>

#define INTERVAL 1000000000000u /* 1000 s: what really runs meanwhile is no tick */
#define TICKS 5u

static spp_thread *thread;

static void no_period(spp_os_trigger *trigger, uint64_t period_ns) { (void)trigger, (void)period_ns; }

/* One of each kind, on every system. */
static const spp_clock perf = {.name = "perf", .weight = SPP_WEIGHT_PERIOD, .kernel = true, .period = no_period};
static const spp_clock perf_user = {.name = "perf-user", .weight = SPP_WEIGHT_PERIOD, .period = no_period};
static const spp_clock signal_ = {.name = "signal", .weight = SPP_WEIGHT_INSTANTS, .period = no_period};
static const spp_clock timer = {.name = "timer", .weight = SPP_WEIGHT_CPU, .coarse = true, .period = no_period};
static const spp_clock suspend = {.name = "suspend", .weight = SPP_WEIGHT_CPU, .looks = true, .period = no_period};

static uintptr_t no_python(const spp_os_subject *subject) {
    (void)subject;
    return 0;
}

static uint64_t all_lost(void) {
    uint64_t sum = 0;
    for (int i = 0; i < SPP_LOSS_COUNT; i++) sum += thread->tick.losses[i];
    return sum;
}

static void begin(const spp_clock *clock) {
    spp_cap.interval_ns = INTERVAL;
    spp_cap.max_depth = 8;
    spp_cap.group = 1;
    spp_cap.thread_state = no_python;
    atomic_store(&spp_cap.active, 1);
    thread->state = SPP_THREAD_FREE;
    CHECK_EQUAL(spp_threads_prepare(thread, spp_os_tid(), 0, clock), 0);
    thread->watch.cpu_start = 0;
    thread->tick.given_ns = thread->tick.spread_cpu = 0;
    thread->state = SPP_THREAD_ARMED;
}

/* One that comes when the thread has run so long. Perf's ticks read the real clock, from which it is to have started so long
 * ago. */
static void tick_at(spp_tick kind, uint64_t cpu) {
    spp_os_subject subject;
    spp_os_context context;
    memset(&subject, 0, sizeof subject);
    memset(&context, 0, sizeof context);
    subject.cpu_ns = cpu;
    if (thread->clock->weight == SPP_WEIGHT_INSTANTS)
        context.looked_cpu = cpu;
    else if (thread->clock->weight == SPP_WEIGHT_PERIOD && thread->clock->kernel)
        thread->watch.cpu_start = spp_os_own_cpu_ns() - subject.cpu_ns;
    else
        context.subject = &subject;
    context.at_syscall = true;
    spp_capture_tick(thread, kind, &context);
}

static void tick(spp_tick kind, uint64_t intervals) { tick_at(kind, intervals * INTERVAL + INTERVAL / 2); }

/* Each time so many intervals pass and one tick comes. Some of the others, `open`, may yet come or be made up for. */
static void jumps(const spp_clock *clock, uint64_t intervals, uint64_t open) {
    begin(clock);
    for (uint64_t k = 1; k <= TICKS; k++) tick(SPP_TICK_CPU, k * intervals);
    CHECK_EQUAL(thread->tick.losses[SPP_LOSS_overrun], TICKS * intervals - TICKS - open);
    CHECK_EQUAL(thread->tick.ticks, TICKS * intervals - open);
    CHECK_EQUAL(thread->tick.taken + all_lost(), thread->tick.ticks);
}

/* All come: none is lost for being late. */
static void steps(const spp_clock *clock) {
    begin(clock);
    for (uint64_t k = 1; k <= TICKS; k++) tick(SPP_TICK_CPU, k);
    CHECK_EQUAL(thread->tick.losses[SPP_LOSS_overrun], 0);
    CHECK_EQUAL(thread->tick.ticks, TICKS);
    CHECK_EQUAL(thread->tick.taken + all_lost(), TICKS);
}

/* The sample of the remainder timer stands for all ticks that fell inside the kernel; one is taken. */
static void in_kernel(uint64_t intervals) {
    begin(&perf_user);
    for (uint64_t k = 1; k <= TICKS; k++) tick(SPP_TICK_REMAINDER, k * intervals);
    CHECK_EQUAL(thread->tick.taken, TICKS);
    CHECK_EQUAL(thread->tick.losses[SPP_LOSS_in_kernel], TICKS * intervals - TICKS);
    CHECK_EQUAL(thread->tick.ticks, TICKS * intervals);
}

/* At random instants, one an interval in the mean, to threads that live for two: what their samples stand for is what they ran,
 * `unseen` before they were found too, but for the seventh of them that have none. Of 20,000 such sums the mean deviates by 0.5
 * %; but the instants are the same in each run. */
#define LIVES 20000u
#define PARTS 100u /* of an interval; in each a tick comes, or none */
static void short_lives(uint64_t unseen) {
    uint64_t random = 1, sum = 0, unseen_each = unseen * 1000 / INTERVAL * 865 / 1000;
    for (uint32_t i = 0; i < LIVES; i++) {
        begin(&signal_);
        thread->watch.cpu_start = unseen;
        thread->tick.given_ns = unseen;
        thread->tick.spread_cpu = unseen;
        CHECK(spp_threads_from_birth(thread));
        for (uint64_t part = 1; part <= 2 * PARTS; part++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            if (random % PARTS == 0) tick_at(SPP_TICK_CPU, unseen + part * (INTERVAL / PARTS));
        }
        sum += thread->tick.given_ns / (INTERVAL / 1000);
        spp_queue_take(&thread->tick.queue, spp_queue_ready(&thread->tick.queue));
    }
    CHECK(sum > LIVES * (1980u + unseen_each) && sum < LIVES * (2020u + unseen_each));
    CHECK_EQUAL(thread->watch.cpu_start, 0);
}

/* What takes an interval or more before the thread is found is lost. */
static void found_late(void) {
    begin(&signal_);
    thread->watch.cpu_start = INTERVAL;
    thread->tick.given_ns = INTERVAL;
    CHECK(!spp_threads_from_birth(thread));
    CHECK_EQUAL(thread->tick.given_ns, INTERVAL);
}

/* Where the sampler looks more rarely, each stands for as much more. */
static void rare_looks(void) {
    spp_os_context context = {.looked_cpu = 2 * INTERVAL, .instant_ns = 4 * INTERVAL};
    begin(&signal_);
    spp_capture_tick(thread, SPP_TICK_CPU, &context);
    CHECK(thread->tick.given_ns >= 4 * INTERVAL && thread->tick.given_ns < 5 * INTERVAL);
}

/* What the samples of one thread weigh until its clock says `to` intervals, from `from` on, a tick in the midst of each. */
static uint64_t weighed(uint64_t from, uint64_t to) {
    uint64_t before = thread->tick.given_ns;
    for (uint64_t k = from; k < to; k++) tick(SPP_TICK_CPU, k);
    spp_queue_take(&thread->tick.queue, spp_queue_ready(&thread->tick.queue));
    return thread->tick.given_ns - before;
}

static bool is_about(uint64_t ns, uint64_t intervals) {
    return ns >= intervals * INTERVAL - INTERVAL && ns <= intervals * INTERVAL + INTERVAL;
}

/* A thread's clock begins again after `between` intervals: what ran before, and those between, are none of those after. */
static void begins_again(const spp_clock *clock, uint64_t between) {
    begin(clock);
    CHECK(is_about(weighed(0, 200), 200));
    spp_threads_begin(thread, (200 + between) * INTERVAL);
    CHECK_EQUAL(thread->watch.cpu_start, (200 + between - thread->tick.ticks) * INTERVAL);
    CHECK(is_about(weighed(200 + between, 400 + between), 200));
    CHECK(is_about(weighed(400 + between, 600 + between), 200));
    CHECK_EQUAL(thread->tick.losses[SPP_LOSS_overrun], 0);
}

/* A tick of a look from before its clock began, as one that was put off: the clock says what it said then. */
static void looked_before(void) {
    begin(&signal_);
    (void)weighed(0, 200);
    spp_threads_begin(thread, 300 * INTERVAL);
    tick(SPP_TICK_CPU, 290);
    CHECK_EQUAL(thread->tick.spread_cpu, 300 * INTERVAL);
    CHECK(is_about(thread->tick.given_ns, 301));
    CHECK_EQUAL(all_lost(), 0);
}

/* Nobody looked for long: that time goes to the sample that ends the gap, and those after weigh what they did before. */
static void gap(uint64_t intervals) {
    begin(&signal_);
    CHECK(is_about(weighed(0, 200), 200));
    CHECK(is_about(weighed(200 + intervals, 201 + intervals), intervals + 1));
    CHECK(is_about(weighed(201 + intervals, 221 + intervals), 20));
    CHECK(is_about(weighed(221 + intervals, 421 + intervals), 200));
}

/* What is open when a clock ends: all that it says beyond its samples, or, where nobody read it, what they lie apart. */
static void ends(void) {
    begin(&signal_);
    thread->tick.begun_cpu = 0;
    uint64_t given = weighed(0, 200), last = 199 * INTERVAL + INTERVAL / 2; /* an interval apart */
    CHECK_EQUAL(spp_weigh_open(thread, last + 9 * INTERVAL, true), (int64_t)(last + 9 * INTERVAL - given));
    CHECK_EQUAL(spp_weigh_open(thread, last + 1, false), (int64_t)(last + 1 - given));
    int64_t unread = spp_weigh_open(thread, last + 9 * INTERVAL, false);
    CHECK(is_about((uint64_t)unread + given, 200) && unread > (int64_t)(last - given));
    CHECK_EQUAL(spp_weigh_open(thread, UINT64_MAX, false), unread);
    CHECK_EQUAL(spp_weigh_open(thread, last + 100 * INTERVAL, true), unread); /* that is more than chance */
    tick(SPP_TICK_NO_STACK, 200);
    CHECK_EQUAL(spp_weigh_open(thread, last + INTERVAL, true), 0); /* of a tick that is counted as lost */
    spp_threads_begin(thread, 300 * INTERVAL);
    (void)weighed(300, 320);
    CHECK_EQUAL(spp_weigh_open(thread, 320 * INTERVAL, true), 0); /* so soon */
    begin(&timer);
    (void)weighed(0, 200);
    CHECK_EQUAL(spp_weigh_open(thread, 200 * INTERVAL, true), 0);
}

/* Ticks that came and could take no sample. */
static void refused(void) {
    begin(&timer);
    for (uint64_t k = 1; k <= TICKS; k++) tick(SPP_TICK_NO_STACK, k);
    for (uint64_t k = 1; k <= TICKS; k++) tick(SPP_TICK_REFUSED, k);
    CHECK_EQUAL(thread->tick.losses[SPP_LOSS_no_stack], TICKS);
    CHECK_EQUAL(thread->tick.losses[SPP_LOSS_not_suspended], TICKS);
    CHECK_EQUAL(thread->tick.ticks, 2 * TICKS);
}

/* A forked child has nothing of its parent's queues: each record is as if it had never been used. */
static void child(void) {
    static const spp_thread unused;
    begin(&timer);
    tick(SPP_TICK_CPU, 1);
    CHECK(spp_queue_ready(&thread->tick.queue) > 0);
    CHECK(spp_pending[0] != 0);
    thread->state = SPP_THREAD_ENDED; /* a slot that was given up has its memory, too */
    spp_threads_child();
    CHECK(memcmp((const void *)thread, (const void *)&unused, sizeof unused) == 0);
    CHECK_EQUAL(spp_pending[0], 0);
    CHECK_EQUAL(spp_threads_used, 0);
    CHECK_EQUAL(spp_cap.active, 0);
    atomic_store(&spp_threads_used, 1);
}

/* Called from within the walk of a sample: as a tick, or another hook, in the midst of it. */
static spp_os_context in_walk;
static int walks;
static uintptr_t ticks_in_walk(const spp_os_subject *subject) {
    (void)subject;
    if (walks++ == 0) {
        spp_capture_tick(thread, SPP_TICK_CPU, &in_walk);
        CHECK(!spp_capture_take(thread, SPP_SOURCE_PAGE_FAULTS, 7, &in_walk));
        CHECK_EQUAL(thread->tick.busy, 1); /* the outer one still is */
    }
    return 0;
}

static uint64_t words_of(uint64_t at) {
    const spp_record record = spp_record_read(&thread->tick.queue, at);
    return spp_record_words(&record);
}

/* One producer: a queue has the record of the outer one, whole, and what came within is counted with its reason. */
static void nested(void) {
    spp_os_context context;
    memset(&context, 0, sizeof context);
    begin(&timer);
    in_walk = context;
    walks = 0;
    spp_cap.thread_state = ticks_in_walk;
    CHECK(spp_capture_take(thread, SPP_SOURCE_PAGE_FAULTS, 5, &context));
    CHECK_EQUAL(walks, 1);
    CHECK_EQUAL(thread->tick.busy, 0);
    CHECK_EQUAL(thread->sources[SPP_SOURCE_PAGE_FAULTS].taken, 1);
    CHECK_EQUAL(thread->sources[SPP_SOURCE_PAGE_FAULTS].losses[SPP_LOSS_in_hook], 1);
    CHECK_EQUAL(thread->tick.taken, 0);
    CHECK_EQUAL(thread->tick.losses[SPP_LOSS_in_hook], 1);
    CHECK_EQUAL(thread->tick.ticks, 1);
    CHECK_EQUAL(spp_record_read(&thread->tick.queue, 0).weight, 5);
    CHECK_EQUAL(spp_source_of_flags(spp_record_read(&thread->tick.queue, 0).flags), SPP_SOURCE_PAGE_FAULTS);
    CHECK_EQUAL(spp_queue_ready(&thread->tick.queue), words_of(0));
    /* And where a tick is in the midst of its own sample. */
    begin(&timer);
    walks = 0;
    spp_cap.thread_state = ticks_in_walk;
    spp_capture_tick(thread, SPP_TICK_CPU, &context);
    CHECK_EQUAL(thread->tick.taken, 1);
    CHECK_EQUAL(thread->tick.busy, 0);
    CHECK_EQUAL(spp_source_of_flags(spp_record_read(&thread->tick.queue, 0).flags), SPP_SOURCE_TIME);
    CHECK_EQUAL(spp_queue_ready(&thread->tick.queue), words_of(0));
}

/* Nothing is taken of a run that is over, or of a thread that is not armed; and the thread is free again. */
static void not_armed(void) {
    spp_os_context context;
    memset(&context, 0, sizeof context);
    begin(&timer);
    thread->state = SPP_THREAD_ENDED;
    CHECK(!spp_capture_take(thread, SPP_SOURCE_PAGE_FAULTS, 5, &context));
    CHECK_EQUAL(thread->tick.busy, 0);
    thread->state = SPP_THREAD_ARMED;
    atomic_store(&spp_cap.active, 2);
    CHECK(!spp_capture_take(thread, SPP_SOURCE_PAGE_FAULTS, 5, &context));
    CHECK_EQUAL(thread->tick.busy, 0);
    CHECK_EQUAL(spp_queue_ready(&thread->tick.queue), 0);
    CHECK_EQUAL(all_lost(), 0);
}

static void words(void) {
    spp_source_set set;
    memset(&set, 0, sizeof set);
    const char *why = NULL;
    CHECK(spp_source_parse(&set, "time,page-faults=100", &why));
    CHECK(set.period[SPP_SOURCE_TIME] != 0 && set.period[SPP_SOURCE_PAGE_FAULTS] == 100);
    CHECK(spp_source_parse(&set, "page-faults", &why));
    CHECK_EQUAL(set.period[SPP_SOURCE_PAGE_FAULTS], spp_sources[SPP_SOURCE_PAGE_FAULTS].period);
    static const char *const wrong[] = {"",
                                        "page",
                                        "page-faults=",
                                        "page-faults=3",
                                        "page-faults=x",
                                        "page-faults=99 ",
                                        "page-faults=1000000001",
                                        "page-faults,",
                                        "time=5",
                                        "page-faults=-5"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) CHECK(!spp_source_parse(&set, wrong[i], &why) && why != NULL);
}

int main(void) {
    CHECK_EQUAL(spp_os_memory_init(), 0);
    CHECK_EQUAL(spp_capture_init(), 0);
    thread = spp_threads;
    atomic_store(&spp_threads_used, 1);
    static const uint64_t far[] = {SPP_OWED_MOST + 2, 1000};
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        jumps(&timer, far[i], 0);
        jumps(&suspend, far[i], 1);
        jumps(&signal_, far[i], SPP_OWED_MOST);
        jumps(&perf, far[i], SPP_OWED_MOST);
        in_kernel(far[i]);
    }
    jumps(&timer, 2, 0);
    steps(&timer);
    steps(&suspend);
    steps(&signal_);
    steps(&perf);
    short_lives(0);
    short_lives(INTERVAL / 10);
    found_late();
    rare_looks();
    static const uint64_t between[] = {0, 1, 20, 500, 100000};
    for (size_t i = 0; i < sizeof between / sizeof *between; i++) {
        begins_again(&signal_, between[i]);
        begins_again(&timer, between[i]);
        begins_again(&suspend, between[i]);
        if (between[i] >= 20) gap(between[i]);
    }
    looked_before();
    ends();
    refused();
    child();
    nested();
    not_armed();
    words();
    return check_done();
}
