#include "core/run/arm.h"

#include <stdatomic.h>

#include "core/capture/weigh.h"
#include "core/resolve/resolve.h"
#include "core/run/events.h"
#include "core/run/state.h"
#include "os/clock.h"
#include "os/lock.h"
#include "os/threads.h"

bool spp_arm_has_time(void) { return spp_run_state.sources.period[SPP_SOURCE_TIME] != 0; }

int spp_arm(spp_thread *t) {
    t->wall.blocked = false; /* that was of the trigger before */
    /* Left to the resuming, and to check_exec_disarmed if it does not replace the program. */
    if (spp_run_state.paused || t->watch.exec_disarmed_ns != 0) return 0;
    int failed = spp_arm_has_time() && spp_os_trigger_arm(&t->trigger, t->clock, t->tid, t->tick.period_ns, t);
    if (failed && t->clock != spp_os_clock_last) { /* out of descriptors, most likely: a timer needs none */
        t->clock = spp_os_clock_last;
        failed = spp_os_trigger_arm(&t->trigger, t->clock, t->tid, t->tick.period_ns, t) != 0;
    }
    if (failed) return -1;
    spp_events_arm(t, &spp_run_state.sources);
    return 0;
}

void spp_arm_watch(spp_thread *t) {
    if (spp_run_state.wall) spp_os_trigger_watch(&t->trigger);
    t->wall.first_run = t->trigger.runs != NULL ? *t->trigger.runs : 0;
}

void spp_arm_disarm(spp_thread *t) {
    spp_os_trigger_disarm(&t->trigger);
    spp_events_stop(t);
}

void spp_arm_settle(spp_thread *t, bool exact) {
    uint64_t cpu = 0;
    while (atomic_load_explicit(&t->tick.busy, memory_order_seq_cst)) spp_os_sleep_until(spp_os_now_ns() + 20000);
    bool known = !t->watch.gone && spp_os_thread_cpu_ns(t->tid, &cpu) == 0;
    if (!known) cpu = t->watch.ends ? t->watch.ends_cpu : UINT64_MAX;
    exact = exact && (known || t->watch.ends) && t->watch.exec_disarmed_ns == 0 && !spp_run_state.paused;
    t->tick.given_ns += (uint64_t)spp_resolve_settle(t, spp_weigh_open(t, cpu, exact));
    spp_events_settle(t);
}

int spp_arm_begin(spp_thread *t) {
    uint64_t cpu, from = t->watch.cpu_start, missed = atomic_load(&t->tick.owed);
    spp_arm_disarm(t);
    if (spp_os_thread_cpu_ns(t->tid, &cpu) != 0) return -1;
    if (t->wall.due_ns > 0) missed += (uint64_t)t->wall.due_ns / spp_run_state.interval_ns;
    atomic_fetch_add(&t->tick.losses[SPP_LOSS_overrun], missed);
    spp_resolve_flush(t);
    spp_threads_begin(t, cpu);
    spp_run_state.ended_cpu += t->watch.cpu_start - from; /* in nobody's ticks, and not lost */
    if (spp_arm(t) != 0) return -1;
    spp_arm_watch(t);
    return 0;
}

void spp_arm_again(spp_thread *t, const spp_clock *clock) {
    spp_os_lock();
    atomic_store_explicit(&t->state, SPP_THREAD_ENDED, memory_order_seq_cst);
    spp_arm_disarm(t);
    spp_arm_settle(t, false);
    t->clock = clock;
    (void)spp_arm_begin(t);
    atomic_store_explicit(&t->state, SPP_THREAD_ARMED, memory_order_seq_cst);
    spp_os_unlock();
}
