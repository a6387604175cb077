#include "core/run/silent.h"

#include <stdatomic.h>

#include "core/run/arm.h"
#include "core/run/events.h"
#include "core/run/roster.h"
#include "core/run/state.h"
#include "os/clock.h"
#include "os/lock.h"
#include "os/threads.h"
#include "os/ticks.h"

/* All that a thread ran without a tick is lost, for that reason. How many ticks it has now. */
static uint64_t count_lost(spp_thread *t, uint64_t cpu, enum spp_loss reason) {
    uint64_t ticks = t->tick.ticks, due = (cpu - t->watch.cpu_start) / spp_run_state.interval_ns;
    if (due <= ticks) return ticks;
    atomic_fetch_add(&t->tick.losses[reason], due - ticks);
    atomic_fetch_add(&t->tick.ticks, due - ticks);
    atomic_store(&t->tick.owed, 0); /* they are among these */
    atomic_store(&t->tick.given_ns, cpu);
    atomic_store(&t->tick.spread_cpu, cpu);
    return due;
}

#define UNBLOCKED_NS 1000000000u /* whether a thread still blocks its ticks is asked this often: it opens a file */

/* The last clock's ticks may come by a signal that the thread does not block, if coarser than the run's. */
static void check_blocked(spp_thread *t) {
    uint64_t now = spp_os_now_ns();
    if (t->watch.blocked_ns == 0) {
        if (t->clock == spp_os_clock_last || spp_os_thread_blocks(t->tid, spp_os_clock_last)) return;
        t->watch.blocked_ns = now;
        spp_arm_again(t, spp_os_clock_last);
    } else if (now - t->watch.blocked_ns > UNBLOCKED_NS) {
        bool blocks = spp_os_thread_blocks(t->tid, spp_run_state.clock);
        t->watch.blocked_ns = blocks ? now : 0;
        if (!blocks) spp_arm_again(t, spp_run_state.clock);
    }
}

/* Drain lock not held. */
static bool replaced(spp_thread *t) {
    spp_os_lock();
    spp_roster_gone(t);
    spp_os_unlock();
    return true;
}

bool spp_silent_check(spp_thread *t) {
    uint64_t cpu, ticks = t->tick.ticks;
    if (spp_run_state.paused || t->watch.exec_disarmed_ns != 0 || spp_os_thread_cpu_ns(t->tid, &cpu) != 0) return false;
    if (cpu < t->watch.last_cpu) return replaced(t); /* another thread got its id: found again by the next scan */
    spp_events_care(t, &spp_run_state.sources);
    if (!spp_arm_has_time()) {
        t->watch.last_cpu = cpu;
        return false;
    }
    bool silent = ticks == t->watch.last_ticks && cpu - t->watch.last_cpu > 20 * spp_run_state.interval_ns + 50000000;
    if (silent && spp_os_trigger_orphan(&t->trigger)) return replaced(t);
    /* An event whose page is mapped goes on when the program closes its descriptor. */
    if ((silent || t->trigger.runs != NULL) && !spp_os_trigger_alive(&t->trigger)) {
        if (silent) ticks = count_lost(t, cpu, SPP_LOSS_no_trigger);
        spp_arm_again(t, t->clock);
    } else if (spp_os_trigger_gave_up(&t->trigger)) {
        spp_arm_again(t, spp_os_clock_last);
    } else if (silent && spp_os_thread_blocks(t->tid, t->clock)) {
        ticks = count_lost(t, cpu, SPP_LOSS_signals_blocked);
        check_blocked(t);
    } else if (t->watch.blocked_ns != 0 && ticks != t->watch.last_ticks) {
        check_blocked(t);
    }
    if (silent || ticks != t->watch.last_ticks) {
        t->watch.last_cpu = cpu;
        t->watch.last_ticks = ticks;
    }
    return false;
}

void spp_silent_last(void) {
    uint32_t used = spp_threads_used;
    for (uint32_t i = 0; i < used && !spp_run_state.paused && spp_arm_has_time(); i++) {
        spp_thread *t = &spp_threads[i];
        uint64_t cpu;
        if (t->state != SPP_THREAD_ARMED || t->watch.exec_disarmed_ns != 0 || spp_os_thread_cpu_ns(t->tid, &cpu) != 0) continue;
        if (!spp_os_trigger_alive(&t->trigger)) (void)count_lost(t, cpu, SPP_LOSS_no_trigger);
        /* Until now it ran too little since the last look to judge. */
        if (t->tick.ticks == t->watch.last_ticks && cpu > t->watch.last_cpu + 2 * spp_run_state.interval_ns &&
            spp_os_thread_blocks(t->tid, t->clock)) {
            (void)count_lost(t, cpu, SPP_LOSS_signals_blocked);
        }
    }
}
