#include "core/capture.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "base/hints.h"
#include "core/labels.h"

spp_capture spp_cap;
spp_thread *spp_threads;
_Atomic uint32_t spp_threads_used;
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

int spp_capture_prepare(spp_thread *thread, int32_t tid, uint32_t id, spp_clock clock) {
    uint32_t depth = spp_cap.max_depth + (spp_cap.native != SPP_NATIVE_OFF ? SPP_NATIVE_MAX : 0);
    size_t stack = depth * sizeof(spp_frame), ids = (depth + 2u) * sizeof(uint32_t);
    /* One block: two stacks of the handler, four paths of ids. Kept when the slot is used again for stacks no deeper. */
    if (thread->block_depth < depth) {
        uint8_t *block = spp_os_pages(2 * stack + 4 * ids);
        if (block == NULL) return -1;
        spp_os_pages_free(thread->block, thread->block_bytes);
        thread->block = block;
        thread->block_bytes = 2 * stack + 4 * ids;
        thread->block_depth = depth;
        thread->now = (spp_frame *)(void *)block;
        thread->prev = (spp_frame *)(void *)(block + stack);
        thread->path = (uint32_t *)(void *)(block + 2 * stack);
        thread->nodes = (uint32_t *)(void *)(block + 2 * stack + ids);
        thread->node_frames = (uint32_t *)(void *)(block + 2 * stack + 2 * ids);
        thread->stood_path = (uint32_t *)(void *)(block + 2 * stack + 3 * ids);
    }
    if (spp_queue_make(&thread->queue) != 0) return -1;
    if (spp_cap.native != SPP_NATIVE_OFF && thread->native == NULL) {
        thread->native = spp_os_pages(sizeof *thread->native);
        if (thread->native == NULL) return -1;
    }
    if (thread->native != NULL) thread->native->most = spp_native_most(spp_cap.interval_ns);
    thread->tid = tid;
    thread->trigger = (spp_os_trigger){.perf_fd = -1};
    thread->id = id;
    thread->clock = clock;
    thread->epoch = 0;
    thread->prev_depth = 0;
    thread->last_ns = spp_os_now_ns();
    thread->cpu_start = 0;
    (void)spp_os_thread_cpu_ns(tid, &thread->cpu_start);
    thread->given_ns = thread->cpu_start;
    thread->period_ns = spp_cap.interval_ns;
    thread->until_sync = 0;
    thread->owed = thread->in_user = 0;
    thread->patience = PATIENCE_MIN;
    thread->ahead_ns = 0;
    thread->random = (thread->last_ns ^ ((uint64_t)(uint32_t)tid << 32)) * 0x9E3779B97F4A7C15u | 1u;
    memset(thread->known, 0, sizeof thread->known);
    thread->ticks = thread->taken = thread->truncated = thread->unpaired = thread->gaps = 0;
    thread->stood = thread->repeated = 0;
    thread->watched_cpu = thread->cpu_start;
    thread->watched_ticks = 0;
    for (int i = 0; i < SPP_LOSS_COUNT; i++) thread->losses[i] = 0;
    thread->tstate = thread->stack_sp = thread->stack_low = thread->stack_end = 0;
    thread->stands = false;
    thread->look_ns = thread->written_ns = thread->last_ns;
    thread->look_cpu = thread->cpu_start;
    thread->off_ns = 0;
    thread->due_ns = 0;
    thread->bare_ns = 0;
    thread->repeats = 0;
    thread->node_depth = 0;
    thread->nodes[0] = 0;
    thread->file_us = thread->file_pace = 0;
    thread->file_carry_ns = 0;
    return 0;
}

static SPP_COLD void lose(spp_thread *t, enum spp_loss reason, uint64_t n) {
    atomic_fetch_add_explicit(&t->losses[reason], n, memory_order_relaxed);
}

/* ---- time */

#define FASTEST_NS 100000u /* intervals below are not made much shorter: a machine may be at its end */

/* Handler. xorshift64*: enough to break step with any program; Vigna, "An experimental exploration of Marsaglia's xorshift
 * generators, scrambled", 2016. Returns a number in [0, 1) as a fraction of 2^32. */
static uint64_t draw(spp_thread *t) {
    t->random ^= t->random >> 12;
    t->random ^= t->random << 25;
    t->random ^= t->random >> 27;
    return (t->random * 0x2545F4914F6CDD1Du) >> 32;
}

static void miss(spp_thread *t, enum spp_loss reason, uint64_t n) {
    lose(t, reason, n);
    BUMP(t->ticks, n);
}

/* Handler. What the CPU clock says that ticks fell short by: the kernel merged some with the next one, or lost a piece of a
 * period each time that the thread left a processor. Some are owed: groups to come make up for them. The others are lost. */
static SPP_COLD void count_missed(spp_thread *t, uint64_t cpu) {
    uint64_t due = (cpu - t->cpu_start) / spp_cap.interval_ns, ticks = atomic_load_explicit(&t->ticks, memory_order_relaxed) + 1;
    uint64_t owed = due > ticks ? due - ticks : 0;
    if (owed > SPP_OWED_MOST) {
        miss(t, SPP_LOSS_overrun, owed - SPP_OWED_MOST);
        owed = SPP_OWED_MOST;
    }
    atomic_store_explicit(&t->owed, (uint32_t)owed, memory_order_relaxed);
}

/* Handler. Begins a group of ticks with a period drawn from the interval -20 % .. +20 %, around what brings the thread back
 * to one tick an interval. So no program stays in step with its ticks, a group's samples spread over every phase of a
 * short loop, and the rate is kept. The kernel takes at least 10 us. */
static SPP_COLD void begin_group(spp_thread *t, uint64_t cpu) {
    uint64_t interval = spp_cap.interval_ns, group = spp_cap.group;
    uint64_t due = t->cpu_start + (atomic_load_explicit(&t->ticks, memory_order_relaxed) + 1 + group) * interval;
    uint64_t centre = due > cpu ? (due - cpu) / group : 0, faster = interval / (interval < FASTEST_NS ? 10 : 5);
    if (centre < interval - faster) centre = interval - faster;
    if (centre > interval * 11 / 10) centre = interval * 11 / 10;
    uint64_t period = centre - interval / 5 + ((draw(t) * (interval * 2 / 5)) >> 32);
    if (period < 10000) period = 10000;
    t->period_ns = period;
    t->until_sync = (uint32_t)group - 1;
    spp_os_trigger_period(&t->trigger, period);
}

/* Handler. A tick of the perf clocks. The CPU clock is read (0.17 us) at each tick below 2.5 kHz; above, at every eighth, and
 * whenever the wall clock shows that more than a tick may have passed. Else the tick stands for the period that the kernel
 * was told. */
#define SYNC_ALWAYS_NS 400000u
static void weigh_perf(spp_thread *t, uint64_t now, uint64_t *weight, uint64_t *new_given) {
    bool kernel = t->clock == SPP_CLOCK_PERF, new_group = t->until_sync == 0;
    /* The kernel's event counts time that the CPU clock does not (time stolen from a virtual machine): half a tick at the
     * most is taken off each until the two agree again. */
    uint64_t off = t->ahead_ns < t->period_ns / 2 ? t->ahead_ns : t->period_ns / 2;
    t->ahead_ns -= off;
    *weight = t->period_ns - off;
    *new_given = t->given_ns + *weight;
    if (!new_group) t->until_sync--;
    bool often = t->period_ns >= SYNC_ALWAYS_NS || (t->until_sync & 7u) == 0;
    bool gap = now - t->last_ns > t->period_ns + t->period_ns / 2;
    if (!new_group && !(kernel && (often || gap))) return;
    uint64_t cpu = spp_os_own_cpu_ns();
    if (kernel) { /* else time in the kernel is not this tick's: the remainder timer gives it */
        *new_given = cpu > t->given_ns ? cpu : t->given_ns;
        *weight = *new_given - t->given_ns;
        t->ahead_ns = *new_given - cpu;
        if (new_group) count_missed(t, cpu);
    }
    if (new_group) begin_group(t, cpu);
}

/* Looks of the remainder timer, 4 ms of CPU time each, after which time that no system call explains (our own signals, page
 * faults, interrupts) goes to what runs: four times as many as it last took to meet a system call. */
#define PATIENCE_MAX 64u

/* Handler. Whether this look may give the kernel's remainder to the stack that it finds. */
static SPP_COLD bool look(spp_thread *t, bool at_syscall) {
    t->in_user++;
    if (!at_syscall && t->in_user < t->patience) return false;
    if (at_syscall) {
        uint32_t patience = 4 * t->in_user;
        t->patience = patience < PATIENCE_MIN ? PATIENCE_MIN : patience > PATIENCE_MAX ? PATIENCE_MAX : patience;
    }
    t->in_user = 0;
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
    if (t->clock < SPP_CLOCK_TIMER && kind == SPP_TICK_CPU) {
        weigh_perf(t, now, weight, new_given);
        return true;
    }
    if (kind == SPP_TICK_REMAINDER && !look(t, context->at_syscall)) return false;
    uint64_t cpu = cpu_clock(context);
    *new_given = cpu > t->given_ns ? cpu : t->given_ns;
    *weight = *new_given - t->given_ns;
    if (kind == SPP_TICK_REMAINDER) return *weight >= spp_cap.interval_ns / 2;
    uint64_t due = (cpu - t->cpu_start) / spp_cap.interval_ns, handled = atomic_load_explicit(&t->ticks, memory_order_relaxed);
    /* Looks of a sampler fall anywhere in their intervals: one of them may be a whole interval after the last without any lost.
     */
    uint64_t usual = t->clock >= SPP_CLOCK_SUSPEND ? 2 : 1;
    if (due > handled + usual) miss(t, SPP_LOSS_overrun, due - handled - usual);
    return true;
}

/* ---- the stack */

/* Handler. How many frames at the root are those of the previous sample. Equal address means equal code object while no
 * code object died in between (epoch). */
static uint32_t common_root(const spp_thread *t, uint32_t depth) {
    uint32_t least = depth < t->prev_depth ? depth : t->prev_depth;
    const spp_frame *a = t->now + depth, *b = t->prev + t->prev_depth;
    uint32_t n = 0;
    for (; n + 4 <= least; n += 4, a -= 4, b -= 4) { /* one branch for four */
        if (((a[-1] ^ b[-1]) | (a[-2] ^ b[-2]) | (a[-3] ^ b[-3]) | (a[-4] ^ b[-4])) != 0) break;
    }
    for (; n < least && *--a == *--b; n++) {}
    return n;
}

/* Handler. Writes the record; false if the queue is full. */
static bool push(spp_thread *t, const spp_walk *w, uint64_t now, uint64_t weight, uint32_t marks) {
    uint32_t depth = w->depth, fresh = depth - common_root(t, depth), head = SPP_RECORD_WORDS;
    uint64_t label = spp_rare(atomic_load_explicit(&spp_labels.used, memory_order_relaxed)) ? spp_label_own(w->tstate) : 0;
    if (spp_rare(label != 0)) head++;
    uint32_t words = head + fresh;
    if (!spp_queue_room(&t->queue, words)) return false;
    spp_queue_put(&t->queue, 0, now);
    spp_queue_put(&t->queue, 1, weight);
    spp_queue_put(&t->queue, 2,
                  depth | (uint64_t)(marks | w->marks) << 16 | (uint64_t)fresh << 32 | (uint64_t)(head - SPP_RECORD_WORDS) << 48);
    if (spp_rare(label != 0)) spp_queue_put(&t->queue, SPP_RECORD_WORDS, label);
    for (uint32_t i = 0; i < fresh; i++) {
        spp_queue_put(&t->queue, head + i, t->now[fresh - 1 - i]);
    }
    spp_queue_publish(&t->queue, words);
    spp_frame *swap = t->now;
    t->now = t->prev;
    t->prev = swap;
    t->prev_depth = depth;
    return true;
}

/* Handler. Walks and pushes; returns the loss or SPP_LOSS_NONE. */
static enum spp_loss sample(spp_thread *t, const spp_os_context *context, uint64_t now, uint64_t weight, uint32_t marks) {
    uint32_t epoch = atomic_load_explicit(&spp_cap.epoch, memory_order_acquire);
    if (spp_rare(epoch != t->epoch)) {
        t->epoch = epoch;
        t->prev_depth = 0;
    }
    spp_walk walk = {.tstate = spp_cap.thread_state(context->subject),
                     .sp = context->sp - SPP_RED_ZONE,
                     .stack_end = atomic_load_explicit(&t->stack_end, memory_order_relaxed),
                     .epoch = epoch,
                     .known = t->known,
                     .out = t->now,
                     .max = spp_cap.max_depth};
    atomic_store_explicit(&t->tstate, walk.tstate, memory_order_relaxed);
    if (spp_rare(walk.stack_end == 0)) {
        atomic_store_explicit(&t->stack_sp, context->sp, memory_order_relaxed);
    }
    enum spp_loss loss;
    if (spp_rare(spp_cap.native != SPP_NATIVE_OFF)) {
        uintptr_t low = atomic_load_explicit(&t->stack_low, memory_order_relaxed);
        if (spp_rare(walk.stack_end != 0 && (context->sp < low || context->sp >= walk.stack_end))) {
            /* It has grown, or is another one: the watch looks anew, and this sample is probed. */
            walk.stack_end = 0;
            atomic_store_explicit(&t->stack_sp, context->sp, memory_order_relaxed);
            atomic_store_explicit(&t->stack_end, 0, memory_order_relaxed);
        }
        loss = spp_frames_native_own(t->native, &walk, context, low, spp_cap.native);
    } else {
        loss = spp_frames_own(&walk);
    }
    if (spp_rare(loss != SPP_LOSS_NONE)) return loss;
    if (!push(t, &walk, now, weight, marks)) return SPP_LOSS_queue_full;
    if (spp_rare(walk.marks != 0)) {
        if (walk.marks & SPP_SAMPLE_TRUNCATED) BUMP(t->truncated, 1);
        if (walk.marks & SPP_SAMPLE_UNPAIRED) BUMP(t->unpaired, 1);
        if (walk.marks & SPP_SAMPLE_GAP) BUMP(t->gaps, 1);
    }
    return SPP_LOSS_NONE;
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

/* Handler. A tick without a walk. Its time falls to the next sample. */
static SPP_COLD void refuse(spp_thread *t) { miss(t, SPP_LOSS_not_suspended, 1); }

SPP_HOT void spp_capture_tick(void *cookie, spp_tick kind, const spp_os_context *context) {
    uint64_t began = spp_os_cycles();
    spp_thread *t = cookie;
    if (atomic_load_explicit(&spp_cap.active, memory_order_acquire) != 1) return;
    if (atomic_load_explicit(&t->state, memory_order_acquire) != SPP_THREAD_ARMED) return;
    atomic_store_explicit(&t->busy, 1, memory_order_seq_cst);
    /* stop() clears `active`, whoever disarms changes `state`, then they wait for `busy`: one of the two sees the other. */
    if (atomic_load_explicit(&spp_cap.active, memory_order_seq_cst) != 1) goto out;
    if (atomic_load_explicit(&t->state, memory_order_seq_cst) != SPP_THREAD_ARMED) goto out;

    if (spp_rare(kind == SPP_TICK_REFUSED)) {
        refuse(t);
        goto out;
    }
    uint64_t now = spp_os_now_ns(), weight, given;
    bool counts = kind != SPP_TICK_REMAINDER;
    if (!weigh(t, kind, context, now, &weight, &given)) goto out;
    if (counts) BUMP(t->ticks, 1);
    t->last_ns = now;
    enum spp_loss loss = sample(t, context, now, weight, counts ? 0 : SPP_SAMPLE_KERNEL);
    if (spp_usual(loss == SPP_LOSS_NONE)) {
        t->given_ns = given;
        BUMP(t->taken, 1);
        if (!counts) {
            /* A remainder sample stands for the ticks that fell inside the kernel: one is taken, the rest are counted. */
            BUMP(t->ticks, 1);
            uint64_t due = (given - t->cpu_start) / spp_cap.interval_ns;
            uint64_t handled = atomic_load_explicit(&t->ticks, memory_order_relaxed);
            if (due > handled) miss(t, SPP_LOSS_in_kernel, due - handled);
        }
        if (spp_queue_crowded(&t->queue)) spp_os_bell_ring(&spp_cap.bell);
    } else if (counts) {
        lose(t, loss, 1);
    }
    notice_births();
out:
    atomic_store_explicit(&t->busy, 0, memory_order_release);
    uint64_t n = atomic_load_explicit(&spp_cycles_count, memory_order_relaxed);
    BUMP(spp_cycles_count, 1); /* two at once may leave one figure out */
    spp_cycles[n % SPP_CYCLES_KEPT] = (uint32_t)(spp_os_cycles() - began);
}
