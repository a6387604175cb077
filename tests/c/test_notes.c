/* A look into a call is noted, and the thread decides at the call's end whether it was awake at that instant: each case by
 * invented clocks. And a signal that does not come is waited for once. */
#include "check.h"

#if defined(__linux__)
#include <stdatomic.h>
#include <string.h>

#include "os/clock.h"
#include "os/linux/handshake.h"
#include "os/linux/linux.h"
#include "os/threads.h"
#include "os/worker.h"

#define MS 1000000u
#define RAN_MS 200u /* what the thread had run since it was woken */

static uint32_t taken;
static uint64_t ran;

static uint64_t stop(spp_linux_handshake *h, uint64_t *since) {
    (void)h;
    return *since = 0;
}
static bool start(spp_linux_handshake *h, uint64_t ns) {
    (void)h, (void)ns;
    return false; /* no timer: a sample that is due later is taken now */
}
static void join(spp_linux_handshake *h) { (void)h; }
static void sample(spp_linux_handshake *h, uint32_t n) {
    CHECK(atomic_load(&h->call) != 0); /* no signal may come meanwhile */
    taken += n;
}
static void take_back(void) {}
static const spp_linux_ticks invented = {stop, start, join, sample, take_back};

/* A call in which a look was noted `ago_ms` before its end. The thread ran for the last RAN_MS, by its clock. */
static uint32_t called(spp_linux_handshake *h, uint64_t ago_ms, uint32_t number, uint32_t wanted) {
    uint64_t wall, cpu;
    do { /* again if another thread ran meanwhile for so long that it matters */
        spp_linux_call call = spp_linux_call_begins((uintptr_t)&wall);
        CHECK(call.of == h);
        uint32_t woken = atomic_load(&h->woken), judged = h->judged;
        taken = 0;
        wall = spp_os_now_ns(), cpu = spp_os_own_cpu_ns();
        atomic_store(&h->note, number);
        atomic_store(&h->noted_ns, wall - ago_ms * MS);
        atomic_store(&h->noted_cpu, cpu - ran);
        atomic_store(&h->delay_ns, 0);
        atomic_store(&h->wanted_cpu, 0);
        atomic_store(&h->wanted, wanted);
        spp_linux_call_ends(call, (uintptr_t)&wall, 1);
        wall = spp_os_now_ns() - wall, cpu = spp_os_own_cpu_ns() - cpu;
        CHECK_EQUAL(atomic_load(&h->wanted), 0);
        CHECK_EQUAL(atomic_load(&h->call), 0);
        CHECK_EQUAL(atomic_load(&h->tick), SPP_TICK_NONE);
        if (wall < cpu + RAN_MS / 4 * MS) {
            CHECK_EQUAL(atomic_load(&h->woken) - woken, taken - (wanted & ~SPP_WANTED_UNSURE));
            return taken;
        }
        h->judged = judged;
    } while (true);
}

/* A call that begins while a signal is under way which never comes: the thread has waited for it once. Returns for how long. */
static uint64_t waited_in_vain(spp_linux_handshake *h) {
    atomic_store(&h->tick, SPP_TICK_SENT);
    spp_linux_call_ends(spp_linux_call_begins((uintptr_t)&h), (uintptr_t)&h, 1);
    CHECK_EQUAL(atomic_load(&h->tick), SPP_TICK_NONE); /* taken back */
    return h->awaited_ns - h->entered_ns;
}

static void until_it_ends(void *ends) {
    while (!atomic_load((atomic_bool *)ends)) spp_os_sleep_until(spp_os_now_ns() + MS);
}

int main(void) {
    int target;
    atomic_bool ends = false;
    spp_linux_ticks_by = &invented;
    spp_os_worker *first = spp_os_worker_start("first", true, until_it_ends, &ends); /* by it is found where ids of threads are */
    CHECK(first != NULL);
    atomic_store(&ends, true);
    spp_os_worker_join(first);
    CHECK_EQUAL(spp_linux_handshakes_make(), 0);
    spp_linux_handshake *h = spp_linux_handshake_arm(spp_os_tid(), &target);
    atomic_store(&h->call, 0);
    while ((ran = spp_os_own_cpu_ns()) < RAN_MS * MS) {}
    ran = RAN_MS * MS;

    CHECK_EQUAL(called(h, RAN_MS / 2, 2, SPP_WANTED_UNSURE), 1);     /* it ran at that instant */
    CHECK_EQUAL(called(h, RAN_MS / 2, 2, SPP_WANTED_UNSURE), 0);     /* a note is judged once */
    CHECK_EQUAL(called(h, RAN_MS * 2, 4, SPP_WANTED_UNSURE), 0);     /* it was not woken yet */
    CHECK_EQUAL(called(h, RAN_MS / 2, 7, SPP_WANTED_UNSURE), 0);     /* the next note is being written */
    CHECK_EQUAL(called(h, RAN_MS / 2, 8, 0), 0);                     /* taken back by the look */
    CHECK_EQUAL(called(h, RAN_MS / 2, 8, 2), 2);                     /* seen to run, by two looks */
    CHECK_EQUAL(called(h, RAN_MS / 2, 8, 2 | SPP_WANTED_UNSURE), 3); /* and by a third one that was not sure */

    CHECK_EQUAL(waited_in_vain(h), 20000);
    CHECK_EQUAL(waited_in_vain(h), 0); /* not until a signal has reached it */
    return check_done();
}
#else
int main(void) { return check_done(); }
#endif
