#include "core/capture/capture.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "base/hints.h"
#include "base/random.h"
#include "core/capture/labels.h"
#include "os/clock.h"
#include "os/memory.h"

spp_capture spp_cap;
spp_thread *spp_threads;
_Atomic uint32_t spp_threads_used;
_Atomic uint64_t spp_pending[SPP_THREADS_MAX / 64];
uint32_t *spp_cycles;
_Atomic uint64_t spp_cycles_count;

#define PATIENCE_MIN 8u /* see look() */

/* A counter with one writer needs no locked instruction. */
#define BUMP(counter, n) \
    atomic_store_explicit(&(counter), atomic_load_explicit(&(counter), memory_order_relaxed) + (n), memory_order_relaxed)

int spp_capture_init(void) {
    if (spp_threads != NULL) return 0;
    spp_threads = spp_os_pages(SPP_THREADS_MAX * sizeof(spp_thread));
    spp_cycles = spp_os_pages(SPP_CYCLES_KEPT * sizeof(uint32_t));
    return spp_threads != NULL && spp_cycles != NULL ? 0 : -1;
}

/* Handler. Whether a pointer that came with a signal is a slot of ours. */
bool spp_capture_valid(const void *cookie) {
    uintptr_t at = (uintptr_t)cookie, base = (uintptr_t)spp_threads;
    uintptr_t used = atomic_load_explicit(&spp_threads_used, memory_order_acquire);
    return at >= base && at < base + used * sizeof(spp_thread) && (at - base) % sizeof(spp_thread) == 0;
}

/* One block: two stacks of the handler, four paths of ids. Kept when the slot is used again for stacks no deeper. */
static int make_stacks(spp_thread *t) {
    uint32_t depth = spp_cap.max_depth + (spp_cap.native != SPP_NATIVE_OFF ? SPP_NATIVE_MAX : 0);
    size_t stack = depth * sizeof(spp_frame), ids = (depth + 2u) * sizeof(uint32_t), bytes = 2 * stack + 4 * ids;
    if (t->watch.block_depth >= depth) return 0;
    uint8_t *block = spp_os_pages(bytes);
    if (block == NULL) return -1;
    spp_os_pages_free(t->watch.block, t->watch.block_bytes);
    t->watch.block = block;
    t->watch.block_bytes = bytes;
    t->watch.block_depth = depth;
    t->tick.now = (spp_frame *)(void *)block;
    t->tick.prev = (spp_frame *)(void *)(block + stack);
    t->queued.path = (uint32_t *)(void *)(block + 2 * stack);
    t->file.nodes = (uint32_t *)(void *)(block + 2 * stack + ids);
    t->file.frames = (uint32_t *)(void *)(block + 2 * stack + 2 * ids);
    t->wall.path = (uint32_t *)(void *)(block + 2 * stack + 3 * ids);
    return 0;
}

/* All that a weight is made of. What was open before is in no sample: where samples stand for what passes between two, it may be
 * less than nothing, and to give it to those to come would shift time over the gap. */
static void begin_tick(spp_thread_tick *t, uint64_t now, uint64_t cpu) {
    t->last_ns = now;
    t->given_ns = t->spread_cpu = t->begun_cpu = cpu;
    t->spread_ran = t->spread_stood = t->unseen_ns = t->begun_taken = 0;
    t->period_ns = spp_cap.interval_ns;
    t->until_sync = 0;
    t->owed = t->in_user = t->row = 0;
    t->patience = PATIENCE_MIN;
    t->ahead_ns = 0;
    t->group_cpu = t->tick_ns = t->last_tick_ns = 0;
}

/* Not `busy`: a late signal may be in its handler. */
static void reset_tick(spp_thread_tick *t, uint64_t now, uint64_t cpu, uint64_t seed) {
    begin_tick(t, now, cpu);
    t->epoch = 0;
    t->prev_depth = 0;
    t->random = (now ^ seed << 32) * 0x9E3779B97F4A7C15u | 1u;
    memset(t->known, 0, sizeof t->known);
    t->ticks = t->taken = t->truncated = t->unpaired = t->gaps = 0;
    for (int i = 0; i < SPP_LOSS_COUNT; i++) t->losses[i] = 0;
    t->tstate = t->stack_end = 0;
    t->stack = (spp_os_stack){0, 0};
    if (t->native != NULL) t->native->most = spp_native_most(spp_cap.interval_ns);
}

static void reset_watch(spp_thread_watch *w, uint64_t cpu) {
    w->cpu_start = w->last_cpu = cpu;
    w->last_ticks = 0;
    w->exec_disarmed_ns = w->blocked_ns = 0;
    w->ends = w->gone = false;
}

/* Its repeats were written. */
static void begin_wall(spp_thread_wall *w, uint64_t now, uint64_t cpu) {
    w->look_ns = w->written_ns = now;
    w->look_cpu = cpu;
    w->off_ns = 0;
    w->due_ns = 0;
    w->stands = w->cut = false;
    w->repeats = 0;
}

static void reset_wall(spp_thread_wall *w, uint64_t now, uint64_t cpu) {
    begin_wall(w, now, cpu);
    w->stood = w->repeated = 0;
}

static void reset_file(spp_thread_file *f) {
    f->depth = 0;
    f->nodes[0] = 0;
    f->us = f->pace = f->value_us = 0;
    f->carry_ns = 0;
}

static void reset_sources(spp_thread *t) {
    for (int i = 0; i < SPP_SOURCE_COUNT; i++) {
        spp_thread_source *s = &t->sources[i];
        s->event = (spp_os_event){-1, 0};
        s->before = s->given = s->taken = 0;
        for (int k = 0; k < SPP_LOSS_COUNT; k++) s->losses[k] = 0;
    }
}

int spp_capture_prepare(spp_thread *t, int32_t tid, uint32_t id, const spp_clock *clock) {
    if (make_stacks(t) != 0 || spp_queue_make(&t->tick.queue) != 0) return -1;
    if (spp_cap.native != SPP_NATIVE_OFF && t->tick.native == NULL) {
        t->tick.native = spp_os_pages(sizeof *t->tick.native);
        if (t->tick.native == NULL) return -1;
    }
    uint64_t now = spp_os_now_ns(), cpu = 0;
    (void)spp_os_thread_cpu_ns(tid, &cpu);
    t->tid = tid;
    t->trigger = (spp_os_trigger){.perf_fd = -1};
    t->id = id;
    t->clock = clock;
    reset_tick(&t->tick, now, cpu, (uint32_t)tid);
    reset_watch(&t->watch, cpu);
    reset_wall(&t->wall, now, cpu);
    t->queued.cut = false;
    t->queued.round = 0;
    reset_file(&t->file);
    reset_sources(t);
    return 0;
}

void spp_capture_begin(spp_thread *t, uint64_t cpu) {
    uint64_t now = spp_os_now_ns();
    begin_tick(&t->tick, now, cpu);
    t->tick.begun_taken = atomic_load_explicit(&t->tick.taken, memory_order_relaxed);
    t->watch.cpu_start = cpu - atomic_load_explicit(&t->tick.ticks, memory_order_relaxed) * spp_cap.interval_ns;
    t->watch.last_cpu = cpu;
    t->watch.last_ticks = atomic_load_explicit(&t->tick.ticks, memory_order_relaxed);
    t->queued.round = 0;
    begin_wall(&t->wall, now, cpu);
}

bool spp_capture_from_birth(spp_thread *t) {
    if (t->clock->weight != SPP_WEIGHT_INSTANTS || t->watch.cpu_start >= spp_cap.interval_ns) return false;
    t->tick.unseen_ns = t->watch.cpu_start;
    t->watch.cpu_start = t->tick.given_ns = t->tick.begun_cpu = 0;
    return true;
}

/* Records hold nothing but values, and what is given back here. Only an armed trigger has a descriptor. */
void spp_capture_child(void) {
    uint32_t used = atomic_load(&spp_threads_used);
    for (uint32_t i = 0; i < used; i++) {
        spp_thread *t = &spp_threads[i];
        if (t->state == SPP_THREAD_ARMED) {
            spp_os_trigger_drop(&t->trigger);
            for (int k = 0; k < SPP_SOURCE_COUNT; k++) spp_os_event_drop(&t->sources[k].event);
        }
        spp_os_pages_free(t->watch.block, t->watch.block_bytes);
        spp_os_pages_free(t->tick.native, sizeof *t->tick.native);
        spp_queue_free(&t->tick.queue);
        memset((void *)t, 0, sizeof *t);
    }
    for (size_t i = 0; i < sizeof spp_pending / sizeof *spp_pending; i++)
        atomic_store_explicit(&spp_pending[i], 0, memory_order_relaxed);
    atomic_store(&spp_threads_used, 0);
    atomic_store(&spp_cap.active, 0);
    atomic_store(&spp_cap.bell.rung, 0);
}

static SPP_COLD void lose(spp_thread *t, enum spp_loss reason, uint64_t n) {
    atomic_fetch_add_explicit(&t->tick.losses[reason], n, memory_order_relaxed);
}

/* ---- time */

#define FASTEST_NS 100000u /* intervals below are not made much shorter: a machine may be at its end */

static void miss(spp_thread *t, enum spp_loss reason, uint64_t n) {
    lose(t, reason, n);
    BUMP(t->tick.ticks, n);
}

/* Handler. A tick takes at most a quarter of what its thread runs. One may take more than an interval: 200 us under strace or
 * another kernel's emulation, as much on a stack of 4,000 frames. Then a thread would run nothing but its ticks. */
#define TICKS_LEAST 4u
static inline uint64_t least_period(const spp_thread *t) { return TICKS_LEAST * t->tick.tick_ns; }

/* Handler. Why ticks came more rarely than asked for, where there is no other `reason`. */
static enum spp_loss rarely(const spp_thread *t, enum spp_loss reason) {
    return least_period(t) > spp_cap.interval_ns ? SPP_LOSS_slow_tick : reason;
}

/* Handler. What the CPU clock says that ticks fell short by: the kernel merged some with the next one, or lost a piece of a
 * period each time that the thread left a processor. Some are owed: groups to come make up for them. The others are lost. */
static SPP_COLD void count_missed(spp_thread *t, uint64_t cpu) {
    uint64_t due = (cpu - t->watch.cpu_start) / spp_cap.interval_ns,
             ticks = atomic_load_explicit(&t->tick.ticks, memory_order_relaxed) + 1;
    uint64_t owed = due > ticks ? due - ticks : 0;
    if (owed > SPP_OWED_MOST) {
        miss(t, rarely(t, SPP_LOSS_overrun), owed - SPP_OWED_MOST);
        owed = SPP_OWED_MOST;
    }
    atomic_store_explicit(&t->tick.owed, (uint32_t)owed, memory_order_relaxed);
}

/* Handler. Begins a group of ticks with a period drawn from the interval -20 % .. +20 %, around what brings the thread back
 * to one tick an interval. So no program stays in step with its ticks, a group's samples spread over every phase of a
 * short loop, and the rate is kept. The kernel takes at least 10 us. */
static SPP_COLD void begin_group(spp_thread *t, uint64_t cpu) {
    uint64_t interval = spp_cap.interval_ns, group = spp_cap.group;
    uint64_t due = t->watch.cpu_start + (atomic_load_explicit(&t->tick.ticks, memory_order_relaxed) + 1 + group) * interval;
    uint64_t centre = due > cpu ? (due - cpu) / group : 0, faster = interval / (interval < FASTEST_NS ? 10 : 5);
    if (centre < interval - faster) centre = interval - faster;
    if (centre > interval * 11 / 10) centre = interval * 11 / 10;
    if (centre < least_period(t)) centre = interval = least_period(t);
    uint64_t period = centre - interval / 5 + spp_random_below(&t->tick.random, interval * 2 / 5);
    if (period < 10000) period = 10000;
    t->tick.period_ns = period;
    t->tick.until_sync = (uint32_t)group - 1;
    t->tick.group_cpu = cpu;
    spp_os_trigger_period(&t->trigger, period);
}

/* Handler. At the end of a tick that began a group. */
static SPP_COLD void time_tick(spp_thread *t) {
    uint64_t cost = spp_os_own_cpu_ns() - t->tick.group_cpu;
    t->tick.tick_ns = cost < t->tick.last_tick_ns ? cost : t->tick.last_tick_ns;
    t->tick.last_tick_ns = cost;
    t->tick.group_cpu = 0;
}

/* Handler. A tick of the perf clocks. The CPU clock is read (0.17 us) at each tick below 2.5 kHz; above, at every eighth, and
 * whenever the wall clock shows that more than a tick may have passed. Else the tick stands for the period that the kernel
 * was told. */
#define SYNC_ALWAYS_NS 400000u
static void weigh_perf(spp_thread *t, uint64_t now, uint64_t *weight, uint64_t *new_given) {
    bool kernel = t->clock->kernel, new_group = t->tick.until_sync == 0;
    /* The kernel's event counts time that the CPU clock does not (time stolen from a virtual machine): half a tick at the
     * most is taken off each until the two agree again. */
    uint64_t off = t->tick.ahead_ns < t->tick.period_ns / 2 ? t->tick.ahead_ns : t->tick.period_ns / 2;
    t->tick.ahead_ns -= off;
    *weight = t->tick.period_ns - off;
    *new_given = t->tick.given_ns + *weight;
    if (!new_group) t->tick.until_sync--;
    bool often = t->tick.period_ns >= SYNC_ALWAYS_NS || (t->tick.until_sync & 7u) == 0;
    bool gap = now - t->tick.last_ns > t->tick.period_ns + t->tick.period_ns / 2;
    if (!new_group && !(kernel && (often || gap))) return;
    uint64_t cpu = spp_os_own_cpu_ns();
    if (kernel) { /* else time in the kernel is not this tick's: the remainder timer gives it */
        *new_given = cpu > t->tick.given_ns ? cpu : t->tick.given_ns;
        *weight = *new_given - t->tick.given_ns;
        t->tick.ahead_ns = *new_given - cpu;
        if (new_group) count_missed(t, cpu);
    } else if (*new_given > cpu) {
        t->tick.ahead_ns = *new_given - cpu;
    }
    if (new_group) begin_group(t, cpu);
}

/* Handler. Clock `signal`: its instants are drawn from wall time, so each stands for as much as any other, `stands` of it and
 * `ticks` of them. Were it all that ran since the last one, a burst's beginning would get what the burst before had left. How
 * much CPU time they come to is learned from those before; what is over or wanting, by chance or because ticks were lost, is
 * spread over those to come: thinly, so that samples stay worth the same, but over few in a thread's first ticks, since its life
 * may be short. Where no tick came for long, the thread ran where this one meets it, most likely. */
#define SPREAD_LEAST 8u
#define SPREAD_MOST 64u
#define SPREAD_NS 6400000u /* over no more than come in such a time: what is left when the thread ends is in no sample */
#define LONG 16            /* intervals ... */
#define LONG_NS 6400000    /* ... and nanoseconds: for less, it may only be that others had the processor */
#define BELIEVED 16u       /* so many come to an interval each, before there were any */
#define REMEMBERED 512u

/* Handler. The CPU time that usually passes while a sample stands for a nanosecond. */
static double worth(const spp_thread_tick *t) {
    uint64_t believed = BELIEVED * spp_cap.interval_ns;
    return (double)(t->spread_ran + believed) / (double)(t->spread_stood + believed);
}

static uint64_t spread_weight(spp_thread *t, uint64_t cpu, uint64_t stands, uint32_t ticks) {
    spp_thread_tick *tick = &t->tick;
    uint64_t interval = spp_cap.interval_ns, ran = cpu - atomic_load_explicit(&tick->spread_cpu, memory_order_relaxed);
    uint64_t taken = atomic_load_explicit(&tick->taken, memory_order_relaxed) - tick->begun_taken;
    bool gap = ran > LONG_NS && (double)ran > LONG * worth(tick) * (double)stands;
    atomic_store_explicit(&tick->spread_cpu, cpu, memory_order_relaxed);
    if (!gap) tick->spread_ran += ran; /* a gap says nothing of what others are worth */
    int64_t each = (int64_t)((double)stands * worth(tick)), open = (int64_t)(cpu - tick->given_ns);
    int64_t weight = gap ? (int64_t)ran : ticks * each;
    uint64_t spread = taken / 4, most = SPREAD_NS / interval;
    if (most > SPREAD_MOST) most = SPREAD_MOST;
    if (spread > most) spread = most;
    if (spread < SPREAD_LEAST) spread = SPREAD_LEAST;
    if (!gap) tick->spread_stood += ticks * stands;
    if (tick->spread_stood > REMEMBERED * interval) {
        tick->spread_ran /= 2;
        tick->spread_stood /= 2;
    }
    if (gap) open -= weight;
    if (taken == 0) {
        weight += (int64_t)tick->unseen_ns;
        open -= (int64_t)tick->unseen_ns;
    }
    weight += open / (int64_t)spread; /* not less `each`: threads that live for few ticks would be given too little */
    return (uint64_t)(weight > each / 8 ? weight : each / 8 + 1);
}

/* Where a clock ends, what is open is settled with its last samples (resolve.h). Not of one that ends so soon that it may have
 * had no tick: those that had none cannot be given what they ran, and others have as much too much. */
#define LIFE_LEAST 32

int64_t spp_capture_open(const spp_thread *t, uint64_t cpu, bool exact) {
    uint64_t last = t->tick.spread_cpu, each = (uint64_t)((double)spp_cap.interval_ns * worth(&t->tick));
    if (t->clock->weight != SPP_WEIGHT_INSTANTS || t->tick.row != 0) return 0;
    /* An instant that does not depend on ticks is as far from the last one as they are from each other. */
    if ((!exact || cpu - last > LONG * each) && cpu > last + each) cpu = last + each;
    return cpu - t->tick.begun_cpu < LIFE_LEAST * each ? 0 : (int64_t)(cpu - t->tick.given_ns);
}

/* Handler. Its sampler makes up for what is owed, and is told how often the thread can bear ticks. */
static void keep_pace(spp_thread *t, uint64_t cpu) {
    count_missed(t, cpu);
    if (t->tick.until_sync-- != 0) return;
    uint64_t least = least_period(t);
    t->tick.until_sync = 15;
    t->tick.group_cpu = cpu;
    t->tick.period_ns = least > spp_cap.interval_ns ? least : spp_cap.interval_ns;
    spp_os_trigger_period(&t->trigger, t->tick.period_ns);
}

/* Looks of the remainder timer, 4 ms of CPU time each, after which time that no system call explains (our own signals, page
 * faults, interrupts) goes to what runs: four times as many as it last took to meet a system call. */
#define PATIENCE_MAX 64u

/* Handler. Whether this look may give the kernel's remainder to the stack that it finds. */
static SPP_COLD bool look(spp_thread *t, bool at_syscall) {
    t->tick.in_user++;
    if (!at_syscall && t->tick.in_user < t->tick.patience) return false;
    if (at_syscall) {
        uint32_t patience = 4 * t->tick.in_user;
        t->tick.patience = patience < PATIENCE_MIN ? PATIENCE_MIN : patience > PATIENCE_MAX ? PATIENCE_MAX : patience;
    }
    t->tick.in_user = 0;
    return true;
}

/* Handler. The CPU clock of the thread that the tick is for. */
static inline uint64_t cpu_clock(const spp_os_context *context) {
    return spp_rare(context->subject != NULL) ? context->subject->cpu_ns : spp_os_own_cpu_ns();
}

/* Handler. The weight of this tick: nanoseconds of CPU time since the last sample. `*new_given` is what given_ns becomes if the
 * sample is kept; if not, its time falls to the next one. Returns false if there is nothing to give. */
static bool weigh(spp_thread *t, spp_tick kind, const spp_os_context *context, uint64_t now, uint64_t *weight,
                  uint64_t *new_given) {
    if (t->clock->weight == SPP_WEIGHT_PERIOD && kind == SPP_TICK_CPU) {
        weigh_perf(t, now, weight, new_given);
        return true;
    }
    if (kind == SPP_TICK_REMAINDER && !look(t, context->at_syscall)) return false;
    uint64_t cpu = cpu_clock(context);
    *new_given = cpu > t->tick.given_ns ? cpu : t->tick.given_ns;
    *weight = *new_given - t->tick.given_ns;
    if (kind == SPP_TICK_REMAINDER) return *weight >= spp_cap.interval_ns / 2;
    if (t->clock->weight == SPP_WEIGHT_INSTANTS) {
        uint64_t stands = context->stands_ns > spp_cap.interval_ns ? context->stands_ns : spp_cap.interval_ns;
        *weight = spread_weight(t, cpu, stands, 1 + context->more);
        *new_given = t->tick.given_ns + *weight;
        keep_pace(t, cpu);
        return true;
    }
    uint64_t due = (cpu - t->watch.cpu_start) / spp_cap.interval_ns,
             handled = atomic_load_explicit(&t->tick.ticks, memory_order_relaxed);
    /* Looks of a sampler fall anywhere in their intervals: one of them may be a whole interval after the last without any lost.
     */
    uint64_t usual = t->clock->looks ? 2 : 1;
    if (due > handled + usual) miss(t, SPP_LOSS_overrun, due - handled - usual);
    return true;
}

/* ---- the stack */

/* Handler. How many frames at the root are those of the previous sample. Equal address means equal code object while no
 * code object died in between (epoch). */
static uint32_t common_root(const spp_thread *t, uint32_t depth) {
    uint32_t least = depth < t->tick.prev_depth ? depth : t->tick.prev_depth;
    const spp_frame *a = t->tick.now + depth, *b = t->tick.prev + t->tick.prev_depth;
    uint32_t n = 0;
    for (; n + 4 <= least; n += 4, a -= 4, b -= 4) { /* one branch for four */
        if (((a[-1] ^ b[-1]) | (a[-2] ^ b[-2]) | (a[-3] ^ b[-3]) | (a[-4] ^ b[-4])) != 0) break;
    }
    for (; n < least && *--a == *--b; n++) {}
    return n;
}

/* Handler. Writes the record; false if the queue is full. */
static bool push(spp_thread *t, const spp_walk *w, uint64_t now, uint64_t weight, uint32_t flags) {
    uint32_t depth = w->depth, fresh = depth - common_root(t, depth), head = SPP_RECORD_WORDS;
    uint64_t label = spp_rare(atomic_load_explicit(&spp_labels.used, memory_order_relaxed)) ? spp_label_own(w->tstate) : 0;
    if (spp_rare(label != 0)) head++;
    uint32_t words = head + fresh;
    if (!spp_queue_room(&t->tick.queue, words)) return false;
    spp_queue_put(&t->tick.queue, 0, now);
    spp_queue_put(&t->tick.queue, 1, weight);
    spp_queue_put(&t->tick.queue, 2,
                  depth | (uint64_t)(flags | w->flags) << 16 | (uint64_t)fresh << 32 | (uint64_t)(head - SPP_RECORD_WORDS) << 48);
    if (spp_rare(label != 0)) spp_queue_put(&t->tick.queue, SPP_RECORD_WORDS, label);
    for (uint32_t i = 0; i < fresh; i++) {
        spp_queue_put(&t->tick.queue, head + i, t->tick.now[fresh - 1 - i]);
    }
    spp_queue_publish(&t->tick.queue, words);
    spp_capture_mark(t);
    spp_frame *swap = t->tick.now;
    t->tick.now = t->tick.prev;
    t->tick.prev = swap;
    t->tick.prev_depth = depth;
    return true;
}

void spp_capture_stack(spp_thread *t, const spp_os_context *context, spp_walk *walk) {
    walk->sp = context->sp - SPP_RED_ZONE;
    bool known = context->sp >= t->tick.stack.low && context->sp < t->tick.stack.end; /* without a call */
    if (spp_rare(!known) && !spp_os_stack_known(context, &t->tick.stack)) return;
    walk->stack_low = t->tick.stack.low;
    walk->stack_end = t->tick.stack.end;
    if (spp_rare(atomic_load_explicit(&t->tick.stack_end, memory_order_relaxed) != t->tick.stack.end)) {
        atomic_store_explicit(&t->tick.stack_end, t->tick.stack.end, memory_order_relaxed);
    }
}

/* Handler. What flags a sample has before it is walked. Kernel time comes by the kernel's tick too. */
static inline uint32_t flags_of(const spp_thread *t, const spp_os_context *context, bool counts) {
    bool coarse = context->coarse || t->clock->coarse;
    if (spp_rare(coarse)) return SPP_SAMPLE_COARSE;
    return counts ? 0 : SPP_SAMPLE_KERNEL;
}

/* Handler. Walks and pushes; returns the loss or SPP_LOSS_NONE. Inline: a tick of time shall pay for no call. */
static inline __attribute__((always_inline)) enum spp_loss sample(spp_thread *t, const spp_os_context *context, uint64_t now,
                                                                  uint64_t weight, uint32_t flags) {
    uint32_t epoch = atomic_load_explicit(&spp_cap.epoch, memory_order_acquire);
    if (spp_rare(epoch != t->tick.epoch)) {
        t->tick.epoch = epoch;
        t->tick.prev_depth = 0;
    }
    /* Each field is named: what is left out has gcc clear the whole by `rep stos`, which takes 40 cycles to begin. */
    spp_walk walk = {.tstate = spp_cap.thread_state(context->subject),
                     .sp = 0,
                     .stack_low = 0,
                     .stack_end = 0,
                     .epoch = epoch,
                     .known = t->tick.known,
                     .out = t->tick.now,
                     .max = spp_cap.max_depth,
                     .anchors = NULL,
                     .anchors_max = 0,
                     .depth = 0,
                     .flags = 0,
                     .anchors_n = 0};
    atomic_store_explicit(&t->tick.tstate, walk.tstate, memory_order_relaxed);
    spp_capture_stack(t, context, &walk);
    enum spp_loss loss = spp_rare(spp_cap.native != SPP_NATIVE_OFF)
                             ? spp_frames_native_own(t->tick.native, &walk, context, spp_cap.native)
                             : spp_frames_own(&walk);
    if (spp_rare(loss != SPP_LOSS_NONE)) return loss;
    if (!push(t, &walk, now, weight, flags)) return SPP_LOSS_queue_full;
    if (spp_rare(walk.flags != 0)) {
        if (walk.flags & SPP_SAMPLE_TRUNCATED) BUMP(t->tick.truncated, 1);
        if (walk.flags & SPP_SAMPLE_UNPAIRED) BUMP(t->tick.unpaired, 1);
        if (walk.flags & SPP_SAMPLE_GAP) BUMP(t->tick.gaps, 1);
    }
    return SPP_LOSS_NONE;
}

/* The time of so many ticks in a row, that gave no sample, may fall to the next one; that of more is nobody's known. */
#define ROW_MOST 7u

/* Handler. A sample of the time since the last one, in which the thread may have been anywhere. */
static SPP_COLD enum spp_loss sample_unknown(spp_thread *t, uint64_t now, uint64_t weight, uint32_t flags) {
    spp_walk walk = {.depth = 1};
    t->tick.now[0] = SPP_UNKNOWN_STACK;
    return push(t, &walk, now, weight, flags) ? SPP_LOSS_NONE : SPP_LOSS_queue_full;
}

/* Handler. A new Python thread shows in the interpreter's count at once; the watch is woken to arm it. */
static void notice_births(void) {
    uint64_t *births = atomic_load_explicit(&spp_cap.births, memory_order_relaxed);
    if (births == NULL) return;
    uint64_t count = *(volatile uint64_t *)births;
    if (spp_rare(count != spp_cap.births_seen)) {
        spp_cap.births_seen = count; /* a lost race rings twice or leaves it to the next tick */
        spp_os_bell_ring(&spp_cap.bell);
    }
}

/* A tick in the midst of another one's sample, or of a hook's: that one goes on, and is the queue's only producer. */
static SPP_COLD __attribute__((noinline)) void not_entered(spp_thread *t, spp_source_id source, uint32_t was) {
    if (was == 0)
        atomic_store_explicit(&t->tick.busy, 0, memory_order_release);
    else if (source == SPP_SOURCE_TIME)
        miss(t, SPP_LOSS_in_hook, 1);
    else
        atomic_fetch_add_explicit(&t->sources[source].losses[SPP_LOSS_in_hook], 1, memory_order_relaxed);
}

/* Handler, or hook. Whether the run and the thread's record stand until leave(), and nobody on this thread is within them. */
static inline __attribute__((always_inline)) bool enter(spp_thread *t, spp_source_id source) {
    uint32_t was = atomic_exchange_explicit(&t->tick.busy, 1, memory_order_seq_cst);
    /* stop() clears `active`, whoever disarms changes `state`, then they wait for `busy`: one of the two sees the other. */
    bool stands = (was | (atomic_load_explicit(&spp_cap.active, memory_order_seq_cst) ^ 1u) |
                   (atomic_load_explicit(&t->state, memory_order_seq_cst) ^ SPP_THREAD_ARMED)) == 0;
    if (spp_rare(!stands)) not_entered(t, source, was);
    return stands;
}

static inline void leave(spp_thread *t) { atomic_store_explicit(&t->tick.busy, 0, memory_order_release); }

/* Handler. A tick without a walk, counted with next to no stack. Its time falls to the next sample. */
static SPP_COLD __attribute__((noinline)) void refuse(spp_thread *t, enum spp_loss reason) {
    if (!enter(t, SPP_SOURCE_TIME)) return;
    miss(t, reason, 1);
    t->tick.row++;
    leave(t);
}

/* Handler, or hook, entered. */
static __attribute__((noinline)) bool take_amount(spp_thread *t, spp_source_id source, uint64_t amount,
                                                  const spp_os_context *context) {
    spp_thread_source *s = &t->sources[source];
    enum spp_loss loss = sample(t, context, spp_os_now_ns(), amount, (uint32_t)source << SPP_SOURCE_SHIFT);
    if (loss == SPP_LOSS_NONE)
        BUMP(s->taken, 1);
    else
        atomic_fetch_add_explicit(&s->losses[loss], 1, memory_order_relaxed);
    if (spp_queue_crowded(&t->tick.queue)) spp_os_bell_ring(&spp_cap.bell);
    notice_births();
    return loss == SPP_LOSS_NONE;
}

static SPP_HOT __attribute__((noinline)) void take(spp_thread *t, spp_tick kind, const spp_os_context *context) {
    uint64_t began = spp_os_cycles();
    if (!enter(t, SPP_SOURCE_TIME)) return;
    uint64_t now = spp_os_now_ns(), weight, given;
    bool counts = kind != SPP_TICK_REMAINDER;
    if (!weigh(t, kind, context, now, &weight, &given)) goto out;
    if (counts) BUMP(t->tick.ticks, 1 + context->more);
    t->tick.last_ns = now;
    uint32_t flags = flags_of(t, context, counts);
    enum spp_loss loss =
        spp_rare(t->tick.row >= ROW_MOST) ? sample_unknown(t, now, weight, flags) : sample(t, context, now, weight, flags);
    if (spp_usual(loss == SPP_LOSS_NONE)) {
        t->tick.given_ns = given;
        t->tick.row = 0;
        BUMP(t->tick.taken, 1);
        if (spp_rare(context->more != 0)) lose(t, SPP_LOSS_in_kernel, context->more); /* their time is this sample's */
        if (!counts) {
            /* A remainder sample stands for the ticks that fell inside the kernel: one is taken, the rest are counted. */
            BUMP(t->tick.ticks, 1);
            uint64_t due = (given - t->watch.cpu_start) / spp_cap.interval_ns;
            uint64_t handled = atomic_load_explicit(&t->tick.ticks, memory_order_relaxed);
            if (due > handled) miss(t, rarely(t, SPP_LOSS_in_kernel), due - handled);
        }
        if (spp_queue_crowded(&t->tick.queue)) spp_os_bell_ring(&spp_cap.bell);
    } else if (counts) {
        lose(t, loss, 1 + context->more);
        t->tick.row++;
    }
    notice_births();
    if (spp_rare(t->tick.group_cpu != 0)) time_tick(t);
out:
    leave(t);
    uint64_t n = atomic_load_explicit(&spp_cycles_count, memory_order_relaxed);
    BUMP(spp_cycles_count, 1); /* two at once may leave one figure out */
    spp_cycles[n % SPP_CYCLES_KEPT] = (uint32_t)(spp_os_cycles() - began);
}

bool spp_capture_take(spp_thread *t, spp_source_id source, uint64_t amount, const spp_os_context *context) {
    if (!enter(t, source)) return false;
    bool kept = take_amount(t, source, amount, context);
    leave(t);
    return kept;
}

/* Handler. The counter says more exactly than ticks what a sample stands for: those of a system call come as one. */
static SPP_COLD __attribute__((noinline)) void take_event(spp_thread *t, const spp_os_context *context) {
    spp_thread_source *s = &t->sources[context->source];
    if (!enter(t, (spp_source_id)context->source)) return;
    uint64_t count, given = atomic_load_explicit(&s->given, memory_order_relaxed);
    if (spp_os_event_count(&s->event, &count) == 0 && count > given &&
        take_amount(t, (spp_source_id)context->source, count - given, context))
        atomic_store_explicit(&s->given, count, memory_order_relaxed);
    leave(t);
}

SPP_HOT void spp_capture_tick(void *cookie, spp_tick kind, const spp_os_context *context) {
    spp_thread *t = cookie;
    if (atomic_load_explicit(&spp_cap.active, memory_order_acquire) != 1) return;
    if (atomic_load_explicit(&t->state, memory_order_acquire) != SPP_THREAD_ARMED) return;
    if (spp_rare(kind >= SPP_TICK_EVENT)) {
        if (kind == SPP_TICK_EVENT)
            take_event(t, context);
        else
            refuse(t, kind == SPP_TICK_REFUSED ? SPP_LOSS_not_suspended : SPP_LOSS_no_stack);
    } else {
        take(t, kind, context);
    }
}

void spp_capture_wait(void) {
    uint32_t used = atomic_load_explicit(&spp_threads_used, memory_order_acquire);
    for (uint32_t i = 0; i < used; i++) {
        while (atomic_load(&spp_threads[i].tick.busy) != 0) spp_os_sleep_until(spp_os_now_ns() + 50000);
    }
}
