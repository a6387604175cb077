#include "core/run/pause.h"

#include <stdatomic.h>

#include "base/patience.h"
#include "core/capture/capture.h"
#include "core/resolve/resolve.h"
#include "core/run/arm.h"
#include "core/run/calls.h"
#include "core/run/executions.h"
#include "core/run/hot.h"
#include "core/run/imports.h"
#include "core/run/raises.h"
#include "core/run/state.h"
#include "core/run/tick_stats.h"
#include "core/run/times.h"
#include "os/clock.h"
#include "os/lock.h"
#include "os/threads.h"
#include "os/worker.h"

#define TURN_MOST_NS 100000000u
#define ASK_STEP_NS 200000u

/* Pausing takes the triggers off, so that a paused program pays nothing; resuming forgets the time between. */
static void turn(bool pause) {
    if (pause) atomic_store(&spp_cap.active, 2);
    spp_tick_stats_look(); /* before: it counts what was not paused */
    spp_run_state.paused = pause;
    if (!pause) atomic_store(&spp_run_state.triggers_off, false);
    uint32_t used = spp_threads_used;
    for (uint32_t i = 0; i < used; i++) {
        spp_thread *t = &spp_threads[i];
        if (t->state != SPP_THREAD_ARMED) continue;
        spp_os_lock();
        if (pause) {
            spp_arm_disarm(t);
            spp_resolve_flush(t);
            spp_arm_settle(t, false);
        } else {
            (void)spp_arm_begin(t);
        }
        spp_os_unlock();
    }
    if (pause) {
        atomic_store(&spp_run_state.triggers_off, true);
    } else {
        uint32_t was = 2;
        if (!spp_run_state.pause_wanted) atomic_compare_exchange_strong(&spp_cap.active, &was, 1);
        if (spp_run_state.pause_wanted) atomic_store(&spp_cap.active, 2); /* again, meanwhile */
    }
}

void spp_pause_turn(void) {
    bool refused = atomic_load(&spp_cap.active) == 2; /* before the wish: a pause that comes between is a new one */
    bool pause = spp_run_state.pause_wanted;
    /* Paused and resumed since the last look: handlers refuse still, as spp_pause_ask has it. */
    bool both = refused && !pause && !spp_run_state.paused;
    if (both) turn(true);
    if (both || pause != spp_run_state.paused) turn(pause);
}

/* Under the drain lock. */
static void count_pause(bool paused) {
    if (paused == (spp_run_state.pause_ns != 0)) return;
    uint64_t now = spp_os_now_ns(), cpu = spp_tick_stats_cpu();
    if (!paused) spp_run_state.paused_ns += now - spp_run_state.pause_ns;
    if (!paused) spp_run_state.paused_cpu += cpu - spp_run_state.pause_cpu;
    spp_run_state.pause_ns = paused ? now : 0;
    spp_run_state.pause_cpu = cpu;
}

/* Whether the drain thread has done what was asked for last; or something else was asked for since. */
static bool has_turned(bool paused) {
    if (atomic_load(&spp_run_state.pause_wanted) != paused) return true;
    return paused ? atomic_load(&spp_run_state.triggers_off) : atomic_load(&spp_cap.active) != 2;
}

void spp_pause_ask(bool paused) {
    if (!atomic_load(&spp_run_state.active)) return;
    atomic_store(&spp_run_state.pause_wanted, paused);
    if (paused) atomic_store(&spp_cap.active, 2); /* at once; the drain thread takes the triggers off */
    spp_os_lock();                                /* the sampler of wall mode may be within a look that it began before */
    count_pause(paused);
    spp_os_unlock();
    spp_calls_follow(paused);
    spp_hot_follow(paused);
    spp_times_follow(paused);
    spp_executions_follow(paused);
    spp_raises_follow(paused);
    spp_imports_follow(paused);
    spp_os_bell_ring(&spp_cap.bell);
    if (spp_run_state.drain == NULL || spp_os_tid() == spp_os_worker_tid(spp_run_state.drain)) return;
    /* What the caller runs next is to be sampled, or no event of it to be counted. Not for long: the drain thread may wait for
     * what the caller holds. */
    spp_patience left = TURN_MOST_NS;
    while (!has_turned(paused) && spp_patience_sleep(&left, ASK_STEP_NS)) {}
}
