/* The clock `signal`: samplers (sampler.c) look at all threads at random instants, and send each running thread a signal. This
 * file arms threads and handles the signals. The clock needs no privilege, and interrupting a thread costs it less than by any
 * other clock: 7 us on a virtual machine; a timer of its own takes 20 us, a perf event 15. A sleeping thread is sent nothing,
 * since its CPU clock does not advance. Neither is a thread in a call of the C library: handshake.h says why, and how it is
 * sampled.
 *
 * The instant of a sample must not depend on what the program does. The instant of sending is random. If the scheduler chose it
 * instead, since the sampler was late, the handler takes no sample but sets the thread's timer to another random instant. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/hints.h"
#include "os/clock.h"
#include "os/linux/calls.h"
#include "os/linux/handshake.h"
#include "os/linux/linux.h"
#include "os/linux/machine.h"
#include "os/linux/share.h"
#include "os/linux/targets.h"
#include "os/threads.h"
#include "os/ticks.h"

/* The shortest time that the handler sets a timer to. */
#define SOON_NS 4000u
/* A timer that ended while it was being set is set again so often. */
#define SETS_MOST 4
/* A signal is under way for two looks at most if no call delays it. Up to this number of instants were in the same place. */
#define AGAIN_MOST 3

static void (*sample_with)(uintptr_t cookie, const spp_linux_instant *of);
static _Atomic uint64_t interrupted_calls; /* calls without a wrapper that signals interrupted, in this run */

static bool signal_under_way(const spp_linux_handshake *h) {
    uint32_t tick = atomic_load(&h->tick);
    return tick == SPP_TICK_SENDING || tick == SPP_TICK_SENT;
}

/* Handler. Returns the target that a signal's value refers to, armed or not; NULL: it is no signal of this clock. */
static spp_linux_target *target_of_signal(const siginfo_t *info) {
    if (info->si_code != SI_QUEUE && info->si_code != SI_TIMER) return NULL;
    return spp_linux_target_named((uintptr_t)info->si_value.sival_ptr);
}

/* Handler. If the user's signal queue is full (RLIMIT_SIGPENDING), the kernel still sends our signal but drops its value: it
 * looks like a kill() by the kernel (collect_signal in kernel/signal.c). Returns the target of the calling thread if a signal to
 * it is under way; else NULL. */
static SPP_COLD spp_linux_target *target_without_value(const siginfo_t *info) {
    if (info->si_code != SI_USER || info->si_pid != 0 || info->si_uid != 0 || info->si_signo != spp_linux_targets.signum)
        return NULL;
    spp_linux_handshake *h = spp_linux_handshake_own();
    return h != NULL && signal_under_way(h) ? atomic_load(&h->target) : NULL;
}

bool spp_linux_is_sent(const siginfo_t *info) {
    if (spp_rare(info->si_code == SI_USER) && target_without_value(info) != NULL) return true;
    return target_of_signal(info) != NULL;
}

/* The thread itself. Sets its timer; 0 stops it. False: it has none, or may not set it. */
static bool set_tick_timer(spp_linux_target *t, uint64_t in_ns) {
    struct itimerspec spec = {.it_value = {.tv_sec = (time_t)(in_ns / 1000000000u), .tv_nsec = (long)(in_ns % 1000000000u)}};
    if (t->kernels_timer < 0 || atomic_load_explicit(&spp_linux_confined, memory_order_relaxed)) return false;
    if (in_ns != 0) t->timed_ns = spp_os_now_ns() + in_ns;
    return raw_call(SYS_timer_settime, t->kernels_timer, 0, (long)(uintptr_t)&spec, 0) == 0;
}

/* spp_linux_ticks.stop. The kernel's answer would be the time left when the timer was stopped, which takes long itself. */
static uint64_t stop_tick_timer(spp_linux_handshake *h, uint64_t *ran) {
    spp_linux_target *t = atomic_load(&h->target);
    *ran = 0;
    if (t == NULL) return 0;
    (void)set_tick_timer(t, 0);
    if (h->entered_ns > t->resumed_ns) *ran = h->entered_ns - t->resumed_ns;
    return t->timed_ns > h->entered_ns ? t->timed_ns - h->entered_ns : 0;
}

/* What it takes to set a timer, and the least that one may be set to: a shorter one ends before the thread goes on. On a virtual
 * machine they are 6 and 10 us, and setting a shorter one takes 18. Both are learned, the one as a moving average, the other so
 * that one in five ends too soon. */
static _Atomic uint32_t set_ns, least_ns = 1000;

static void learn_set(uint32_t in_ns, uint32_t took, bool goes_on) {
    uint32_t set = atomic_load_explicit(&set_ns, memory_order_relaxed),
             least = atomic_load_explicit(&least_ns, memory_order_relaxed);
    if (goes_on && took < SPP_LINUX_WAY_MOST_NS) atomic_store_explicit(&set_ns, set - set / 16 + took / 16, memory_order_relaxed);
    if (!goes_on && in_ns >= least)
        least += least / 16 + (in_ns < SPP_LINUX_WAY_MOST_NS ? in_ns - least : 0) / 8;
    else if (goes_on && in_ns < least + least / 8)
        least -= least / 64;
    atomic_store_explicit(&least_ns, least, memory_order_relaxed);
}

/* spp_linux_ticks.time. A time that is too short for a timer becomes the shortest. Samples taken at once instead, even only as
 * often as keeps the mean, would be the call's: a call of 0.7 us got three times its share. */
static bool start_tick_timer(spp_linux_handshake *h, uint64_t ns) {
    spp_linux_target *t = atomic_load(&h->target);
    bool goes_on = false;
    if (t == NULL || spp_linux_target_blocks(h)) return false;
    for (uint32_t i = 0; i < SETS_MOST && !goes_on; i++) {
        uint64_t in_ns = ns + atomic_load_explicit(&set_ns, memory_order_relaxed), began = spp_os_now_ns();
        uint32_t least = atomic_load_explicit(&least_ns, memory_order_relaxed);
        if (in_ns < least) in_ns = least;
        in_ns += i * (least / 4);
        atomic_store(&h->tick, SPP_TICK_TIMED);
        if (!set_tick_timer(t, in_ns)) return false;
        t->resumed_ns = spp_os_now_ns();
        goes_on = atomic_load(&h->tick) == SPP_TICK_TIMED; /* else the handler has seen the call that has just ended */
        learn_set((uint32_t)(in_ns < UINT32_MAX ? in_ns : UINT32_MAX), (uint32_t)(t->resumed_ns - began), goes_on);
    }
    return goes_on;
}

/* Handler, or at the end of a call. What the last look read of the calling thread's CPU clock; 0 if the target is another
 * thread's by now: a pause and a resume may have come since this tick was found to be the thread's own. Armed again, a target
 * has another `use`, then another clock, and its cookie last. */
static uint64_t looked_cpu(const spp_linux_target *t) {
    uint32_t use = atomic_load(&t->use);
    if (atomic_load(&t->cookie) == 0 || t->tid != spp_linux_own_tid()) return 0;
    uint64_t cpu = atomic_load(&t->look_cpu);
    return atomic_load(&t->use) == use ? cpu : 0;
}

/* Handler, or at the end of a call. Adds what the samplers know of the instant, and those that the sample counts for besides. */
static void add_instants(spp_linux_target *t, bool in_call, spp_linux_instant *of) {
    uint32_t others = atomic_exchange_explicit(&t->more, 0, memory_order_relaxed);
    if (in_call || others > AGAIN_MOST)
        of->more += others;
    else
        of->again = others;
    if (in_call) of->more += atomic_exchange_explicit(&t->waking, 0, memory_order_relaxed);
    of->coarse = atomic_load_explicit(&t->late, memory_order_relaxed);
    of->looked_cpu = looked_cpu(t);
}

/* spp_linux_ticks.join */
static void join_tick(spp_linux_handshake *h) {
    spp_linux_target *t = atomic_load(&h->target);
    if (t != NULL) atomic_fetch_add_explicit(&t->more, 1, memory_order_relaxed);
}

/* spp_linux_ticks.sample: the thread itself, at the end of a call. */
static void sample_left_call(spp_linux_handshake *h, uint32_t n) {
    spp_linux_target *t = atomic_load(&h->target);
    uintptr_t cookie = t != NULL ? atomic_load(&t->cookie) : 0;
    spp_linux_instant of = {.more = n - 1, .called = h->function};
    if (cookie == 0 || t->tid != spp_os_tid()) return;
    add_instants(t, true, &of);
    sample_with(cookie, &of);
}

/* Handler. Counts the signals that come at the end of a system call. There a thread takes a signal as soon as it is sent, before
 * the interrupt arrives, so the code after the call would get no ticks for as long as the interrupt takes. */
static void count_cut_short(spp_linux_target *t, const ucontext_t *uc) {
    uint32_t share = atomic_load_explicit(&t->cut_short, memory_order_relaxed);
    atomic_store_explicit(&t->cut_short, spp_share_shift(share, spp_linux_interrupted_call(uc)), memory_order_relaxed);
}

static const spp_linux_ticks sender_ticks = {stop_tick_timer, start_tick_timer, join_tick, sample_left_call,
                                             spp_linux_signals_take_back};

/* Handler. The thread is about to begin a call, before the tick's delay is over: `ns` of it are left. */
static bool leave_tick(spp_linux_handshake *h, uint64_t ns) {
    h->left_ns = ns; /* where the thread settles the tick; else this: */
    atomic_store(&h->due_cpu, spp_os_own_cpu_ns() + ns);
    atomic_store(&h->tick, SPP_TICK_LEFT);
    return false;
}

/* Handler, for a sampler's signal. Whether a sample is due here: not if it is to be taken later, or if the thread is about to
 * begin a call, which ends the delay early. */
static bool signal_is_sample(spp_linux_target *t, const ucontext_t *uc, uint64_t now) {
    spp_linux_handshake *h = t->shakes;
    uint64_t from = atomic_load_explicit(&t->from_ns, memory_order_relaxed), took = now > from ? now - from : 0;
    uint32_t put_off = atomic_load_explicit(&t->put_off_ns, memory_order_relaxed);
    if (atomic_load(&h->call) != 0) {
        uint64_t began = h->entered_ns > from ? h->entered_ns : from, until = h->awaited_ns;
        if (put_off != 0) until = from + put_off;
        return leave_tick(h, until > began ? until - began : 0);
    }
    count_cut_short(t, uc);
    if (put_off != 0) {
        atomic_store(&h->tick, SPP_TICK_TIMED);
        t->resumed_ns = now;
        if (set_tick_timer(t, took + SOON_NS < put_off ? put_off - took : SOON_NS)) return false;
    } else if (took < SPP_LINUX_WAY_MOST_NS) {
        atomic_store_explicit(&h->quick, 0, memory_order_relaxed);
    }
    return true;
}

/* Handler, for the timer's signal: the same. */
static bool timer_is_sample(spp_linux_handshake *h) {
    if (atomic_load(&h->call) != 0) return leave_tick(h, 0);
    atomic_store_explicit(&h->quick, 0, memory_order_relaxed);
    return true;
}

/* Handler, in a call that the signal interrupted. Whether it had no wrapper, and may have been hurt. Calls of the C library have
 * one, or cannot be hurt; one that was ended all the same came by a pointer from before the wrappers. */
static SPP_COLD bool is_unseen_call(const spp_linux_target *t, const ucontext_t *uc) {
    uintptr_t pc = program_counter(uc);
    if (!spp_linux_in_c_library(pc)) return true;
    return atomic_load(&t->shakes->call) == 0 && spp_linux_ended_call(uc) && !spp_linux_in_own_code(pc);
}

SPP_HOT uintptr_t spp_linux_sent(const siginfo_t *info, const ucontext_t *uc, spp_linux_instant *of) {
    spp_linux_target *t = target_of_signal(info);
    bool timed = info->si_code == SI_TIMER, speaks = t != NULL;
    if (spp_rare(!speaks)) t = target_without_value(info);
    if (spp_rare(t == NULL)) return 0;
    uintptr_t value = (uintptr_t)info->si_value.sival_ptr, cookie = atomic_load(&t->cookie);
    if ((speaks && value % SPP_LINUX_TARGET_ALIGN != atomic_load(&t->use)) || cookie == 0) return 0;
    /* The kernel is asked only on threads that the C library did not make. */
    if (t->tid != spp_linux_own_tid() && t->tid != spp_os_tid()) return 0;
    if (timed ? atomic_load(&t->shakes->tick) != SPP_TICK_TIMED : !signal_under_way(t->shakes)) return 0;
    t->shakes->in_vain = false;
    bool in_call = spp_rare(spp_linux_interrupted_call(uc)) && is_unseen_call(t, uc);
    if (spp_rare(in_call)) { /* no more signals, not even the timer's, which could interrupt another call */
        atomic_store_explicit(&t->unseen, true, memory_order_relaxed);
        atomic_fetch_add_explicit(&interrupted_calls, 1, memory_order_relaxed);
    }
    of->began_ns = spp_os_now_ns();
    if (!in_call && !(timed ? timer_is_sample(t->shakes) : signal_is_sample(t, uc, of->began_ns))) return 0;
    if (spp_rare(spp_linux_sleeps_in_call(uc))) { /* asleep in a call without a wrapper, or about to sleep */
        atomic_fetch_add_explicit(&t->declined, 1 + atomic_exchange(&t->more, 0), memory_order_relaxed);
        cookie = 0;
    } else {
        add_instants(t, false, of);
    }
    atomic_store_explicit(&t->shakes->tick, SPP_TICK_NONE, memory_order_release);
    return cookie;
}

void spp_linux_sender_samples_with(void (*to)(uintptr_t cookie, const spp_linux_instant *of)) {
    sample_with = to;
    spp_linux_ticks_by = &sender_ticks;
}

void *spp_linux_sender_arm(int32_t tid, int by, uint64_t period_ns, void *cookie, bool older) {
    bool memory = spp_linux_targets_make() == 0;
    errno = ENOMEM;
    if (spp_linux_samplers_idle()) atomic_store(&interrupted_calls, 0); /* a run begins */
    if (!memory || spp_linux_handshakes_make() != 0 ||
        !spp_linux_samplers_start(period_ns < SPP_LINUX_FAST_NS ? SPP_LINUX_SAMPLERS : 1))
        return NULL;
    spp_linux_target *t = spp_linux_target_new();
    if (t == NULL) return NULL;
    uint32_t use = atomic_load(&t->use) % (SPP_LINUX_TARGET_ALIGN - 1) + 1;
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = by;
    event.sigev_value.sival_ptr = (char *)t + use;
    event.sigev_notify_thread_id = tid;
    atomic_store(&t->use, use);
    t->tid = tid;
    uint64_t cpu = 0;
    int32_t timer;
    t->kernels_timer = -1;
    if (spp_os_thread_cpu_ns(tid, &cpu) != 0) {
        spp_linux_target_free(t);
        return NULL;
    }
    /* Without a timer, samples that should be taken later are taken at once. */
    if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) == 0) t->kernels_timer = timer;
    spp_linux_handshake *shakes = spp_linux_handshake_arm(tid, t);
    if (shakes == NULL) {
        spp_linux_target_free(t);
        errno = EAGAIN;
        return NULL;
    }
    t->shakes = shakes; /* never NULL again: a late handler of the target's last use may read it */
    t->sent_cpu = cpu;
    atomic_store(&t->look_cpu, cpu);
    t->asked_cpu = UINT64_MAX;
    t->wary = older;
    t->looked_ns = spp_os_now_ns();
    t->moved_ns = 0; /* it may have been asleep for long */
    t->owed_ns = 0;
    t->declined_seen = 0;
    t->woken_seen = atomic_load(&t->shakes->woken);
    t->noted = false;
    t->asleep = 0;
    atomic_store(&t->declined, 0);
    atomic_store(&t->more, 0);
    atomic_store(&t->waking, 0);
    t->slept_ns = 0;
    atomic_store(&t->cut_short, 0);
    atomic_store(&t->unseen, false);
    atomic_store(&t->period_ns, period_ns);
    atomic_store(&t->cookie, (uintptr_t)cookie);
    spp_linux_target_link(t, by, period_ns);
    return t;
}

bool spp_linux_sender_unseen(const void *of) { return atomic_load(&((const spp_linux_target *)of)->unseen); }

void spp_linux_sender_disarm(void *of) { spp_linux_target_free(of); }

SPP_HOT void spp_linux_sender_period(void *of, uint64_t period_ns) {
    atomic_store(&((spp_linux_target *)of)->period_ns, period_ns);
}

bool spp_linux_sender_sends(int by) {
    return atomic_load(&spp_linux_targets.armed_n) > 0 && atomic_load(&spp_linux_targets.signum) == by;
}

uint64_t spp_os_calls_interrupted(void) { return atomic_load(&interrupted_calls); }

void spp_linux_sender_child(void) {
    spp_linux_handshakes_child();
    spp_linux_samplers_child();
    spp_linux_targets_child();
}
