/* Rounds of samples of waiting tasks, over a clock and a task that are a script: what the samples' weights add up to. */
#include <string.h>

#include "check.h"

#define spp_os_now_ns fake_now
#define spp_os_own_cpu_ns fake_own_cpu
#define spp_task_loop fake_loop
#define spp_coroutines_loop fake_loop_of_task
#define spp_coroutines_read fake_read
#define spp_resolve_task fake_sample
#define spp_task_rounds_begin fake_begin
#define spp_task_rounds_end fake_end
#define spp_task_rounds_turn fake_turn
#include "../../csrc/core/run/task_rounds.c"

#define LOOP 64u
#define TASK 128u
#define PERIOD 10000000u
#define STEP (2 * (uint64_t)PERIOD) /* a round is due at each */

static uint64_t now_ns = 77, weights;
static spp_task_state state; /* of the only task, whenever it is read */

uint64_t fake_now(void) { return now_ns; }
uint64_t fake_own_cpu(void) { return 0; }
uintptr_t fake_loop(uintptr_t tstate) {
    (void)tstate;
    return LOOP;
}
uintptr_t fake_loop_of_task(uintptr_t task) {
    CHECK_EQUAL(task, TASK);
    return LOOP;
}
spp_task_state fake_read(uintptr_t task, uintptr_t from, uintptr_t tstate, spp_waiting_task *to) {
    (void)task, (void)from, (void)tstate, (void)to;
    return state;
}
bool fake_sample(spp_thread *thread, const spp_waiting_task *task, uint64_t time_ns, uint64_t weight) {
    (void)thread, (void)task, (void)time_ns;
    weights += weight;
    return true;
}

static spp_thread thread;
static uint64_t reference[1] = {TASK}, table[2], set[3];

static void begin(void) {
    table[0] = (uintptr_t)reference;
    set[2] = (uintptr_t)table; /* 0: the mask, of one slot; 1: how many are used */
    set[1] = 1;
    spp_coroutine_rule = (spp_coroutine_rules){.set_mask = 0, .set_used = 8, .set_table = 16, .weakref_object = 0};
    spp_task_rule = (spp_task_rules){.tstate_tasks = -1};
    atomic_store(&spp_coroutine_all, (uintptr_t)set);
    atomic_store(&spp_task_type, 4096);
    atomic_store(&thread.state, SPP_THREAD_ARMED);
    atomic_store(&spp_cap.active, 1);
    spp_threads = &thread;
    atomic_store(&spp_threads_used, 1);
    spp_run_state.sources.period[SPP_SOURCE_TASKS] = PERIOD;
    weights = 0;
    fake_begin();
}

static void rounds(unsigned n, spp_task_state as) {
    for (state = as; n > 0; n--) {
        now_ns += STEP;
        fake_turn();
    }
}

static void test_time_of_a_task_that_moved(void) {
    begin();
    rounds(10, SPP_TASK_CHANGED);
    CHECK_EQUAL(weights, 0);
    rounds(20, SPP_TASK_WAITS);
    CHECK_EQUAL(weights, 30 * STEP);
}

static void test_time_of_an_earlier_run(void) {
    begin();
    rounds(100, SPP_TASK_CHANGED);
    now_ns += 1000 * STEP;
    begin();
    rounds(20, SPP_TASK_WAITS);
    CHECK_EQUAL(weights, 20 * STEP);
}

int main(void) {
    CHECK_EQUAL(spp_os_memory_init(), 0);
    test_time_of_a_task_that_moved();
    test_time_of_an_earlier_run();
    return check_done();
}
