/* Wall mode's sampler where threads that stand are held, over a system that is a script: what being held does to a thread's
 * clock, and what comes of it. */
#include <string.h>

#include "check.h"

/* Its calls of the system, of the walker and of the writer go to the script. */
#define spp_os_now_ns fake_now
#define spp_os_thread_cpu_ns fake_cpu
#define spp_os_hold fake_hold
#define spp_os_let_go fake_let_go
#define spp_os_clock_tells fake_tells
#define spp_os_stop_ns fake_stop_ns
#define spp_frames_own fake_frames
#define spp_frames_other fake_frames
#define spp_resolve_stood fake_stood
#define spp_resolve_flush fake_flush
#define spp_wall_body fake_body
#include "../../csrc/core/wall.c"

#define MS ((uint64_t)1000000)
#define INTERVAL MS
#define LOOKS 1000

static uint64_t now_ns, cpu_ns, hold_moves_ns, written_ns;
static unsigned holds, walks, given, place; /* place: where the thread stands */

uint64_t fake_now(void) { return now_ns; }
bool fake_tells(void) { return true; }
uint64_t fake_stop_ns(void) { return hold_moves_ns != 0 ? 100000 : 0; }
int fake_cpu(int32_t tid, uint64_t *ns) {
    (void)tid;
    *ns = cpu_ns;
    return 0;
}
int fake_hold(const spp_os_trigger *trigger, spp_os_context *context) {
    (void)trigger;
    holds++;
    *context = (spp_os_context){.sp = 4096};
    return 0;
}
void fake_let_go(const spp_os_trigger *trigger) {
    (void)trigger;
    cpu_ns += hold_moves_ns;
}
enum spp_loss fake_frames(spp_walk *walk) {
    walk->depth = 2;
    walk->out[0] = 700 + place;
    walk->out[1] = 42;
    return SPP_LOSS_NONE;
}
void fake_stood(spp_thread *t, const spp_walk *walk, uint64_t label) {
    (void)t, (void)label;
    walks++;
    given = (unsigned)walk->out[0] - 700;
}
/* As resolve.c's, without the file. */
void fake_flush(spp_thread *t) {
    if (t->repeats == 0) return;
    uint64_t weight = t->off_ns > 0 ? (uint64_t)t->off_ns : 0;
    written_ns += weight;
    t->off_ns -= (int64_t)weight;
    t->written_ns = t->look_ns;
    t->repeats = 0;
}
static uintptr_t no_state(const spp_os_subject *subject) {
    (void)subject;
    return 0;
}

static spp_thread thread;

static void begin(uint64_t moves) {
    static spp_frame frames[8];
    memset(&thread, 0, sizeof thread);
    stack = frames;
    spp_cap.max_depth = 8;
    spp_cap.thread_state = no_state;
    spp_now.interval_ns = INTERVAL;
    now_ns = thread.look_ns = thread.written_ns = 77 * MS;
    cpu_ns = thread.look_cpu = 5 * MS;
    hold_moves_ns = moves;
    holds = walks = given = place = 0;
    written_ns = 0;
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
        CHECK_EQUAL(written_ns + (uint64_t)thread.off_ns, LOOKS * INTERVAL - (cpu_ns - 5 * MS));
        int64_t ticks = (int64_t)(thread.stood + thread.repeated);
        CHECK_EQUAL(ticks * (int64_t)INTERVAL + thread.due_ns, (int64_t)(LOOKS * INTERVAL - (cpu_ns - 5 * MS)));
    }
}

/* One that ran for itself and stands elsewhere is walked there, however short it ran; and where it ran longer, in any case. */
static void test_one_that_moved_on_is_walked_anew(void) {
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

int main(void) {
    test_a_sleeper_is_held_once();
    test_one_that_moved_on_is_walked_anew();
    test_other_movement_is_the_threads();
    return check_done();
}
