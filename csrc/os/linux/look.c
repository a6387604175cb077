#include "os/linux/look.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/random.h"
#include "os/clock.h"
#include "os/linux/handshake.h"
#include "os/linux/share.h"
#include "os/threads.h"

/* A sample of a late look is taken later: by this, and by a random time of at most the lateness. */
#define PUT_OFF_NS 40000u
#define PUT_OFF_MOST_NS 4000000u
/* If more signals than this share come at the end of system calls, a signal only sets a timer, for a fixed time after it was
 * sent. That costs more, since the timer's interrupt is a second one. The delay must be long: a signal leaves caches cold, which
 * slows calls but not loops. 40 us after it small functions got 0.8 of their time, 170 us after it all of it. */
#define CUT_SHORT_OFTEN (SPP_SHARE_ONE / 32)
#define SETTLED_NS 200000u
#define SETTLED_PART 5 /* at most this part of an interval, at least PUT_OFF_NS */
/* A thread that ran for as long as the sampler slept, less the time of a context switch, ran until the sampler woke. */
#define SWITCH_NS 10000u
/* Upper bound on the time between reading the monotonic clock and a thread's. */
#define READ_NS 300u
/* A signal is lost if its thread ran for so long without it: the kernel drops signals that are ignored for a moment, as while
 * the program starts another one. */
#define LOST_NS 20000000u
#define OWED_MOST 64 /* ticks */
#define BEHIND 2     /* a thread that is owed more ticks makes looks come sooner */
#define UNKNOWN UINT64_MAX
/* Threads that slept for a second are looked at in turn, about so many at each look. */
#define FEW 64u
/* A thread hands over to others if more looks than this share find it asleep. */
#define HANDS_OVER (SPP_SHARE_ONE / 8)
/* A run queue's clock is read again after this time, which doubles while its offset changes by less than ASTRAY_NS. */
#define QUEUES 16u
#define ASTRAY_NS 2000u
#define KNOWN_LEAST_NS 100000u
#define KNOWN_MOST_NS 10000000u

/* Lock held. The instant fell into a call of the C library: the thread takes the sample itself when the call returns. */
static void leave_to_call(spp_linux_target *t, uint64_t delay_ns) {
    atomic_store_explicit(&t->shakes->wanted_cpu, t->look_cpu + delay_ns, memory_order_relaxed);
    atomic_fetch_add(&t->shakes->wanted, 1);
    t->sent_cpu = t->look_cpu; /* a timer that the thread may set for it counts as lost only from now on */
    t->owed_ns -= (int64_t)t->period_ns;
}

/* Lock held, after spp_linux_tick_begin(). */
static void send_tick(spp_linux_target *t, pid_t process, uint64_t from_ns, uint64_t put_off_ns) {
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_signo = spp_linux_targets.signum;
    info.si_code = SI_QUEUE;
    info.si_pid = process;
    info.si_value.sival_ptr = (char *)t + atomic_load(&t->use);
    atomic_store_explicit(&t->from_ns, from_ns, memory_order_relaxed);
    atomic_store_explicit(&t->put_off_ns, (uint32_t)put_off_ns, memory_order_relaxed);
    t->sent_cpu = t->look_cpu;
    bool sent = syscall(SYS_rt_tgsigqueueinfo, process, t->tid, spp_linux_targets.signum, &info) == 0;
    spp_linux_tick_sent(t->shakes, sent);
    if (sent) t->owed_ns -= (int64_t)t->period_ns;
}

static spp_linux_files *open_files_of(spp_linux_target *t, const spp_linux_look *l) { return &t->files[l->by]; }

/* Whether `displaced` is certain. */
static bool knows_displaced(const spp_linux_look *l) { return l->displaced != NULL && l->ran_ns == 0; }

/* Whether a thread that ran for `ran` since the previous look ran all the time. */
static bool ran_all(const spp_linux_look *l, uint64_t ran) {
    uint64_t switch_ns = SWITCH_NS < l->slept_ns / 4 ? SWITCH_NS : l->slept_ns / 4;
    return ran + switch_ns + l->slept_ns / 32 >= l->slept_ns;
}

/* Returns when the sampler began to run. `own`: its CPU clock when it went to sleep. */
static uint64_t running_since(uint64_t own) {
    uint64_t now, cpu, after;
    int tries = 4; /* an interrupt may come between the readings */
    do {
        now = spp_os_now_ns();
        cpu = spp_os_own_cpu_ns();
        after = spp_os_now_ns();
    } while (after - now > ASTRAY_NS && --tries > 0);
    return now - (cpu - own);
}

/* Returns when the sampler began to run, by the clock of its processor's run queue, or UNKNOWN. That clock is the monotonic one
 * less stolen time and the time of interrupts. Reading it costs as much as the rest of a look, so its offset is kept and read
 * again only when it may have changed (or if the sampler was preempted during the previous reading). The result may be a little
 * early, by what the sampler ran between reading its clock and sleeping; it is never late. Lock held. */
static uint64_t woke_on_queue(spp_linux_look *l) {
    static struct {
        int processor; /* plus 1 */
        uint64_t asked_ns, for_ns;
        int64_t ahead_ns;
    } queues[QUEUES], *q;
    q = &queues[(uint32_t)l->here % QUEUES];
    if (l->woke_ns != 0) return l->woke_ns;
    uint64_t since_ns = running_since(l->own_ns);
    bool known = q->processor == l->here + 1;
    if (!known || since_ns - q->asked_ns > q->for_ns) {
        uint64_t until, cpu;
        if (!spp_linux_thread_ran_until(spp_os_tid(), l->files, &until, &cpu)) return l->woke_ns = UNKNOWN;
        int64_t ahead = (int64_t)(until - (cpu - l->own_ns) - since_ns), moved = ahead - q->ahead_ns;
        bool steady = known && moved < (int64_t)ASTRAY_NS && moved > -(int64_t)ASTRAY_NS;
        if (!steady)
            q->for_ns = 0;
        else if (q->for_ns < KNOWN_MOST_NS)
            q->for_ns = q->for_ns == 0 ? KNOWN_LEAST_NS : q->for_ns * 2;
        q->processor = l->here + 1;
        q->asked_ns = since_ns;
        q->ahead_ns = ahead;
    }
    return l->woke_ns = since_ns + (uint64_t)q->ahead_ns;
}

/* Lock held. `t` waits for the sampler's processor: decides whether the sampler preempted it. Other threads wait too: some that
 * were preempted earlier, and some just woken. A thread that ran all the time is the one; asking the kernel when it last ran
 * would cost as much as the rest of a look. If the kernel does not say, a candidate is chosen with a probability in proportion to
 * the time it ran since the previous look. That is right on average: it errs as often at the end of a thread's turn as, in the
 * other direction, at the beginning, except for threads that sleep in between. */
static void weigh_displaced(spp_linux_target *t, uint64_t ran, spp_linux_look *l) {
    uint64_t until, cpu;
    if (ran_all(l, ran)) {
        l->displaced = t;
        l->ran_ns = 0;
        return;
    }
    if (woke_on_queue(l) != UNKNOWN && spp_linux_thread_ran_until(t->tid, open_files_of(t, l), &until, &cpu)) {
        if (until >= l->woke_ns - ASTRAY_NS) l->displaced = t;
        return;
    }
    l->ran_ns += ran;
    if (spp_random_below(l->random, (uint32_t)l->ran_ns) < ran) l->displaced = t;
}

static bool target_is_fast(const spp_linux_target *t) { return t->period_ns < SPP_LINUX_FAST_NS; }

static uint64_t settled_ns(uint64_t period) {
    uint64_t part = period / SETTLED_PART;
    return part > SETTLED_NS ? SETTLED_NS : part > PUT_OFF_NS ? part : PUT_OFF_NS;
}

/* Lock held. `t` is due a tick: it is running (`runs`), or was until the sampler preempted it. Sends a signal, leaves the instant
 * to the call that the thread is in, or adds it to a signal under way. */
static void tick_target(spp_linux_target *t, const spp_linux_look *l, bool runs, uint64_t now) {
    spp_linux_handshake *h = t->shakes;
    int64_t period = (int64_t)t->period_ns;
    uint64_t put_off = 0;
    if (atomic_load_explicit(&t->unseen, memory_order_relaxed)) return;
    if (runs && atomic_load_explicit(&t->cut_short, memory_order_relaxed) > CUT_SHORT_OFTEN) put_off = settled_ns(t->period_ns);
    if (l->late_ns > SPP_LINUX_LATE_NS)
        put_off = PUT_OFF_NS + spp_random_below(l->random, l->late_ns < PUT_OFF_MOST_NS ? l->late_ns : PUT_OFF_MOST_NS);
    uintptr_t unknown = SPP_CALL_UNKNOWN; /* it runs, so it is not blocked in a call from before the first run */
    (void)atomic_compare_exchange_strong(&h->call, &unknown, 0);
    uint32_t before = atomic_load_explicit(&h->tick, memory_order_acquire);
    bool lost = t->look_cpu - t->sent_cpu >= (uint64_t)period + LOST_NS;
    if (before == SPP_TICK_LEFT && t->look_cpu > atomic_load(&h->due_cpu) + SPP_LINUX_WAY_MOST_NS)
        lost = true; /* no call began since */
    if (before != SPP_TICK_NONE && lost && atomic_load(&h->call) == 0) {
        (void)atomic_compare_exchange_strong(&h->tick, &before, SPP_TICK_NONE);
        atomic_store_explicit(&h->quick, 0, memory_order_relaxed);
    }
    if (spp_linux_tick_begin(h)) {
        /* Both were set before this tick could begin: by the handler of the previous one, or in a call that is over. */
        if (atomic_load_explicit(&t->unseen, memory_order_relaxed) || spp_linux_target_blocks(h)) {
            spp_linux_tick_sent(h, false);
            return;
        }
        /* The call that these instants fell into is over, and the thread has not taken them. */
        atomic_fetch_add_explicit(&t->more, atomic_exchange(&h->wanted, 0), memory_order_relaxed);
        atomic_store_explicit(&t->late, l->late_ns > SPP_LINUX_LATE_NS && target_is_fast(t), memory_order_relaxed);
        send_tick(t, l->process, now, put_off);
    } else if (spp_linux_target_blocks(h)) {
        return;
    } else if (atomic_load(&h->call) != 0) {
        leave_to_call(t, put_off != 0 ? put_off : runs ? atomic_load_explicit(&t->way_ns, memory_order_relaxed) : 0);
    } else if (atomic_load(&h->tick) != SPP_TICK_NONE) {
        t->owed_ns -= period;
        atomic_fetch_add_explicit(&t->more, 1, memory_order_relaxed);
    }
}

/* Lock held, at the end of a look. Ticks the thread that the sampler preempted. If that is a guess, a thread that is not sampled
 * may have run instead, so the tick comes with the probability that one of the candidates did. */
static void tick_displaced(const spp_linux_look *l) {
    spp_linux_target *t = l->displaced;
    if (t == NULL) return;
    if (knows_displaced(l) || ran_all(l, l->ran_ns) || spp_random_below(l->random, (uint32_t)l->slept_ns) < l->ran_ns)
        tick_target(t, l, false, spp_os_now_ns());
}

/* Lock held. The thread was asleep at the previous look, and ran for `ran` since. The kernel counts its CPU time from when it is
 * woken, but on an idle processor it takes 10 us and more until it runs, and during that time others read an old value of its
 * clock: enqueue_task() updates the run queue's clock, and __schedule() does not again (rq_clock_skip_update in
 * kernel/sched/core.c). If its clock advanced by more than the time that passed, the previous look fell into that time: by its
 * clock, the thread was running then. */
static void count_waking(spp_linux_target *t, uint64_t ran, uint64_t passed) {
    if (ran <= passed || atomic_load_explicit(&t->waking, memory_order_relaxed) >= OWED_MOST) return;
    atomic_fetch_add_explicit(&t->waking, 1, memory_order_relaxed);
    t->owed_ns -= (int64_t)t->period_ns;
}

/* Lock held. Updates what is known of a thread, and ticks it if it is running and owed a tick. */
static void look_at_target(spp_linux_target *t, spp_linux_look *l) {
    uint64_t cpu, again, now = spp_os_now_ns();
    int64_t period = (int64_t)t->period_ns;
    /* The thread ended, or its id was reused: the watch will notice. */
    if (spp_os_thread_cpu_ns(t->tid, &cpu) != 0 || cpu < t->look_cpu) return;
    uint64_t ran = cpu - t->look_cpu;
    uint32_t declined = atomic_load_explicit(&t->declined, memory_order_relaxed);
    t->owed_ns += (int64_t)ran + (int64_t)(declined - t->declined_seen) * period;
    if (t->owed_ns > OWED_MOST * period) t->owed_ns = OWED_MOST * period;
    t->declined_seen = declined;
    bool all = ran + READ_NS >= now - t->looked_ns && t->slept_ns == 0; /* it ran since the previous look, and is running */
    t->looked_ns = now;
    t->look_cpu = cpu;
    if (ran != 0) t->moved_ns = now;
    uint64_t slept_ns = t->slept_ns;
    t->slept_ns = 0;
    if (slept_ns != 0) count_waking(t, ran, now - slept_ns);
    /* Looks come sooner for threads that are owed ticks. Others skip some, or they would get too many: a short-lived thread could
     * not make up for it. */
    if (l->hurried && t->owed_ns - (int64_t)ran <= BEHIND * period && spp_random_below(l->random, SPP_LINUX_HURRY) == 0) return;
    bool counts = l->late_ns <= SPP_LINUX_LATE_NS || l->mostly_late;
    if (ran == 0 && counts) t->slept_ns = now;
    if (ran == 0 || t->owed_ns < -OWED_MOST * period) return;
    bool runs = all || (spp_os_thread_cpu_ns(t->tid, &again) == 0 && again != cpu);
    l->running += runs;
    l->stopped += !runs;
    l->handed += !runs && t->asleep > HANDS_OVER;
    if (!runs && knows_displaced(l)) return; /* the sampler preempted another thread */
    int on = runs ? SPP_LINUX_SLEEPS : spp_linux_thread_ready(t->tid, open_files_of(t, l));
    /* Without /proc: a thread outside a call waits for a processor, most likely the sampler's. So does one that ran until the
     * sampler woke. */
    if (on == SPP_LINUX_UNKNOWN && (atomic_load(&t->shakes->call) == 0 || ran_all(l, ran))) on = l->here;
    t->asleep = spp_share_shift(t->asleep, !runs && on < 0);
    if (!runs && on < 0 && counts) t->slept_ns = now;
    if (runs)
        tick_target(t, l, true, now);
    else if (on == l->here)
        weigh_displaced(t, ran, l);
}

void spp_linux_look_around(spp_linux_look *l, uint64_t now) {
    for (spp_linux_target *t = spp_linux_targets.armed; t != NULL; t = t->next) {
        if (now - t->moved_ns > 1000000000u && (l->n + (uint32_t)t->tid) % (spp_linux_targets.armed_n / FEW + 1) != 0) continue;
        look_at_target(t, l);
        l->owed |= t->owed_ns > BEHIND * (int64_t)t->period_ns;
    }
    tick_displaced(l);
}
