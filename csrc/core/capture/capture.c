#include "core/capture/capture.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "base/hints.h"
#include "core/capture/labels.h"
#include "core/capture/record.h"
#include "core/capture/spans.h"
#include "core/capture/tasks.h"
#include "core/capture/weigh.h"
#include "os/clock.h"
#include "os/memory.h"

uint32_t *spp_cycles;
_Atomic uint64_t spp_cycles_count;

int spp_capture_init(void) {
    if (spp_threads_init() != 0) return -1;
    if (spp_cycles == NULL) spp_cycles = spp_os_pages(SPP_CYCLES_KEPT * sizeof(uint32_t));
    return spp_cycles != NULL ? 0 : -1;
}

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

/* Handler. Writes the record. Or says why not: the queue is full; or another thread replaces the table of running tasks, and
 * nobody knows the task. */
static enum spp_loss push(spp_thread *t, const spp_walk *w, uint64_t now, uint64_t weight, uint32_t flags) {
    uint32_t depth = w->depth;
    uint64_t label = spp_rare(atomic_load_explicit(&spp_labels.used, memory_order_relaxed)) ? spp_label_own(w->tstate) : 0;
    spp_task task;
    task.bytes = 0;
    if (spp_rare(atomic_load_explicit(&spp_task_type, memory_order_acquire) != 0) && !spp_task_own(w->tstate, &task))
        return SPP_LOSS_task_changed;
    spp_trace_ids span;
    bool in_span = false;
    if (spp_rare(atomic_load_explicit(&spp_span_variable, memory_order_acquire) != 0)) {
        spp_span_own(w->tstate, &span);
        in_span = spp_span_is(&span);
    }
    const spp_record record = {.time_ns = now,
                               .weight = weight,
                               .depth = (uint16_t)depth,
                               .flags = (uint16_t)(flags | w->flags),
                               .fresh = (uint16_t)(depth - common_root(t, depth)),
                               .labelled = label != 0,
                               .task = spp_record_task_words(task.bytes),
                               .span = in_span ? SPP_SPAN_WORDS : 0};
    uint32_t words = spp_record_words(&record);
    if (!spp_queue_fits(&t->tick.queue, words)) return SPP_LOSS_queue_full;
    spp_record_put(&t->tick.queue, &record, label, &task, &span, t->tick.now);
    spp_queue_publish(&t->tick.queue, words);
    spp_threads_mark(t);
    spp_frame *swap = t->tick.now;
    t->tick.now = t->tick.prev;
    t->tick.prev = swap;
    t->tick.prev_depth = depth;
    return SPP_LOSS_NONE;
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

/* Handler. What flags a sample has before it is walked. Time in the kernel is sampled at the kernel's own tick. */
static inline uint32_t flags_of(const spp_thread *t, const spp_os_context *context, bool counts) {
    bool coarse = context->coarse || t->clock->coarse;
    if (spp_rare(coarse)) return SPP_SAMPLE_COARSE;
    return counts ? 0 : SPP_SAMPLE_KERNEL;
}

/* Handler. Walks and pushes; returns the loss or SPP_LOSS_NONE. Inline, so that a tick of time
 * costs no call. */
static inline __attribute__((always_inline)) enum spp_loss sample(spp_thread *t, const spp_os_context *context, uint64_t now,
                                                                  uint64_t weight, uint32_t flags) {
    uint32_t epoch = atomic_load_explicit(&spp_cap.epoch, memory_order_acquire);
    if (spp_rare(epoch != t->tick.epoch)) {
        t->tick.epoch = epoch;
        t->tick.prev_depth = 0;
    }
    /* Every field is initialized by name: for omitted ones gcc clears the whole structure by `rep
     * stos`, which takes 40 cycles to start. */
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
    /* A hook has no registers of the thread's to begin a native walk with. */
    enum spp_loss loss = spp_rare(spp_cap.native != SPP_NATIVE_OFF) && context->machine != NULL
                             ? spp_frames_native_own(t->tick.native, &walk, context, spp_cap.native)
                             : spp_frames_own(&walk);
    if (spp_rare(loss != SPP_LOSS_NONE)) return loss;
    if (spp_rare(spp_cap.holds_gil != NULL) && spp_cap.holds_gil(walk.tstate)) flags |= SPP_SAMPLE_GIL;
    loss = push(t, &walk, now, weight, flags);
    if (spp_rare(loss != SPP_LOSS_NONE)) return loss;
    if (spp_rare(walk.flags != 0)) {
        if (walk.flags & SPP_SAMPLE_TRUNCATED) SPP_BUMP(t->tick.counters[SPP_COUNTER_truncated], 1);
        if (walk.flags & SPP_SAMPLE_UNPAIRED) SPP_BUMP(t->tick.counters[SPP_COUNTER_unpaired], 1);
        if (walk.flags & SPP_SAMPLE_GAP) SPP_BUMP(t->tick.counters[SPP_COUNTER_gaps], 1);
    }
    return SPP_LOSS_NONE;
}

/* The time of up to so many lost ticks in a row goes to the next sample; with more, nobody knows
 * where it went. */
#define ROW_MOST 7u

/* Handler. Takes a sample of the time since the last one, in which the thread may have been
 * anywhere. */
static SPP_COLD enum spp_loss sample_unknown(spp_thread *t, uint64_t now, uint64_t weight, uint32_t flags) {
    spp_walk walk = {.depth = 1};
    t->tick.now[0] = SPP_UNKNOWN_STACK;
    return push(t, &walk, now, weight, flags);
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

/* A tick that interrupts the sample of another tick or of a hook: the first one goes on, and is the
 * queue's only producer. */
static SPP_COLD __attribute__((noinline)) void not_entered(spp_thread *t, spp_source_id source, uint32_t was) {
    if (was == 0)
        atomic_store_explicit(&t->tick.busy, 0, memory_order_release);
    else if (source == SPP_SOURCE_TIME)
        spp_weigh_miss(t, SPP_LOSS_in_hook, 1);
    else
        atomic_fetch_add_explicit(&t->sources[source].losses[SPP_LOSS_in_hook], 1, memory_order_relaxed);
}

/* Handler, or hook. Whether the run is active and the thread armed, and neither changes until
 * leave(); and no tick or hook of this thread is inside already. */
static inline __attribute__((always_inline)) bool enter(spp_thread *t, spp_source_id source) {
    uint32_t was = atomic_exchange_explicit(&t->tick.busy, 1, memory_order_seq_cst);
    /* stop() clears `active`, a disarming thread changes `state`, and both then wait for `busy`:
     * one of the two sees the other. */
    bool entered = (was | (atomic_load_explicit(&spp_cap.active, memory_order_seq_cst) ^ 1u) |
                    (atomic_load_explicit(&t->state, memory_order_seq_cst) ^ SPP_THREAD_ARMED)) == 0;
    if (spp_rare(!entered)) not_entered(t, source, was);
    return entered;
}

static inline void leave(spp_thread *t) { atomic_store_explicit(&t->tick.busy, 0, memory_order_release); }

/* Handler. A tick without a walk, counted with next to no stack. Its time falls to the next sample. */
static SPP_COLD __attribute__((noinline)) void refuse(spp_thread *t, enum spp_loss reason) {
    if (!enter(t, SPP_SOURCE_TIME)) return;
    spp_weigh_miss(t, reason, 1);
    t->tick.row++;
    leave(t);
}

/* Handler, or hook, entered. */
static __attribute__((noinline)) bool take_amount(spp_thread *t, spp_source_id source, uint64_t amount,
                                                  const spp_os_context *context) {
    spp_thread_source *s = &t->sources[source];
    enum spp_loss loss = sample(t, context, spp_os_now_ns(), amount, (uint32_t)source << SPP_SOURCE_SHIFT);
    if (loss == SPP_LOSS_NONE)
        SPP_BUMP(s->taken, 1);
    else
        atomic_fetch_add_explicit(&s->losses[loss], 1, memory_order_relaxed);
    if (spp_queue_crowded(&t->tick.queue)) spp_os_bell_ring(&spp_cap.bell);
    notice_births();
    return loss == SPP_LOSS_NONE;
}

static SPP_HOT __attribute__((noinline)) void take(spp_thread *t, spp_tick kind, const spp_os_context *context) {
    uint64_t began = spp_os_cycles();
    if (!enter(t, SPP_SOURCE_TIME)) return;
    uint64_t now = spp_usual(context->began_ns != 0) ? context->began_ns : spp_os_now_ns(), weight, given;
    bool counts = kind != SPP_TICK_REMAINDER;
    if (!spp_weigh(t, kind, context, now, &weight, &given)) goto out;
    if (counts) SPP_BUMP(t->tick.ticks, 1 + context->more);
    t->tick.last_ns = now;
    uint32_t flags = flags_of(t, context, counts);
    enum spp_loss loss =
        spp_rare(t->tick.row >= ROW_MOST) ? sample_unknown(t, now, weight, flags) : sample(t, context, now, weight, flags);
    if (spp_usual(loss == SPP_LOSS_NONE)) {
        t->tick.given_ns = given;
        t->tick.row = 0;
        SPP_BUMP(t->tick.taken, 1);
        if (spp_rare(context->more != 0)) spp_weigh_lose(t, SPP_LOSS_in_kernel, context->more); /* this sample has their time */
        if (!counts) {
            /* A remainder sample stands for the ticks that fell inside the kernel: one is taken, the rest are counted. */
            SPP_BUMP(t->tick.ticks, 1);
            uint64_t due = (given - t->watch.cpu_start) / spp_cap.interval_ns;
            uint64_t handled = atomic_load_explicit(&t->tick.ticks, memory_order_relaxed);
            if (due > handled) spp_weigh_miss(t, spp_weigh_reason(t, SPP_LOSS_in_kernel), due - handled);
        }
        if (spp_queue_crowded(&t->tick.queue)) spp_os_bell_ring(&spp_cap.bell);
    } else if (counts) {
        spp_weigh_lose(t, loss, 1 + context->more);
        t->tick.row++;
    }
    notice_births();
    if (spp_rare(t->tick.group_cpu != 0)) spp_weigh_end(t);
out:
    leave(t);
    uint64_t n = atomic_load_explicit(&spp_cycles_count, memory_order_relaxed);
    SPP_BUMP(spp_cycles_count, 1); /* two threads at once may lose one figure */
    spp_cycles[n % SPP_CYCLES_KEPT] = (uint32_t)(spp_os_cycles() - began);
}

bool spp_capture_take(spp_thread *t, spp_source_id source, uint64_t amount, const spp_os_context *context) {
    if (!enter(t, source)) return false;
    bool kept = take_amount(t, source, amount, context);
    leave(t);
    return kept;
}

/* Samples of an event of a thread in a second, at the most, unless its period was asked for; thought over each so many. */
#define EVENTS_A_SECOND 1000u
#define THOUGHT_OVER 8u
#define THOUGHT_OVER_NS (THOUGHT_OVER * (1000000000u / EVENTS_A_SECOND))

/* Handler, entered. Doubles the period if the samples of late came too quickly, and halves it if the rate fell to a quarter. No
 * more at once: so what a thread does after its last sample, in a stack that nobody knows, is an eighth of the whole at most. */
static void think_over(spp_thread_source *s) {
    uint32_t ticks = atomic_load_explicit(&s->ticks, memory_order_relaxed) + 1;
    atomic_store_explicit(&s->ticks, ticks, memory_order_relaxed);
    if (s->least == 0 || ticks % THOUGHT_OVER != 0) return;
    uint64_t now = spp_os_now_ns(), passed = now - s->since_ns, period = atomic_load_explicit(&s->period, memory_order_relaxed);
    s->since_ns = now;
    uint64_t wanted = passed < THOUGHT_OVER_NS ? period + 1 : passed > 4 * (uint64_t)THOUGHT_OVER_NS ? period / 4 + 1 : period;
    wanted = spp_source_period(wanted > s->least ? wanted : s->least);
    if (wanted == period) return;
    atomic_store_explicit(&s->period, wanted, memory_order_relaxed);
    spp_os_event_period(&s->event, wanted);
}

/* Handler, entered. Takes a sample of an event that has counted `due` since its sample before, or more. The counter says more
 * exactly than ticks what a sample stands for: those of a system call come as one. */
static void take_due(spp_thread *t, spp_source_id source, uint64_t due, const spp_os_context *context) {
    spp_thread_source *s = &t->sources[source];
    uint64_t count, given = atomic_load_explicit(&s->given, memory_order_relaxed);
    if (spp_os_event_count(&s->event, &count) != 0 || count < given + due) return;
    if (take_amount(t, source, count - given, context)) atomic_store_explicit(&s->given, count, memory_order_relaxed);
    think_over(s);
}

/* Handler. Events often come together, a switch with a migration say, and of two pending signals of one number a thread gets only
 * one: so each tick is one of all events that are due. */
static SPP_COLD __attribute__((noinline)) void take_event(spp_thread *t, const spp_os_context *context) {
    spp_source_id ticked = (spp_source_id)context->source;
    if (!enter(t, ticked)) return;
    for (spp_source_id id = SPP_SOURCE_TIME + 1; id < SPP_SOURCE_COUNT; id++) {
        uint64_t period = atomic_load_explicit(&t->sources[id].period, memory_order_relaxed);
        if (period != 0) take_due(t, id, id == ticked ? 1 : period, context);
    }
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
