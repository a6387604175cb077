/* The clock `signal`, where the kernel gives no perf events: a thread of ours (the sampler; at high rates there are several)
 * sends each thread that runs a signal, at instants that are drawn at random. It needs no privilege, and of all ways to interrupt
 * a thread it costs that thread least (7 us on a virtual machine; a timer of its own takes 20, a perf event 15).
 *
 * A sample must fall on an instant that does not depend on what the program does. The instant of sending is one; but the signal
 * is pending at once, and the interrupt that makes a running thread look comes later (17 us on a virtual machine, 1 on a plain
 * one). A thread that returns from a system call meanwhile looks at once: its samples would stand behind calls. So where more
 * than a few signals meet a call, the handler takes no sample but sets a timer of the thread's own, for an instant that is
 * counted from the sending, and later than any interrupt. That one fires on the thread's own processor, with no such gap.
 *
 * A thread whose processor we took is met where it ran: no gap there. One that naps is met wherever it is: what is put off would
 * fall into a nap. One that falls asleep while the signal comes has its call begun anew (calls.c), after as long as the signal
 * took. A thread that sleeps is sent nothing: its CPU clock stands. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/hints.h"
#include "os/linux/calls.h"
#include "os/linux/linux.h"
#include "os/os.h"

#define TARGETS 16384u
#define ALIGN 128u /* a signal's value is a target and, in the bits that its address leaves, which use of it */

/* Longer than a signal's interrupt takes, and as much again by chance: the signal itself, which takes a thread 10 to 30 us, may
 * have put the program in step with what comes after it. */
#define PUT_OFF_NS 40000u
#define PUT_OFF_MORE_NS 150000u /* and no more than half a period */
#define SOON_NS 4000u           /* ... than the handler does */
/* The shares of signals that meet calls are kept in 65536ths. Above a hundredth, all of a thread's samples are put off; at first
 * they are. */
#define SHARE_ONE 65536u
#define SHARE_MOST (SHARE_ONE / 100)
#define SHARE_AT_FIRST (SHARE_ONE / 50)
#define SHARE_MEMORY 8 /* the newest counts 1/256 */
/* A thread that is met asleep more often than at one of so many looks is not left a timer to be woken by: a sample that is put
 * off into a nap is lost, which takes a greater part of it at high rates. */
#define NAPS_SHARE (SHARE_ONE / 20)
#define NAPS_SHARE_FAST (SHARE_ONE / 32)
/* A thread that slept at the look before and ran for less than so long since then is on its way out of the call. */
#define AWAKE_NS 50000u
/* A thread that waits for our processor ran until now if it ran for as long as we slept, less what a switch takes. */
#define SWITCH_NS 10000u
/* From a reading of the monotonic clock to one of a thread's, within this. */
#define READ_NS 300u
/* A sampler that comes so late (a virtual machine takes 10 to 40 us) ran when the scheduler wanted, not when it asked to. */
#define LATE_NS 60000u
/* A signal that did not come while its thread ran for so long does not any more: the kernel drops what is ignored for a moment,
 * as where the program begins another. */
#define LOST_NS 20000000u
#define OWED_MOST 64
#define NOT_TOLD UINT64_MAX
/* A thread that is owed so many has the looks come sooner, by one part of so many. */
#define BEHIND 2
#define HURRY 5
/* So many threads are looked at each time; of more, those that have slept for a second so much more rarely that they are no more.
 */
#define FEW 64u
/* Where threads hand over to each other and wait for our processor, our looks take no more than a part of it, since these lose
 * three times as long: a hundredth at 1 kHz and less, at higher rates as much more, at most a sixteenth. */
#define IN_THE_WAY 100
#define IN_THE_WAY_LEAST 16
#define IN_THE_WAY_NS (1000000 / IN_THE_WAY)
#define OFTEN (SHARE_ONE / 8)
/* A thread that hands over is met asleep more often than at one of eight looks. */
#define HANDS_OVER (SHARE_ONE / 8)
/* Where looks come fast, a sampler that met a thread on its processor at two looks in a row asks for another one. That was of use
 * if it meets none at the next two; else it does not ask again for twice as long. */
#define FAST_NS (2 * PUT_OFF_MORE_NS)
#define MET_OFTEN 2
#define OF_USE 2
#define WAIT_LEAST_NS 1000000u
#define WAIT_MOST_NS 1000000000u
/* How long we know what a run queue's clock says, by how far it went astray since it was asked. */
#define QUEUES 16u
#define ASTRAY_NS 2000u
#define KNOWN_LEAST_NS 100000u
#define KNOWN_MOST_NS 10000000u

/* At high rates, where looks take threads' processors, so many of ours take turns at them. One alone would often wake before
 * others ran for as long as its last look took. Then it has no claim to their processor (EEVDF: it is not eligible), and waits
 * until one of them blocks, or for the scheduler's tick. */
#define SAMPLERS 3u
#define REST_NS 20000000u /* where that is not so, all but the first do nothing for so long */

/* A signal is on its way for so long as two looks at most, if no call holds it up. */
#define AGAIN_MOST 3

/* What a signal is to be. */
enum {
    MET,     /* a sample of where it meets the thread */
    AWAKE,   /* the same, shortly after it slept */
    HERE,    /* the same; but if that is at a call, of shortly after */
    PUT_OFF, /* a sample of a later instant */
};

typedef struct target {
    _Alignas(ALIGN) _Atomic uintptr_t cookie; /* 0: not armed */
    _Atomic uint32_t use;
    int32_t tid; /* constant while armed */
    timer_t timer;

    /* one signal at a time: the sampler's until `sent` is set, then the handler's until it is cleared */
    _Atomic bool sent;
    _Atomic uint32_t way;
    _Atomic bool late;           /* the scheduler chose the instant, and the rate is high */
    _Atomic uint64_t from_ns;    /* PUT_OFF: the sample is to be so long ... */
    _Atomic uint32_t put_off_ns; /* ... after that */
    _Atomic uint32_t at_calls;   /* the handler: which share of signals met calls */
    _Atomic uint32_t declined;   /* the handler: signals that gave no tick, for the thread was about to sleep */
    _Atomic uint32_t more;       /* instants at which the thread ran, while the signal of an earlier one had not come yet */
    _Atomic uint32_t waking;     /* instants at which it was about to: the next sample of a nap stands for them too */
    _Atomic uint64_t period_ns;

    /* the sampler, under the lock */
    struct target *next, **link; /* which points to it; NULL: it is not in the list */
    uint64_t looked_ns, look_cpu, moved_ns, sent_cpu;
    uint64_t slept_ns; /* when it was looked at, if it slept then; else 0 */
    bool awake;        /* since the look before, in which it slept */
    bool passed;       /* over by a late look, since the last signal */
    uint32_t stood;    /* at which share of looks it had run, and stood */
    int64_t owed_ns;   /* CPU time that no signal was sent for yet; less than 0: ahead */
    uint32_t declined_seen;
    spp_linux_files files[SAMPLERS]; /* in the table of each */
} target;

static target *targets; /* never unmapped: a late signal finds memory */
static uint32_t targets_used;
static target *armed, *freed; /* lists, under the lock */
static uint32_t armed_n;
static uint64_t wake_ns; /* the shortest period */
/* A thread that looks. */
typedef struct {
    spp_os_worker *worker;
    spp_os_bell bell; /* for who stops it: a step may be a second */
    spp_linux_files files;
    uint64_t own_ns;  /* its CPU clock, just before it slept */
    uint64_t cost_ns; /* what its look before took of it */
    struct {
        uint32_t row, since; /* looks that met a thread, in a row; looks since it asked for another processor */
        bool asked;          /* and whether that was of use is not known yet */
        uint64_t not_before_ns, wait_ns;
    } moves;
} sampler;

static sampler samplers[SAMPLERS];
static _Atomic uint32_t samplers_n; /* that run */
static uint32_t resting_n;          /* that would, but for a rest */

/* All looks. Under the lock. */
static struct {
    uint64_t n;
    uint64_t due_ns;           /* the last that was drawn */
    uint64_t ended_ns;         /* the last that was taken */
    uint64_t took_ns;          /* that one, since it was due */
    uint64_t mean_ns, cost;    /* what one takes, and of CPU time, in 256ths */
    uint32_t late, in_the_way; /* the share of looks that were */
    uint32_t took_one;         /* that took a thread's processor */
    bool owed;
} looks;

static pid_t process;
static _Atomic bool stopping;
static _Atomic uint64_t stands_ns; /* between two looks, where they come more rarely than was asked for; else 0 */
static _Atomic uint64_t cpu_ns;    /* of all samplers in this run */
static int signum;

/* ---- the lock of the lists: by the sampler, and who arms. Not the system's, since a fork must find it new. */

static _Atomic uint32_t taken, waiting;

static void pause_shortly(void) { spp_os_sleep_until(spp_os_now_ns() + 20000); }

static void lock(void) {
    atomic_fetch_add(&waiting, 1);
    while (atomic_exchange_explicit(&taken, 1, memory_order_acquire) != 0) pause_shortly();
    atomic_fetch_sub(&waiting, 1);
}

/* The sampler has it at each look: others go first. */
static void lock_politely(void) {
    while (atomic_load(&waiting) != 0) pause_shortly();
    lock();
}

static void unlock(void) { atomic_store_explicit(&taken, 0, memory_order_release); }

/* ---- the handler's side */

/* Handler. The target that a signal's value names, if that is armed still, for the calling thread; or NULL. */
static target *target_of(const siginfo_t *info) {
    uintptr_t value = (uintptr_t)info->si_value.sival_ptr, base = (uintptr_t)targets;
    if (info->si_code != SI_QUEUE && info->si_code != SI_TIMER) return NULL;
    if (value < base || value >= base + TARGETS * sizeof(target) || targets == NULL) return NULL;
    return targets + (value - base) / sizeof(target);
}

/* Handler. Where the user's queue of signals is full (RLIMIT_SIGPENDING) the kernel sends ours all the same, but forgets what it
 * says: it looks like a kill() by the kernel (collect_signal in kernel/signal.c). The target of the calling thread, if a signal
 * to it is on its way; else NULL. Else it would be the program's, and SIGPROF would end that. */
static SPP_COLD target *speechless(const siginfo_t *info) {
    if (info->si_code != SI_USER || info->si_pid != 0 || info->si_uid != 0 || info->si_signo != signum) return NULL;
    int32_t tid = spp_os_tid();
    for (uint32_t i = 0; targets != NULL && i < TARGETS && atomic_load(&targets[i].use) != 0; i++) {
        target *t = &targets[i];
        if (atomic_load(&t->cookie) != 0 && t->tid == tid && atomic_load(&t->sent)) return t;
    }
    return NULL;
}

bool spp_linux_is_sent(const siginfo_t *info) {
    if (spp_rare(info->si_code == SI_USER) && speechless(info) != NULL) return true;
    return target_of(info) != NULL;
}

/* Handler. Sets the thread's timer for an instant; false if that cannot be done. */
static bool set_timer(const target *t, uint64_t at) {
    struct itimerspec spec = {.it_value = {.tv_sec = (time_t)(at / 1000000000u), .tv_nsec = (long)(at % 1000000000u)}};
    return timer_settime(t->timer, TIMER_ABSTIME, &spec, NULL) == 0;
}

static uint32_t shift(uint32_t share, bool up) {
    return up ? share + ((SHARE_ONE - share) >> SHARE_MEMORY) : share - (share >> SHARE_MEMORY);
}

/* Handler. Whether the sample is put off. A thread that runs in short calls only has all its signals meet one. `over`: it came
 * in a call that made signals wait until now. */
static bool put_off(const target *t, uint32_t way, bool at_call, bool over) {
    if ((way == HERE && !at_call) || atomic_load_explicit(&spp_linux_confined, memory_order_relaxed)) return false;
    uint64_t from = atomic_load_explicit(&t->from_ns, memory_order_relaxed), now = spp_os_now_ns();
    uint64_t at = from + atomic_load_explicit(&t->put_off_ns, memory_order_relaxed);
    bool ahead = at > now + SOON_NS;
    if (over && !ahead) return false; /* that instant was in the call */
    /* Not while the handler runs still: that would be at the same call. */
    return set_timer(t, (over || way == PUT_OFF) && ahead ? at : now + SOON_NS);
}

SPP_HOT uintptr_t spp_linux_sent(const siginfo_t *info, const ucontext_t *uc, spp_linux_instant *of) {
    target *t = target_of(info);
    if (spp_rare(t == NULL)) {
        t = speechless(info);
        if (t != NULL) atomic_store_explicit(&t->sent, false, memory_order_release); /* the next may have room again */
        return 0;
    }
    uintptr_t value = (uintptr_t)info->si_value.sival_ptr, cookie = atomic_load(&t->cookie);
    if (cookie == 0 || value % ALIGN != atomic_load(&t->use) || t->tid != spp_os_tid()) return 0;
    /* It slept, or was about to: what it runs is not there. */
    bool slept = spp_linux_stood(uc), naps = false;
    if (info->si_code == SI_QUEUE) {
        uint32_t way = atomic_load_explicit(&t->way, memory_order_relaxed), share = atomic_load(&t->at_calls);
        bool at_call = spp_linux_at_call(uc);
        if (way != AWAKE) atomic_store_explicit(&t->at_calls, shift(share, at_call), memory_order_relaxed);
        naps = way == AWAKE ? at_call : way != PUT_OFF && slept;
        if (way == MET || way == AWAKE || naps)
            slept = false; /* it ran when it was sent */
        else if (!slept && put_off(t, way, at_call, spp_linux_transfer_ended(uc)))
            return 0;
    }
    uint32_t others = atomic_exchange_explicit(&t->more, 0, memory_order_relaxed), declined = slept;
    if (slept || info->si_code == SI_TIMER)
        declined += others; /* they were elsewhere */
    else if (spp_linux_transfer_ended(uc) || others > AGAIN_MOST)
        of->more = others;
    else
        of->again = others;
    if (declined != 0) atomic_fetch_add_explicit(&t->declined, declined, memory_order_relaxed);
    if (naps) of->more += atomic_exchange_explicit(&t->waking, 0, memory_order_relaxed);
    of->coarse = atomic_load_explicit(&t->late, memory_order_relaxed);
    if (slept) cookie = 0;
    atomic_store_explicit(&t->sent, false, memory_order_release);
    return cookie;
}

SPP_HOT uint64_t spp_linux_sender_stands_ns(void) { return atomic_load_explicit(&stands_ns, memory_order_relaxed); }

/* ---- the sampler */

/* xorshift64* (Vigna 2016): a number below `below`, which is below 2^32. The sampler. */
static uint64_t draw(uint64_t below) {
    static uint64_t state = 0x9E3779B97F4A7C15u;
    if (state == 0x9E3779B97F4A7C15u) state ^= spp_os_now_ns() << 20;
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return ((state * 0x2545F4914F6CDD1Du) >> 32) * below >> 32;
}

/* A number of exponential distribution, by comparisons only (von Neumann 1951). The sampler. */
static uint64_t draw_gap(uint64_t mean) {
    for (uint64_t whole = 0;; whole++) {
        uint64_t first = draw(UINT32_MAX), last = first, next, n = 1;
        while ((next = draw(UINT32_MAX)) < last) last = next, n++;
        if (n % 2 != 0) return whole * mean + (first * mean >> 32);
    }
}

static void send(target *t, uint32_t way, uint64_t from_ns, uint64_t put_off_ns, bool late) {
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_signo = signum;
    info.si_code = SI_QUEUE;
    info.si_pid = process;
    info.si_value.sival_ptr = (char *)t + atomic_load(&t->use);
    atomic_store_explicit(&t->way, way, memory_order_relaxed);
    atomic_store_explicit(&t->late, late || t->passed, memory_order_relaxed);
    t->passed = false;
    atomic_store_explicit(&t->from_ns, from_ns, memory_order_relaxed);
    atomic_store_explicit(&t->put_off_ns, (uint32_t)put_off_ns, memory_order_relaxed);
    atomic_store_explicit(&t->sent, true, memory_order_release);
    t->sent_cpu = t->look_cpu;
    if (syscall(SYS_rt_tgsigqueueinfo, process, t->tid, signum, &info) == 0)
        t->owed_ns -= (int64_t)t->period_ns;
    else
        atomic_store(&t->sent, false);
}

/* One look at all threads. */
typedef struct {
    sampler *by;
    uint64_t late_ns;  /* how long ago we wanted to look */
    uint64_t slept_ns; /* since the look before */
    bool hurried;      /* it comes a fifth sooner, for threads that are owed ticks */
    int here;          /* our processor */
    uint64_t own_ns;   /* our CPU clock, just before we slept */
    uint64_t woke_ns;  /* since when we run, by the run queue's clock; 0: not looked at, NOT_TOLD */
    target *displaced; /* whom we took it from */
    uint64_t ran_ns;   /* where that is not told: since the look before, by all of those whom it may have been */
    bool mostly_late;  /* so are most looks */
    uint32_t handed;   /* threads that ran since the look before, do not now, and often do so */
    uint32_t running;  /* threads that run, on other processors */
    uint32_t stopped;  /* threads that ran since the look before, and do not now */
} look;

static spp_linux_files *files_of(target *t, const look *l) { return &t->files[l->by - samplers]; }

/* Whether it is known whom we took it from. */
static bool told(const look *l) { return l->displaced != NULL && l->ran_ns == 0; }

/* Whether who ran for so long since the look before did so until now. */
static bool ran_all(const look *l, uint64_t ran) {
    uint64_t switch_ns = SWITCH_NS < l->slept_ns / 4 ? SWITCH_NS : l->slept_ns / 4;
    return ran + switch_ns + l->slept_ns / 32 >= l->slept_ns;
}

/* Since when we run, who ran until `own` before we slept. */
static uint64_t since(uint64_t own) {
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
static uint64_t woke(look *l) {
    static struct {
        int processor; /* and 1 */
        uint64_t asked_ns, for_ns;
        int64_t ahead_ns;
    } queues[QUEUES], *q;
    q = &queues[(uint32_t)l->here % QUEUES];
    if (l->woke_ns != 0) return l->woke_ns;
    uint64_t since_ns = since(l->own_ns);
    bool known = q->processor == l->here + 1;
    if (!known || since_ns - q->asked_ns > q->for_ns) {
        uint64_t until, cpu;
        if (!spp_linux_thread_ran_until(spp_os_tid(), &l->by->files, &until, &cpu)) return l->woke_ns = NOT_TOLD;
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
static void wait_for_us(target *t, uint64_t ran, look *l) {
    uint64_t until, cpu;
    if (ran_all(l, ran)) {
        l->displaced = t;
        l->ran_ns = 0;
        return;
    }
    if (woke(l) != NOT_TOLD && spp_linux_thread_ran_until(t->tid, files_of(t, l), &until, &cpu)) {
        if (until >= l->woke_ns - ASTRAY_NS) l->displaced = t;
        return;
    }
    l->ran_ns += ran;
    if (draw((uint32_t)l->ran_ns) < ran) l->displaced = t;
}

static bool is_fast(const target *t) { return t->period_ns < FAST_NS; }

static bool does_nap(const target *t) { return t->stood > (is_fast(t) ? NAPS_SHARE_FAST : NAPS_SHARE); }

/* Lock held. A tick that `t` is due now: it runs, or did until we took its processor. */
static void tick(target *t, const look *l, bool runs, uint64_t now) {
    int64_t period = (int64_t)t->period_ns;
    if (atomic_load_explicit(&t->sent, memory_order_acquire) && t->look_cpu - t->sent_cpu < (uint64_t)period + LOST_NS) {
        t->owed_ns -= period;
        atomic_fetch_add_explicit(&t->more, 1, memory_order_relaxed);
        return;
    }
    bool calls = atomic_load_explicit(&t->at_calls, memory_order_relaxed) > SHARE_MOST, naps = does_nap(t);
    uint32_t met = t->awake ? AWAKE : MET;
    if (l->late_ns > LATE_NS) {
        /* The instant is drawn anew; but that would be in a nap. A thread that naps would have no samples at all before
         * Linux 6.12, on a busy processor: there the scheduler's instants are better than none. */
        if (!naps)
            send(t, PUT_OFF, now, PUT_OFF_NS + draw(l->late_ns < 4000000 ? l->late_ns : 4000000), is_fast(t));
        else if (l->mostly_late)
            send(t, met, now, 0, is_fast(t));
        else
            t->passed = is_fast(t);
    } else if (naps || !runs || t->awake) {
        send(t, met, now, 0, false);
    } else {
        uint64_t most = is_fast(t) ? (uint64_t)period / 2 : PUT_OFF_MORE_NS;
        send(t, calls ? PUT_OFF : HERE, now, PUT_OFF_NS + draw(most), false);
    }
}

/* Lock held. After the look. Where it is not told who it was, somebody else may have had the processor all the same. */
static void tick_displaced(const look *l) {
    target *t = l->displaced;
    if (t == NULL) return;
    if (told(l) || ran_all(l, l->ran_ns) || draw((uint32_t)l->slept_ns) < l->ran_ns) tick(t, l, false, spp_os_now_ns());
}

/* Lock held. It slept at the look before, and ran for `ran` now. The kernel counts a thread's time from when it is woken. On an
 * idle processor it is 10 us and more until it is there, and so long its clock stands for others: enqueue_task() reads the run
 * queue's clock, and __schedule() does not again (rq_clock_skip_update in kernel/sched/core.c). If its clock moved by more than
 * has passed, that look fell into such a time: it was an instant at which the thread, by its clock, ran. */
static void see_waking(target *t, uint64_t ran, uint64_t passed) {
    if (ran <= passed || atomic_load_explicit(&t->waking, memory_order_relaxed) >= OWED_MOST) return;
    atomic_fetch_add_explicit(&t->waking, 1, memory_order_relaxed);
    t->owed_ns -= (int64_t)t->period_ns;
}

/* Lock held. */
static void look_at(target *t, look *l) {
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
    t->awake = slept_ns != 0 && ran < AWAKE_NS;
    if (slept_ns != 0) see_waking(t, ran, now - slept_ns);
    /* What others are owed must not bring this one more: its life may be too short to make up for it. */
    if (l->hurried && t->owed_ns - (int64_t)ran <= BEHIND * period && draw(HURRY) == 0) return;
    bool counts = l->late_ns <= LATE_NS || l->mostly_late;
    if (ran == 0 && counts) t->slept_ns = now;
    if (ran == 0 || t->owed_ns < -OWED_MOST * period) return;
    bool runs = all || (spp_os_thread_cpu_ns(t->tid, &again) == 0 && again != cpu);
    l->running += runs;
    l->stopped += !runs;
    l->handed += !runs && t->stood > HANDS_OVER;
    if (!runs && told(l)) return; /* it was another one */
    int on = runs ? -1 : spp_linux_thread_ready(t->tid, files_of(t, l));
    t->stood = shift(t->stood, !runs && on < 0);
    if (!runs && on < 0 && counts) t->slept_ns = now;
    if (runs)
        tick(t, l, true, now);
    else if (on == l->here)
        wait_for_us(t, ran, l);
}

/* Asks the kernel for another processor than `here`; the next time it may choose that one again. `running`: so many others are
 * busy with our threads. */
static void leave(int here, uint32_t running) {
    cpu_set_t allowed, others;
    if (here < 0 || here >= CPU_SETSIZE || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    others = allowed;
    CPU_CLR((size_t)here, &others);
    if ((uint32_t)CPU_COUNT(&others) <= running) return;
    if (sched_setaffinity(0, sizeof others, &others) == 0) sched_setaffinity(0, sizeof allowed, &allowed);
}

/* After a look, the lock not held. Where processors are few, the kernel does not look for an idle one as we wake (SIS_UTIL,
 * select_idle_cpu in its kernel/sched/fair.c): it leaves us and a thread on the same one. Then the thread waits at each look;
 * or, if we had more than our share, we wait until it sleeps, and whole bursts have no look. */
static void give_way(const look *l, uint64_t now) {
    sampler *s = l->by;
    bool met = l->displaced != NULL || (l->late_ns > LATE_NS && l->stopped != 0);
    if (l->running + l->stopped == 0) return; /* nobody ran whom we could have met */
    s->moves.row = met ? s->moves.row + 1 : 0;
    s->moves.since++;
    if (s->moves.asked && (met || s->moves.since >= OF_USE)) {
        s->moves.asked = false;
        s->moves.wait_ns = met ? s->moves.wait_ns * 2 : s->moves.wait_ns / 2;
        if (met && s->moves.wait_ns < WAIT_LEAST_NS) s->moves.wait_ns = WAIT_LEAST_NS;
        if (s->moves.wait_ns > WAIT_MOST_NS) s->moves.wait_ns = WAIT_MOST_NS;
        s->moves.not_before_ns = now + s->moves.wait_ns;
    }
    if (s->moves.row < MET_OFTEN || now < s->moves.not_before_ns) return;
    leave(l->here, l->running);
    s->moves.asked = true;
    s->moves.row = s->moves.since = 0;
}

/* The step at which looks take no more than their part of the processor, given what one of them takes. */
static uint64_t step_in_the_way(uint64_t step, uint64_t cost) {
    uint64_t part = step / IN_THE_WAY_NS;
    if (part > IN_THE_WAY) part = IN_THE_WAY;
    return cost * (part > IN_THE_WAY_LEAST ? part : IN_THE_WAY_LEAST);
}

/* What is to pass in the mean from the end of a look, which took so long, to when the next is due: they begin a step apart. A
 * look that was late is made up for at once, or what it was late at has fewer; but we sleep for half of the time. */
static uint64_t mean_gap(uint64_t step, uint64_t took, uint64_t cost) {
    uint64_t least = cost < step / 2 ? cost : step / 2;
    if (least < step / 8) least = step / 8;
    return took + least < step ? step - took : least;
}

/* Lock held. Whether samplers take turns. */
static bool take_turns(void) { return samplers_n > 1 && looks.took_one > OFTEN; }

/* Lock held. When the next look is due that nobody was told of yet. */
static uint64_t draw_due(void) {
    uint64_t step = looks.owed ? wake_ns - wake_ns / HURRY : wake_ns, now = spp_os_now_ns(), cost = looks.cost / 256;
    uint64_t least = looks.in_the_way > OFTEN ? step_in_the_way(step, cost) : 0;
    atomic_store_explicit(&stands_ns, least > step ? least : 0, memory_order_relaxed);
    if (step < least) step = least;
    uint64_t took = take_turns() ? looks.mean_ns / 256 : looks.took_ns, from = looks.due_ns + took;
    looks.due_ns = (from > now ? from : now) + draw_gap(mean_gap(step, took, cost));
    return looks.due_ns;
}

/* Lock held. At all threads. */
static void look_around(look *l, uint64_t due, uint64_t now) {
    l->slept_ns = now - looks.ended_ns;
    l->hurried = looks.owed;
    l->mostly_late = looks.late > SHARE_ONE / 2;
    looks.late = shift(looks.late, l->late_ns > LATE_NS);
    looks.owed = false;
    for (target *t = armed; t != NULL; t = t->next) {
        if (now - t->moved_ns > 1000000000u && (looks.n + (uint32_t)t->tid) % (armed_n / FEW + 1) != 0) continue;
        look_at(t, l);
        looks.owed |= t->owed_ns > BEHIND * (int64_t)t->period_ns;
    }
    tick_displaced(l);
    looks.in_the_way = shift(looks.in_the_way, l->displaced != NULL && l->handed >= 2);
    looks.took_one = shift(looks.took_one, l->displaced != NULL);
    looks.ended_ns = spp_os_now_ns();
    looks.took_ns = looks.ended_ns - due;
    if (l->late_ns <= LATE_NS)
        looks.mean_ns = looks.n == 0 ? looks.took_ns * 256 : looks.mean_ns + looks.took_ns - looks.mean_ns / 256;
    looks.n++;
}

static void sampler_body(void *arg) {
    sampler *s = arg;
    (void)spp_os_own_files(-1);
    s->own_ns = spp_os_own_cpu_ns();
    atomic_fetch_add(&cpu_ns, s->own_ns);
    while (!atomic_load(&stopping)) {
        lock_politely();
        if (s->cost_ns != 0) looks.cost = looks.n <= 2 ? s->cost_ns * 256 : looks.cost + s->cost_ns - looks.cost / 256;
        bool rests = s != samplers && !take_turns(), fast = wake_ns < FAST_NS;
        uint64_t due = rests ? spp_os_now_ns() + REST_NS : draw_due(), before = s->own_ns;
        unlock();
        s->own_ns = spp_os_own_cpu_ns();
        s->cost_ns = rests ? 0 : s->own_ns - before;
        atomic_fetch_add(&cpu_ns, s->own_ns - before);
        if (spp_os_bell_wait(&s->bell, due) || rests) continue;
        uint64_t now = spp_os_now_ns();
        look l = {.by = s, .late_ns = now > due ? now - due : 0, .here = sched_getcpu(), .own_ns = s->own_ns};
        lock_politely();
        bool first = due > looks.ended_ns; /* else others looked since, and this one was too late */
        if (first) look_around(&l, due, now);
        unlock();
        if (first && fast && !atomic_load_explicit(&spp_linux_confined, memory_order_relaxed)) give_way(&l, now);
    }
    atomic_fetch_add(&cpu_ns, spp_os_own_cpu_ns() - s->own_ns);
}

/* ---- arming: the watch */

/* The samplers' tables of files are new. */
static void forget_files(void) {
    for (uint32_t i = 0; i < TARGETS && atomic_load(&targets[i].use) != 0; i++)
        memset(targets[i].files, 0, sizeof targets->files);
}

/* At least one, and up to `wanted`. False if there is none. */
static bool start_samplers(uint32_t wanted) {
    if (spp_linux_samplers() == 0) {
        atomic_store(&stopping, false);
        atomic_store(&stands_ns, 0);
        process = getpid();
        samplers_n = 0;
        memset(&looks, 0, sizeof looks);
        looks.ended_ns = spp_os_now_ns();
        forget_files();
    }
    while (samplers_n < wanted) {
        sampler *s = &samplers[samplers_n];
        *s = (sampler){0};
        s->worker = spp_os_worker_start("spprof-signal", true, sampler_body, s);
        if (s->worker == NULL) break;
        samplers_n++;
    }
    return samplers_n != 0;
}

/* Lock held. */
static target *free_target(void) {
    target *t = freed;
    if (t != NULL) {
        freed = t->next;
    } else if (targets_used < TARGETS) {
        t = &targets[targets_used++];
    }
    return t;
}

/* Takes it out of the list, so that nothing is sent any more, and has what was sent be nothing. */
static void disarm(target *t, bool timed) {
    lock();
    if (t->link != NULL) {
        *t->link = t->next;
        if (t->next != NULL) t->next->link = t->link;
        t->link = NULL;
        armed_n--;
    }
    atomic_store(&t->cookie, 0);
    if (timed) timer_delete(t->timer); /* before it is somebody else's */
    t->next = freed;
    freed = t;
    unlock();
}

void *spp_linux_sender_arm(int32_t tid, int by, uint64_t period_ns, void *cookie) {
    if (targets == NULL) targets = spp_os_pages(TARGETS * sizeof(target));
    errno = ENOMEM;
    if (spp_linux_samplers() == 0 && resting_n == 0) atomic_store(&cpu_ns, 0); /* a new run */
    if (targets == NULL || !start_samplers(period_ns < FAST_NS ? SAMPLERS : 1)) return NULL;
    lock();
    target *t = free_target();
    unlock();
    if (t == NULL) return NULL;
    uint32_t use = atomic_load(&t->use) % (ALIGN - 1) + 1;
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = by;
    event.sigev_value.sival_ptr = (char *)t + use;
    event.sigev_notify_thread_id = tid;
    atomic_store(&t->use, use);
    t->tid = tid;
    uint64_t cpu = 0;
    if (spp_os_thread_cpu_ns(tid, &cpu) != 0 || timer_create(CLOCK_MONOTONIC, &event, &t->timer) != 0) {
        disarm(t, false);
        return NULL;
    }
    t->look_cpu = cpu;
    t->looked_ns = spp_os_now_ns();
    t->moved_ns = 0; /* it may have slept for long */
    t->owed_ns = 0;
    t->declined_seen = 0;
    t->stood = NAPS_SHARE * 2; /* nobody knows yet */
    atomic_store(&t->declined, 0);
    atomic_store(&t->more, 0);
    atomic_store(&t->waking, 0);
    t->slept_ns = 0;
    t->passed = false;
    atomic_store(&t->at_calls, SHARE_AT_FIRST);
    atomic_store(&t->period_ns, period_ns);
    atomic_store(&t->sent, false);
    atomic_store(&t->cookie, (uintptr_t)cookie);
    lock();
    signum = by;
    wake_ns = period_ns;
    t->next = armed;
    t->link = &armed;
    if (armed != NULL) armed->link = &t->next;
    armed = t;
    armed_n++;
    unlock();
    return t;
}

void spp_linux_sender_disarm(void *of) { disarm(of, true); }

SPP_HOT void spp_linux_sender_period(void *of, uint64_t period_ns) { atomic_store(&((target *)of)->period_ns, period_ns); }

bool spp_linux_sender_sends(int by) {
    lock();
    bool sends = armed_n > 0 && signum == by;
    unlock();
    return sends;
}

uint32_t spp_linux_samplers(void) { return process == getpid() ? samplers_n : 0; }

bool spp_linux_is_sampler(int32_t tid) {
    for (uint32_t i = 0; i < spp_linux_samplers(); i++) {
        if (spp_os_worker_tid(samplers[i].worker) == tid) return true;
    }
    return false;
}

uint64_t spp_linux_sender_cpu_ns(void) { return atomic_load(&cpu_ns); }

void spp_linux_sender_stop(void) {
    uint32_t n = spp_linux_samplers();
    resting_n = 0;
    atomic_store(&stopping, true);
    for (uint32_t i = 0; i < n; i++) spp_os_bell_ring(&samplers[i].bell);
    for (uint32_t i = 0; i < n; i++) spp_os_worker_join(samplers[i].worker);
    samplers_n = 0;
}

void spp_linux_sender_rest(void) {
    uint32_t n = spp_linux_samplers();
    spp_linux_sender_stop();
    resting_n = n;
}

void spp_linux_sender_wake(void) {
    if (resting_n != 0 && start_samplers(resting_n)) resting_n = 0;
}

void spp_linux_sender_child(void) {
    samplers_n = resting_n = 0;
    armed = freed = NULL;
    armed_n = targets_used = 0;
    atomic_store(&taken, 0);
    atomic_store(&waiting, 0);
    for (uint32_t i = 0; targets != NULL && i < TARGETS && atomic_load(&targets[i].use) != 0; i++) {
        atomic_store(&targets[i].cookie, 0);
        targets[i].link = NULL;
    }
}
