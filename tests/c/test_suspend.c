/* The sampler of systems that suspend threads, over a system that is a script: time advances only while the sampler sleeps,
 * and each thread runs or waits as its program says. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* Its calls of the system go to the script, and its own names do not meet this system's. */
#define spp_os_now_ns fake_now
#define spp_os_sleep_until fake_sleep
#define spp_os_own_cpu_ns fake_own_cpu
#define spp_os_worker_start fake_worker_start
#define spp_os_worker_join fake_worker_join
#define spp_os_worker_tid fake_worker_tid
#define spp_os_trigger_arm fake_trigger_arm
#define spp_os_trigger_disarm fake_trigger_disarm
#define spp_os_trigger_watch fake_trigger_watch
#define spp_os_trigger_period fake_trigger_period
#define spp_os_trigger_alive fake_trigger_alive
#define spp_os_trigger_orphan fake_trigger_orphan
#define spp_os_trigger_drop fake_trigger_drop
#define spp_os_signal_install fake_signal_install
#define spp_os_stack_known fake_stack_known
#define spp_os_signals_care fake_signals_care
#define spp_os_signals_wait_at fake_signals_wait_at
#define spp_os_signal_remove fake_signal_remove
#define spp_os_signal_taken fake_signal_taken
#define spp_os_signal_moved fake_signal_moved
#define spp_os_exec_notify fake_exec_notify
#define spp_os_exec_preload fake_exec_preload
#define spp_os_signal_look fake_signal_look
#define spp_os_signal_take_back fake_signal_take_back
#define spp_os_signal_child fake_signal_child
#define spp_os_signal_cpu_ns fake_signal_cpu
#define spp_os_calls_interrupted fake_calls_interrupted
#define spp_os_signals_not_ignored fake_signals_not_ignored
#define spp_os_trigger_gave_up fake_trigger_gave_up
#define spp_clock_suspend fake_clock_suspend
#define spp_clock_gil fake_clock_gil
#define spp_os_clocks fake_clocks
#define spp_os_clocks_automatic fake_clocks_automatic
#define spp_os_clock_last fake_clock_last
#define spp_os_suspends fake_suspends
#define spp_os_thread_blocks fake_thread_blocks
#define spp_os_hold fake_hold
#define spp_os_let_go fake_let_go
#define spp_os_gate fake_gate
#define spp_os_stop_ns fake_stop_ns
#include "../../csrc/os/suspend/sampler.c"
#include "../../csrc/os/suspend/trigger.c"
#undef spp_os_now_ns
#undef spp_os_sleep_until

#include "core/capture/capture.h"
#include "core/capture/record.h"
#include "os/clock.h"
#include "os/context.h"
#include "os/process.h"
#include "os/signals.h"
#include "os/ticks.h"
#include "os/worker.h"

#define MS 1000000u
#define INTERVAL ((uint64_t)MS)
#define THREADS 4
#define NOBODY 0x0fffffff /* the id of no thread: they end at 4194304 */

/* ---- the script */

typedef struct {
    bool (*runs)(uint64_t ns); /* at that instant; NULL: never */
    bool gone, deaf;           /* no such thread; not to be suspended */
    uint64_t cpu_ns;
    unsigned stops, stopped; /* how often, and whether now */
} thread;
static thread threads[THREADS];
static uint64_t now_ns, end_ns, late_ns;
static unsigned any_stopped, opened;
static uint64_t stop_moves_ns; /* what a stop adds to the clock of the thread, once it goes on */

uint64_t fake_now(void) { return now_ns; }
uint64_t fake_own_cpu(void) { return 0; }
uint64_t fake_stop_ns(void) { return stop_moves_ns != 0 ? 100000 : 0; }

/* The only time that passes, in steps of 10 us. */
void fake_sleep(uint64_t until) {
    CHECK_EQUAL(any_stopped, 0); /* nobody sleeps while a thread is stopped */
    for (until += late_ns; now_ns < until; now_ns += 10000) {
        for (int i = 0; i < THREADS; i++) {
            if (threads[i].runs != NULL && threads[i].runs(now_ns)) threads[i].cpu_ns += 10000;
        }
    }
    if (now_ns >= end_ns) atomic_store(&stopping, 1);
}

static void (*body)(void *);
spp_os_worker *fake_worker_start(const char *name, bool prompt, void (*run)(void *), void *arg) {
    (void)name, (void)prompt, (void)arg;
    body = run;
    return (spp_os_worker *)&body;
}
void fake_worker_join(spp_os_worker *worker) { (void)worker; }
int32_t fake_worker_tid(const spp_os_worker *worker) { return worker != NULL ? 77 : 0; }

spp_suspend_result spp_suspend_open(int32_t tid, spp_suspend_handle *handle) {
    if (threads[tid].gone) return SPP_SUSPEND_GONE;
    opened++;
    *handle = (spp_suspend_handle)tid;
    return SPP_SUSPEND_DONE;
}
void spp_suspend_close(spp_suspend_handle handle) {
    (void)handle;
    opened--;
}
spp_suspend_result spp_suspend_cpu_ns(spp_suspend_handle handle, int32_t tid, uint64_t *ns) {
    CHECK_EQUAL(handle, (spp_suspend_handle)tid);
    CHECK_EQUAL(any_stopped, 0); /* a lock may be taken for it */
    *ns = threads[tid].cpu_ns;
    return threads[tid].gone ? SPP_SUSPEND_GONE : SPP_SUSPEND_DONE;
}
spp_suspend_result spp_suspend_stop(spp_suspend_handle handle, spp_suspend_registers *space, spp_os_context *context,
                                    spp_os_subject *subject) {
    thread *t = &threads[handle];
    if (t->gone) return SPP_SUSPEND_GONE;
    if (t->deaf) return SPP_SUSPEND_REFUSED;
    CHECK_EQUAL(any_stopped, 0);
    any_stopped = t->stopped = 1;
    t->stops++;
    context->machine = space;
    context->at_syscall = t->runs == NULL || !t->runs(now_ns);
    subject->slots = 4711;
    return SPP_SUSPEND_DONE;
}
void spp_suspend_go(spp_suspend_handle handle) {
    CHECK_EQUAL(threads[handle].stopped, 1);
    any_stopped = threads[handle].stopped = 0;
    threads[handle].cpu_ns += stop_moves_ns;
}
spp_suspend_result spp_suspend_describe(spp_suspend_handle handle, spp_os_context *context, spp_os_subject *subject) {
    (void)handle, (void)context;
    subject->slots = 4711;
    return SPP_SUSPEND_DONE;
}
static bool proves;
bool spp_suspend_clock_proves(void) { return proves; }

/* ---- what came of it */

typedef struct {
    unsigned ticks, refused, waiting; /* of the ticks, those that found it in a call */
    unsigned asleep;                  /* and for a while by then: a third of an interval */
    uint64_t last_cpu, on_running, on_waiting;
    unsigned phase[10];
} heard;
static heard of[THREADS];

static void hear(void *cookie, spp_tick kind, const spp_os_context *context) {
    heard *h = cookie;
    if (kind == SPP_TICK_REFUSED) {
        h->refused++;
        return;
    }
    CHECK_EQUAL(context->subject->tid, (int32_t)(h - of));
    CHECK_EQUAL(context->subject->slots, 4711);
    CHECK_EQUAL(threads[h - of].stopped, 1);
    h->ticks++;
    h->phase[now_ns % INTERVAL * 10 / INTERVAL]++;
    *(context->at_syscall ? &h->on_waiting : &h->on_running) += context->subject->cpu_ns - h->last_cpu;
    h->waiting += context->at_syscall;
    h->asleep += context->at_syscall && !threads[h - of].runs(now_ns - INTERVAL / 3);
    h->last_cpu = context->subject->cpu_ns;
}

static spp_os_trigger triggers[THREADS];

static void begin(void) {
    memset(threads, 0, sizeof threads);
    memset(of, 0, sizeof of);
    memset(triggers, 0, sizeof triggers);
    late_ns = stop_moves_ns = 0;
    CHECK_EQUAL(fake_signal_install(hear, NULL, &fake_clock_suspend, false), 0);
}

static void run(unsigned n, uint64_t ns) {
    for (unsigned i = 0; i < n; i++) {
        CHECK_EQUAL(fake_trigger_arm(&triggers[i], &fake_clock_suspend, (int32_t)i, INTERVAL, &of[i]), 0);
    }
    end_ns = now_ns + ns;
    atomic_store(&stopping, 0);
    body(NULL);
    for (unsigned i = 0; i < n; i++) fake_trigger_disarm(&triggers[i]);
    CHECK(all == NULL);
    CHECK_EQUAL(opened, 0);
    CHECK_EQUAL(any_stopped, 0);
}

static bool always(uint64_t ns) { return ns != 0; }
static bool a_third(uint64_t ns) { return ns / 10000 % 3 == 0; }
static bool in_step(uint64_t ns) { return ns % INTERVAL < INTERVAL / 4; }
static bool bursts(uint64_t ns) { return ns % (21 * MS) < MS; }
static bool long_bursts(uint64_t ns) { return ns % (53400 * (uint64_t)1000) < 3400 * (uint64_t)1000; }
static bool a_little(uint64_t ns) { return ns % INTERVAL < 20000; }
static bool late_bloomer(uint64_t ns) { return ns > 5000 * (uint64_t)MS; }

/* Ticks are as many as the periods of CPU time, or fewer where a thread is often found in calls; and none for one that does not
 * run.
 */
static void test_ticks_are_the_cpu_time(void) {
    begin();
    threads[0].runs = always;
    threads[1].runs = a_third;
    threads[2].runs = in_step;
    run(4, 2000 * (uint64_t)MS);
    for (int i = 0; i < 3; i++) {
        uint64_t due = threads[i].cpu_ns / INTERVAL, least = i == 0 ? due - 2 : due / 2;
        CHECK(due > 400);
        CHECK(of[i].ticks >= least && of[i].ticks <= due + 2);
    }
    CHECK_EQUAL(of[3].ticks, 0);
    CHECK_EQUAL(threads[3].stops, 0); /* one that does not run is not touched */
}

/* Looks come at any phase of an interval, so a program that keeps step with it shows no more of one part. 2000 ticks in ten
 * tenths: 200 each with a deviation of 13; that one is off by 70 has odds of one in a million. */
static void test_no_program_stays_in_step(void) {
    begin();
    threads[0].runs = always;
    run(1, 2000 * (uint64_t)MS);
    for (int k = 0; k < 10; k++) CHECK(of[0].phase[k] > 130 && of[0].phase[k] < 270);
}

/* A thread that runs a millisecond and waits for twenty is mostly found waiting: its time must not go to that. */
static void test_bursts_keep_their_time(void) {
    begin();
    threads[0].runs = bursts;
    run(1, 20000 * (uint64_t)MS);
    CHECK(of[0].ticks > 300); /* of 952 periods: some bursts get two ticks, some not */
    CHECK(of[0].on_running > 9 * of[0].on_waiting);
}

/* Where being stopped moves a thread's clock, a sleeper is not stopped because it was stopped: of its 50 looks a few may. Its
 * sleep gets no tick, and the time that stops take is in the tick stats like any other of its clock. */
static void test_a_stop_is_not_the_cause_of_the_next(void) {
    begin();
    threads[0].runs = long_bursts;
    stop_moves_ns = 8000;
    run(1, 53400 * (uint64_t)MS); /* 1000 bursts */
    CHECK_EQUAL(of[0].asleep, 0);
    CHECK(of[0].ticks > 2500 && of[0].ticks <= threads[0].cpu_ns / INTERVAL + 2);
    CHECK(threads[0].stops < of[0].ticks + 3 * 1000);
}

/* And one that does run so little at a time still gets its ticks, all of them. */
static void test_short_calls_get_their_time(void) {
    for (int moves = 0; moves < 2; moves++) {
        begin();
        threads[0].runs = a_little;
        stop_moves_ns = moves ? 8000 : 0;
        run(1, 20000 * (uint64_t)MS);
        uint64_t due = threads[0].cpu_ns / INTERVAL;
        CHECK(due >= 400 && of[0].ticks + 4 > due && of[0].ticks <= due + 2);
    }
}

/* A late sampler owes no burst of ticks, and what it owes is less than one. */
static void test_a_late_sampler_does_not_catch_up(void) {
    begin();
    threads[0].runs = always;
    late_ns = 5 * MS;
    run(1, 1000 * (uint64_t)MS);
    CHECK(of[0].ticks <= 1000 / 5 + 1 && of[0].ticks > 1000 / 8);
}

static void test_refusals_are_reported_and_the_dead_are_left(void) {
    begin();
    for (int i = 0; i < 3; i++) threads[i].runs = always;
    threads[1].deaf = true;
    for (unsigned i = 0; i < 3; i++) {
        CHECK_EQUAL(fake_trigger_arm(&triggers[i], &fake_clock_suspend, (int32_t)i, INTERVAL, &of[i]), 0);
    }
    threads[2].gone = true;
    end_ns = now_ns + 100 * MS;
    atomic_store(&stopping, 0);
    body(NULL);
    CHECK(of[0].ticks > 95);
    CHECK_EQUAL(of[1].ticks, 0);
    CHECK(of[1].refused > 95);
    CHECK_EQUAL(of[2].ticks + of[2].refused, 0);
    fake_trigger_disarm(&triggers[1]); /* from the middle of the list */
    fake_trigger_disarm(&triggers[1]); /* twice is once */
    CHECK(!fake_trigger_alive(&triggers[1]) && fake_trigger_alive(&triggers[0]));
    fake_trigger_disarm(&triggers[0]);
    fake_trigger_disarm(&triggers[2]);
    CHECK(all == NULL);
    errno = 0;
    CHECK_EQUAL(fake_trigger_arm(&triggers[2], &fake_clock_suspend, 2, INTERVAL, &of[2]), -1);
    CHECK_EQUAL(errno, ESRCH);
    for (const spp_clock *const *at = fake_clocks; *at != NULL; at++) { /* other systems' are known, and do not work */
        const char *why = NULL;
        if ((*at)->line == NULL) CHECK((*at)->probe(&why) == -1 && errno == ENOSYS && why != NULL);
    }
    CHECK_EQUAL(opened, 0);
}

/* With the interpreter's lock no thread is stopped, and ticks come only while it is held. */
static unsigned inside, entries;
static bool enter(void) {
    CHECK_EQUAL(list_lock.taken, 0); /* the holder of the list's lock does not wait for this one */
    inside = 1;
    return entries++ % 2 == 0 || (inside = 0) != 0;
}
static void leave(void) { inside = 0; }

static void hear_inside(void *cookie, spp_tick kind, const spp_os_context *context) {
    heard *h = cookie;
    CHECK_EQUAL(inside, 1);
    CHECK_EQUAL(kind, SPP_TICK_CPU);
    CHECK_EQUAL(context->subject->slots, 4711);
    h->ticks++;
}

static void test_the_interpreters_lock(void) {
    const char *why;
    begin();
    on_tick = hear_inside;
    threads[0].runs = always;
    CHECK_EQUAL(fake_clock_gil.probe(&why), -1);
    CHECK_EQUAL(fake_trigger_arm(&triggers[0], &fake_clock_gil, 0, INTERVAL, &of[0]), -1);
    fake_gate(enter, leave);
    CHECK_EQUAL(fake_clock_gil.probe(&why), 0);
    CHECK_EQUAL(fake_trigger_arm(&triggers[0], &fake_clock_gil, 0, INTERVAL, &of[0]), 0);
    end_ns = now_ns + 1000 * (uint64_t)MS;
    atomic_store(&stopping, 0);
    body(NULL);
    fake_trigger_disarm(&triggers[0]);
    CHECK(of[0].ticks > 400 && of[0].ticks <= 510); /* every second time the lock is taken */
    CHECK_EQUAL(threads[0].stops, 0);
    CHECK_EQUAL(inside, 0);
}

static void test_holding(void) {
    spp_os_context context;
    begin();
    CHECK_EQUAL(fake_hold(&triggers[0], &context), -1); /* not armed */
    CHECK_EQUAL(fake_trigger_arm(&triggers[0], &fake_clock_suspend, 0, INTERVAL, &of[0]), 0);
    proves = true;
    CHECK_EQUAL(fake_hold(&triggers[0], &context), 1);
    proves = false;
    CHECK_EQUAL(fake_hold(&triggers[0], &context), 0);
    CHECK_EQUAL(threads[0].stopped, 1);
    CHECK_EQUAL(context.subject->tid, 0);
    fake_let_go(&triggers[0]);
    CHECK_EQUAL(threads[0].stopped, 0);
    threads[0].deaf = true;
    CHECK_EQUAL(fake_hold(&triggers[0], &context), -1);
    threads[0].gone = true;
    CHECK_EQUAL(fake_hold(&triggers[0], &context), -1);
    fake_trigger_disarm(&triggers[0]);
}

/* The core on top: its samples' weights are the CPU clock, no more and no less, and its tick stats add up. */
static uintptr_t no_python(const spp_os_subject *subject) {
    CHECK(subject != NULL);
    return 0;
}

static void test_weights_are_the_cpu_clock(void) {
    CHECK_EQUAL(spp_capture_init(), 0);
    spp_cap.max_depth = 8;
    spp_cap.interval_ns = INTERVAL;
    spp_cap.group = 1;
    spp_cap.thread_state = no_python;
    for (int kind = 0; kind < 4; kind++) {
        bool late = kind & 1;
        stop_moves_ns = kind & 2 ? 8000 : 0;
        memset(threads, 0, sizeof threads);
        threads[0].runs = late ? late_bloomer : a_third;
        late_ns = late ? 3 * MS : 0;
        CHECK_EQUAL(fake_signal_install(spp_capture_tick, NULL, &fake_clock_suspend, false), 0);
        spp_thread *t = &spp_threads[0];
        CHECK_EQUAL(spp_threads_prepare(t, NOBODY, 0, &fake_clock_suspend), 0);
        atomic_store(&t->state, SPP_THREAD_ARMED);
        atomic_store(&spp_cap.active, 1);
        CHECK_EQUAL(fake_trigger_arm(&triggers[0], &fake_clock_suspend, 0, INTERVAL, t), 0);
        now_ns = now_ns > 4900 * (uint64_t)MS ? now_ns : 4900 * (uint64_t)MS;
        end_ns = now_ns + 1500 * (uint64_t)MS;
        atomic_store(&stopping, 0);
        body(NULL);
        fake_trigger_disarm(&triggers[0]);
        uint64_t weight = 0, samples = 0;
        for (; spp_queue_ready(&t->tick.queue) > 0; samples++) {
            const spp_record record = spp_record_read(&t->tick.queue, 0);
            weight += record.weight;
            spp_queue_take(&t->tick.queue, spp_record_words(&record));
        }
        CHECK_EQUAL(samples, t->tick.taken);
        CHECK_EQUAL(weight, t->tick.given_ns);
        CHECK(weight <= threads[0].cpu_ns && threads[0].cpu_ns - weight < 6 * INTERVAL);
        CHECK_EQUAL(t->tick.ticks, t->tick.taken + t->tick.losses[SPP_LOSS_overrun]);
        uint64_t due = threads[0].cpu_ns / INTERVAL;
        CHECK(t->tick.ticks + 6 > due && t->tick.ticks <= due + 2);
        if (late) CHECK(t->tick.losses[SPP_LOSS_overrun] > due / 2);
    }
}

int main(void) {
    test_ticks_are_the_cpu_time();
    test_no_program_stays_in_step();
    test_bursts_keep_their_time();
    test_a_stop_is_not_the_cause_of_the_next();
    test_short_calls_get_their_time();
    test_a_late_sampler_does_not_catch_up();
    test_refusals_are_reported_and_the_dead_are_left();
    test_the_interpreters_lock();
    test_holding();
    test_weights_are_the_cpu_clock();
    return check_done();
}
