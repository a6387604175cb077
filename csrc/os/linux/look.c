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

/* How much later an instant is that is drawn anew: by this, and by as much more as the sampler came late at the most. */
#define PUT_OFF_NS 40000u
#define PUT_OFF_MOST_NS 4000000u
/* Where calls take more signals than this share, each only sets a timer, for a fixed time after it was sent. That is dearer: a
 * timer's interrupt comes beside the signal's. A signal leaves caches cold, and then calls take longer, but not loops: 40 us
 * behind it small functions had 0.8 of their time, 170 us behind it all. */
#define CUT_SHORT_OFTEN (SPP_SHARE_ONE / 32)
#define SETTLED_NS 200000u
#define SETTLED_PART 5 /* of an interval, at the most, but PUT_OFF_NS */
/* A thread that waits for our processor ran until now if it ran for as long as we slept, less what a switch takes. */
#define SWITCH_NS 10000u
/* From a reading of the monotonic clock to one of a thread's, within this. */
#define READ_NS 300u
/* A signal that did not come while its thread ran for so long does not any more: the kernel drops what is ignored for a moment,
 * as where the program begins another. */
#define LOST_NS 20000000u
#define OWED_MOST 64
#define NOT_TOLD UINT64_MAX
#define BEHIND 2 /* ticks that a thread is owed */
/* So many threads are looked at each time; of more, those that have slept for a second so much more rarely that they are no more.
 */
#define FEW 64u
/* A thread that hands over is met asleep more often than at one of eight looks. */
#define HANDS_OVER (SPP_SHARE_ONE / 8)
/* How long we know what a run queue's clock says, by how far it went astray since it was asked. */
#define QUEUES 16u
#define ASTRAY_NS 2000u
#define KNOWN_LEAST_NS 100000u
#define KNOWN_MOST_NS 10000000u

/* Lock held. The instant fell into a call, from which the thread takes it itself. */
static void leave_to_call(spp_linux_target *t, uint64_t delay_ns) {
    atomic_store_explicit(&t->shakes->wanted_cpu, t->look_cpu + delay_ns, memory_order_relaxed);
    atomic_fetch_add(&t->shakes->wanted, 1);
    t->sent_cpu = t->look_cpu; /* the timer that it may come by is not given up before it fires */
    t->owed_ns -= (int64_t)t->period_ns;
}

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

/* Whether it is known whom we took it from. */
static bool knows_displaced(const spp_linux_look *l) { return l->displaced != NULL && l->ran_ns == 0; }

/* Whether who ran for so long since the look before did so until now. */
static bool ran_all(const spp_linux_look *l, uint64_t ran) {
    uint64_t switch_ns = SWITCH_NS < l->slept_ns / 4 ? SWITCH_NS : l->slept_ns / 4;
    return ran + switch_ns + l->slept_ns / 32 >= l->slept_ns;
}

/* Since when we run, who ran until `own` before we slept. */
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

/* Since when we run, by our processor's run queue. Its clock is the monotonic one but where time is stolen from it, or goes to
 * interrupts; to ask for it costs as much as the rest of a look, so that is done again only when it may have gone astray (or the
 * answer before was taken off the processor in its midst). What we ran between the reading of our clock and sleep makes it a
 * little early, never late. */
static uint64_t woke_on_queue(spp_linux_look *l) {
    static struct {
        int processor; /* and 1 */
        uint64_t asked_ns, for_ns;
        int64_t ahead_ns;
    } queues[QUEUES], *q;
    q = &queues[(uint32_t)l->here % QUEUES];
    if (l->woke_ns != 0) return l->woke_ns;
    uint64_t since_ns = running_since(l->own_ns);
    bool known = q->processor == l->here + 1;
    if (!known || since_ns - q->asked_ns > q->for_ns) {
        uint64_t until, cpu;
        if (!spp_linux_thread_ran_until(spp_os_tid(), l->files, &until, &cpu)) return l->woke_ns = NOT_TOLD;
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

/* Lock held. `t` waits for our processor. So does the one whom we took it from, who ran until we did; so do those from whom
 * somebody else did, and those who were woken and had no turn yet. One that ran all the time needs no question, which takes as
 * long as all the rest of a look. Where the kernel does not tell who it was, each is taken for it with the chance that it had the
 * processor since the look before: that errs as often at the end of a turn as, the other way, at the beginning, but where it
 * naps. */
static void weigh_displaced(spp_linux_target *t, uint64_t ran, spp_linux_look *l) {
    uint64_t until, cpu;
    if (ran_all(l, ran)) {
        l->displaced = t;
        l->ran_ns = 0;
        return;
    }
    if (woke_on_queue(l) != NOT_TOLD && spp_linux_thread_ran_until(t->tid, open_files_of(t, l), &until, &cpu)) {
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

/* Lock held. A tick that `t` is due now: it runs, or did until we took its processor. */
static void tick_target(spp_linux_target *t, const spp_linux_look *l, bool runs, uint64_t now) {
    spp_linux_handshake *h = t->shakes;
    int64_t period = (int64_t)t->period_ns;
    uint64_t put_off = 0;
    if (atomic_load_explicit(&t->unseen, memory_order_relaxed)) return;
    if (runs && atomic_load_explicit(&t->cut_short, memory_order_relaxed) > CUT_SHORT_OFTEN) put_off = settled_ns(t->period_ns);
    if (l->late_ns > SPP_LINUX_LATE_NS)
        put_off = PUT_OFF_NS + spp_random_below(l->random, l->late_ns < PUT_OFF_MOST_NS ? l->late_ns : PUT_OFF_MOST_NS);
    uintptr_t unknown = SPP_CALL_UNKNOWN; /* it runs, so it waits in no call that began before the first run */
    (void)atomic_compare_exchange_strong(&h->call, &unknown, 0);
    uint32_t before = atomic_load_explicit(&h->tick, memory_order_acquire);
    bool lost = t->look_cpu - t->sent_cpu >= (uint64_t)period + LOST_NS;
    if (before == SPP_TICK_LEFT && t->look_cpu > atomic_load(&h->due_cpu) + SPP_LINUX_WAY_MOST_NS)
        lost = true; /* no call since */
    if (before != SPP_TICK_NONE && lost && atomic_load(&h->call) == 0) {
        (void)atomic_compare_exchange_strong(&h->tick, &before, SPP_TICK_NONE);
        atomic_store_explicit(&h->quick, 0, memory_order_relaxed);
    }
    if (spp_linux_tick_begin(h)) {
        /* Each was told before a tick could begin: by the handler of the one before; in a call, and none has begun since. */
        if (atomic_load_explicit(&t->unseen, memory_order_relaxed) || spp_linux_target_blocks(h)) {
            spp_linux_tick_sent(h, false);
            return;
        }
        /* A call that they fell into was just over, unseen. */
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

/* Lock held. After the look. Where it is not told who it was, somebody else may have had the processor all the same. */
static void tick_displaced(const spp_linux_look *l) {
    spp_linux_target *t = l->displaced;
    if (t == NULL) return;
    if (knows_displaced(l) || ran_all(l, l->ran_ns) || spp_random_below(l->random, (uint32_t)l->slept_ns) < l->ran_ns)
        tick_target(t, l, false, spp_os_now_ns());
}

/* Lock held. It slept at the look before, and ran for `ran` now. The kernel counts a thread's time from when it is woken. On an
 * idle processor it is 10 us and more until it is there, and so long its clock stands for others: enqueue_task() reads the run
 * queue's clock, and __schedule() does not again (rq_clock_skip_update in kernel/sched/core.c). If its clock moved by more than
 * has passed, that look fell into such a time: it was an instant at which the thread, by its clock, ran. */
static void count_waking(spp_linux_target *t, uint64_t ran, uint64_t passed) {
    if (ran <= passed || atomic_load_explicit(&t->waking, memory_order_relaxed) >= OWED_MOST) return;
    atomic_fetch_add_explicit(&t->waking, 1, memory_order_relaxed);
    t->owed_ns -= (int64_t)t->period_ns;
}

/* Lock held. */
static void look_at_target(spp_linux_target *t, spp_linux_look *l) {
    uint64_t cpu, again, now = spp_os_now_ns();
    int64_t period = (int64_t)t->period_ns;
    /* It is gone, or another has its id: the watch will see. */
    if (spp_os_thread_cpu_ns(t->tid, &cpu) != 0 || cpu < t->look_cpu) return;
    uint64_t ran = cpu - t->look_cpu;
    uint32_t declined = atomic_load_explicit(&t->declined, memory_order_relaxed);
    t->owed_ns += (int64_t)ran + (int64_t)(declined - t->declined_seen) * period;
    if (t->owed_ns > OWED_MOST * period) t->owed_ns = OWED_MOST * period;
    t->declined_seen = declined;
    bool all = ran + READ_NS >= now - t->looked_ns && t->slept_ns == 0; /* it ran since the look before, and does now */
    t->looked_ns = now;
    t->look_cpu = cpu;
    if (ran != 0) t->moved_ns = now;
    uint64_t slept_ns = t->slept_ns;
    t->slept_ns = 0;
    if (slept_ns != 0) count_waking(t, ran, now - slept_ns);
    /* What others are owed must not bring this one more: its life may be too short to make up for it. */
    if (l->hurried && t->owed_ns - (int64_t)ran <= BEHIND * period && spp_random_below(l->random, SPP_LINUX_HURRY) == 0) return;
    bool counts = l->late_ns <= SPP_LINUX_LATE_NS || l->mostly_late;
    if (ran == 0 && counts) t->slept_ns = now;
    if (ran == 0 || t->owed_ns < -OWED_MOST * period) return;
    bool runs = all || (spp_os_thread_cpu_ns(t->tid, &again) == 0 && again != cpu);
    l->running += runs;
    l->stopped += !runs;
    l->handed += !runs && t->stood > HANDS_OVER;
    if (!runs && knows_displaced(l)) return; /* it was another one */
    int on = runs ? SPP_LINUX_SLEEPS : spp_linux_thread_ready(t->tid, open_files_of(t, l));
    /* Then only a call tells: outside it waits for a processor, ours most likely; as it does if it ran until we did. */
    if (on == SPP_LINUX_NOT_TOLD && (atomic_load(&t->shakes->call) == 0 || ran_all(l, ran))) on = l->here;
    t->stood = spp_share_shift(t->stood, !runs && on < 0);
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
