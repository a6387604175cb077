#include "core/resolve/resolve.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/capture/labels.h"
#include "core/capture/record.h"
#include "core/capture/spans.h"
#include "core/capture/tasks.h"
#include "core/native/native.h"
#include "core/resolve/intern.h"
#include "core/resolve/live.h"
#include "core/resolve/resolve_code.h"
#include "core/resolve/resolve_native.h"
#include "os/clock.h"
#include "os/lock.h"

static uint32_t rounds = 1; /* how often spp_resolved_now was another one */
static bool hold;           /* nothing more is to be collected */
static void (*see_leaf)(uintptr_t code, uint64_t time_ns, uint64_t weight, uint32_t count);
static bool copy_wanted; /* of the line table of the code object that is about to die */

static void forget_everything(void) {
    spp_intern_forget();
    spp_live_forget();
    spp_resolve_native_forget();
}

/* Its id, or SPP_INTERN_HIDDEN, or SPP_INTERN_BUSY. */
static uint32_t frame_of(spp_frame frame, uint64_t sampled_ns) {
    if (spp_frame_is_known(frame)) return spp_frame_id(frame);
    return spp_frame_is_native(frame) ? spp_resolve_native(frame, sampled_ns) : spp_live_frame(frame);
}

/* Stacks of blocked threads: they are written as they are, and walked again. */
static void walk_again(void) {
    for (uint32_t i = 0; i < spp_threads_used; i++) {
        if (spp_threads[i].state != SPP_THREAD_ARMED) continue;
        spp_resolve_flush(&spp_threads[i]);
        spp_threads[i].wall.blocked = false;
    }
}

void spp_resolve_forget_native(bool (*stays)(uintptr_t address)) {
    atomic_fetch_add_explicit(&spp_cap.epoch, 1, memory_order_acq_rel); /* equal addresses are no equal frames any more */
    spp_resolve_native_moved(stays);
    walk_again();
}

/* Text of ours, as a string id + 1; "": 0. */
static uint32_t text_of(const char *text) {
    const spp_bytes bytes = {.at = (uint8_t *)(uintptr_t)text, .n = strlen(text)};
    return bytes.n > 0 ? spp_intern_string(&bytes) + 1 : 0;
}

/* The label of a sample, of the number that it was taken with. */
static uint32_t label_of(uint64_t number) {
    if (number == 0) return 0;
    spp_bytes text = {0};
    text.at = (uint8_t *)(uintptr_t)spp_label_text(number, &text.n);
    return text.at != NULL ? spp_intern_string(&text) + 1 : 0;
}

static void append_task(const spp_task *task, spp_bytes *to) {
    char number[32];
    if (task->kind == SPP_TASK_NUMBERED) {
        int n = snprintf(number, sizeof number, "Task-%llu", (unsigned long long)task->text[0]);
        spp_bytes_append(to, number, (size_t)n);
    } else {
        spp_code_characters((const uint8_t *)task->text, task->bytes, task->kind, to);
    }
}

/* The task of a sample. */
static uint32_t task_of(const spp_task *task) {
    static spp_bytes text; /* used again */
    if (task->bytes == 0) return 0;
    text.n = 0;
    append_task(task, &text);
    return spp_intern_string(&text) + 1;
}

/* The span of a sample: both ids in hexadecimal digits, as OpenTelemetry writes them. */
static uint32_t span_of(const spp_trace_ids *span) {
    char text[SPP_SPAN_WORDS * 16 + 2];
    if (!spp_span_is(span)) return 0;
    snprintf(text, sizeof text, "%016llx%016llx-%016llx", (unsigned long long)span->trace_high,
             (unsigned long long)span->trace_low, (unsigned long long)span->id);
    return text_of(text);
}

/* The names of the tasks that await one, with commas between, as a string id + 1. */
static uint32_t awaiters_of(const spp_waiting_task *task) {
    static spp_bytes text; /* used again */
    text.n = 0;
    for (uint32_t i = 0; i < task->awaiters; i++) {
        if (i > 0) spp_bytes_append(&text, ", ", 2);
        append_task(&task->awaited_by[i], &text);
    }
    return text.n > 0 ? spp_intern_string(&text) + 1 : 0;
}

/* The code object of a leaf; 0: it is none, or not any more. */
static uintptr_t leaf_of(spp_frame frame) {
    return spp_frame_is_native(frame) || spp_frame_is_known(frame) ? 0 : spp_frame_code(frame);
}

static void see(uintptr_t leaf, uint64_t time_ns, uint64_t weight, uint32_t flags, uint32_t count) {
    if (see_leaf != NULL && leaf != 0 && spp_source_of_flags(flags) == SPP_SOURCE_TIME) see_leaf(leaf, time_ns, weight, count);
}

void spp_resolve_leaves(void (*seen)(uintptr_t code, uint64_t time_ns, uint64_t weight, uint32_t count)) { see_leaf = seen; }

/* `head`: all of the sample but its thread and its frames. */
static int emit(spp_thread *thread, const uint32_t *ids, uint32_t depth, const spp_resolved_sample *head) {
    spp_resolved_sample *to = spp_resolved_reserve(&spp_resolved_now, depth);
    if (to == NULL) return -1;
    if (thread->queued.round != rounds) {
        thread->queued.round = rounds;
        thread->queued.first = spp_resolved_now.samples.n;
    }
    *to = *head;
    to->slot = (uint16_t)(thread - spp_threads);
    to->depth = 0;
    for (uint32_t i = 0; i < depth; i++) {
        if (ids[i] != SPP_INTERN_HIDDEN) to->frames[to->depth++] = ids[i];
    }
    spp_resolved_keep(&spp_resolved_now, to);
    return 0;
}

/* What was taken, with these flags, is not taken after all; the tick stats subtract it. */
static void lose(spp_thread *thread, uint32_t flags, enum spp_loss loss, uint32_t count) {
    uint32_t source = spp_source_of_flags(flags);
    _Atomic uint64_t *losses = source == SPP_SOURCE_TIME ? thread->tick.losses : thread->sources[source].losses;
    atomic_fetch_add_explicit(&losses[loss], count, memory_order_relaxed);
}

void spp_resolve_hold(bool held) {
    if (hold && !held) {
        uint32_t used = atomic_load_explicit(&spp_threads_used, memory_order_acquire);
        spp_resolve_queues(); /* those of the time till now */
        for (uint32_t i = 0; i < used; i++) {
            if (spp_threads[i].wall.cut) spp_threads[i].wall.blocked = false; /* its stack was not kept: it is walked again */
        }
        atomic_fetch_add_explicit(&spp_cap.epoch, 1, memory_order_acq_rel); /* so the next sample of each thread is whole */
    }
    hold = held;
}

#define READY_AHEAD_NS 10000000 /* the system counts a wait for a processor when it ends */
#define WAITED_FEW 8u           /* samples after which a thread that only lacks a processor is not known to wait for anything */

/* How much ready time the samples of the place lack that a thread was blocked at. A few places are known, the latest. */
static int64_t *lacks_at(spp_thread *t) {
    uintptr_t place = (t->wall.leaf ^ (uintptr_t)t->wall.reason << 1) | 1u;
    for (uint32_t i = 0; i < SPP_PLACES; i++) {
        if (t->wall.places[i].place == place) return &t->wall.places[i].lacks;
    }
    uint32_t next = t->wall.places_next++ % SPP_PLACES;
    t->wall.places[next].place = place;
    t->wall.places[next].lacks = 0;
    return &t->wall.places[next].lacks;
}

/* Why a blocked thread was off the CPU for so long. A look does not see that the wait ended and the thread was ready, without a
 * processor, until the next one; nor that a thread without a processor, since the sampler runs on it, sleeps until the next one.
 * The system counts how long it was ready. A sample has one reason: the one that keeps the sum of its place near to that. */
static uint32_t reason_of(spp_thread *t, int64_t weight) {
    uint32_t reason = t->wall.reason, waited = t->wall.waited_n < WAITED_FEW ? t->wall.waited : 0;
    if (!t->wall.ready_read || weight == 0 || reason == SPP_REASON_gil) return reason;
    int64_t *lacks = lacks_at(t), ready = (int64_t)t->wall.ready_ns;
    *lacks += reason == SPP_REASON_ready ? ready - weight : ready;
    if (reason == SPP_REASON_ready) {
        bool too_much = waited != 0 && *lacks + weight / 2 < -READY_AHEAD_NS;
        if (too_much) *lacks += weight;
        if (*lacks < -READY_AHEAD_NS - weight) *lacks = -READY_AHEAD_NS - weight;
        return too_much ? waited : reason;
    }
    if (*lacks <= weight / 2) return reason;
    *lacks -= weight;
    return SPP_REASON_ready;
}

/* Where a blocked thread is: its leaf's code object, or the id of a leaf that has none, as a native function. */
static uintptr_t place_of(const spp_thread *t) {
    return t->wall.leaf != 0 || t->wall.depth == 0 ? t->wall.leaf : t->wall.path[t->wall.depth - 1];
}

void spp_resolve_flush(spp_thread *t) {
    if (t->wall.reason == t->wall.waited) {
        t->wall.waited_on = t->wall.waits_on;
        t->wall.waited_held_by = t->wall.held_by;
        t->wall.waited_leaf = place_of(t);
    }
    if (t->wall.repeats == 0) return;
    uint64_t weight = t->wall.off_ns > 0 ? (uint64_t)t->wall.off_ns : 0;
    const uint32_t reason = reason_of(t, (int64_t)weight);
    const bool same = reason == t->wall.reason, waited = reason == t->wall.waited && place_of(t) == t->wall.waited_leaf;
    t->wall.ready_read = false;
    const spp_resolved_sample head = {.flags = (uint16_t)t->wall.flags,
                                      .count = t->wall.repeats,
                                      .time_ns = t->wall.look_ns,
                                      .weight = weight,
                                      .label = t->wall.label,
                                      .reason = reason,
                                      .waits_on = same     ? t->wall.waits_on
                                                  : waited ? t->wall.waited_on
                                                           : 0,
                                      .task = t->wall.task,
                                      .held_by = same     ? t->wall.held_by
                                                 : waited ? t->wall.waited_held_by
                                                          : 0,
                                      .span = t->wall.span};
    if (hold || t->wall.cut)
        lose(t, t->wall.flags, SPP_LOSS_writer_behind, t->wall.repeats);
    else if (emit(t, t->wall.path, t->wall.depth, &head) != 0)
        lose(t, t->wall.flags, SPP_LOSS_store_full, t->wall.repeats);
    else
        see(t->wall.leaf, t->wall.look_ns, weight, t->wall.flags, t->wall.repeats);
    t->wall.off_ns -= (int64_t)weight;
    t->wall.written_ns = t->wall.look_ns;
    t->wall.repeats = 0;
}

/* How much of a queue is resolved at a time. */
#define RECORDS_STEP 64u    /* without the lock being given back between: 0.1 ms */
#define RECORDS_PROMPT 512u /* for a caller with the GIL, or the sampler: a pause would help nobody */

/* The record at a queue's head. False: a frame was SPP_INTERN_BUSY, and it is still there. */
static bool resolve_record(spp_thread *thread) {
    spp_queue *queue = &thread->tick.queue;
    const spp_record record = spp_record_read(queue, 0);
    uint32_t head = spp_record_frames_at(&record), words = spp_record_words(&record);
    /* Without those frames that it has in common with one that was not kept, a sample says nothing. */
    if (hold || (thread->queued.cut && record.fresh < record.depth)) {
        thread->queued.cut = true;
        lose(thread, record.flags, SPP_LOSS_writer_behind, 1);
        spp_queue_take(queue, words);
        return true;
    }
    for (uint32_t i = 0; i < record.fresh; i++) {
        uint32_t id = frame_of(spp_queue_peek(queue, head + i), record.time_ns);
        if (id == SPP_INTERN_BUSY) return false;
        thread->queued.path[record.depth - record.fresh + i] = id;
    }
    spp_task task;
    spp_record_task(queue, 0, &record, &task);
    const spp_trace_ids span = spp_record_span(queue, 0, &record);
    if (record.fresh > 0) thread->queued.leaf = leaf_of(spp_queue_peek(queue, head + record.fresh - 1));
    const spp_resolved_sample sample = {.flags = record.flags,
                                        .count = 1,
                                        .time_ns = record.time_ns,
                                        .weight = record.weight,
                                        .label = label_of(spp_record_label(queue, 0, &record)),
                                        .task = task_of(&task),
                                        .span = span_of(&span)};
    if (emit(thread, thread->queued.path, record.depth, &sample) != 0)
        lose(thread, record.flags, SPP_LOSS_store_full, 1);
    else
        see(thread->queued.leaf, record.time_ns, record.weight, record.flags, 1);
    spp_queue_take(queue, words);
    thread->queued.cut = false;
    return true;
}

/* What was sampled before end_ns, and of that so many records at the most. False: there is more. */
static bool resolve_some(spp_thread *thread, uint64_t end_ns, uint32_t most) {
    spp_queue *queue = &thread->tick.queue;
    if (queue->words == NULL) return true;
    bool all = false;
    if (spp_record_ready(queue)) spp_resolve_flush(thread); /* it was blocked before it ran again and took these */
    for (; !all; most--) {
        all = !spp_record_ready(queue) || spp_record_time(queue) >= end_ns;
        if (all || most == 0 || !resolve_record(thread)) break;
    }
    if (spp_queue_ready(queue) > 0) spp_threads_mark(thread);
    return all;
}

static void resolve_until(spp_thread *thread, uint64_t end_ns) {
    while (!resolve_some(thread, end_ns, RECORDS_STEP)) {
        spp_os_unlock();
        spp_os_lock();
    }
}

void spp_resolve_queue(spp_thread *thread) { resolve_until(thread, UINT64_MAX); }

bool spp_resolve_blocked(spp_thread *thread, const spp_walk *walk, uint64_t label, const spp_task *task,
                         const spp_trace_ids *span, const spp_waiting *waiting) {
    if (!resolve_some(thread, UINT64_MAX, RECORDS_PROMPT)) return false; /* what the handler took before comes before */
    thread->wall.cut = hold;
    if (hold) return true;
    for (uint32_t i = 0; i < walk->depth; i++) {
        uint32_t id = frame_of(walk->out[walk->depth - 1 - i], thread->wall.look_ns);
        if (id == SPP_INTERN_BUSY) return false;
        thread->wall.path[i] = id;
    }
    thread->wall.depth = walk->depth;
    thread->wall.leaf = walk->depth > 0 ? leaf_of(walk->out[0]) : 0;
    thread->wall.flags = walk->flags | SPP_SAMPLE_OFF_CPU;
    thread->wall.label = label_of(label);
    thread->wall.task = task_of(task);
    thread->wall.span = span_of(span);
    thread->wall.reason = waiting->reason;
    thread->wall.waited_n++;
    if (waiting->reason != SPP_REASON_ready && waiting->reason != SPP_REASON_running && waiting->reason != SPP_REASON_gil) {
        thread->wall.waited = waiting->reason;
        thread->wall.waited_n = 0;
    }
    thread->wall.waits_on = text_of(waiting->on);
    thread->wall.held_by = waiting->held_by;
    return true;
}

/* Calls `visit` for each thread whose queue may hold something. The lock may be given back in it. */
static void each_pending(void (*visit)(spp_thread *thread, uint64_t argument), uint64_t argument) {
    uint32_t words = (atomic_load_explicit(&spp_threads_used, memory_order_acquire) + 63) / 64;
    for (uint32_t w = 0; w < words; w++) {
        uint64_t seen = atomic_load_explicit(&spp_pending[w], memory_order_seq_cst);
        for (uint32_t i = 0; seen != 0; i++, seen >>= 1) {
            uint64_t bit = (uint64_t)1 << i;
            if (seen & 1 && atomic_fetch_and_explicit(&spp_pending[w], ~bit, memory_order_seq_cst) & bit)
                visit(&spp_threads[w * 64 + i], argument);
        }
    }
}

static void resolve_now(spp_thread *thread, uint64_t end_ns) {
    while (!resolve_some(thread, end_ns, UINT32_MAX)) {}
}

/* Flags of samples whose weights are not of the thread's CPU clock. */
#define NOT_CPU_TIME (SPP_SAMPLE_OFF_CPU | 0xFFu << SPP_SOURCE_SHIFT)

int64_t spp_resolve_settle(spp_thread *thread, int64_t open_ns) {
    const uint64_t slot = (uint64_t)(thread - spp_threads);
    resolve_now(thread, UINT64_MAX);
    if (thread->queued.round != rounds) return 0;
    spp_resolved_sample *const first = spp_resolved_at(&spp_resolved_now, thread->queued.first);
    const spp_resolved_sample *const end = spp_resolved_end(&spp_resolved_now);
    int64_t sum = 0, most, before = 0, given = 0;
    for (const spp_resolved_sample *s = first; s < end; s = spp_resolved_next(s)) {
        if (s->slot == slot && !(s->flags & NOT_CPU_TIME)) sum += (int64_t)s->weight;
    }
    most = sum - sum / 8;
    open_ns = open_ns > most ? most : open_ns < -most ? -most : open_ns;
    for (spp_resolved_sample *s = first; s < end; s = spp_resolved_next(s)) {
        if (s->slot != slot || s->flags & NOT_CPU_TIME) continue;
        before += (int64_t)s->weight;
        int64_t until = before == sum ? open_ns : (int64_t)((double)open_ns * (double)before / (double)sum);
        s->weight = (uint64_t)((int64_t)s->weight + until - given);
        given = until;
    }
    return given;
}

void spp_resolve_unknown(spp_thread *thread, uint32_t source, uint64_t amount) {
    uint32_t flags = source << SPP_SOURCE_SHIFT, id;
    resolve_now(thread, UINT64_MAX);
    uint64_t now = spp_os_now_ns();
    const spp_resolved_sample sample = {.flags = (uint16_t)flags, .count = 1, .time_ns = now, .weight = amount};
    atomic_fetch_add_explicit(&thread->sources[source].taken, 1, memory_order_relaxed);
    if (hold)
        lose(thread, flags, SPP_LOSS_writer_behind, 1);
    else if ((id = frame_of(SPP_UNKNOWN_STACK, now)) == SPP_INTERN_BUSY || emit(thread, &id, 1, &sample) != 0)
        lose(thread, flags, SPP_LOSS_store_full, 1);
}

bool spp_resolve_task(spp_thread *thread, const spp_waiting_task *task, uint64_t time_ns, uint64_t weight) {
    const uint32_t flags = (uint32_t)SPP_SOURCE_TASKS << SPP_SOURCE_SHIFT | SPP_SAMPLE_OFF_CPU;
    const uint32_t skipped = task->depth > spp_cap.max_depth ? task->depth - spp_cap.max_depth : 0;
    uint32_t ids[SPP_CHAIN_MOST], n = 0;
    (void)resolve_some(thread, UINT64_MAX, RECORDS_PROMPT); /* what the handler took before comes before */
    for (uint32_t i = skipped; i < task->depth; i++, n++) {
        while ((ids[n] = frame_of(task->frames[i], time_ns)) == SPP_INTERN_BUSY) {}
    }
    if (n == 0) ids[n++] = frame_of(SPP_UNKNOWN_STACK, time_ns);
    const spp_resolved_sample sample = {.flags = (uint16_t)(flags | (task->cut || skipped > 0 ? SPP_SAMPLE_TRUNCATED : 0)),
                                        .count = 1,
                                        .time_ns = time_ns,
                                        .weight = weight,
                                        .reason = task->reason,
                                        .waits_on = task_of(&task->on),
                                        .task = task_of(&task->name),
                                        .awaited_by = awaiters_of(task)};
    if (!hold && emit(thread, ids, n, &sample) == 0) return true;
    lose(thread, flags, hold ? SPP_LOSS_writer_behind : SPP_LOSS_store_full, 1);
    return false;
}

void spp_resolve_queues(void) { each_pending(resolve_now, UINT64_MAX); }

void spp_resolve_sure(void) {
    uint64_t now = spp_os_now_ns(), sure = atomic_load(&spp_native_sure_ns);
    each_pending(resolve_until, sure);
    spp_label_forget(sure < now ? sure : now);
    spp_live_sure(sure < now ? sure : now);
}

/* Has the frames of a code object outlive it where they are, in all that a queue holds. */
static void resolve_in_place(spp_queue *queue, uintptr_t code) {
    uint64_t ready = spp_queue_ready(queue);
    for (uint64_t at = 0; at < ready;) {
        const spp_record record = spp_record_read(queue, at);
        uint64_t end = at + spp_record_words(&record);
        for (uint64_t i = at + spp_record_frames_at(&record); i < end; i++) {
            spp_frame frame = spp_queue_peek(queue, i);
            if (spp_frame_is_native(frame) || spp_frame_is_known(frame) || spp_frame_code(frame) != code) continue;
            spp_frame stays = spp_live_outlive(frame);
            if (stays == 0) {
                copy_wanted = true;
                return;
            }
            spp_queue_poke(queue, i, stays);
        }
        at = end;
    }
}

static void resolve_before_death(spp_thread *thread, uint64_t code) {
    if (copy_wanted) {
        spp_threads_mark(thread); /* looked at again, after that */
        return;
    }
    if (!resolve_some(thread, UINT64_MAX, hold ? UINT32_MAX : RECORDS_PROMPT))
        resolve_in_place(&thread->tick.queue, (uintptr_t)code);
}

void spp_resolve_death(uintptr_t code) {
    atomic_fetch_add_explicit(&spp_cap.epoch, 1, memory_order_acq_rel);
    for (;;) {
        copy_wanted = false;
        each_pending(resolve_before_death, code);
        if (!copy_wanted) break;
        while (spp_live_copy(code)) { /* the freeing thread waits for all, others for one piece */
            spp_os_unlock();
            spp_os_lock();
        }
    }
    spp_live_death(code);
}

/* Without memory, or while the output takes nothing, the row is left out: no sample is lost. */
static void add_row(spp_vec64 *rows, const uint64_t *words, size_t n) {
    if (spp_vec64_reserve(rows, n) != 0) return;
    for (size_t i = 0; i < n; i++) spp_vec64_push(rows, words[i]);
}

void spp_resolve_collection(const spp_thread *of, uint64_t began_ns, uint64_t took_ns, const uint64_t counts[3]) {
    if (hold) return;
    const uint64_t thread = of != NULL ? of->id + 1ull : 0;
    const uint64_t words[SPP_COLLECTION_WORDS] = {thread, began_ns, took_ns, counts[0], counts[1], counts[2]};
    add_row(&spp_resolved_now.collections, words, SPP_COLLECTION_WORDS);
}

void spp_resolve_request(uint64_t began_ns, uint64_t took_ns, uint64_t label) {
    if (hold) return;
    const uint64_t words[SPP_REQUEST_WORDS] = {began_ns, took_ns, label_of(label)};
    add_row(&spp_resolved_now.requests, words, SPP_REQUEST_WORDS);
}

void spp_resolve_swap(spp_resolved *with) {
    spp_resolved swap = spp_resolved_now;
    spp_resolved_now = *with;
    *with = swap;
    rounds++;
    bool full = spp_intern_is_full() || spp_resolve_native_is_full();
    if (full && spp_live_may_forget()) forget_everything();
}

int spp_resolve_start(void) {
    forget_everything();
    spp_intern_restart();
    spp_label_forget(UINT64_MAX);
    hold = false;
    rounds++;
    spp_resolved_free(&spp_resolved_now);
    return 0;
}

void spp_resolve_abandon(void) {
    spp_intern_abandon();
    spp_live_abandon();
    spp_resolve_native_abandon();
    memset(&spp_resolved_now, 0, sizeof spp_resolved_now);
    hold = false;
}

void spp_resolve_stop(void) { forget_everything(); }
