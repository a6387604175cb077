/* Triggers of Linux: the handler of every tick, and the rows of the clocks (clock_perf.c, clock_signal.c, clock_timer.c). */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/hints.h"
#include "os/clock.h"
#include "os/context.h"
#include "os/linux/calls.h"
#include "os/linux/linux.h"
#include "os/linux/machine.h"
#include "os/signals.h"
#include "os/threads.h"
#include "os/ticks.h"
#include "os/worker.h"

static spp_os_tick_fn on_tick;
static bool (*is_ours)(const void *cookie);

void spp_os_registers(const spp_os_context *context, uintptr_t to[SPP_OS_REGISTERS]) { read_registers(context->machine, to); }

/* Stack that the handler needs. If it runs on an alternate stack, so much must be left, since other memory of the program's may
 * be below. (It uses 1.5 KiB; tests/integration/test_calls.py measures it. The kernel's own frame of a signal, 3 KiB and more,
 * comes first: if it does not fit, the kernel ends the program, and a handler cannot prevent that.) */
#define STACK_NEED 2560

static inline bool has_stack(const ucontext_t *uc) {
    uintptr_t left = (uintptr_t)__builtin_frame_address(0) - (uintptr_t)uc->uc_stack.ss_sp;
    return left >= uc->uc_stack.ss_size || left >= STACK_NEED;
}

/* The instant of a tick of another clock. */
static const spp_linux_instant any = {0};

/* Handler. Passes a tick to the core, if `value` has a cookie. */
static SPP_HOT __attribute__((noinline)) void pass_tick(uintptr_t value, void *uc, bool trapped, const spp_linux_instant *of) {
    int saved = errno;
    spp_linux_see_call(uc, trapped);
    void *cookie = (void *)(value & ~SPP_LINUX_TAG);
    uintptr_t tag = value & SPP_LINUX_TAG;
    spp_tick kind = spp_usual(tag == 0) ? SPP_TICK_CPU : tag == SPP_LINUX_REMAINDER ? SPP_TICK_REMAINDER : SPP_TICK_EVENT;
    if (cookie != NULL) {
        spp_os_context context = {.source = (uint32_t)tag >> SPP_LINUX_SOURCE_SHIFT,
                                  .more = of->more,
                                  .coarse = of->coarse,
                                  .called = of->called,
                                  .instant_ns = spp_linux_samplers_stretched_ns(),
                                  .began_ns = of->began_ns,
                                  .looked_cpu = of->looked_cpu,
                                  .machine = uc};
        read_context(uc, &context);
        context.at_syscall = kind == SPP_TICK_REMAINDER && spp_linux_at_call(uc);
        on_tick(cookie, kind, &context);
        context.more = 0;
        for (uint32_t n = of->again; n > 0; n--) on_tick(cookie, kind, &context);
    }
    errno = saved;
}

/* The same for the calling thread, which has just left a call. All signals are blocked. */
static void pass_tick_here(uintptr_t value, const spp_linux_instant *of) {
    ucontext_t uc = {.uc_flags = 0}; /* no register shows a call */
    own_registers(&uc);
    pass_tick(value, &uc, false, of);
}

/* Handler. Passes a tick to the core. If too little stack is left, the tick is only counted, with little stack. */
static inline void deliver(uintptr_t value, void *uc, bool trapped, const spp_linux_instant *of) {
    if (spp_usual(has_stack(uc)))
        pass_tick(value, uc, trapped, of);
    else if (value != 0 && !(value & SPP_LINUX_TAG) && is_ours((void *)value))
        on_tick((void *)value, SPP_TICK_NO_STACK, NULL);
}

/* Its address is the value of a nudge, a signal that is no tick but makes a thread check the call that it is in. */
static const char nudged;

static void nudge(int32_t tid) {
    siginfo_t info;
    /* If possible one that a new program ignores, since a nudge may be pending when the thread calls exec. */
    int by = spp_linux_poll_signal() != 0 ? spp_linux_poll_signal() : spp_linux_timer_signal();
    if (by == 0) return;
    memset(&info, 0, sizeof info);
    info.si_signo = by;
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_value.sival_ptr = (void *)(uintptr_t)&nudged;
    syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, info.si_signo, &info);
}

/* Handler. Whether a signal, which is no trap, is a tick of ours. Stores its value; 0: no tick is due. */
static inline bool read_tick(const siginfo_t *info, uintptr_t *value) {
    *value = 0;
    if (info->si_code == POLL_IN || info->si_code == POLL_HUP) return spp_linux_perf_poll(info, value);
    if (info->si_code == SI_QUEUE) return info->si_value.sival_ptr == (const void *)&nudged;
    if (info->si_code != SI_TIMER) return false;
    *value = (uintptr_t)info->si_value.sival_ptr;
    return is_ours((void *)(*value & ~SPP_LINUX_TAG));
}

/* Handler. The same for a trap: its value is the event's own data. */
static inline bool read_trap(const siginfo_t *info, uintptr_t *value) {
    uintptr_t carried;
    bool due;
    *value = 0;
    if (spp_rare(!spp_linux_perf_trap(info, &carried, &due))) return false;
    if (due) *value = carried;
    return is_ours((void *)(carried & ~SPP_LINUX_TAG));
}

static bool is_tick(const siginfo_t *info) {
    uintptr_t value;
    return info->si_signo == SIGTRAP ? read_trap(info, &value) : spp_linux_is_sent(info) || read_tick(info, &value);
}

static void deliver_sent(const siginfo_t *info, void *uc) {
    spp_linux_instant of = {0};
    int saved = errno; /* its timer may be gone */
    uintptr_t value = spp_linux_sent(info, uc, &of);
    errno = saved;
    deliver(value, uc, false, &of);
}

/* Runs on any thread, at any instant. Async-signal-safe: reads a table, calls the core's handler, restores errno. */
static SPP_HOT void handle(int signum, siginfo_t *info, void *uc) {
    uintptr_t value;
    if (spp_linux_is_sent(info))
        deliver_sent(info, uc);
    else if (spp_usual(read_tick(info, &value)))
        deliver(value, uc, false, &any);
    else
        spp_linux_signal_pass(signum, info, uc);
}

static SPP_HOT void handle_trap(int signum, siginfo_t *info, void *uc) {
    uintptr_t value;
    if (spp_usual(read_trap(info, &value)))
        deliver(value, uc, true, &any);
    else
        spp_linux_signal_pass(signum, info, uc);
}

static void nothing(void *unused) { (void)unused; }

/* glibc installs the handler of its own signal when the first thread is created. */
static void make_first_thread(void) {
    static bool made;
    spp_os_worker *worker = made ? NULL : spp_os_worker_start("spprof-first", false, nothing, NULL);
    made = true;
    if (worker != NULL) spp_os_worker_join(worker);
}

int spp_os_signal_install(spp_os_tick_fn tick, bool (*valid)(const void *cookie), const spp_clock *clock, bool may_trap) {
    spp_linux_calls_init();
    spp_linux_sender_samples_with(pass_tick_here);
    on_tick = tick;
    is_ours = valid;
    spp_linux_clock_perf_begin();
    make_first_thread();
    if (spp_linux_tick_signals_begin(handle, handle_trap, clock == &spp_clock_perf_trap, may_trap) != 0) return -1;
    spp_linux_alternates(true);
    spp_linux_apart_start();
    return 0;
}

/* Drain lock or not; the drain thread. */
bool spp_os_signal_taken(void) { return spp_linux_tick_signals_taken(); }
void spp_os_signal_moved(void) { spp_linux_tick_signals_moved(); }

static bool ticks_by(int signum) {
    return spp_linux_tick_signals_move() || spp_linux_poll_signal() == signum || spp_linux_event_signal() == signum ||
           spp_linux_sender_sends(signum);
}

/* Only ticks of perf events may be pending for a thread that blocks them. */
static bool pends(int signum) { return !spp_linux_sender_sends(signum); }

void spp_os_signal_look(void) {
    static const spp_linux_signals_others others = {is_tick, nudge, spp_linux_end_call, ticks_by, pends};
    spp_linux_intercept(&others);
}

void spp_os_signal_take_back(void) { spp_linux_signals_take_back(); }

void spp_os_signal_remove(void) {
    spp_linux_alternates(false);
    spp_linux_tick_signals_end();
    spp_linux_samplers_stop();
    spp_linux_apart_stop();
}

const bool spp_os_may_rest = true;

uint64_t spp_os_signal_threads(void) { return spp_linux_samplers() + (spp_linux_apart_tid() != 0 ? 1u : 0); }

void spp_os_signal_rest(void) {
    spp_linux_samplers_rest();
    spp_linux_apart_stop();
}

void spp_os_signal_wake(void) {
    spp_linux_apart_start();
    spp_linux_samplers_wake();
}

void spp_os_signal_child(void) {
    spp_linux_signals_child();
    spp_linux_sender_child();
    spp_linux_apart_child();
    spp_linux_tick_signals_child();
}

/* ---- the clocks */

static int probe_elsewhere(const char **why) {
    *why = "signals serve here";
    errno = ENOSYS;
    return -1;
}

const spp_clock *const spp_os_clocks[] = {
    SPP_CLOCKS_OF_LINUX(SPP_CLOCK_HERE) SPP_CLOCKS_OF_SUSPEND(SPP_CLOCK_ELSEWHERE) NULL,
};
const spp_clock *const spp_os_clocks_automatic[] = {&spp_clock_signal, &spp_clock_perf, &spp_clock_timer, NULL};
const spp_clock *const spp_os_clock_last = &spp_clock_timer;
const bool spp_os_suspends = false;

int spp_os_trigger_arm(spp_os_trigger *trigger, const spp_clock *clock, int32_t tid, uint64_t period_ns, void *cookie) {
    trigger->clock = clock; /* before its first tick */
    if (clock->arm(trigger, tid, period_ns, cookie) == 0) return 0;
    int saved = errno;
    spp_os_trigger_disarm(trigger);
    errno = saved;
    return -1;
}

void spp_os_trigger_disarm(spp_os_trigger *trigger) {
    if (trigger->clock != NULL) trigger->clock->disarm(trigger);
}

void spp_os_trigger_period(spp_os_trigger *trigger, uint64_t period_ns) {
    if (trigger->clock != NULL) trigger->clock->period(trigger, period_ns);
}

bool spp_os_trigger_alive(const spp_os_trigger *trigger) { return trigger->clock != NULL && trigger->clock->alive(trigger); }

bool spp_os_trigger_orphan(const spp_os_trigger *trigger) {
    return trigger->clock != NULL && trigger->clock->orphan != NULL && trigger->clock->orphan(trigger);
}

bool spp_os_trigger_gave_up(const spp_os_trigger *trigger) {
    return trigger->clock != NULL && trigger->clock->gave_up != NULL && trigger->clock->gave_up(trigger);
}

void spp_os_trigger_drop(spp_os_trigger *trigger) {
    if (trigger->clock != NULL) trigger->clock->drop(trigger);
}

/* ---- nothing is suspended here: an off-CPU thread is walked as it is */

int spp_os_hold(const spp_os_trigger *trigger, spp_os_context *context) {
    (void)trigger, (void)context;
    return 1;
}

void spp_os_let_go(const spp_os_trigger *trigger) { (void)trigger; }

uint64_t spp_os_stop_ns(void) { return 0; }
bool spp_os_clock_is_exact(void) { return true; }

void spp_os_gate(bool (*enter)(void), void (*leave)(void)) { (void)enter, (void)leave; }

uintptr_t spp_os_slot_of(const spp_os_subject *subject, uint32_t slot) {
    (void)subject, (void)slot;
    return 0;
}

uint64_t spp_os_signal_cpu_ns(void) {
    uint64_t cpu = 0;
    int32_t tid = spp_linux_apart_tid();
    uint64_t files = tid != 0 && spp_os_thread_cpu_ns(tid, &cpu) == 0 ? cpu : 0;
    return files + spp_linux_samplers_cpu_ns();
}
