/* The clock `signal`: a thread of ours (the sampler; at high rates there are several) sends each thread that runs a signal, at
 * instants that are drawn at random. It needs no privilege, and of all ways to interrupt a thread it costs that thread least (7
 * us on a virtual machine; a timer of its own takes 20, a perf event 15). A thread that sleeps is sent nothing: its CPU clock
 * stands. One that is in a call is sent nothing either: handshake.h says how it is sampled then, and why no tick meets a call.
 *
 * A sample must fall on an instant that does not depend on what the program does. The instant of sending is one. Where the
 * scheduler chose it instead (a sampler that comes late), the handler takes no sample but sets a timer of the thread's own, for
 * an instant that is drawn anew. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/hints.h"
#include "os/clock.h"
#include "os/files.h"
#include "os/linux/calls.h"
#include "os/linux/handshake.h"
#include "os/linux/linux.h"
#include "os/linux/machine.h"
#include "os/memory.h"
#include "os/threads.h"
#include "os/ticks.h"
#include "os/worker.h"

#define TARGETS 16384u
#define ALIGN 128u /* a signal's value is a target and, in the bits that its address leaves, which use of it */

/* How much later an instant is that is drawn anew: by this, and by as much more as the sampler came late at the most. */
#define PUT_OFF_NS 40000u
#define PUT_OFF_MOST_NS 4000000u
#define SOON_NS 4000u /* ... than the handler does */
/* How long a signal takes to a thread that runs: what it took of late, the newest counts 1/16. More than that is no interrupt. */
#define WAY_AT_FIRST_NS 10000u
#define WAY_MOST_NS 100000u
#define SHARE_ONE 65536u /* shares are kept in 65536ths */
#define SHARE_MEMORY 8   /* the newest counts 1/256 */
/* Where calls take more signals than this share, each only sets a timer, for a fixed time after it was sent. That is dearer: a
 * timer's interrupt comes beside the signal's. A signal leaves caches cold, and then calls take longer, but not loops: 40 us
 * behind it small functions had 0.8 of their time, 170 us behind it all. */
#define CUT_SHORT_OFTEN (SHARE_ONE / 32)
#define SETTLED_NS 200000u
#define SETTLED_PART 5 /* of an interval, at the most, but PUT_OFF_NS */
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
#define FAST_NS 300000u
#define MET_OFTEN 2
#define OF_USE 2
#define WAIT_LEAST_NS 1000000u
#define WAIT_MOST_NS 1000000000u
/* How long we know what a run queue's clock says, by how far it went astray since it was asked. */
#define QUEUES 16u
#define ASTRAY_NS 2000u
#define KNOWN_LEAST_NS 100000u
#define KNOWN_MOST_NS 10000000u

/* At high rates so many of ours take turns, where looks take threads' processors or other programs want these too. One alone
 * would often wake before others ran for as long as its last look took. Then it has no claim to their processor (EEVDF: it is not
 * eligible), and waits until one of them blocks, or for the scheduler's tick: 10 ms at a time of a thread that runs had no look.
 * Beside two busy processes on two processors one had 0.6 of its looks, three 0.93, six 0.98. */
#define SAMPLERS 6u
#define HELD_UP_NS 1000000u /* a look that is so late waited for the scheduler's tick */
#define TURNS_NS 200000000u /* ... and so may others for so long */
#define REST_NS 1000000000u /* else all but the first do nothing, until they are woken */

/* A signal is on its way for so long as two looks at most, if no call holds it up. */
#define AGAIN_MOST 3

typedef struct target {
    _Alignas(ALIGN) _Atomic uintptr_t cookie; /* 0: not armed */
    _Atomic uint32_t use;
    int32_t tid;           /* constant while armed */
    int32_t kernels_timer; /* the C library's type has a lock behind it where it has one; -1: the queue of signals is full */

    spp_linux_handshake *shakes; /* constant while armed */
    uint64_t timed_ns;           /* the thread: what its timer was set to last */
    /* one signal at a time */
    _Atomic bool late;           /* the scheduler chose the instant, and the rate is high */
    _Atomic uint64_t from_ns;    /* it was sent then ... */
    _Atomic uint32_t put_off_ns; /* ... and is to be a sample so much later; 0: of where it meets the thread */
    _Atomic bool unseen;         /* the handler: it makes calls without the C library, which signals may end: no more are sent */
    _Atomic uint32_t way_ns;     /* the handler: how long signals take */
    _Atomic uint32_t cut_short;  /* the handler: the share of signals that the end of a call without a wrapper took */
    _Atomic uint32_t declined;   /* the handler: signals that gave no tick, for the thread was about to sleep */
    _Atomic uint32_t more;       /* instants at which the thread ran, while the signal of an earlier one had not come yet */
    _Atomic uint32_t waking;     /* instants at which it was about to: the next sample of a call stands for them too */
    _Atomic uint64_t period_ns;

    /* the sampler, under the lock */
    struct target *next, **link; /* which points to it; NULL: it is not in the list */
    uint64_t looked_ns, look_cpu, moved_ns, sent_cpu;
    uint64_t slept_ns; /* when it was looked at, if it slept then; else 0 */
    uint32_t stood;    /* at which share of looks it had run, and stood */
    int64_t owed_ns;   /* CPU time that no signal was sent for yet; less than 0: ahead */
    uint32_t declined_seen;
    spp_linux_files files[SAMPLERS]; /* in the table of each */
} target;

static target *targets; /* never unmapped: a late signal finds memory */
static uint32_t targets_used;
static target *armed, *freed;    /* lists, under the lock */
static _Atomic uint32_t armed_n; /* written under the lock */
static uint64_t wake_ns;         /* the shortest period */
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
    uint64_t turns_until_ns;   /* since a look waited for the scheduler's tick */
    bool turns;                /* samplers take turns */
    uint64_t mean_ns, cost;    /* what one takes, and of CPU time, in 256ths */
    uint32_t late, in_the_way; /* the share of looks that were */
    uint32_t took_one;         /* that took a thread's processor */
    bool owed;
} looks;

static pid_t process;
static _Atomic bool stopping;
static void (*give)(uintptr_t cookie, const spp_linux_instant *of);
static _Atomic uint64_t stands_ns; /* between two looks, where they come more rarely than was asked for; else 0 */
static _Atomic uint64_t cpu_ns;    /* of all samplers in this run */
static _Atomic uint64_t calls_met; /* in this run */
static _Atomic int signum;         /* as before */

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

static bool is_on_its_way(const spp_linux_handshake *h) {
    uint32_t tick = atomic_load(&h->tick);
    return tick == SPP_TICK_SENDING || tick == SPP_TICK_SENT;
}

/* Handler. The target that a signal's value names, if that is armed still, for the calling thread; or NULL. */
static target *target_of(const siginfo_t *info) {
    uintptr_t value = (uintptr_t)info->si_value.sival_ptr, base = (uintptr_t)targets;
    if (info->si_code != SI_QUEUE && info->si_code != SI_TIMER) return NULL;
    if (value < base || value >= base + TARGETS * sizeof(target) || targets == NULL) return NULL;
    return targets + (value - base) / sizeof(target);
}

/* Handler. Where the user's queue of signals is full (RLIMIT_SIGPENDING) the kernel sends ours all the same, but forgets what it
 * says: it looks like a kill() by the kernel (collect_signal in kernel/signal.c). The target of the calling thread, if a signal
 * to it is on its way; else NULL. */
static SPP_COLD target *speechless(const siginfo_t *info) {
    if (info->si_code != SI_USER || info->si_pid != 0 || info->si_uid != 0 || info->si_signo != signum) return NULL;
    spp_linux_handshake *h = spp_linux_handshake_own();
    return h != NULL && is_on_its_way(h) ? atomic_load(&h->target) : NULL;
}

bool spp_linux_is_sent(const siginfo_t *info) {
    if (spp_rare(info->si_code == SI_USER) && speechless(info) != NULL) return true;
    return target_of(info) != NULL;
}

/* A signal would wait, for the thread blocks it. */
static bool does_block(const spp_linux_handshake *h) {
    return atomic_load_explicit(&h->blocks, memory_order_relaxed) >> (signum - 1) & 1u;
}

static uint32_t shift(uint32_t share, bool up) {
    return up ? share + ((SHARE_ONE - share) >> SHARE_MEMORY) : share - (share >> SHARE_MEMORY);
}

/* Of the thread itself. */
static bool set_timer(target *t, uint64_t in_ns, uint64_t *left) {
    struct itimerspec spec = {.it_value = {.tv_sec = (time_t)(in_ns / 1000000000u), .tv_nsec = (long)(in_ns % 1000000000u)}}, was;
    if (t->kernels_timer < 0 || atomic_load_explicit(&spp_linux_confined, memory_order_relaxed)) return false;
    if (raw_call(SYS_timer_settime, t->kernels_timer, 0, (long)(uintptr_t)&spec, (long)(uintptr_t)&was) != 0) return false;
    t->timed_ns = in_ns;
    if (left != NULL) *left = (uint64_t)was.it_value.tv_sec * 1000000000u + (uint64_t)was.it_value.tv_nsec;
    return true;
}

static uint64_t stop_timer(spp_linux_handshake *h, uint64_t *passed) {
    uint64_t left = 0;
    target *t = atomic_load(&h->target);
    uint64_t set = t != NULL ? t->timed_ns : 0;
    if (t != NULL) (void)set_timer(t, 0, &left);
    *passed = set > left ? set - left : 0;
    return left;
}

static bool start_timer(spp_linux_handshake *h, uint64_t ns) {
    target *t = atomic_load(&h->target);
    return t != NULL && !does_block(h) && set_timer(t, ns + 1, NULL);
}

/* What a sample stands for beside its own instant. */
static void say_more(target *t, bool in_call, spp_linux_instant *of) {
    uint32_t others = atomic_exchange_explicit(&t->more, 0, memory_order_relaxed);
    if (in_call || others > AGAIN_MOST)
        of->more += others;
    else
        of->again = others;
    if (in_call) of->more += atomic_exchange_explicit(&t->waking, 0, memory_order_relaxed);
    of->coarse = atomic_load_explicit(&t->late, memory_order_relaxed);
}

/* Of the thread itself, at a call's end. */
static void sample_call(spp_linux_handshake *h, uint32_t n) {
    target *t = atomic_load(&h->target);
    uintptr_t cookie = t != NULL ? atomic_load(&t->cookie) : 0;
    spp_linux_instant of = {.more = n - 1, .called = h->function};
    if (cookie == 0 || t->tid != spp_os_tid()) return;
    say_more(t, true, &of);
    give(cookie, &of);
}

/* Handler. A system call's end takes a signal as soon as it is sent, sooner than the interrupt that it comes by. So what follows
 * the call would have no ticks for as long as that interrupt takes. */
static void see_way(target *t, const ucontext_t *uc, uint64_t took) {
    uint32_t way = atomic_load_explicit(&t->way_ns, memory_order_relaxed);
    bool at_end = spp_linux_met_call(uc);
    atomic_store_explicit(&t->cut_short, shift(atomic_load_explicit(&t->cut_short, memory_order_relaxed), at_end),
                          memory_order_relaxed);
    if (took < WAY_MOST_NS && !at_end)
        atomic_store_explicit(&t->way_ns, way + (uint32_t)took / 16 - way / 16, memory_order_relaxed);
}

static const spp_linux_ticks ticks = {stop_timer, start_timer, sample_call, spp_linux_signals_take_back};

/* Handler. A signal of the sampler's has come. Whether it is a sample of where the thread is: not if that is to be later, or if a
 * call is about to begin that cuts its delay off. */
static bool is_due(target *t, const ucontext_t *uc, uint64_t now) {
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
    see_way(t, uc, took);
    if (put_off != 0) {
        atomic_store(&h->tick, SPP_TICK_TIMED);
        if (set_timer(t, took + SOON_NS < put_off ? put_off - took : SOON_NS, NULL)) return false;
    } else if (took < WAY_MOST_NS) {
        atomic_store_explicit(&h->quick, 0, memory_order_relaxed);
    }
    return true;
}

SPP_HOT uintptr_t spp_linux_sent(const siginfo_t *info, const ucontext_t *uc, spp_linux_instant *of) {
    target *t = target_of(info);
    bool timed = info->si_code == SI_TIMER, speaks = t != NULL;
    if (spp_rare(!speaks)) t = speechless(info);
    if (spp_rare(t == NULL)) return 0;
    uintptr_t value = (uintptr_t)info->si_value.sival_ptr, cookie = atomic_load(&t->cookie);
    if ((speaks && value % ALIGN != atomic_load(&t->use)) || t->tid != spp_os_tid() || cookie == 0) return 0;
    if (timed ? atomic_load(&t->shakes->tick) != SPP_TICK_TIMED : !is_on_its_way(t->shakes)) return 0;
    bool met = spp_rare(spp_linux_met_call(uc)) && !spp_linux_in_c_library(program_counter(uc)); /* there it has a wrapper */
    if (spp_rare(met)) { /* the last signal: not even a timer's follows, which could meet another call */
        atomic_store_explicit(&t->unseen, true, memory_order_relaxed);
        atomic_fetch_add_explicit(&calls_met, 1, memory_order_relaxed);
    }
    if (timed)
        atomic_store_explicit(&t->shakes->quick, 0, memory_order_relaxed);
    else if (!met && !is_due(t, uc, spp_os_now_ns()))
        return 0;
    if (spp_rare(spp_linux_stood(uc))) { /* in a call that has no wrapper: it slept, or was about to */
        atomic_fetch_add_explicit(&t->declined, 1 + atomic_exchange(&t->more, 0), memory_order_relaxed);
        cookie = 0;
    } else {
        say_more(t, false, of);
    }
    atomic_store_explicit(&t->shakes->tick, SPP_TICK_NONE, memory_order_release);
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

/* Lock held. The instant fell into a call, from which the thread takes it itself. */
static void leave_to_call(target *t, uint64_t delay_ns) {
    atomic_store_explicit(&t->shakes->wanted_cpu, t->look_cpu + delay_ns, memory_order_relaxed);
    atomic_fetch_add(&t->shakes->wanted, 1);
    t->sent_cpu = t->look_cpu; /* the timer that it may come by is not given up before it fires */
    t->owed_ns -= (int64_t)t->period_ns;
}

static void send(target *t, uint64_t from_ns, uint64_t put_off_ns) {
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_signo = signum;
    info.si_code = SI_QUEUE;
    info.si_pid = process;
    info.si_value.sival_ptr = (char *)t + atomic_load(&t->use);
    atomic_store_explicit(&t->from_ns, from_ns, memory_order_relaxed);
    atomic_store_explicit(&t->put_off_ns, (uint32_t)put_off_ns, memory_order_relaxed);
    t->sent_cpu = t->look_cpu;
    bool sent = syscall(SYS_rt_tgsigqueueinfo, process, t->tid, signum, &info) == 0;
    spp_linux_tick_sent(t->shakes, sent);
    if (sent) t->owed_ns -= (int64_t)t->period_ns;
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

static uint64_t settled_ns(uint64_t period) {
    uint64_t part = period / SETTLED_PART;
    return part > SETTLED_NS ? SETTLED_NS : part > PUT_OFF_NS ? part : PUT_OFF_NS;
}

/* Lock held. A tick that `t` is due now: it runs, or did until we took its processor. */
static void tick(target *t, const look *l, bool runs, uint64_t now) {
    spp_linux_handshake *h = t->shakes;
    int64_t period = (int64_t)t->period_ns;
    uint64_t put_off = 0;
    if (atomic_load_explicit(&t->unseen, memory_order_relaxed)) return;
    if (runs && atomic_load_explicit(&t->cut_short, memory_order_relaxed) > CUT_SHORT_OFTEN) put_off = settled_ns(t->period_ns);
    if (l->late_ns > LATE_NS) put_off = PUT_OFF_NS + draw(l->late_ns < PUT_OFF_MOST_NS ? l->late_ns : PUT_OFF_MOST_NS);
    uintptr_t unknown = SPP_CALL_UNKNOWN; /* it runs, so it waits in no call that began before the first run */
    (void)atomic_compare_exchange_strong(&h->call, &unknown, 0);
    uint32_t before = atomic_load_explicit(&h->tick, memory_order_acquire);
    bool lost = t->look_cpu - t->sent_cpu >= (uint64_t)period + LOST_NS;
    if (before == SPP_TICK_LEFT && t->look_cpu > atomic_load(&h->due_cpu) + WAY_MOST_NS) lost = true; /* no call since */
    if (before != SPP_TICK_NONE && lost && atomic_load(&h->call) == 0) {
        (void)atomic_compare_exchange_strong(&h->tick, &before, SPP_TICK_NONE);
        atomic_store_explicit(&h->quick, 0, memory_order_relaxed);
    }
    if (spp_linux_tick_begin(h)) {
        /* Each was told before a tick could begin: by the handler of the one before; in a call, and none has begun since. */
        if (atomic_load_explicit(&t->unseen, memory_order_relaxed) || does_block(h)) {
            spp_linux_tick_sent(h, false);
            return;
        }
        /* A call that they fell into was just over, unseen. */
        atomic_fetch_add_explicit(&t->more, atomic_exchange(&h->wanted, 0), memory_order_relaxed);
        atomic_store_explicit(&t->late, l->late_ns > LATE_NS && is_fast(t), memory_order_relaxed);
        send(t, now, put_off);
    } else if (does_block(h)) {
        return;
    } else if (atomic_load(&h->call) != 0) {
        leave_to_call(t, put_off != 0 ? put_off : runs ? atomic_load_explicit(&t->way_ns, memory_order_relaxed) : 0);
    } else if (atomic_load(&h->tick) != SPP_TICK_NONE) {
        t->owed_ns -= period;
        atomic_fetch_add_explicit(&t->more, 1, memory_order_relaxed);
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
    int on = runs ? SPP_LINUX_SLEEPS : spp_linux_thread_ready(t->tid, files_of(t, l));
    /* Then only a call tells: outside it waits for a processor, ours most likely; as it does if it ran until we did. */
    if (on == SPP_LINUX_NOT_TOLD && (atomic_load(&t->shakes->call) == 0 || ran_all(l, ran))) on = l->here;
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

/* Lock held, after a look. Whether samplers take turns from here on; true: they did not before, and are to be woken. */
static bool begin_turns(const look *l) {
    bool before = looks.turns;
    if (l->late_ns > HELD_UP_NS) looks.turns_until_ns = looks.ended_ns + TURNS_NS;
    looks.turns = samplers_n > 1 && (looks.took_one > OFTEN || looks.ended_ns < looks.turns_until_ns);
    return looks.turns && !before;
}

/* The lock not held. */
static void wake_others(const sampler *s) {
    for (sampler *other = samplers; other < samplers + samplers_n; other++)
        if (other != s) spp_os_bell_ring(&other->bell);
}

/* Lock held. When the next look is due that nobody was told of yet. */
static uint64_t draw_due(void) {
    uint64_t step = looks.owed ? wake_ns - wake_ns / HURRY : wake_ns, now = spp_os_now_ns(), cost = looks.cost / 256;
    uint64_t least = looks.in_the_way > OFTEN ? step_in_the_way(step, cost) : 0;
    atomic_store_explicit(&stands_ns, least > step ? least : 0, memory_order_relaxed);
    if (step < least) step = least;
    uint64_t took = looks.turns ? looks.mean_ns / 256 : looks.took_ns, from = looks.due_ns + took;
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
        bool rests = s != samplers && !looks.turns, fast = wake_ns < FAST_NS;
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
        bool wakes = first && begin_turns(&l);
        unlock();
        if (wakes) wake_others(s);
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
static void disarm(target *t) {
    lock();
    if (t->link != NULL) {
        *t->link = t->next;
        if (t->next != NULL) t->next->link = t->link;
        t->link = NULL;
        armed_n--;
    }
    atomic_store(&t->cookie, 0);
    if (t->shakes != NULL) atomic_store(&t->shakes->target, NULL);
    if (t->kernels_timer >= 0) syscall(SYS_timer_delete, t->kernels_timer); /* before it is somebody else's */
    t->next = freed;
    freed = t;
    unlock();
}

void spp_linux_sender_gives_to(void (*to)(uintptr_t cookie, const spp_linux_instant *of)) {
    give = to;
    spp_linux_ticks_by = &ticks;
}

void *spp_linux_sender_arm(int32_t tid, int by, uint64_t period_ns, void *cookie) {
    if (targets == NULL) targets = spp_os_pages(TARGETS * sizeof(target));
    errno = ENOMEM;
    if (spp_linux_samplers() == 0 && resting_n == 0) { /* a new run */
        atomic_store(&cpu_ns, 0);
        atomic_store(&calls_met, 0);
    }
    if (targets == NULL || spp_linux_handshakes_make() != 0 || !start_samplers(period_ns < FAST_NS ? SAMPLERS : 1)) return NULL;
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
    t->shakes = NULL;
    uint64_t cpu = 0;
    int32_t timer;
    t->kernels_timer = -1;
    if (spp_os_thread_cpu_ns(tid, &cpu) != 0) {
        disarm(t);
        return NULL;
    }
    /* Without one, samples that it would bring later are taken at once. */
    if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) == 0) t->kernels_timer = timer;
    if ((t->shakes = spp_linux_handshake_arm(tid, t)) == NULL) {
        disarm(t);
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

bool spp_linux_sender_unseen(const void *of) { return atomic_load(&((const target *)of)->unseen); }

void spp_linux_sender_disarm(void *of) { disarm(of); }

SPP_HOT void spp_linux_sender_period(void *of, uint64_t period_ns) { atomic_store(&((target *)of)->period_ns, period_ns); }

bool spp_linux_sender_sends(int by) { return atomic_load(&armed_n) > 0 && atomic_load(&signum) == by; }

uint32_t spp_linux_samplers(void) { return process == getpid() ? samplers_n : 0; }

bool spp_linux_is_sampler(int32_t tid) {
    for (uint32_t i = 0; i < spp_linux_samplers(); i++) {
        if (spp_os_worker_tid(samplers[i].worker) == tid) return true;
    }
    return false;
}

uint64_t spp_os_calls_met(void) { return atomic_load(&calls_met); }

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
    spp_linux_handshakes_child();
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
