/* The clock `signal`: a thread of ours (the sampler; at high rates there are several) sends each thread that runs a signal, at
 * instants that are drawn at random. It needs no privilege, and of all ways to interrupt a thread it costs that thread least (7
 * us on a virtual machine; a timer of its own takes 20, a perf event 15). A thread that sleeps is sent nothing: its CPU clock
 * stands. One that is in a call is sent nothing either: handshake.h says how it is sampled then, and why no tick meets a call.
 *
 * A sample must fall on an instant that does not depend on what the program does. The instant of sending is one. Where the
 * scheduler chose it instead (a sampler that comes late), the handler takes no sample but sets a timer of the thread's own, for
 * an instant that is drawn anew. */
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

#define SOON_NS 4000u /* ... than the handler does */
/* How long a signal takes to a thread that runs: what it took of late, the newest counts 1/16. More than that is no interrupt. */
#define WAY_AT_FIRST_NS 10000u

/* A signal is on its way for so long as two looks at most, if no call holds it up. */
#define AGAIN_MOST 3

static void (*sample_with)(uintptr_t cookie, const spp_linux_instant *of);
static _Atomic uint64_t calls_met; /* in this run */

static bool signal_under_way(const spp_linux_handshake *h) {
    uint32_t tick = atomic_load(&h->tick);
    return tick == SPP_TICK_SENDING || tick == SPP_TICK_SENT;
}

/* Handler. The target that a signal's value names, if that is armed still, for the calling thread; or NULL. */
static spp_linux_target *target_of_signal(const siginfo_t *info) {
    if (info->si_code != SI_QUEUE && info->si_code != SI_TIMER) return NULL;
    return spp_linux_target_named((uintptr_t)info->si_value.sival_ptr);
}

/* Handler. Where the user's queue of signals is full (RLIMIT_SIGPENDING) the kernel sends ours all the same, but forgets what it
 * says: it looks like a kill() by the kernel (collect_signal in kernel/signal.c). The target of the calling thread, if a signal
 * to it is on its way; else NULL. */
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

/* Of the thread itself. */
static bool set_tick_timer(spp_linux_target *t, uint64_t in_ns, uint64_t *left) {
    struct itimerspec spec = {.it_value = {.tv_sec = (time_t)(in_ns / 1000000000u), .tv_nsec = (long)(in_ns % 1000000000u)}}, was;
    if (t->kernels_timer < 0 || atomic_load_explicit(&spp_linux_confined, memory_order_relaxed)) return false;
    if (raw_call(SYS_timer_settime, t->kernels_timer, 0, (long)(uintptr_t)&spec, (long)(uintptr_t)&was) != 0) return false;
    t->timed_ns = in_ns;
    if (left != NULL) *left = (uint64_t)was.it_value.tv_sec * 1000000000u + (uint64_t)was.it_value.tv_nsec;
    return true;
}

static uint64_t stop_tick_timer(spp_linux_handshake *h, uint64_t *passed) {
    uint64_t left = 0;
    spp_linux_target *t = atomic_load(&h->target);
    uint64_t set = t != NULL ? t->timed_ns : 0;
    if (t != NULL) (void)set_tick_timer(t, 0, &left);
    *passed = set > left ? set - left : 0;
    return left;
}

static bool start_tick_timer(spp_linux_handshake *h, uint64_t ns) {
    spp_linux_target *t = atomic_load(&h->target);
    return t != NULL && !spp_linux_target_blocks(h) && set_tick_timer(t, ns + 1, NULL);
}

/* What a sample stands for beside its own instant. */
static void add_instants(spp_linux_target *t, bool in_call, spp_linux_instant *of) {
    uint32_t others = atomic_exchange_explicit(&t->more, 0, memory_order_relaxed);
    if (in_call || others > AGAIN_MOST)
        of->more += others;
    else
        of->again = others;
    if (in_call) of->more += atomic_exchange_explicit(&t->waking, 0, memory_order_relaxed);
    of->coarse = atomic_load_explicit(&t->late, memory_order_relaxed);
}

/* Of the thread itself, at a call's end. */
static void sample_left_call(spp_linux_handshake *h, uint32_t n) {
    spp_linux_target *t = atomic_load(&h->target);
    uintptr_t cookie = t != NULL ? atomic_load(&t->cookie) : 0;
    spp_linux_instant of = {.more = n - 1, .called = h->function};
    if (cookie == 0 || t->tid != spp_os_tid()) return;
    add_instants(t, true, &of);
    sample_with(cookie, &of);
}

/* Handler. A system call's end takes a signal as soon as it is sent, sooner than the interrupt that it comes by. So what follows
 * the call would have no ticks for as long as that interrupt takes. */
static void learn_way(spp_linux_target *t, const ucontext_t *uc, uint64_t took) {
    uint32_t way = atomic_load_explicit(&t->way_ns, memory_order_relaxed);
    bool at_end = spp_linux_met_call(uc);
    atomic_store_explicit(&t->cut_short, spp_share_shift(atomic_load_explicit(&t->cut_short, memory_order_relaxed), at_end),
                          memory_order_relaxed);
    if (took < SPP_LINUX_WAY_MOST_NS && !at_end)
        atomic_store_explicit(&t->way_ns, way + (uint32_t)took / 16 - way / 16, memory_order_relaxed);
}

static const spp_linux_ticks sender_ticks = {stop_tick_timer, start_tick_timer, sample_left_call, spp_linux_signals_take_back};

/* Handler. A signal of the sampler's has come. Whether it is a sample of where the thread is: not if that is to be later, or if a
 * call is about to begin that cuts its delay off. */
static bool signal_is_sample(spp_linux_target *t, const ucontext_t *uc, uint64_t now) {
    spp_linux_handshake *h = t->shakes;
    uint64_t from = atomic_load_explicit(&t->from_ns, memory_order_relaxed), took = now > from ? now - from : 0;
    uint32_t put_off = atomic_load_explicit(&t->put_off_ns, memory_order_relaxed);
    uint32_t way = atomic_load_explicit(&t->way_ns, memory_order_relaxed);
    uint64_t delay = put_off != 0 ? put_off : way;
    if (atomic_load(&h->call) != 0) {
        atomic_store(&h->due_cpu, spp_os_own_cpu_ns() + (took < delay ? delay - took : 0));
        atomic_store(&h->tick, SPP_TICK_LEFT);
        return false;
    }
    learn_way(t, uc, took);
    if (put_off != 0) {
        atomic_store(&h->tick, SPP_TICK_TIMED);
        if (set_tick_timer(t, took + SOON_NS < put_off ? put_off - took : SOON_NS, NULL)) return false;
    } else if (took < SPP_LINUX_WAY_MOST_NS) {
        atomic_store_explicit(&h->quick, 0, memory_order_relaxed);
    }
    return true;
}

SPP_HOT uintptr_t spp_linux_sent(const siginfo_t *info, const ucontext_t *uc, spp_linux_instant *of) {
    spp_linux_target *t = target_of_signal(info);
    bool timed = info->si_code == SI_TIMER, speaks = t != NULL;
    if (spp_rare(!speaks)) t = target_without_value(info);
    if (spp_rare(t == NULL)) return 0;
    uintptr_t value = (uintptr_t)info->si_value.sival_ptr, cookie = atomic_load(&t->cookie);
    if ((speaks && value % SPP_LINUX_TARGET_ALIGN != atomic_load(&t->use)) || t->tid != spp_os_tid() || cookie == 0) return 0;
    if (timed ? atomic_load(&t->shakes->tick) != SPP_TICK_TIMED : !signal_under_way(t->shakes)) return 0;
    bool met = spp_rare(spp_linux_met_call(uc)) && !spp_linux_in_c_library(program_counter(uc)); /* there it has a wrapper */
    if (spp_rare(met)) { /* the last signal: not even a timer's follows, which could meet another call */
        atomic_store_explicit(&t->unseen, true, memory_order_relaxed);
        atomic_fetch_add_explicit(&calls_met, 1, memory_order_relaxed);
    }
    if (timed)
        atomic_store_explicit(&t->shakes->quick, 0, memory_order_relaxed);
    else if (!met && !signal_is_sample(t, uc, spp_os_now_ns()))
        return 0;
    if (spp_rare(spp_linux_stood(uc))) { /* in a call that has no wrapper: it slept, or was about to */
        atomic_fetch_add_explicit(&t->declined, 1 + atomic_exchange(&t->more, 0), memory_order_relaxed);
        cookie = 0;
    } else {
        add_instants(t, false, of);
    }
    atomic_store_explicit(&t->shakes->tick, SPP_TICK_NONE, memory_order_release);
    return cookie;
}

void spp_linux_sender_gives_to(void (*to)(uintptr_t cookie, const spp_linux_instant *of)) {
    sample_with = to;
    spp_linux_ticks_by = &sender_ticks;
}

void *spp_linux_sender_arm(int32_t tid, int by, uint64_t period_ns, void *cookie) {
    bool memory = spp_linux_targets_make() == 0;
    errno = ENOMEM;
    if (spp_linux_samplers_idle()) atomic_store(&calls_met, 0); /* a new run */
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
    t->shakes = NULL;
    uint64_t cpu = 0;
    int32_t timer;
    t->kernels_timer = -1;
    if (spp_os_thread_cpu_ns(tid, &cpu) != 0) {
        spp_linux_target_free(t);
        return NULL;
    }
    /* Without one, samples that it would bring later are taken at once. */
    if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) == 0) t->kernels_timer = timer;
    if ((t->shakes = spp_linux_handshake_arm(tid, t)) == NULL) {
        spp_linux_target_free(t);
        errno = EAGAIN;
        return NULL;
    }
    t->look_cpu = cpu;
    t->looked_ns = spp_os_now_ns();
    t->moved_ns = 0; /* it may have slept for long */
    t->owed_ns = 0;
    t->declined_seen = 0;
    t->stood = 0;
    atomic_store(&t->declined, 0);
    atomic_store(&t->more, 0);
    atomic_store(&t->waking, 0);
    t->slept_ns = 0;
    atomic_store(&t->way_ns, WAY_AT_FIRST_NS);
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

uint64_t spp_os_calls_met(void) { return atomic_load(&calls_met); }

void spp_linux_sender_child(void) {
    spp_linux_handshakes_child();
    spp_linux_samplers_child();
    spp_linux_targets_child();
}
