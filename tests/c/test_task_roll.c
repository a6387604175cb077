/* The roll of tasks, over lists that change between its turns: which tasks are in it. */
#include <stdlib.h>
#include <string.h>

#define spp_task_roll_forget fake_forget
#define spp_task_roll_turn fake_turn
#define spp_task_roll fake_roll
#include "../../csrc/core/run/task_roll.c"

#include "check.h"

#define NODES 40000u
#define OFFSET 24u

typedef struct {
    uint64_t head[3]; /* of the task, up to its node */
    uint64_t node[2];
} task;

static task tasks[NODES];
static uint64_t ends[2][2]; /* the lists' heads */
static uint32_t gone[NODES], gone_n;
static bool lives[NODES];
static unsigned long long random_state = 1;

static void link_end(uint64_t *head, uint64_t *node) {
    uint64_t *last = (uint64_t *)(uintptr_t)head[1];
    node[0] = (uintptr_t)head;
    node[1] = (uintptr_t)last;
    last[0] = (uintptr_t)node;
    head[1] = (uintptr_t)node;
}

static uint32_t join(uint32_t which) {
    uint32_t i = gone[--gone_n]; /* the memory of the one that left last */
    link_end(ends[which], tasks[i].node);
    lives[i] = true;
    return i;
}

static void leave(uint32_t i) {
    uint64_t *node = tasks[i].node;
    ((uint64_t *)(uintptr_t)node[1])[0] = node[0];
    ((uint64_t *)(uintptr_t)node[0])[1] = node[1];
    node[0] = node[1] = 0;
    lives[i] = false;
    gone[gone_n++] = i;
}

static bool turn(void) {
    const uintptr_t heads[2] = {(uintptr_t)ends[0], (uintptr_t)ends[1]};
    return spp_task_roll_turn(heads, 2);
}

/* How often a task is in the roll. */
static uint32_t times(uint32_t i) {
    uint64_t mask, used;
    const uintptr_t *slots = spp_task_roll(&mask, &used);
    uint32_t n = 0;
    for (uint64_t k = 0; slots != NULL && k <= mask; k++) n += slots[k] == (uintptr_t)&tasks[i];
    return n;
}

static uint64_t number(void) {
    uint64_t mask, used;
    (void)spp_task_roll(&mask, &used);
    return used;
}

static void begin(uint32_t living) {
    for (uint32_t l = 0; l < 2; l++) ends[l][0] = ends[l][1] = (uintptr_t)ends[l];
    gone_n = 0;
    for (uint32_t i = 0; i < NODES; i++) {
        memset(&tasks[i], 0, sizeof tasks[i]);
        gone[gone_n++] = NODES - 1 - i;
        lives[i] = false;
    }
    for (uint32_t i = 0; i < living; i++) (void)join(i % 3 == 0);
    spp_coroutine_rule.task_node = OFFSET;
    spp_task_roll_forget();
}

/* That is what the roll is after turns without a change. */
static void check_exact(uint32_t living) {
    for (uint32_t i = 0; i < 2 * (NODES / PART + 2); i++) (void)turn();
    CHECK_EQUAL(number(), living);
    for (uint32_t k = 0; k < 200; k++) {
        uint32_t i = (uint32_t)(check_random(&random_state) % NODES);
        CHECK_EQUAL(times(i), lives[i]);
    }
}

static void test_few_are_all_there_at_once(void) {
    for (uint32_t n = 0; n < 200; n += 7) {
        begin(n);
        CHECK(turn());
        CHECK_EQUAL(number(), n);
        if (n == 0) continue;
        leave(0);
        CHECK(turn());
        CHECK_EQUAL(number(), n - 1);
        CHECK_EQUAL(times(0), 0);
    }
}

static void test_many_are_known_after_some_turns(void) {
    begin(20000);
    uint32_t turns = 1;
    while (!turn()) turns++;
    CHECK_EQUAL(turns, 20000 / PART + 1);
    CHECK_EQUAL(number(), 20000);
}

/* Each that joined since the turn before is there, whatever walk is under way, and no task is there twice. */
static void test_those_that_join(void) {
    begin(20000);
    while (!turn()) {}
    for (uint32_t round = 0; round < 60; round++) {
        uint32_t joined[12];
        for (uint32_t k = 0; k < 12; k++) joined[k] = join(k % 2);
        CHECK(turn());
        for (uint32_t k = 0; k < 12; k++) CHECK_EQUAL(times(joined[k]), 1);
        for (uint32_t k = 0; k < 12; k += 2) leave(joined[k]); /* whose memory the next ones get */
    }
    check_exact(20000 + 60 * 6);
}

/* Whichever place a walk has come to may be gone at its next turn. */
static void test_those_that_leave(void) {
    begin(30000);
    uint32_t living = 30000;
    for (uint32_t round = 0; round < 100; round++) {
        (void)turn();
        for (uint32_t k = 0; k < 200; k++) {
            uint32_t i = (uint32_t)(check_random(&random_state) % NODES);
            if (lives[i] && at != (uintptr_t)tasks[i].node) leave(i), living--;
        }
        uintptr_t place = at;
        if (place != 0) leave((uint32_t)((task *)(place - OFFSET) - tasks)), living--;
        for (uint32_t k = 0; k < 100; k++) (void)join(k % 2), living++;
    }
    CHECK(is_whole);
    check_exact(living);
}

static void test_a_list_that_ends(void) {
    begin(9000);
    while (!turn()) {}
    const uintptr_t heads[1] = {(uintptr_t)ends[0]};
    for (uint32_t i = 0; i < 5; i++) CHECK(spp_task_roll_turn(heads, 1));
    CHECK_EQUAL(number(), 6000);
}

int main(void) {
    CHECK_EQUAL(spp_os_memory_init(), 0);
    test_few_are_all_there_at_once();
    test_many_are_known_after_some_turns();
    test_those_that_join();
    test_those_that_leave();
    test_a_list_that_ends();
    spp_task_roll_forget();
    return check_done();
}
