/* Exact executions: each line and way is counted once for each time that it ran, by all threads together, and nothing else is. */
#include "core/run/executions.h"

#include <pthread.h>

#include "check.h"
#include "os/lock.h"

static uint64_t released;
static void release(uintptr_t code) {
    CHECK(code != 0);
    released++;
}

static uint64_t seen;
static void see(uintptr_t code) {
    CHECK(code != 0);
    seen++;
}

#define CODE(i) ((uintptr_t)0x7f0000000000u + 16u * (uintptr_t)(i))
static const uint32_t line_of[] = {10, 10, 0, 12, 11, 11, 12};
#define N ((uint32_t)(sizeof line_of / sizeof *line_of))

static spp_executions *start(void) {
    bool added;
    released = 0;
    CHECK(spp_executions_start() == 0);
    spp_executions_follow(false);
    CHECK(spp_executions_find(CODE(1)) == NULL);
    spp_executions *of = spp_executions_add(CODE(1), line_of, N, 1, &added);
    CHECK(of != NULL && added && spp_executions_find(CODE(1)) == of);
    CHECK(spp_executions_add(CODE(1), line_of, N, 1, &added) == of && !added);
    return of;
}

static void test_jumps_and_branches(void) {
    spp_executions *of = start();
    CHECK(spp_executions_at(of, 3) == 12 && spp_executions_at(of, 2) == 0 && spp_executions_at(of, N) == 0);
    CHECK(spp_executions_jump(of, 5, 4)); /* back within a line */
    CHECK(spp_executions_jump(of, 6, 3));
    CHECK(!spp_executions_jump(of, 4, 5)); /* forward */
    CHECK(!spp_executions_jump(of, 6, 4)); /* to another line */
    CHECK(!spp_executions_jump(of, 2, 2)); /* no line */
    CHECK(!spp_executions_jump(of, N, 0) && !spp_executions_jump(of, UINT32_MAX, 0));
    spp_executions_line(of, 9); /* none of its lines */
    spp_executions_line(of, 13);
    spp_executions_line(of, UINT32_MAX);
    CHECK(!spp_executions_branch(of, 3, 4));
    spp_executions_add_way(of, 3, 4, 11);
    spp_executions_add_way(of, 3, 4, 11);
    CHECK(spp_executions_branch(of, 3, 4) && !spp_executions_branch(of, 3, 0));
    spp_executions_add_way(of, 3, 0, 10);
    CHECK(spp_executions_branch(of, 3, 0));
    spp_executions_add_way(of, 3, 6, 12); /* there are two ways */
    CHECK(!spp_executions_branch(of, 3, 6) && !spp_executions_branch(of, N, 6));
    spp_executions_add_way(of, N, 6, 12);
    spp_executions_stop(release);
    CHECK(released == 1);
}

static void *run(void *arg) {
    spp_executions *of = arg;
    for (int i = 0; i < 20000; i++) {
        spp_executions_call(of);
        spp_executions_line(of, 11);
        if (!spp_executions_branch(of, 5, (uint32_t)i % 2)) spp_executions_add_way(of, 5, (uint32_t)i % 2, 10);
    }
    return NULL;
}

static void test_threads(void) {
    spp_executions *of = start();
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, run, of) == 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(spp_executions_branch(of, 5, 0) && spp_executions_branch(of, 5, 1));
    spp_executions_stop(release);
}

static void test_space_runs_out(void) {
    bool added;
    uint32_t n = 0;
    const uint32_t far[] = {1, UINT32_MAX};
    (void)start();
    for (uint32_t i = 2; i < 10000; i++) n += spp_executions_add(CODE(i), line_of, N, 1, &added) != NULL && added;
    CHECK(n == 4095);
    for (uint32_t i = 2; i < 4097; i++) CHECK(spp_executions_find(CODE(i)) != NULL);
    CHECK(spp_executions_find(CODE(5000)) == NULL);
    seen = 0;
    spp_executions_each(see);
    CHECK(seen == 4096);
    spp_executions_stop(release);
    CHECK(released == 4096);
    (void)start();
    CHECK(spp_executions_add(CODE(2), far, 2, 0, &added) == NULL && !added);
    CHECK(spp_executions_add(CODE(2), far, 0, 0, &added) == NULL && !added);
    spp_executions_stop(release);
}

static void test_on_and_off(void) {
    bool added;
    (void)start();
    CHECK(atomic_load(&spp_executions_on));
    spp_executions_follow(true);
    CHECK(!atomic_load(&spp_executions_on) && atomic_load(&spp_executions_open));
    spp_executions_close();
    CHECK(spp_executions_add(CODE(3), line_of, N, 1, &added) == NULL && !added);
    spp_executions_follow(false);
    CHECK(!atomic_load(&spp_executions_on));
    spp_executions_stop(release);
}

int main(void) {
    CHECK(spp_os_lock_init(NULL) == 0);
    test_jumps_and_branches();
    test_threads();
    test_space_runs_out();
    test_on_and_off();
    return check_done();
}
