/* Samplers: the threads that take the looks (look.h) of the clock `signal`, at random instants. Decides when the next look is
 * due, how many samplers take turns, and when one asks for another processor. */
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

/* If threads hand over to each other and one of them waits for the sampler's processor, looks are limited to a part of its time:
 * a sixteenth. If all others wait for that one, they lose three times as much, so the part is smaller: a hundredth at 1 kHz
 * and below, more in proportion at higher rates. */
#define IN_THE_WAY 100
#define IN_THE_WAY_LEAST 16
#define IN_THE_WAY_NS (1000000 / IN_THE_WAY)
#define OFTEN (SPP_SHARE_ONE / 8)
/* At short intervals, a sampler that preempted a thread at so many looks in a row asks for another processor. That helped if it
 * preempts none at the next HELPED looks; else it waits twice as long before it asks again. */
#define IN_A_ROW 2
#define HELPED 2
#define WAIT_LEAST_NS 1000000u
#define WAIT_MOST_NS 1000000000u

/* If a sampler is so late, a host's scheduler may have chosen the instant. */
#define STOOD_NS 1000000u

/* At short intervals SPP_LINUX_SAMPLERS samplers take turns if looks preempt threads, or if other programs keep the processors
 * busy. A single one would often wake before the others had run for as long as its last look took. Then it is not eligible
 * (EEVDF) and waits until one of them blocks or for the scheduler's tick, so a running thread has no look for 10 ms at a time.
 * Next to two busy processes on two processors one sampler made 0.6 of its looks, three made 0.93, six 0.98. */
#define HELD_UP_NS 1000000u /* a sampler that waits so long for a processor waits for the scheduler's tick */
#define TURNS_NS 200000000u /* samplers take turns for so long after one */
#define REST_NS 1000000000u /* otherwise all but the first sleep, until they are woken */

typedef struct {
    spp_os_worker *worker;
    spp_os_bell bell; /* rung to stop it, since an interval may be a second */
    spp_linux_files files;
    uint64_t own_ns;    /* its CPU clock just before it slept */
    uint64_t cost_ns;   /* CPU time of its last look */
    uint64_t waited_ns; /* for a processor, in all, when that was last read */
    struct {
        uint32_t row, since; /* looks in a row that preempted a thread; looks since it asked for another processor */
        bool asked;          /* whether that helped is not known yet */
        uint64_t not_before_ns, wait_ns;
    } moves;
} sampler;

static sampler samplers[SPP_LINUX_SAMPLERS];
static _Atomic uint32_t samplers_n; /* running */
static uint32_t resting_n;          /* stopped for a rest, to be started again */

/* What is known of looks, whichever sampler took them. Under the targets' lock. */
static struct {
    uint64_t n;
    uint64_t due_ns;           /* the last one drawn */
    uint64_t ended_ns;         /* the last one taken */
    uint64_t took_ns;          /* by that one, from when it was due */
    uint64_t turns_until_ns;   /* after a look waited for the scheduler's tick */
    bool turns;                /* samplers take turns */
    uint64_t mean_ns, cost;    /* mean duration and mean CPU time of a look, times 256 */
    uint32_t late, in_the_way; /* shares of looks */
    uint32_t awaited;          /* the share in the way of a thread that all others wait for: a part of `in_the_way` */
    uint32_t took_one;         /* the share that preempted a thread */
    bool owed;                 /* some thread is owed ticks */
} looks;

static pid_t process;
static _Atomic bool stopping;
static _Atomic uint64_t stretched_ns;          /* between looks, if that is longer than the interval; else 0 */
static _Atomic uint64_t cpu_ns;                /* of all samplers, in this run */
static uint64_t look_random = SPP_RANDOM_SEED; /* under the lock */

/* Returns an exponentially distributed number, by comparisons only (von Neumann 1951). Lock held. */
static uint64_t random_gap(uint64_t mean) {
    for (uint64_t whole = 0;; whole++) {
        uint64_t first = spp_random_below(&look_random, UINT32_MAX), last = first, next, n = 1;
        while ((next = spp_random_below(&look_random, UINT32_MAX)) < last) last = next, n++;
        if (n % 2 != 0) return whole * mean + (first * mean >> 32);
    }
}

/* Moves the calling thread from processor `here` to another one, unless all others are busy: `running` is the number of sampled
 * threads running there. Later the kernel may choose `here` again. */
static void leave_processor(int here, uint32_t running) {
    cpu_set_t allowed, others;
    if (here < 0 || here >= CPU_SETSIZE || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    others = allowed;
    CPU_CLR((size_t)here, &others);
    if ((uint32_t)CPU_COUNT(&others) <= running) return;
    if (sched_setaffinity(0, sizeof others, &others) == 0) sched_setaffinity(0, sizeof allowed, &allowed);
}

/* After a look, without the lock. On few processors the kernel may not search for an idle one when the sampler wakes (SIS_UTIL,
 * select_idle_cpu in kernel/sched/fair.c), and leaves sampler and thread on the same one. Then the thread waits at each look; or,
 * if the sampler has used more than its share, the sampler waits until the thread sleeps, and whole bursts have no look. */
static void avoid_threads(sampler *s, const spp_linux_look *l, uint64_t now) {
    bool shared = l->displaced != NULL || (l->late_ns > SPP_LINUX_LATE_NS && l->stopped != 0);
    if (l->running + l->stopped == 0) return; /* no thread ran */
    s->moves.row = shared ? s->moves.row + 1 : 0;
    s->moves.since++;
    if (s->moves.asked && (shared || s->moves.since >= HELPED)) {
        s->moves.asked = false;
        s->moves.wait_ns = shared ? s->moves.wait_ns * 2 : s->moves.wait_ns / 2;
        if (shared && s->moves.wait_ns < WAIT_LEAST_NS) s->moves.wait_ns = WAIT_LEAST_NS;
        if (s->moves.wait_ns > WAIT_MOST_NS) s->moves.wait_ns = WAIT_MOST_NS;
        s->moves.not_before_ns = now + s->moves.wait_ns;
    }
    if (s->moves.row < IN_A_ROW || now < s->moves.not_before_ns) return;
    leave_processor(l->here, l->running);
    s->moves.asked = true;
    s->moves.row = s->moves.since = 0;
}

/* Lock held. Returns the time between looks at which they take no more than their part of the processor. `cost`: CPU time of a
 * look. */
static uint64_t step_in_the_way(uint64_t step, uint64_t cost) {
    uint64_t part = looks.awaited > looks.in_the_way / 2 ? step / IN_THE_WAY_NS : 0;
    if (part > IN_THE_WAY) part = IN_THE_WAY;
    return cost * (part > IN_THE_WAY_LEAST ? part : IN_THE_WAY_LEAST);
}

/* Returns the mean time from the end of a look that took `took` to the next, so that looks begin `step` apart on average. Late
 * looks are made up for at once, or the code they were late in would get fewer; but the sampler sleeps for at least half of the
 * time. */
static uint64_t mean_gap(uint64_t step, uint64_t took, uint64_t cost) {
    uint64_t least = cost < step / 2 ? cost : step / 2;
    if (least < step / 8) least = step / 8;
    return took + least < step ? step - took : least;
}

/* Lock held, after a look for which the sampler waited so long. Decides whether samplers take turns. True: they begin to, so the
 * others must be woken. */
static bool begin_turns(uint64_t waited) {
    bool before = looks.turns;
    if (waited > HELD_UP_NS) looks.turns_until_ns = looks.ended_ns + TURNS_NS;
    looks.turns = samplers_n > 1 && (looks.took_one > OFTEN || looks.ended_ns < looks.turns_until_ns);
    return looks.turns && !before;
}

/* Without the lock. */
static void wake_samplers(const sampler *s) {
    for (sampler *other = samplers; other < samplers + samplers_n; other++)
        if (other != s) spp_os_bell_ring(&other->bell);
}

/* Lock held. Draws the instant of the next look. */
static uint64_t next_due(void) {
    uint64_t step = looks.owed ? spp_linux_targets.period_ns - spp_linux_targets.period_ns / SPP_LINUX_HURRY
                               : spp_linux_targets.period_ns,
             now = spp_os_now_ns(), cost = looks.cost / 256;
    uint64_t least = looks.in_the_way > OFTEN ? step_in_the_way(step, cost) : 0;
    atomic_store_explicit(&stretched_ns, least > step ? least : 0, memory_order_relaxed);
    if (step < least) step = least;
    uint64_t took = looks.turns ? looks.mean_ns / 256 : looks.took_ns, from = looks.due_ns + took;
    looks.due_ns = (from > now ? from : now) + random_gap(mean_gap(step, took, cost));
    return looks.due_ns;
}

/* Lock held. Looks at all threads, and updates what is known of looks. */
static void take_look(spp_linux_look *l, uint64_t due, uint64_t now) {
    l->slept_ns = now - looks.ended_ns;
    l->hurried = looks.owed;
    l->mostly_late = looks.late > SPP_SHARE_ONE / 2;
    looks.late = spp_share_shift(looks.late, l->late_ns > SPP_LINUX_LATE_NS);
    l->n = looks.n;
    spp_linux_look_around(l, now);
    looks.owed = l->owed;
    bool in_the_way = l->displaced != NULL && l->handed >= 2;
    looks.in_the_way = spp_share_shift(looks.in_the_way, in_the_way);
    looks.awaited = spp_share_shift(looks.awaited, in_the_way && l->awaited);
    looks.took_one = spp_share_shift(looks.took_one, l->displaced != NULL);
    looks.ended_ns = spp_os_now_ns();
    looks.took_ns = looks.ended_ns - due;
    if (l->late_ns <= SPP_LINUX_LATE_NS)
        looks.mean_ns = looks.n == 0 ? looks.took_ns * 256 : looks.mean_ns + looks.took_ns - looks.mean_ns / 256;
    looks.n++;
}

/* Without the lock. How long the sampler waited for a processor, of the time that it is late: at most that. A virtual machine
 * often wakes a thread 50 to 200 us after its time, by its own doing, whatever the sampled threads run: such a look is on time.
 * The kernel is asked only if the sampler is late, so what it waited at earlier looks since then counts too. */
static uint64_t waited_of(sampler *s, uint64_t late) {
    uint64_t before = s->waited_ns;
    if (late <= SPP_LINUX_LATE_NS || !spp_linux_thread_waited(spp_os_tid(), &s->files, &s->waited_ns)) return late;
    return s->waited_ns - before < late ? s->waited_ns - before : late;
}

/* A sampler: draws an instant, sleeps, looks. */
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
        uint64_t now = spp_os_now_ns(), late = now > due ? now - due : 0, waited = waited_of(s, late);
        spp_linux_look l = {.by = (uint32_t)(s - samplers),
                            .process = process,
                            .files = &s->files,
                            .random = &look_random,
                            .late_ns = late > STOOD_NS ? late : waited,
                            .here = sched_getcpu(),
                            .own_ns = s->own_ns};
        spp_spin_lock_politely(&spp_linux_targets.lock);
        bool first = due > looks.ended_ns; /* else another sampler looked since, and this one is too late */
        if (first) take_look(&l, due, now);
        bool wakes = first && begin_turns(waited);
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
        atomic_store(&stretched_ns, 0);
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

SPP_HOT uint64_t spp_linux_samplers_stretched_ns(void) { return atomic_load_explicit(&stretched_ns, memory_order_relaxed); }

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
