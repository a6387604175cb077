/* Wall mode's sampler where blocked threads are held, over a system that is a script: what being held does to a thread's
 * clock, and what comes of it. */
#include <string.h>

#include "check.h"

/* Its calls of the system, of the walker and of the writer go to the script. */
#define spp_os_now_ns fake_now
#define spp_os_thread_cpu_ns fake_cpu
#define spp_os_hold fake_hold
#define spp_os_let_go fake_let_go
#define spp_os_clock_is_exact fake_is_exact
#define spp_os_stop_ns fake_stop_ns
#define spp_frames_own fake_frames
#define spp_frames_other fake_frames
#define spp_os_thread_waits fake_waits
#define spp_os_descriptor fake_descriptor
#define spp_resolve_blocked fake_blocked
#define spp_resolve_flush fake_flush
#define spp_wall_body fake_body
#include "../../csrc/core/run/wall.c"
#include "os/clock.h"
#include "os/context.h"
#include "os/ticks.h"

#define MS ((uint64_t)1000000)
#define INTERVAL MS
#define LOOKS 1000

static uint64_t now_ns, cpu_ns, hold_moves_ns, written_ns, unknown_ns;
static bool given_unknown;
static unsigned holds, walks, given, place; /* place: where the thread is */
static bool holds_none;                     /* as where threads are walked without being held */

uint64_t fake_now(void) { return now_ns; }
bool fake_is_exact(void) { return true; }
uint64_t fake_stop_ns(void) { return hold_moves_ns != 0 ? 100000 : 0; }
int fake_cpu(int32_t tid, uint64_t *ns) {
    (void)tid;
    *ns = cpu_ns;
    return 0;
}
int fake_hold(const spp_os_trigger *trigger, spp_os_context *context) {
    (void)trigger;
    if (holds_none) return 1;
    holds++;
    *context = (spp_os_context){.sp = 4096};
    return 0;
}
void fake_let_go(const spp_os_trigger *trigger) {
    (void)trigger;
    cpu_ns += hold_moves_ns;
}
static enum spp_loss fails; /* every walk */
static spp_os_wait waits;   /* why the thread is off the CPU */
static spp_reason given_reason;
static char given_on[SPP_OS_DESCRIPTOR];
enum spp_loss fake_frames(spp_walk *walk) {
    if (fails != SPP_LOSS_NONE) return fails;
    walk->depth = 2;
    walk->out[0] = 700 + place;
    walk->out[1] = 42;
    return SPP_LOSS_NONE;
}
spp_os_wait fake_waits(int32_t tid) {
    (void)tid;
    return waits;
}
void fake_descriptor(int32_t tid, int fd, char to[SPP_OS_DESCRIPTOR]) {
    (void)tid;
    snprintf(to, SPP_OS_DESCRIPTOR, "file %d", fd);
}
bool fake_blocked(spp_thread *t, const spp_walk *walk, uint64_t label, const spp_task *task, const spp_trace_ids *span,
                  const spp_waiting *waiting) {
    (void)label, (void)task, (void)span;
    t->wall.reason = waiting->reason;
    t->wall.held_by = waiting->held_by;
    given_reason = waiting->reason;
    strcpy(given_on, waiting->on);
    given_unknown = walk->out[0] == SPP_UNKNOWN_STACK;
    if (given_unknown) return true;
    walks++;
    given = (unsigned)walk->out[0] - 700;
    return true;
}
/* As resolve.c's, without the file. */
void fake_flush(spp_thread *t) {
    if (t->wall.repeats == 0) return;
    uint64_t weight = t->wall.off_ns > 0 ? (uint64_t)t->wall.off_ns : 0;
    *(given_unknown ? &unknown_ns : &written_ns) += weight;
    t->wall.off_ns -= (int64_t)weight;
    t->wall.written_ns = t->wall.look_ns;
    t->wall.repeats = 0;
}
static uintptr_t no_state(const spp_os_subject *subject) {
    (void)subject;
    return 0;
}

static uintptr_t no_state_of(int32_t tid, uintptr_t last) {
    (void)tid, (void)last;
    return 0;
}
static uintptr_t that_state(int32_t tid, uintptr_t any, uintptr_t stack_end) {
    (void)tid, (void)stack_end;
    return any;
}

static spp_thread thread, slots[3];

static void begin(uint64_t moves) {
    static spp_frame frames[8];
    memset(&thread, 0, sizeof thread);
    stack = frames;
    spp_cap.max_depth = 8;
    spp_cap.thread_state = no_state;
    spp_run_state.interval_ns = INTERVAL;
    now_ns = thread.wall.look_ns = thread.wall.written_ns = 77 * MS;
    cpu_ns = thread.wall.look_cpu = 5 * MS;
    hold_moves_ns = moves;
    holds = walks = given = place = 0;
    written_ns = unknown_ns = 0;
}

static void sleep_for(unsigned looks) {
    for (; looks > 0; looks--) {
        now_ns += INTERVAL;
        look_at(&thread);
    }
}

/* A sleeper is held once, and its other looks repeat what was found. Its time off the CPU is the clock of the day less its own,
 * to the nanosecond. */
static void test_a_sleeper_is_held_once(void) {
    for (uint64_t moves = 0; moves <= 20000; moves += 4000) {
        begin(moves);
        sleep_for(LOOKS);
        CHECK_EQUAL(holds, 1);
        CHECK_EQUAL(walks, 1);
        fake_flush(&thread);
        CHECK_EQUAL(written_ns + (uint64_t)thread.wall.off_ns, LOOKS * INTERVAL - (cpu_ns - 5 * MS));
        int64_t ticks = (int64_t)(thread.wall.walked + thread.wall.repeated);
        CHECK_EQUAL(ticks * (int64_t)INTERVAL + thread.wall.due_ns, (int64_t)(LOOKS * INTERVAL - (cpu_ns - 5 * MS)));
    }
}

/* One that ran by itself and is blocked elsewhere is walked there, however short it ran; and where it ran longer, in any case. */
static void test_one_that_moved_on_is_walked_again(void) {
    for (uint64_t ran = 5000; ran <= 205000; ran += 50000) {
        begin(8000);
        sleep_for(1);
        place = 1;
        cpu_ns += ran;
        sleep_for(10);
        CHECK_EQUAL(given, 1);
        CHECK(holds >= 2 && holds <= 3);
    }
    begin(8000);
    sleep_for(1);
    cpu_ns += 300000;
    sleep_for(10);
    CHECK_EQUAL(holds, 2);
}

/* Only what follows a hold is its own; and none is, where being held moves no clock. */
static void test_other_movement_is_the_threads(void) {
    begin(8000);
    sleep_for(10);
    CHECK_EQUAL(holds, 1);
    cpu_ns += 8000;
    sleep_for(10);
    CHECK_EQUAL(holds, 2);
    begin(0);
    sleep_for(10);
    cpu_ns += 1000;
    sleep_for(10);
    CHECK_EQUAL(holds, 2);
}

/* A walk that comes to nothing is a tick that was lost: once. */
static void test_a_lost_tick_is_counted_once(void) {
    begin(0);
    fails = SPP_LOSS_moved;
    sleep_for(LOOKS);
    fails = SPP_LOSS_NONE;
    int64_t lost = (int64_t)thread.tick.losses[SPP_LOSS_moved];
    CHECK(lost > 0 && thread.wall.due_ns <= (int64_t)INTERVAL);
    CHECK_EQUAL(lost * (int64_t)INTERVAL + thread.wall.due_ns, (int64_t)(LOOKS * INTERVAL));
}

/* A process is frozen for a second, again and again, with the sampler in it, while the thread runs. It blocks at last: that
 * stack gets no more than the ticks that may wait for it. */
static void test_time_in_which_nobody_looked_is_nobodys(void) {
    begin(0);
    for (int i = 0; i < 10; i++) {
        now_ns += 1000 * MS;
        cpu_ns += INTERVAL;
        fails = SPP_LOSS_moved; /* it runs on */
        look_at(&thread);
        fails = SPP_LOSS_NONE;
    }
    sleep_for(10);
    fake_flush(&thread);
    uint64_t off = 10 * (1000 * MS - INTERVAL) + 10 * INTERVAL;
    CHECK_EQUAL(written_ns + unknown_ns, off);
    CHECK(written_ns <= (SPP_OWED_MOST + 21) * INTERVAL);
    uint64_t ticks =
        thread.wall.walked + thread.wall.repeated + thread.tick.losses[SPP_LOSS_overrun] + thread.tick.losses[SPP_LOSS_moved];
    CHECK_EQUAL((int64_t)(ticks * INTERVAL) + thread.wall.due_ns, (int64_t)off);
}

/* One that has let go of its Python state was walked with that state a moment ago: one look may have found it at that. The next
 * ones show it as it is. */
static void test_a_thread_that_let_go_of_its_state_loses_one_tick(void) {
    begin(0);
    holds_none = true;
    spp_run_state.states.of_thread = no_state_of;
    spp_run_state.states.current = that_state;
    thread.tick.tstate = 4711;
    sleep_for(LOOKS);
    holds_none = false;
    fake_flush(&thread);
    CHECK_EQUAL(thread.tick.losses[SPP_LOSS_moved], 1);
    CHECK_EQUAL(walks, 1);
    CHECK_EQUAL((int64_t)(1 + thread.wall.walked + thread.wall.repeated) * (int64_t)INTERVAL + thread.wall.due_ns,
                (int64_t)(LOOKS * INTERVAL));
}

enum { STATE = 4711, GIL = 4096, NOT_THE_GIL = 8192, UNPROVEN = 12288 };
static int is_gil(uintptr_t state, uintptr_t address) {
    CHECK_EQUAL(state, STATE);
    return address == GIL ? 1 : address == NOT_THE_GIL ? 0 : -1;
}
static uintptr_t same_state(int32_t tid, uintptr_t last) {
    (void)tid;
    return last;
}

/* What the system says is what is kept, but that the module knows the GIL among locks; where that is not proven, any lock may be
 * the GIL, and the reason is unknown. */
static void test_a_lock_may_be_the_gil(void) {
    static const struct {
        spp_os_wait wait;
        spp_reason reason;
        const char *on;
    } cases[] = {
        {{.reason = SPP_REASON_lock, .fd = -1, .address = GIL}, SPP_REASON_gil, ""},
        {{.reason = SPP_REASON_lock, .fd = -1, .address = NOT_THE_GIL}, SPP_REASON_lock, ""},
        {{.reason = SPP_REASON_lock, .fd = -1, .address = UNPROVEN}, SPP_REASON_running, ""},
        {{.reason = SPP_REASON_lock, .fd = 7}, SPP_REASON_lock, "file 7"},
        {{.reason = SPP_REASON_io, .fd = 0}, SPP_REASON_io, "file 0"},
        {{.reason = SPP_REASON_ready, .fd = -1}, SPP_REASON_ready, ""},
    };
    holds_none = true;
    spp_run_state.states.of_thread = same_state;
    spp_run_state.states.current = that_state;
    spp_run_state.states.is_gil = is_gil;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(0);
        thread.tick.tstate = STATE;
        waits = cases[i].wait;
        sleep_for(2);
        CHECK_EQUAL(walks, 1);
        CHECK_EQUAL(given_reason, cases[i].reason);
        CHECK(strcmp(given_on, cases[i].on) == 0);
    }
    waits = (spp_os_wait){.fd = -1};
    spp_run_state.states.is_gil = NULL;
    holds_none = false;
}

static int32_t holder_tid;
static int32_t gil_holder(uintptr_t state) {
    CHECK_EQUAL(state, STATE);
    return holder_tid;
}

/* Time of a wait for the GIL is in a sample with its holder, also if the waiting thread never runs meanwhile; and the ticks stay
 * those of the time. */
static void test_a_wait_names_each_holder_of_the_gil(void) {
    enum { OWN = 40, FIRST, SECOND, NEITHER };
    static const int32_t turns[] = {FIRST, FIRST, SECOND, NEITHER, SECOND, OWN, FIRST};
    uint64_t charged[3] = {0}, before = 0, expected[3] = {INTERVAL}; /* the first look finds none of them */
    begin(0);
    spp_threads = slots;
    slots[1] = (spp_thread){.state = SPP_THREAD_ARMED, .tid = FIRST, .id = 0};
    slots[2] = (spp_thread){.state = SPP_THREAD_ARMED, .tid = SECOND, .id = 1};
    spp_roster_enter(&slots[1]);
    spp_roster_enter(&slots[2]);
    holds_none = true;
    spp_run_state.states.of_thread = same_state;
    spp_run_state.states.current = that_state;
    spp_run_state.states.is_gil = is_gil;
    spp_run_state.states.gil_holder = gil_holder;
    thread.tid = OWN;
    thread.tick.tstate = STATE;
    waits = (spp_os_wait){.reason = SPP_REASON_lock, .fd = -1, .address = GIL};
    holder_tid = NEITHER;
    sleep_for(1);
    for (unsigned turn = 0; turn < 7 * 20; turn++) {
        uint32_t was = thread.wall.held_by;
        holder_tid = turns[turn % 7];
        sleep_for(1 + turn % 3);
        charged[was] += written_ns - before;
        before = written_ns;
        expected[was] += INTERVAL;
        expected[thread.wall.held_by] += turn % 3 * INTERVAL;
        CHECK_EQUAL(thread.wall.held_by, holder_tid == FIRST ? 1 : holder_tid == SECOND ? 2 : 0);
    }
    fake_flush(&thread);
    charged[thread.wall.held_by] += written_ns - before;
    CHECK_EQUAL(walks, 1);
    for (int i = 0; i < 3; i++) CHECK_EQUAL(charged[i], expected[i]);
    uint64_t ticks = thread.wall.walked + thread.wall.repeated;
    CHECK_EQUAL((int64_t)(ticks * INTERVAL) + thread.wall.due_ns, (int64_t)(charged[0] + charged[1] + charged[2]));
    CHECK(thread.wall.due_ns >= -EARLY_MOST * (int64_t)INTERVAL);
    spp_roster_leave(&slots[1]);
    spp_roster_leave(&slots[2]);
    waits = (spp_os_wait){.fd = -1};
    memset(&spp_run_state.states, 0, sizeof spp_run_state.states);
    holds_none = false;
}

/* Nobody has the GIL while a thread that was woken for it has no processor: that is what it waits for from then on. */
static void test_a_thread_woken_for_the_gil_waits_for_a_processor(void) {
    enum { OWN = 40, FIRST };
    begin(0);
    spp_threads = slots;
    slots[1] = (spp_thread){.state = SPP_THREAD_ARMED, .tid = FIRST, .id = 0};
    spp_roster_enter(&slots[1]);
    holds_none = true;
    spp_run_state.states.of_thread = same_state;
    spp_run_state.states.current = that_state;
    spp_run_state.states.is_gil = is_gil;
    spp_run_state.states.gil_holder = gil_holder;
    thread.tid = OWN;
    thread.tick.tstate = STATE;
    waits = (spp_os_wait){.reason = SPP_REASON_lock, .fd = -1, .address = GIL};
    holder_tid = FIRST;
    sleep_for(3);
    holder_tid = 0;
    sleep_for(1);
    CHECK_EQUAL(thread.wall.reason, SPP_REASON_gil); /* it waits for it still */
    uint64_t before = written_ns;
    CHECK_EQUAL(thread.wall.held_by, 0);
    waits = (spp_os_wait){.reason = SPP_REASON_ready, .fd = -1};
    sleep_for(1);
    CHECK_EQUAL(thread.wall.reason, SPP_REASON_ready);
    CHECK_EQUAL(written_ns - before, INTERVAL); /* up to here it was the GIL */
    sleep_for(4);
    fake_flush(&thread);
    CHECK_EQUAL(written_ns - before, 5 * INTERVAL);
    CHECK_EQUAL(walks, 1);
    spp_roster_leave(&slots[1]);
    waits = (spp_os_wait){.fd = -1};
    memset(&spp_run_state.states, 0, sizeof spp_run_state.states);
    holds_none = false;
}

int main(void) {
    test_time_in_which_nobody_looked_is_nobodys();
    test_a_lost_tick_is_counted_once();
    test_a_thread_that_let_go_of_its_state_loses_one_tick();
    test_a_sleeper_is_held_once();
    test_one_that_moved_on_is_walked_again();
    test_other_movement_is_the_threads();
    test_a_lock_may_be_the_gil();
    test_a_wait_names_each_holder_of_the_gil();
    test_a_thread_woken_for_the_gil_waits_for_a_processor();
    return check_done();
}
