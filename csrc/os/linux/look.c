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
/* If more signals than this share come at the end of system calls, a signal only sets a timer, for some time after it was
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
/* A thread whose calls return before the sampler leaves an instant to them, time after time, gets no tick. */
#define RETURNS_MOST 3
/* Threads that slept for a second are looked at in turn, about so many at each look. */
#define FEW 64u
/* A thread hands over to others if more looks than this share find it asleep. */
#define HANDS_OVER (SPP_SHARE_ONE / 8)
/* A thread that has not run for so long may be asleep, even if it is in no call that has a wrapper. */
#define LATELY_NS 100000000u
/* A run queue's clock is read again after this time, which doubles while its offset changes by less than ASTRAY_NS. */
#define QUEUES 16u
#define ASTRAY_NS 2000u
#define KNOWN_LEAST_NS 100000u
#define KNOWN_MOST_NS 10000000u

/* Lock held. False: there is no note, or the thread has seen it and decided. */
static bool take_note_back(spp_linux_handshake *h) {
    return (atomic_fetch_and(&h->wanted, ~SPP_WANTED_UNSURE) & SPP_WANTED_UNSURE) != 0;
}

/* Lock held. The instant fell into a call of the C library: the thread takes the sample itself when the call returns. False: it
 * has returned meanwhile, and the thread may not have seen this. */
static bool leave_to_call(spp_linux_target *t, uint64_t delay_ns) {
    spp_linux_handshake *h = t->shakes;
    atomic_store_explicit(&h->wanted_cpu, t->look_cpu + delay_ns, memory_order_relaxed);
    uint32_t wanted = atomic_fetch_add(&h->wanted, 1) + 1;
    if (atomic_load(&h->call) == 0 && atomic_compare_exchange_strong(&h->wanted, &wanted, wanted - 1)) return false;
    t->sent_cpu = t->look_cpu; /* a timer that the thread may set for it counts as lost only from now on */
    t->owed_ns -= (int64_t)t->period_ns;
    return true;
}

/* How long a running thread goes on after its signal was sent. The clock does not say: a virtual machine is halted while it is
 * interrupted, for 8 us of 15. But the interrupt is there when three quarters of the sender's call are over, or all of it, on two
 * virtual machines of 2026; on bare metal all of it is 1 us. So that is learned: a moving average, of which the newest counts
 * 1/16. Only instants in calls need it: no signal is sent there. */
static _Atomic uint32_t way_ns = 3000;

static void learn_way(uint64_t took) {
    uint32_t way = atomic_load_explicit(&way_ns, memory_order_relaxed);
    if (took < SPP_LINUX_WAY_MOST_NS)
        atomic_store_explicit(&way_ns, way - way / 16 + (uint32_t)took * 3 / 64, memory_order_relaxed);
}

/* Lock held. How long a running thread would go on if a signal were sent to it: between half and one and a half of the mean. */
static uint64_t draw_way(uint64_t *random) {
    uint32_t way = atomic_load_explicit(&way_ns, memory_order_relaxed);
    return way / 2 + spp_random_below(random, way);
}

/* Lock held. The time from reading a thread's clock until a tick begins, times 16: a moving average. */
static uint64_t mean_ago;

/* Lock held, after spp_linux_tick_begin(). `runs`: the thread is running. */
static void send_tick(spp_linux_target *t, pid_t process, bool runs, uint64_t put_off_ns) {
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_signo = spp_linux_targets.signum;
    info.si_code = SI_QUEUE;
    info.si_pid = process;
    info.si_value.sival_ptr = (char *)t + atomic_load(&t->use);
    atomic_store_explicit(&t->put_off_ns, (uint32_t)put_off_ns, memory_order_relaxed);
    t->sent_cpu = t->look_cpu;
    uint64_t from = spp_os_now_ns();
    atomic_store_explicit(&t->from_ns, from, memory_order_relaxed);
    bool sent = syscall(SYS_rt_tgsigqueueinfo, process, t->tid, spp_linux_targets.signum, &info) == 0;
    if (sent && runs) learn_way(spp_os_now_ns() - from);
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

/* Draws such a time. A program that the signal delays more in one place than in another is not where it would be, and at a fixed
 * time after signals it would be in some places more often: by 5 points in a loop of 200 us. */
static uint64_t settled_ns(uint64_t period, uint64_t *random) {
    uint64_t part = period / SETTLED_PART, mean = part > SETTLED_NS ? SETTLED_NS : part > PUT_OFF_NS ? part : PUT_OFF_NS;
    return mean / 2 + spp_random_below(random, mean);
}

/* Lock held. Sends a signal. False: the thread is in a call, or another signal is under way. */
static bool begin_tick(spp_linux_target *t, const spp_linux_look *l, bool runs, uint64_t put_off) {
    if (!spp_linux_tick_begin(t->shakes)) return false;
    /* Both were set before this tick could begin: by the handler of the previous one, or in a call that is over. */
    if (atomic_load_explicit(&t->unseen, memory_order_relaxed) || spp_linux_target_blocks(t->shakes)) {
        spp_linux_tick_sent(t->shakes, false);
        return true;
    }
    /* The call that these instants fell into is over, and the thread has not taken them. */
    atomic_fetch_add_explicit(&t->more, atomic_exchange(&t->shakes->wanted, 0) & ~SPP_WANTED_UNSURE, memory_order_relaxed);
    atomic_store_explicit(&t->late, l->late_ns > SPP_LINUX_LATE_NS && target_is_fast(t), memory_order_relaxed);
    send_tick(t, l->process, runs, put_off);
    return true;
}

/* Lock held. `t` is due a tick: it is running (`runs`), or was until the sampler preempted it. Sends a signal, leaves the instant
 * to the call that the thread is in, or adds it to a signal under way. */
static void tick_target(spp_linux_target *t, const spp_linux_look *l, bool runs, uint64_t now) {
    spp_linux_handshake *h = t->shakes;
    int64_t period = (int64_t)t->period_ns;
    uint64_t put_off = 0;
    if (atomic_load_explicit(&t->unseen, memory_order_relaxed)) return;
    if (runs && atomic_load_explicit(&t->cut_short, memory_order_relaxed) > CUT_SHORT_OFTEN)
        put_off = settled_ns(t->period_ns, l->random);
    if (l->late_ns > SPP_LINUX_LATE_NS)
        put_off = PUT_OFF_NS + spp_random_below(l->random, l->late_ns < PUT_OFF_MOST_NS ? l->late_ns : PUT_OFF_MOST_NS);
    uintptr_t unknown = SPP_CALL_UNKNOWN; /* it runs, so it is not blocked in a call from before the first run */
    (void)atomic_compare_exchange_strong(&h->call, &unknown, 0);
    if (t->wary) { /* it may be about to make a call past the wrappers: then a look finds it there before it gets a signal */
        t->wary = false;
        return;
    }
    uint32_t before = atomic_load_explicit(&h->tick, memory_order_acquire);
    bool lost = t->look_cpu - t->sent_cpu >= (uint64_t)period + LOST_NS;
    if (before == SPP_TICK_LEFT && t->look_cpu > atomic_load(&h->due_cpu) + SPP_LINUX_WAY_MOST_NS)
        lost = true; /* no call began since */
    if (before != SPP_TICK_NONE && lost && atomic_load(&h->call) == 0) {
        bool left = before == SPP_TICK_LEFT, changed = atomic_compare_exchange_strong(&h->tick, &before, SPP_TICK_NONE);
        if (left && changed) atomic_fetch_add_explicit(&t->more, 1, memory_order_relaxed);
        atomic_store_explicit(&h->quick, 0, memory_order_relaxed);
    }
    for (int i = 0; i < RETURNS_MOST; i++) {
        uint64_t ago = spp_os_now_ns() - now; /* when its CPU clock was read */
        mean_ago += ago < SPP_LINUX_WAY_MOST_NS ? ago - mean_ago / 16 : 0;
        if (begin_tick(t, l, runs, put_off) || spp_linux_target_blocks(h)) return;
        if (atomic_load(&h->call) == 0) break;
        if (leave_to_call(t, ago + (put_off != 0 ? put_off : runs ? draw_way(l->random) : 0))) return;
    }
    if (atomic_load(&h->tick) == SPP_TICK_NONE) return;
    t->owed_ns -= period;
    atomic_fetch_add_explicit(&t->more, 1, memory_order_relaxed);
}

/* Lock held, at the end of a look. Ticks the thread that the sampler preempted. If that is a guess, a thread that is not sampled
 * may have run instead, so the tick comes with the probability that one of the candidates did. */
static void tick_displaced(const spp_linux_look *l) {
    spp_linux_target *t = l->displaced;
    if (t == NULL) return;
    if (knows_displaced(l) || ran_all(l, l->ran_ns) || spp_random_below(l->random, (uint32_t)l->slept_ns) < l->ran_ns)
        tick_target(t, l, false, spp_os_now_ns());
}

/* Lock held, just after the thread's CPU clock was read. If the thread is in a call, notes the look as SPP_WANTED_UNSURE. It may
 * take another 10 us to find out whether the thread is asleep, and the call may return before. Returns whether it was noted. */
static bool note_look(spp_linux_target *t, uint64_t *random) {
    spp_linux_handshake *h = t->shakes;
    if (atomic_load(&h->call) <= SPP_CALL_UNKNOWN) return false;
    (void)take_note_back(h); /* an earlier one that the thread has not seen */
    uint32_t number = atomic_load_explicit(&h->note, memory_order_relaxed);
    atomic_store(&h->note, number + 1); /* the thread may be reading the one that it has taken */
    atomic_store(&h->noted_ns, spp_os_now_ns());
    atomic_store(&h->noted_cpu, t->look_cpu);
    atomic_store(&h->delay_ns, mean_ago / 16 + draw_way(random));
    atomic_store(&h->note, number + 2);
    atomic_fetch_or(&h->wanted, SPP_WANTED_UNSURE);
    if (atomic_load(&h->call) == 0 && take_note_back(h)) return false; /* it has returned, and the thread has not seen the note */
    t->sent_cpu = t->look_cpu;                                         /* as in leave_to_call() */
    return true;
}

/* Lock held. The thread was asleep at the previous look, in a call that has no wrapper, and ran for `ran` since. If its clock
 * advanced by more than the time that passed, the previous look fell into the time of SPP_WANTED_UNSURE: by its clock, the thread
 * was running then. */
static void count_waking(spp_linux_target *t, uint64_t ran, uint64_t passed) {
    if (ran <= passed || atomic_load_explicit(&t->waking, memory_order_relaxed) >= OWED_MOST) return;
    atomic_fetch_add_explicit(&t->waking, 1, memory_order_relaxed);
    t->owed_ns -= (int64_t)t->period_ns;
}

/* Whether a thread is in no call of the C library. Then it needs a processor, and no other thread. (Or it is asleep in a call
 * that has no wrapper; hence LATELY_NS.) */
static bool is_outside(const spp_linux_target *t) { return atomic_load(&t->shakes->call) == 0; }

/* Lock held, when all threads have been looked at. */
static bool is_awaited(const spp_linux_look *l) {
    return l->displaced != NULL && l->running == 0 && l->outside <= is_outside(l->displaced);
}

/* Lock held. The thread is asleep. If that is in no call that a wrapper announced, the kernel is asked for it, once each sleep:
 * by a pointer from before the wrappers the program makes calls that a signal would end, and such a thread gets none. That it has
 * not run meanwhile, and so was in that call all the time, its clock proves. */
static void see_past(spp_linux_target *t, const spp_linux_look *l) {
    uint64_t after;
    if (atomic_load(&t->shakes->call) != 0 || t->asked_cpu == t->look_cpu) return;
    t->asked_cpu = t->look_cpu;
    if (spp_linux_thread_waits_past(t->tid, open_files_of(t, l)) && spp_os_thread_cpu_ns(t->tid, &after) == 0 &&
        after == t->look_cpu)
        atomic_store_explicit(&t->unseen, true, memory_order_relaxed);
}

/* Lock held. Updates what is known of a thread, and ticks it if it is running and owed a tick. */
static void look_at_target(spp_linux_target *t, spp_linux_look *l) {
    uint64_t cpu, again, now = spp_os_now_ns();
    int64_t period = (int64_t)t->period_ns;
    /* The thread ended, or its id was reused: the watch will notice. */
    if (spp_os_thread_cpu_ns(t->tid, &cpu) != 0 || cpu < t->look_cpu) return;
    uint64_t ran = cpu - t->look_cpu;
    uint32_t declined = atomic_load_explicit(&t->declined, memory_order_relaxed),
             woken = atomic_load_explicit(&t->shakes->woken, memory_order_relaxed);
    t->owed_ns += (int64_t)ran + ((int64_t)(declined - t->declined_seen) - (int64_t)(woken - t->woken_seen)) * period;
    if (t->owed_ns > OWED_MOST * period) t->owed_ns = OWED_MOST * period;
    t->declined_seen = declined;
    t->woken_seen = woken;
    bool all = ran + READ_NS >= now - t->looked_ns && t->slept_ns == 0; /* it ran since the previous look, and is running */
    t->looked_ns = now;
    atomic_store_explicit(&t->look_cpu, cpu, memory_order_relaxed);
    if (ran != 0) t->moved_ns = now;
    l->outside += now - t->moved_ns < LATELY_NS && is_outside(t);
    uint64_t slept_ns = t->slept_ns;
    t->slept_ns = 0;
    if (slept_ns != 0 && !t->noted) count_waking(t, ran, now - slept_ns);
    t->noted = false;
    /* Looks come sooner for threads that are owed ticks. Others skip some, or they would get too many: a short-lived thread could
     * not make up for it. */
    if (l->hurried && t->owed_ns - (int64_t)ran <= BEHIND * period && spp_random_below(l->random, SPP_LINUX_HURRY) == 0) return;
    bool counts = l->late_ns <= SPP_LINUX_LATE_NS || l->mostly_late, due = t->owed_ns >= -OWED_MOST * period;
    if (counts && (ran == 0 || due)) t->noted = note_look(t, l->random);
    if (ran == 0 && counts) t->slept_ns = now;
    if (ran == 0) see_past(t, l);
    if (ran == 0 || !due) return;
    bool runs = all || (spp_os_thread_cpu_ns(t->tid, &again) == 0 && again != cpu);
    l->running += runs;
    l->stopped += !runs;
    l->handed += !runs && t->asleep > HANDS_OVER;
    int on = SPP_LINUX_SLEEPS;
    if (!runs && knows_displaced(l)) return; /* the sampler preempted another thread */
    if (!runs) on = spp_linux_thread_ready(t->tid, open_files_of(t, l));
    /* Without /proc: a thread outside a call waits for a processor, most likely the sampler's. So does one that ran until the
     * sampler woke. */
    if (on == SPP_LINUX_UNKNOWN && (atomic_load(&t->shakes->call) == 0 || ran_all(l, ran))) on = l->here;
    t->asleep = spp_share_shift(t->asleep, !runs && on < 0);
    if (on == SPP_LINUX_SLEEPS && !runs) see_past(t, l);
    if (!runs && on != l->here) { /* asleep, or being woken, or on another processor */
        if (counts) t->slept_ns = now;
        return;
    }
    if (t->noted && !take_note_back(t->shakes)) return;
    t->noted = false;
    if (runs)
        tick_target(t, l, true, now);
    else
        weigh_displaced(t, ran, l);
}

void spp_linux_look_around(spp_linux_look *l, uint64_t now) {
    for (spp_linux_target *t = spp_linux_targets.armed; t != NULL; t = t->next) {
        if (now - t->moved_ns > 1000000000u && (l->n + (uint32_t)t->tid) % (spp_linux_targets.armed_n / FEW + 1) != 0) continue;
        look_at_target(t, l);
        l->owed |= t->owed_ns > BEHIND * (int64_t)t->period_ns;
    }
    l->awaited = is_awaited(l);
    tick_displaced(l);
}
