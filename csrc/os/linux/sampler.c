/* The threads that look (look.h) for the clock `signal`: when each is to look, and on which processor. */
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/hints.h"
#include "base/random.h"
#include "os/clock.h"
#include "os/files.h"
#include "os/linux/linux.h"
#include "os/linux/look.h"
#include "os/linux/share.h"
#include "os/linux/targets.h"
#include "os/threads.h"
#include "os/worker.h"

/* Where threads hand over to each other and wait for our processor, our looks take no more than a part of it, since these lose
 * three times as long: a hundredth at 1 kHz and less, at higher rates as much more, at most a sixteenth. */
#define IN_THE_WAY 100
#define IN_THE_WAY_LEAST 16
#define IN_THE_WAY_NS (1000000 / IN_THE_WAY)
#define OFTEN (SPP_SHARE_ONE / 8)
/* Where looks come fast, a sampler that met a thread on its processor at two looks in a row asks for another one. That was of use
 * if it meets none at the next two; else it does not ask again for twice as long. */
#define MET_OFTEN 2
#define OF_USE 2
#define WAIT_LEAST_NS 1000000u
#define WAIT_MOST_NS 1000000000u

/* At high rates so many of ours take turns, where looks take threads' processors or other programs want these too. One alone
 * would often wake before others ran for as long as its last look took. Then it has no claim to their processor (EEVDF: it is not
 * eligible), and waits until one of them blocks, or for the scheduler's tick: 10 ms at a time of a thread that runs had no look.
 * Beside two busy processes on two processors one had 0.6 of its looks, three 0.93, six 0.98. */
#define HELD_UP_NS 1000000u /* a look that is so late waited for the scheduler's tick */
#define TURNS_NS 200000000u /* ... and so may others for so long */
#define REST_NS 1000000000u /* else all but the first do nothing, until they are woken */

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

static sampler samplers[SPP_LINUX_SAMPLERS];
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
static _Atomic uint64_t stands_ns;             /* between two looks, where they come more rarely than was asked for; else 0 */
static _Atomic uint64_t cpu_ns;                /* of all samplers in this run */
static uint64_t look_random = SPP_RANDOM_SEED; /* under the lock */

/* A number of exponential distribution, by comparisons only (von Neumann 1951). The sampler. */
static uint64_t random_gap(uint64_t mean) {
    for (uint64_t whole = 0;; whole++) {
        uint64_t first = spp_random_below(&look_random, UINT32_MAX), last = first, next, n = 1;
        while ((next = spp_random_below(&look_random, UINT32_MAX)) < last) last = next, n++;
        if (n % 2 != 0) return whole * mean + (first * mean >> 32);
    }
}

/* Asks the kernel for another processor than `here`; the next time it may choose that one again. `running`: so many others are
 * busy with our threads. */
static void leave_processor(int here, uint32_t running) {
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
static void avoid_threads(sampler *s, const spp_linux_look *l, uint64_t now) {
    bool met = l->displaced != NULL || (l->late_ns > SPP_LINUX_LATE_NS && l->stopped != 0);
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
    leave_processor(l->here, l->running);
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
static bool begin_turns(const spp_linux_look *l) {
    bool before = looks.turns;
    if (l->late_ns > HELD_UP_NS) looks.turns_until_ns = looks.ended_ns + TURNS_NS;
    looks.turns = samplers_n > 1 && (looks.took_one > OFTEN || looks.ended_ns < looks.turns_until_ns);
    return looks.turns && !before;
}

/* The lock not held. */
static void wake_samplers(const sampler *s) {
    for (sampler *other = samplers; other < samplers + samplers_n; other++)
        if (other != s) spp_os_bell_ring(&other->bell);
}

/* Lock held. When the next look is due that nobody was told of yet. */
static uint64_t next_due(void) {
    uint64_t step = looks.owed ? spp_linux_targets.period_ns - spp_linux_targets.period_ns / SPP_LINUX_HURRY
                               : spp_linux_targets.period_ns,
             now = spp_os_now_ns(), cost = looks.cost / 256;
    uint64_t least = looks.in_the_way > OFTEN ? step_in_the_way(step, cost) : 0;
    atomic_store_explicit(&stands_ns, least > step ? least : 0, memory_order_relaxed);
    if (step < least) step = least;
    uint64_t took = looks.turns ? looks.mean_ns / 256 : looks.took_ns, from = looks.due_ns + took;
    looks.due_ns = (from > now ? from : now) + random_gap(mean_gap(step, took, cost));
    return looks.due_ns;
}

/* Lock held. At all threads. */
static void take_look(spp_linux_look *l, uint64_t due, uint64_t now) {
    l->slept_ns = now - looks.ended_ns;
    l->hurried = looks.owed;
    l->mostly_late = looks.late > SPP_SHARE_ONE / 2;
    looks.late = spp_share_shift(looks.late, l->late_ns > SPP_LINUX_LATE_NS);
    l->n = looks.n;
    spp_linux_look_around(l, now);
    looks.owed = l->owed;
    looks.in_the_way = spp_share_shift(looks.in_the_way, l->displaced != NULL && l->handed >= 2);
    looks.took_one = spp_share_shift(looks.took_one, l->displaced != NULL);
    looks.ended_ns = spp_os_now_ns();
    looks.took_ns = looks.ended_ns - due;
    if (l->late_ns <= SPP_LINUX_LATE_NS)
        looks.mean_ns = looks.n == 0 ? looks.took_ns * 256 : looks.mean_ns + looks.took_ns - looks.mean_ns / 256;
    looks.n++;
}

static void signal_sampler_body(void *arg) {
    sampler *s = arg;
    (void)spp_os_own_files(-1);
    s->own_ns = spp_os_own_cpu_ns();
    atomic_fetch_add(&cpu_ns, s->own_ns);
    while (!atomic_load(&stopping)) {
        spp_spin_lock_politely(&spp_linux_targets.lock);
        if (s->cost_ns != 0) looks.cost = looks.n <= 2 ? s->cost_ns * 256 : looks.cost + s->cost_ns - looks.cost / 256;
        bool rests = s != samplers && !looks.turns, fast = spp_linux_targets.period_ns < SPP_LINUX_FAST_NS;
        uint64_t due = rests ? spp_os_now_ns() + REST_NS : next_due(), before = s->own_ns;
        spp_spin_unlock(&spp_linux_targets.lock);
        s->own_ns = spp_os_own_cpu_ns();
        s->cost_ns = rests ? 0 : s->own_ns - before;
        atomic_fetch_add(&cpu_ns, s->own_ns - before);
        if (spp_os_bell_wait(&s->bell, due) || rests) continue;
        uint64_t now = spp_os_now_ns();
        spp_linux_look l = {.by = (uint32_t)(s - samplers),
                            .process = process,
                            .files = &s->files,
                            .random = &look_random,
                            .late_ns = now > due ? now - due : 0,
                            .here = sched_getcpu(),
                            .own_ns = s->own_ns};
        spp_spin_lock_politely(&spp_linux_targets.lock);
        bool first = due > looks.ended_ns; /* else others looked since, and this one was too late */
        if (first) take_look(&l, due, now);
        bool wakes = first && begin_turns(&l);
        spp_spin_unlock(&spp_linux_targets.lock);
        if (wakes) wake_samplers(s);
        if (first && fast && !atomic_load_explicit(&spp_linux_confined, memory_order_relaxed)) avoid_threads(s, &l, now);
    }
    atomic_fetch_add(&cpu_ns, spp_os_own_cpu_ns() - s->own_ns);
}

bool spp_linux_samplers_start(uint32_t wanted) {
    if (spp_linux_samplers() == 0) {
        if (resting_n == 0) atomic_store(&cpu_ns, 0);
        atomic_store(&stopping, false);
        atomic_store(&stands_ns, 0);
        process = getpid();
        if (look_random == SPP_RANDOM_SEED) look_random ^= spp_os_now_ns() << 20;
        samplers_n = 0;
        memset(&looks, 0, sizeof looks);
        looks.ended_ns = spp_os_now_ns();
        spp_linux_targets_forget_files();
    }
    while (samplers_n < wanted) {
        sampler *s = &samplers[samplers_n];
        *s = (sampler){0};
        s->worker = spp_os_worker_start("spprof-signal", true, signal_sampler_body, s);
        if (s->worker == NULL) break;
        samplers_n++;
    }
    return samplers_n != 0;
}

uint32_t spp_linux_samplers(void) { return process == getpid() ? samplers_n : 0; }

bool spp_linux_is_sampler(int32_t tid) {
    for (uint32_t i = 0; i < spp_linux_samplers(); i++) {
        if (spp_os_worker_tid(samplers[i].worker) == tid) return true;
    }
    return false;
}

bool spp_linux_samplers_idle(void) { return spp_linux_samplers() == 0 && resting_n == 0; }

SPP_HOT uint64_t spp_linux_samplers_stands_ns(void) { return atomic_load_explicit(&stands_ns, memory_order_relaxed); }

uint64_t spp_linux_samplers_cpu_ns(void) { return atomic_load(&cpu_ns); }

void spp_linux_samplers_stop(void) {
    uint32_t n = spp_linux_samplers();
    resting_n = 0;
    atomic_store(&stopping, true);
    for (uint32_t i = 0; i < n; i++) spp_os_bell_ring(&samplers[i].bell);
    for (uint32_t i = 0; i < n; i++) spp_os_worker_join(samplers[i].worker);
    samplers_n = 0;
}

void spp_linux_samplers_rest(void) {
    uint32_t n = spp_linux_samplers();
    spp_linux_samplers_stop();
    resting_n = n;
}

void spp_linux_samplers_wake(void) {
    if (resting_n != 0 && spp_linux_samplers_start(resting_n)) resting_n = 0;
}

void spp_linux_samplers_child(void) { samplers_n = resting_n = 0; }
