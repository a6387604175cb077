#include "core/run/task_rounds.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/random.h"
#include "core/capture/coroutines.h"
#include "core/capture/frames.h"
#include "core/resolve/resolve.h"
#include "core/run/state.h"
#include "core/run/task_roll.h"
#include "os/clock.h"
#include "os/lock.h"
#include "os/memory.h"

#define DRAWN_MOST 32u     /* tasks of a round */
#define DRAWN_LEAST 8u     /* a round has a cost of its own, too */
#define LOOPS_MOST 64u     /* event loops that run at once */
#define SCANNED_MOST 1024u /* slots of a set that is read whole; of a larger one slots are drawn */
#define MISSES_MOST 1024u  /* empty slots drawn in a round */
#define COST_PART 20u      /* a round takes at most this part of a processor */
#define OWED_MOST_NS 1e9   /* longer ago it was not these tasks, perhaps */
#define COSTS_KEPT 8u      /* rounds whose costs are averaged */

typedef struct {
    uintptr_t task, from; /* as spp_coroutines_read takes them */
} drawn_task;

static struct {
    uintptr_t loop, tstate;
    spp_thread *thread;
} loops[LOOPS_MOST];
static uint32_t loops_n;
static drawn_task drawn[DRAWN_MOST];
static uint32_t drawn_n;
static uint32_t drawn_most; /* of this round */
static uint64_t each_ns;    /* what a task that is drawn costs, with its part of the round's own cost; 0: not known yet */
static uint64_t listed;     /* how many tasks there are */
static uint64_t random_state, last_ns, due_ns;
static double owed; /* of the rounds so far: ns that are in no sample yet, of a task in the mean */
static spp_waiting_task waiting;

static bool word(uint64_t *to, uintptr_t at) { return spp_os_read(to, at, sizeof *to) == 0; }

/* ---- which event loops run, and in which threads */

static void find_loops(void) {
    uint32_t used = atomic_load_explicit(&spp_threads_used, memory_order_acquire);
    loops_n = 0;
    for (uint32_t i = 0; i < used && loops_n < LOOPS_MOST; i++) {
        spp_thread *t = &spp_threads[i];
        if (atomic_load_explicit(&t->state, memory_order_acquire) != SPP_THREAD_ARMED) continue;
        uintptr_t tstate = atomic_load_explicit(&t->tick.tstate, memory_order_relaxed), loop = spp_task_loop(tstate);
        if (loop == 0 || loop == spp_py.none) continue;
        loops[loops_n].loop = loop;
        loops[loops_n].tstate = tstate;
        loops[loops_n++].thread = t;
    }
}

/* Which of them a task is of; loops_n: of none. */
static uint32_t loop_of(uintptr_t task) {
    const uintptr_t loop = spp_coroutines_loop(task);
    uint32_t i = 0;
    while (i < loops_n && (loop == 0 || loops[i].loop != loop)) i++;
    return i;
}

/* ---- which tasks are drawn */

/* One more of those that are listed: each is among the drawn with the same probability (reservoir sampling). */
static void draw(uintptr_t task, uintptr_t from) {
    uint64_t place = listed++ < drawn_most ? drawn_n++ : spp_random_below(&random_state, listed);
    if (place < drawn_most) drawn[place] = (drawn_task){task, from};
}

/* 3.14+: a thread's tasks are a list. */
static bool draw_lists(void) {
    uintptr_t heads[LOOPS_MOST];
    uint64_t mask, used;
    for (uint32_t k = 0; k < loops_n; k++) heads[k] = loops[k].tstate + (uintptr_t)spp_task_rule.tstate_tasks;
    if (!spp_task_roll_turn(heads, loops_n)) return false;
    const uintptr_t *slots = spp_task_roll(&mask, &used);
    if (slots == NULL) return true;
    const bool all = mask < SCANNED_MOST;
    for (uint64_t i = 0; all ? i <= mask : i < MISSES_MOST && drawn_n < drawn_most; i++) {
        uintptr_t task = slots[all ? i : spp_random_below(&random_state, mask + 1)];
        if (task != 0) draw(task, 0);
    }
    listed = used;
    return true;
}

/* Before: a set of weak references; an entry is one and its hash, which is -1 of one that was deleted. */
static void draw_entry(const uint64_t entry[2]) {
    uint64_t task;
    if (entry[0] == 0 || entry[1] == UINT64_MAX || !word(&task, entry[0] + spp_coroutine_rule.weakref_object)) return;
    if (task != spp_py.none) draw(task, entry[0]);
}

static bool draw_set(uintptr_t set) {
    static uint64_t entries[2 * SCANNED_MOST];
    uint64_t mask, table, used;
    if (!word(&mask, set + spp_coroutine_rule.set_mask) || !word(&table, set + spp_coroutine_rule.set_table) ||
        !word(&used, set + spp_coroutine_rule.set_used) || mask >= UINT32_MAX)
        return false;
    if (mask < SCANNED_MOST) {
        if (spp_os_read(entries, table, 16u * (mask + 1)) != 0) return false;
        for (uint64_t i = 0; i <= mask; i++) draw_entry(entries + 2 * i);
        return true;
    }
    for (uint32_t i = 0; i < MISSES_MOST && drawn_n < drawn_most; i++) {
        if (spp_os_read(entries, table + 16u * spp_random_below(&random_state, mask + 1), 16) != 0) return false;
        draw_entry(entries);
    }
    listed = used;
    return true;
}

#define TRIES 3

static bool draw_all(void) {
    const uintptr_t set = atomic_load_explicit(&spp_coroutine_all, memory_order_acquire);
    listed = drawn_n = 0;
    if (spp_task_rule.tstate_tasks >= 0) return draw_lists();
    for (int i = 0; i < TRIES && set != 0; i++) {
        if (draw_set(set)) return true;
        listed = drawn_n = 0;
    }
    return false;
}

/* ---- samples */

/* Drain lock held. False: it moved whenever it was read. */
static bool sample(const drawn_task *of, uint64_t weight) {
    const uint32_t loop = loop_of(of->task);
    if (loop == loops_n || atomic_load(&spp_cap.active) != 1) return true;
    spp_thread *t = loops[loop].thread;
    spp_thread_source *s = &t->sources[SPP_SOURCE_TASKS];
    if (atomic_load_explicit(&t->state, memory_order_relaxed) != SPP_THREAD_ARMED) return true;
    spp_task_state state = spp_coroutines_read(of->task, of->from, loops[loop].tstate, &waiting);
    if (state == SPP_TASK_RUNS || state == SPP_TASK_GONE) return true;
    if (state == SPP_TASK_CHANGED) {
        atomic_fetch_add_explicit(&s->losses[SPP_LOSS_task_changed], 1, memory_order_relaxed);
        return false;
    }
    s->before += weight;
    /* Not the round's instant: what held its loop just now, its thread's samples of this instant say. */
    if (spp_resolve_task(t, &waiting, spp_os_now_ns(), weight)) atomic_fetch_add_explicit(&s->taken, 1, memory_order_relaxed);
    return true;
}

/* Those that moved whenever they were looked at are as if they had not been drawn: their time goes to the others of the next
 * rounds. It is the loop that was busy, so they are no other tasks than the others. False: it is not known yet which tasks there
 * are; their time goes to a later round. */
static bool have_round(uint64_t now) {
    drawn_n = 0;
    find_loops();
    if (loops_n != 0 && !draw_all()) return false;
    if (drawn_n == 0) owed = 0; /* no task waits, and those that come later did not wait then */
    if (drawn_n == 0) return true;
    if (spp_task_rule.check != NULL) spp_task_rule.check();
    const double passed = (double)(now - last_ns), more = owed < passed ? owed : passed, of_each = (passed + more) / drawn_n;
    owed -= more;
    for (uint32_t i = 0; i < drawn_n; i++) {
        spp_os_lock();
        if (!sample(&drawn[i], (uint64_t)(of_each * (double)listed))) owed += of_each;
        spp_os_unlock();
    }
    if (owed > OWED_MOST_NS) owed = OWED_MOST_NS;
    return true;
}

void spp_task_rounds_begin(void) {
    spp_task_roll_forget();
    last_ns = due_ns = spp_os_now_ns();
    random_state = SPP_RANDOM_SEED ^ last_ns << 20; /* never 0 */
    drawn_most = DRAWN_MOST;
    each_ns = 0;
    owed = 0; /* of an earlier run's time nothing goes to this one's samples */
}

void spp_task_rounds_end(void) { spp_task_roll_forget(); }

/* How many tasks the next round draws: as many as it can read for its part of a processor in one period. Tasks of one round are
 * much alike, as one loop holds them all up, so rounds that come more often say more than larger ones. */
static void learn_cost(uint64_t cost, uint64_t period) {
    if (drawn_n == 0) return;
    each_ns = each_ns == 0 ? cost / drawn_n : (each_ns * (COSTS_KEPT - 1) + cost / drawn_n) / COSTS_KEPT;
    uint64_t most = period / COST_PART / (each_ns + 1);
    drawn_most = most < DRAWN_LEAST ? DRAWN_LEAST : most > DRAWN_MOST ? DRAWN_MOST : (uint32_t)most;
}

void spp_task_rounds_turn(void) {
    const uint64_t period = spp_run_state.sources.period[SPP_SOURCE_TASKS];
    uint64_t now = spp_os_now_ns();
    if (period == 0 || now < due_ns) return;
    bool may = atomic_load(&spp_cap.active) == 1 && atomic_load_explicit(&spp_task_type, memory_order_acquire) != 0;
    uint64_t began = spp_os_own_cpu_ns();
    if (!may || have_round(now)) last_ns = now;
    uint64_t cost = spp_os_own_cpu_ns() - began, rest = COST_PART * cost;
    if (may) learn_cost(cost, period);
    due_ns = now + period / 2 + spp_random_below(&random_state, period);
    if (due_ns < now + rest) due_ns = now + rest;
}
