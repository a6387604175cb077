/* Triggers by suspension, for systems that send no signals to threads. One thread of ours looks at
 * the CPU clock of each armed thread once an interval, at a random instant of it. A thread that ran
 * for its share of ticks is suspended, walked by the core, and resumed. One whose clock did not
 * move is not touched.
 *
 * The armed threads are a list under a lock that the sampler holds while it looks, so no tick of a
 * disarmed trigger is under way. A suspended thread never holds that lock: only the sampler
 * suspends threads of the list, and only while it holds the lock. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/heap.h"
#include "base/random.h"
#include "base/spinlock.h"
#include "os/clock.h"
#include "os/context.h"
#include "os/memory.h"
#include "os/process.h"
#include "os/signals.h"
#include "os/suspend/suspend.h"
#include "os/ticks.h"
#include "os/worker.h"

/* Looks in a row at which a thread that has run is found in a call, after which its time is given to the call: see found_asleep.
 */
#define PATIENCE 16u

typedef struct armed {
    struct armed *next;
    spp_suspend_handle handle;
    int32_t tid;
    void *cookie;
    uint64_t period_ns;
    uint64_t look_ns, look_cpu; /* monotonic, and its CPU clock, at the last look */
    int64_t owed_ns;            /* CPU time that no tick came for yet; less than 0: ahead */
    uint64_t threshold_ns;      /* owed so much, the next tick is due */
    uint32_t waited;            /* looks that put off a tick */
    _Atomic bool stopped;       /* since its clock last moved; also by spp_os_hold's caller */
} armed;

/* Taken when threads come and go, and by the sampler. */
static spp_spinlock list_lock;
static armed *all;                              /* under that lock */
static uint64_t wake_ns;                        /* the shortest period; so too */
static uint64_t random_state = SPP_RANDOM_SEED; /* so too */
static spp_os_tick_fn on_tick;                  /* constant while the sampler runs */
static spp_os_worker *sampler;
static _Atomic int stopping;
static _Atomic uint64_t sampler_cpu;
static spp_suspend_registers registers; /* the sampler's */
static bool (*gate_enter)(void);        /* see spp_os_gate */
static void (*gate_leave)(void);
static _Atomic bool gated; /* this run's clock is `gil` */
static struct {            /* spp_os_hold's: one thread at a time */
    spp_os_subject subject;
    spp_suspend_registers registers;
} held;

/* ---- ticks */

/* After a tick. Ticks are as many as the periods that the thread ran; which looks give them is left to chance. What a late
 * sampler owes beyond two periods is dropped here, and counted by the core, which knows the clock. */
static void ticked(armed *s) {
    int64_t period = (int64_t)s->period_ns;
    s->owed_ns -= period;
    if (s->owed_ns >= 2 * period) s->owed_ns = period + s->owed_ns % period;
    s->threshold_ns = spp_random_below(&random_state, s->period_ns);
    s->waited = 0;
}

/* A thread that runs in bursts is mostly found asleep, after the burst, and its CPU time must not
 * go to its sleep. So a thread that is found in a call, and did not run all the time until then, is
 * resumed and keeps its time for a look that finds it running. Not for ever, though: some threads
 * run in short calls only. */
static bool found_asleep(armed *s, uint64_t ran, uint64_t passed, const spp_os_context *context) {
    return context->at_syscall && ran + passed / 8 < passed && s->waited++ < PATIENCE;
}

/* Where being stopped moves a thread's own clock (spp_os_stop_ns), the first movement after a stop is the stop's, if it is as
 * small: else each look would have a sleeper stopped by the next, until its patience is at an end and the sleep gets the tick.
 * The time stays owed. A thread that does run so little is stopped at every second look, and the bound keeps what it runs until
 * its patience ends below one period: else its ticks would be fewer than its periods. */
static bool moved_by_stop(armed *s, uint64_t ran, uint64_t passed) {
    uint64_t whole = passed > s->period_ns ? passed : s->period_ns;
    return ran != 0 && atomic_exchange(&s->stopped, false) && ran < spp_os_stop_ns() && ran < whole / (2 * PATIENCE + 2);
}

static void look_at(armed *s) {
    uint64_t cpu, now = spp_os_now_ns();
    if (spp_suspend_cpu_ns(s->handle, s->tid, &cpu) != SPP_SUSPEND_DONE) return; /* it is gone: the watch will see */
    uint64_t ran = cpu > s->look_cpu ? cpu - s->look_cpu : 0, passed = now - s->look_ns;
    s->look_ns = now;
    s->look_cpu = cpu;
    s->owed_ns += (int64_t)ran;
    bool by_stop = moved_by_stop(s, ran, passed);
    if (ran == 0 || by_stop || s->owed_ns < (int64_t)s->threshold_ns) return;
    spp_os_subject subject_of = {.tid = s->tid, .cpu_ns = cpu};
    spp_os_context context = {.subject = &subject_of};
    if (atomic_load(&gated)) { /* it may run, but no Python */
        if (spp_suspend_describe(s->handle, &context, &subject_of) != SPP_SUSPEND_DONE) return;
        on_tick(s->cookie, SPP_TICK_CPU, &context);
        ticked(s);
        return;
    }
    spp_suspend_result result = spp_suspend_stop(s->handle, &registers, &context, &subject_of);
    if (result == SPP_SUSPEND_DONE) {
        bool asleep = found_asleep(s, ran, passed, &context);
        if (!asleep) on_tick(s->cookie, SPP_TICK_CPU, &context);
        atomic_store(&s->stopped, true);
        spp_suspend_go(s->handle);
        if (!asleep) ticked(s);
    } else if (result == SPP_SUSPEND_REFUSED) {
        on_tick(s->cookie, SPP_TICK_REFUSED, NULL);
        ticked(s);
    }
}

static void sampler_body(void *unused) {
    (void)unused;
    uint64_t step, begins = spp_os_now_ns(); /* of the interval that the next look is in */
    while (!atomic_load(&stopping)) {
        /* Before the list's lock, for which a thread may wait that has the interpreter's. */
        bool entered = atomic_load(&gated), left_out = entered && !gate_enter();
        spp_spin_lock_politely(&list_lock); /* it has it most of the time if there are many threads */
        step = wake_ns;
        for (armed *s = all; s != NULL && !left_out && entered == atomic_load(&gated); s = s->next) look_at(s);
        uint64_t instant = spp_random_below(&random_state, step);
        spp_spin_unlock(&list_lock);
        if (entered && !left_out) gate_leave();
        atomic_store(&sampler_cpu, spp_os_own_cpu_ns());
        uint64_t now = spp_os_now_ns();
        begins += step;
        if (begins + step < now) begins = now; /* intervals that passed while we could not run are not made up for */
        spp_os_sleep_until(begins + instant);
    }
}

int spp_os_signal_install(spp_os_tick_fn tick, bool (*valid)(const void *cookie), const spp_clock *clock, bool may_trap) {
    (void)valid, (void)clock, (void)may_trap;
    on_tick = tick;
    wake_ns = 10000000;
    atomic_store(&stopping, 0);
    atomic_store(&sampler_cpu, 0);
    atomic_store(&gated, false);
    sampler = spp_os_worker_start("spprof-suspend", true, sampler_body, NULL);
    if (sampler == NULL) return -1;
    spp_suspend_set_sampler(spp_os_worker_tid(sampler));
    return 0;
}

void spp_os_signal_remove(void) {
    if (sampler == NULL) return;
    atomic_store(&stopping, 1);
    spp_os_worker_join(sampler);
    sampler = NULL;
    spp_suspend_set_sampler(0);
}

bool spp_os_stack_known(const spp_os_context *context, spp_os_stack *stack) {
    if (context->sp >= stack->low && context->sp < stack->end) return true;
    return spp_os_regions(&context->sp, &stack->low, &stack->end, 1) == 0 && stack->end != 0;
}

void spp_os_signals_wait_at(volatile int *flag) { (void)flag; }
void spp_os_signals_care(void) {}

bool spp_os_signal_taken(void) { return false; }
void spp_os_signal_moved(void) {}
void spp_os_signal_look(void) {}
void spp_os_exec_notify(void (*call)(void)) { (void)call; }
void spp_os_exec_preload(const char *path, const char *marker, const char *folder) { (void)path, (void)marker, (void)folder; }
void spp_os_signal_take_back(void) {}
void spp_os_signal_child(void) {}
uint64_t spp_os_signal_cpu_ns(void) { return atomic_load(&sampler_cpu); }
uint64_t spp_os_calls_interrupted(void) { return 0; }
uint64_t spp_os_signals_not_ignored(void) { return 0; }
bool spp_os_trigger_gave_up(const spp_os_trigger *trigger) { return trigger == NULL; }

void spp_os_gate(bool (*enter)(void), void (*leave)(void)) {
    gate_enter = enter;
    gate_leave = leave;
}

static int arm_either(spp_os_trigger *trigger, int32_t tid, uint64_t period_ns, void *cookie, bool by_gate) {
    armed *s = spp_alloc_zeroed(1, sizeof *s);
    errno = ENOMEM;
    if (s == NULL) return -1;
    s->tid = tid;
    s->cookie = cookie;
    s->period_ns = period_ns;
    s->look_ns = spp_os_now_ns();
    errno = ESRCH;
    if (spp_suspend_open(tid, &s->handle) != SPP_SUSPEND_DONE) {
        spp_free(s);
        return -1;
    }
    if (spp_suspend_cpu_ns(s->handle, tid, &s->look_cpu) != SPP_SUSPEND_DONE) {
        spp_suspend_close(s->handle);
        spp_free(s);
        return -1;
    }
    spp_spin_lock(&list_lock);
    s->threshold_ns = spp_random_below(&random_state, period_ns);
    s->next = all;
    all = s;
    wake_ns = period_ns;
    atomic_store(&gated, by_gate);
    spp_spin_unlock(&list_lock);
    trigger->suspended = s;
    return 0;
}

static int arm(spp_os_trigger *trigger, int32_t tid, uint64_t period_ns, void *cookie) {
    return arm_either(trigger, tid, period_ns, cookie, false);
}

static int arm_gated(spp_os_trigger *trigger, int32_t tid, uint64_t period_ns, void *cookie) {
    errno = ENOSYS;
    return gate_enter != NULL ? arm_either(trigger, tid, period_ns, cookie, true) : -1;
}

static void disarm(spp_os_trigger *trigger) {
    armed *s = trigger->suspended;
    if (s == NULL) return;
    spp_spin_lock(&list_lock);
    armed **link = &all;
    while (*link != NULL && *link != s) link = &(*link)->next;
    if (*link == s) *link = s->next;
    spp_spin_unlock(&list_lock);
    spp_suspend_close(s->handle);
    spp_free(s);
    trigger->suspended = NULL;
}

/* Looks are drawn here. */
static void set_period(spp_os_trigger *trigger, uint64_t period_ns) { (void)trigger, (void)period_ns; }

static bool alive(const spp_os_trigger *trigger) { return trigger->suspended != NULL; }

/* In a forked child: the sampler is the parent's, and so are handles; the list may be incomplete. */
static void drop(spp_os_trigger *trigger) {
    trigger->suspended = NULL;
    all = NULL;
    spp_spin_reset(&list_lock);
    sampler = NULL;
    spp_suspend_set_sampler(0);
}

static int probe(const char **why) { return (void)why, 0; }

static int probe_elsewhere(const char **why) {
    *why = "no signals to threads here";
    errno = ENOSYS;
    return -1;
}

static int probe_gate(const char **why) { return gate_enter != NULL ? 0 : probe_elsewhere(why); }

#define LOOKS .weight = SPP_WEIGHT_CPU, .looks = true, .disarm = disarm, .drop = drop, .period = set_period, .alive = alive

const spp_clock spp_clock_suspend = {
    .name = "suspend",
    .line = "a thread of spprof's suspends those that run, one at a time, for as long as it walks their stacks",
    .probe = probe,
    .arm = arm,
    LOOKS,
};

const spp_clock spp_clock_gil = {
    .name = "gil",
    .line = "a thread of spprof's takes the GIL and walks the stacks of those that ran: no native code, and only when asked for",
    .coarse = true,
    .gated = true,
    .probe = probe_gate,
    .arm = arm_gated,
    LOOKS,
};

const spp_clock *const spp_os_clocks[] = {
    SPP_CLOCKS_OF_LINUX(SPP_CLOCK_ELSEWHERE) SPP_CLOCKS_OF_SUSPEND(SPP_CLOCK_HERE) NULL,
};
const spp_clock *const spp_os_clocks_automatic[] = {&spp_clock_suspend, NULL};
const spp_clock *const spp_os_clock_last = &spp_clock_suspend;
const bool spp_os_suspends = true;

int spp_os_trigger_arm(spp_os_trigger *trigger, const spp_clock *clock, int32_t tid, uint64_t period_ns, void *cookie) {
    trigger->clock = clock;
    return clock->arm(trigger, tid, period_ns, cookie);
}

void spp_os_trigger_disarm(spp_os_trigger *trigger) { disarm(trigger); }
void spp_os_trigger_period(spp_os_trigger *trigger, uint64_t period_ns) { set_period(trigger, period_ns); }
bool spp_os_trigger_alive(const spp_os_trigger *trigger) { return alive(trigger); }
void spp_os_trigger_drop(spp_os_trigger *trigger) { drop(trigger); }

void spp_os_trigger_watch(spp_os_trigger *trigger) { (void)trigger; }

bool spp_os_trigger_orphan(const spp_os_trigger *trigger) { return (void)trigger, false; }

bool spp_os_thread_blocks(int32_t tid, const spp_clock *clock) {
    (void)tid, (void)clock;
    return false;
}

/* The drain lock is held, so the trigger stays. */
int spp_os_hold(const spp_os_trigger *trigger, spp_os_context *context) {
    armed *s = trigger->suspended;
    uint64_t cpu;
    if (spp_suspend_clock_proves()) return 1;
    if (s == NULL || spp_suspend_cpu_ns(s->handle, s->tid, &cpu) != SPP_SUSPEND_DONE) return -1;
    held.subject = (spp_os_subject){.tid = s->tid, .cpu_ns = cpu};
    *context = (spp_os_context){.subject = &held.subject};
    if (spp_suspend_stop(s->handle, &held.registers, context, &held.subject) != SPP_SUSPEND_DONE) return -1;
    atomic_store(&s->stopped,
                 true); /* before its clock can be read: it is stopped now, and advances once the thread is resumed */
    return 0;
}

void spp_os_let_go(const spp_os_trigger *trigger) { spp_suspend_go(((const armed *)trigger->suspended)->handle); }
