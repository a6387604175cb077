#include "core/capture/weigh.h"

#include <stdatomic.h>

#include "base/hints.h"
#include "base/random.h"
#include "os/clock.h"

SPP_COLD void spp_weigh_lose(spp_thread *t, enum spp_loss reason, uint64_t n) {
    atomic_fetch_add_explicit(&t->tick.losses[reason], n, memory_order_relaxed);
}

#define FASTEST_NS 100000u /* intervals below are not made much shorter: a machine may be at its end */

void spp_weigh_miss(spp_thread *t, enum spp_loss reason, uint64_t n) {
    spp_weigh_lose(t, reason, n);
    SPP_BUMP(t->tick.ticks, n);
}

/* Handler. A tick takes at most a quarter of what its thread runs. One may take more than an interval: 200 us under strace or
 * another kernel's emulation, as much on a stack of 4,000 frames. Then a thread would run nothing but its ticks. */
#define TICKS_LEAST 4u
static inline uint64_t least_period(const spp_thread *t) { return TICKS_LEAST * t->tick.tick_ns; }

enum spp_loss spp_weigh_reason(const spp_thread *t, enum spp_loss reason) {
    return least_period(t) > spp_cap.interval_ns ? SPP_LOSS_slow_tick : reason;
}

/* Handler. What the CPU clock says that ticks fell short by: the kernel merged some with the next one, or lost a piece of a
 * period each time that the thread left a processor. Some are owed: groups to come make up for them. The others are lost. */
static SPP_COLD void count_missed(spp_thread *t, uint64_t cpu) {
    uint64_t due = (cpu - t->watch.cpu_start) / spp_cap.interval_ns,
             ticks = atomic_load_explicit(&t->tick.ticks, memory_order_relaxed) + 1;
    uint64_t owed = due > ticks ? due - ticks : 0;
    if (owed > SPP_OWED_MOST) {
        spp_weigh_miss(t, spp_weigh_reason(t, SPP_LOSS_overrun), owed - SPP_OWED_MOST);
        owed = SPP_OWED_MOST;
    }
    atomic_store_explicit(&t->tick.owed, (uint32_t)owed, memory_order_relaxed);
}

/* Handler. Begins a group of ticks with a period drawn from the interval -20 % .. +20 %, around what brings the thread back
 * to one tick an interval. So no program stays in step with its ticks, a group's samples spread over every phase of a
 * short loop, and the rate is kept. The kernel takes at least 10 us. */
static SPP_COLD void begin_group(spp_thread *t, uint64_t cpu) {
    uint64_t interval = spp_cap.interval_ns, group = spp_cap.group;
    uint64_t due = t->watch.cpu_start + (atomic_load_explicit(&t->tick.ticks, memory_order_relaxed) + 1 + group) * interval;
    uint64_t centre = due > cpu ? (due - cpu) / group : 0, faster = interval / (interval < FASTEST_NS ? 10 : 5);
    if (centre < interval - faster) centre = interval - faster;
    if (centre > interval * 11 / 10) centre = interval * 11 / 10;
    if (centre < least_period(t)) centre = interval = least_period(t);
    uint64_t period = centre - interval / 5 + spp_random_below(&t->tick.random, interval * 2 / 5);
    if (period < 10000) period = 10000;
    t->tick.period_ns = period;
    t->tick.until_sync = (uint32_t)group - 1;
    t->tick.group_cpu = cpu;
    spp_os_trigger_period(&t->trigger, period);
}

SPP_COLD void spp_weigh_end(spp_thread *t) {
    uint64_t cost = spp_os_own_cpu_ns() - t->tick.group_cpu;
    t->tick.tick_ns = cost < t->tick.last_tick_ns ? cost : t->tick.last_tick_ns;
    t->tick.last_tick_ns = cost;
    t->tick.group_cpu = 0;
}

/* Handler. A tick of the perf clocks. Reads the CPU clock (0.17 us) at each tick below 2.5 kHz;
 * above, at every eighth tick, and when the wall clock shows that more than one tick may have
 * passed. Otherwise the tick's weight is the period that was set in the kernel. */
#define SYNC_ALWAYS_NS 400000u
static void weigh_perf(spp_thread *t, uint64_t now, uint64_t *weight, uint64_t *new_given) {
    bool kernel = t->clock->kernel, new_group = t->tick.until_sync == 0;
    /* The kernel's event counts time that the CPU clock does not (time stolen from a virtual machine): half a tick at the
     * most is taken off each until the two agree again. */
    uint64_t off = t->tick.ahead_ns < t->tick.period_ns / 2 ? t->tick.ahead_ns : t->tick.period_ns / 2;
    t->tick.ahead_ns -= off;
    *weight = t->tick.period_ns - off;
    *new_given = t->tick.given_ns + *weight;
    if (!new_group) t->tick.until_sync--;
    bool often = t->tick.period_ns >= SYNC_ALWAYS_NS || (t->tick.until_sync & 7u) == 0;
    bool gap = now - t->tick.last_ns > t->tick.period_ns + t->tick.period_ns / 2;
    if (!new_group && !(kernel && (often || gap))) return;
    uint64_t cpu = spp_os_own_cpu_ns();
    if (kernel) { /* else time in the kernel is not this tick's: the remainder timer gives it */
        *new_given = cpu > t->tick.given_ns ? cpu : t->tick.given_ns;
        *weight = *new_given - t->tick.given_ns;
        t->tick.ahead_ns = *new_given - cpu;
        if (new_group) count_missed(t, cpu);
    } else if (*new_given > cpu) {
        t->tick.ahead_ns = *new_given - cpu;
    }
    if (new_group) begin_group(t, cpu);
}

/* Handler. Clock `signal`: ticks come at random instants of wall time, so each stands for equally
 * much of it: `ticks` of them, `instant` nanoseconds each. A sample is not given all CPU time since
 * the last one, for then the first of a burst would get what the burst before left over. The CPU
 * time per nanosecond is learned from earlier ticks. The difference to the CPU clock, from chance
 * or lost ticks, is spread over the next samples: thinly, so that weights stay even, but over few
 * in a thread's first ticks, since it may end soon. After a long time without a tick the thread
 * most likely ran at the place where this tick finds it. */
#define SPREAD_LEAST 8u
#define SPREAD_MOST 64u
#define SPREAD_NS 6400000u /* over no more than come in such a time: what is left when the thread ends is in no sample */
#define LONG 16            /* intervals ... */
#define LONG_NS 6400000    /* ... and nanoseconds: for less, other threads may have used the processor */
#define BELIEVED 16u       /* so many come to an interval each, before there were any */
#define REMEMBERED 512u

/* Handler. The CPU time that usually passes while a sample stands for a nanosecond. */
static double worth(const spp_thread_tick *t) {
    uint64_t believed = BELIEVED * spp_cap.interval_ns;
    return (double)(t->spread_ran + believed) / (double)(t->spread_time + believed);
}

static uint64_t spread_weight(spp_thread *t, uint64_t cpu, uint64_t ran, uint64_t instant, uint32_t ticks) {
    spp_thread_tick *tick = &t->tick;
    uint64_t interval = spp_cap.interval_ns;
    uint64_t taken = atomic_load_explicit(&tick->taken, memory_order_relaxed) - tick->begun_taken;
    bool gap = ran > LONG_NS && (double)ran > LONG * worth(tick) * (double)instant;
    atomic_store_explicit(&tick->spread_cpu, cpu, memory_order_relaxed);
    if (!gap) tick->spread_ran += ran; /* a gap says nothing of what others are worth */
    int64_t each = (int64_t)((double)instant * worth(tick)), open = (int64_t)(cpu - tick->given_ns);
    int64_t weight = gap ? (int64_t)ran : ticks * each;
    uint64_t spread = taken / 4, most = SPREAD_NS / interval;
    if (most > SPREAD_MOST) most = SPREAD_MOST;
    if (spread > most) spread = most;
    if (spread < SPREAD_LEAST) spread = SPREAD_LEAST;
    if (!gap) tick->spread_time += ticks * instant;
    if (tick->spread_time > REMEMBERED * interval) {
        tick->spread_ran /= 2;
        tick->spread_time /= 2;
    }
    if (gap) open -= weight;
    if (taken == 0) {
        weight += (int64_t)tick->unseen_ns;
        open -= (int64_t)tick->unseen_ns;
    }
    weight += open / (int64_t)spread; /* not less `each`: threads that live for few ticks would be given too little */
    return (uint64_t)(weight > each / 8 ? weight : each / 8 + 1);
}

/* Where a clock ends, what is open is settled with its last samples (resolve.h). Not of one that ends so soon that it may have
 * had no tick: those without one cannot get the time they ran, so others have as much too much. */
#define LIFE_LEAST 32

int64_t spp_weigh_open(const spp_thread *t, uint64_t cpu, bool exact) {
    uint64_t last = t->tick.spread_cpu, each = (uint64_t)((double)spp_cap.interval_ns * worth(&t->tick));
    if (t->clock->weight != SPP_WEIGHT_INSTANTS || t->tick.row != 0) return 0;
    /* An instant that does not depend on ticks is as far from the last one as they are from each other. */
    if ((!exact || cpu - last > LONG * each) && cpu > last + each) cpu = last + each;
    return cpu - t->tick.begun_cpu < LIFE_LEAST * each ? 0 : (int64_t)(cpu - t->tick.given_ns);
}

/* Looks of the remainder timer, 4 ms of CPU time each, after which time that no system call explains (our own signals, page
 * faults, interrupts) goes to what runs: four times as many as it last took to meet a system call. */
#define PATIENCE_MAX 64u

/* Handler. Whether this look may give the kernel's remainder to the stack that it finds. */
static SPP_COLD bool look(spp_thread *t, bool at_syscall) {
    t->tick.in_user++;
    if (!at_syscall && t->tick.in_user < t->tick.patience) return false;
    if (at_syscall) {
        uint32_t patience = 4 * t->tick.in_user;
        t->tick.patience = patience < SPP_PATIENCE_LEAST ? SPP_PATIENCE_LEAST : patience > PATIENCE_MAX ? PATIENCE_MAX : patience;
    }
    t->tick.in_user = 0;
    return true;
}

/* Handler. The CPU clock of the thread that the tick is for. */
static inline uint64_t cpu_clock(const spp_os_context *context) {
    return spp_rare(context->subject != NULL) ? context->subject->cpu_ns : spp_os_own_cpu_ns();
}

/* Handler. The same for the clock `signal`. A look has just read it, and reading it here would take longer than all else of a
 * tick. What the thread ran since falls to its next sample. */
static inline uint64_t cpu_at_look(const spp_os_context *context, uint64_t least) {
    uint64_t cpu = spp_usual(context->looked_cpu != 0) ? context->looked_cpu : cpu_clock(context);
    return cpu > least ? cpu : least; /* its clock here may have begun after that look */
}

/* Handler. The sampler makes up for owed ticks; sets the shortest period that this thread can bear. */
static void keep_pace(spp_thread *t, const spp_os_context *context, uint64_t cpu) {
    count_missed(t, cpu);
    if (t->tick.until_sync-- != 0) return;
    uint64_t least = least_period(t);
    t->tick.until_sync = 15;
    t->tick.group_cpu = cpu_clock(context);
    t->tick.period_ns = least > spp_cap.interval_ns ? least : spp_cap.interval_ns;
    spp_os_trigger_period(&t->trigger, t->tick.period_ns);
}

bool spp_weigh(spp_thread *t, spp_tick kind, const spp_os_context *context, uint64_t now, uint64_t *weight, uint64_t *new_given) {
    if (t->clock->weight == SPP_WEIGHT_PERIOD && kind == SPP_TICK_CPU) {
        weigh_perf(t, now, weight, new_given);
        return true;
    }
    if (t->clock->weight == SPP_WEIGHT_INSTANTS && kind == SPP_TICK_CPU) {
        uint64_t instant = context->instant_ns > spp_cap.interval_ns ? context->instant_ns : spp_cap.interval_ns;
        uint64_t last = atomic_load_explicit(&t->tick.spread_cpu, memory_order_relaxed), cpu = cpu_at_look(context, last);
        *weight = spread_weight(t, cpu, cpu - last, instant, 1 + context->more);
        *new_given = t->tick.given_ns + *weight;
        keep_pace(t, context, cpu);
        return true;
    }
    if (kind == SPP_TICK_REMAINDER && !look(t, context->at_syscall)) return false;
    uint64_t cpu = cpu_clock(context);
    *new_given = cpu > t->tick.given_ns ? cpu : t->tick.given_ns;
    *weight = *new_given - t->tick.given_ns;
    if (kind == SPP_TICK_REMAINDER) return *weight >= spp_cap.interval_ns / 2;
    uint64_t due = (cpu - t->watch.cpu_start) / spp_cap.interval_ns,
             handled = atomic_load_explicit(&t->tick.ticks, memory_order_relaxed);
    /* Looks of a sampler fall anywhere in their intervals: one of them may be a whole interval after the last without any lost.
     */
    uint64_t usual = t->clock->looks ? 2 : 1;
    if (due > handled + usual) spp_weigh_miss(t, SPP_LOSS_overrun, due - handled - usual);
    return true;
}
