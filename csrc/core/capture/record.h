/* A record in a thread's queue: a sample as the handler leaves it for the drain thread. The queue wraps at any word, so a record
 * is put and read word by word, here alone: its head, the number of its labels if it has any, the name of its task if it has one,
 * the ids of its span if it has one, and its frames. */
#ifndef SPPROF_CORE_CAPTURE_RECORD_H
#define SPPROF_CORE_CAPTURE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hints.h"
#include "base/sample.h"
#include "core/capture/queue.h"
#include "core/capture/spans.h"
#include "core/capture/tasks.h"

/* Of the `depth` frames only the `fresh` leaf-most ones are in the record; the others, at the root, are those of the previous
 * one. */
typedef struct {
    uint64_t time_ns; /* monotonic */
    uint64_t weight;
    uint16_t depth, flags, fresh, labelled; /* labelled: 0 or 1 */
    uint16_t task;                          /* words of its task's name, with the one that says its length; 0: none */
    uint16_t span;                          /* words of the ids of its span; 0: it has none */
} spp_record;

/* Words of the head: time; weight; depth | flags << 16 | fresh << 32 | labelled << 48 | task << 49 | has a span << 63. */
#define SPP_RECORD_HEAD 3u

static inline uint32_t spp_record_frames_at(const spp_record *r) { return SPP_RECORD_HEAD + r->labelled + r->task + r->span; }
/* Words for a task's name of so many bytes. */
static inline uint16_t spp_record_task_words(uint32_t bytes) { return bytes > 0 ? (uint16_t)(1u + (bytes + 7u) / 8u) : 0; }
/* Words of the whole. */
static inline uint32_t spp_record_words(const spp_record *r) { return spp_record_frames_at(r) + r->fresh; }

/* Producer, inline for the handler. Puts a whole record, without publishing it; the queue has space for its words. `fresh`: those
 * frames, leaf first, as a walk has them; in the queue the root-most one is first. `label`: its number, if it is labelled. */
static inline void spp_record_put(spp_queue *queue, const spp_record *r, uint64_t label, const spp_task *task,
                                  const spp_trace_ids *span, const spp_frame *fresh) {
    spp_queue_put(queue, 0, r->time_ns);
    spp_queue_put(queue, 1, r->weight);
    spp_queue_put(queue, 2,
                  r->depth | (uint64_t)r->flags << 16 | (uint64_t)r->fresh << 32 | (uint64_t)r->labelled << 48 |
                      (uint64_t)r->task << 49 | (uint64_t)(r->span != 0) << 63);
    if (spp_rare(r->labelled)) spp_queue_put(queue, SPP_RECORD_HEAD, label);
    if (spp_rare(r->task)) {
        uint32_t named = SPP_RECORD_HEAD + r->labelled;
        spp_queue_put(queue, named, task->bytes | (uint64_t)task->kind << 32);
        for (uint32_t i = 1; i < r->task; i++) spp_queue_put(queue, named + i, task->text[i - 1]);
    }
    uint32_t at = spp_record_frames_at(r);
    if (spp_rare(r->span)) {
        spp_queue_put(queue, at - 3, span->trace_high);
        spp_queue_put(queue, at - 2, span->trace_low);
        spp_queue_put(queue, at - 1, span->id);
    }
    for (uint32_t i = 0; i < r->fresh; i++) spp_queue_put(queue, at + i, fresh[r->fresh - 1u - i]);
}

/* Consumer. `at`: how many words before the record can be read; the first one is at 0. */
static inline bool spp_record_ready(const spp_queue *queue) { return spp_queue_ready(queue) >= SPP_RECORD_HEAD; }
static inline uint64_t spp_record_time(const spp_queue *queue) { return spp_queue_peek(queue, 0); }
static inline spp_record spp_record_read(const spp_queue *queue, uint64_t at) {
    uint64_t word = spp_queue_peek(queue, at + 2);
    return (spp_record){.time_ns = spp_queue_peek(queue, at),
                        .weight = spp_queue_peek(queue, at + 1),
                        .depth = (uint16_t)word,
                        .flags = (uint16_t)(word >> 16),
                        .fresh = (uint16_t)(word >> 32),
                        .labelled = (uint16_t)(word >> 48 & 1),
                        .task = (uint16_t)(word >> 49 & 0x3FFF),
                        .span = word >> 63 ? SPP_SPAN_WORDS : 0};
}
/* The number of its labels; 0: none. */
static inline uint64_t spp_record_label(const spp_queue *queue, uint64_t at, const spp_record *r) {
    return r->labelled ? spp_queue_peek(queue, at + SPP_RECORD_HEAD) : 0;
}
/* The name of its task. */
static inline void spp_record_task(const spp_queue *queue, uint64_t at, const spp_record *r, spp_task *task) {
    task->bytes = 0;
    if (!r->task) return;
    at += SPP_RECORD_HEAD + r->labelled;
    uint64_t word = spp_queue_peek(queue, at);
    task->bytes = (uint32_t)word;
    task->kind = (uint32_t)(word >> 32);
    for (uint32_t i = 1; i < r->task; i++) task->text[i - 1] = spp_queue_peek(queue, at + i);
}
/* The ids of its span. */
static inline spp_trace_ids spp_record_span(const spp_queue *queue, uint64_t at, const spp_record *r) {
    if (!r->span) return (spp_trace_ids){0};
    at += spp_record_frames_at(r);
    return (spp_trace_ids){spp_queue_peek(queue, at - 3), spp_queue_peek(queue, at - 2), spp_queue_peek(queue, at - 1)};
}

#endif
