/* A single-producer single-consumer queue of records, each a few 64-bit words.
 *
 * Producer: the signal handler on the queue's own thread; nobody once the thread's trigger is gone.
 * Consumer: the holder of the drain lock. No call blocks, allocates or takes a lock, except make and free. */
#ifndef SPPROF_CORE_CAPTURE_QUEUE_H
#define SPPROF_CORE_CAPTURE_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "arch/arch.h"

#define SPP_QUEUE_WORDS 16384u /* 128 KiB a thread, touched as it is used */

typedef struct {
    _Atomic uint64_t head; /* next word to write; producer */
    _Atomic uint64_t tail; /* next word to read; consumer */
    uint64_t *words;
} spp_queue;

int spp_queue_make(spp_queue *queue);
void spp_queue_free(spp_queue *queue);

#define SPP_QUEUE_MASK (SPP_QUEUE_WORDS - 1u)

static inline uint64_t spp_queue_used(const spp_queue *queue) {
    return atomic_load_explicit(&queue->head, memory_order_relaxed) - atomic_load_explicit(&queue->tail, memory_order_acquire);
}

/* Producer, inline for the handler. Whether n words fit; then put them in any order and publish all
 * n at once. */
static inline bool spp_queue_fits(const spp_queue *queue, uint32_t n) { return spp_queue_used(queue) + n <= SPP_QUEUE_WORDS; }

/* Producer. The at-th word of the record in the making. */
static inline void spp_queue_put(spp_queue *queue, uint32_t at, uint64_t word) {
    queue->words[(atomic_load_explicit(&queue->head, memory_order_relaxed) + at) & SPP_QUEUE_MASK] = word;
}

/* Producer. The consumer, on another processor, read the cache lines of the next record last, so
 * they are fetched for writing now: the next tick does not wait for them. */
static inline void spp_queue_publish(spp_queue *queue, uint32_t n) {
    uint64_t head = atomic_load_explicit(&queue->head, memory_order_relaxed) + n;
    atomic_store_explicit(&queue->head, head, memory_order_release);
    spp_arch_own_line(&queue->words[head & SPP_QUEUE_MASK]);
    spp_arch_own_line(&queue->words[(head + 8) & SPP_QUEUE_MASK]);
}

/* Producer. More than half full? */
static inline bool spp_queue_crowded(const spp_queue *queue) { return spp_queue_used(queue) > SPP_QUEUE_WORDS / 2; }

/* Consumer. The number of words that can be read now; reads the at-th, or changes it; removes n. */
uint64_t spp_queue_ready(const spp_queue *queue);
uint64_t spp_queue_peek(const spp_queue *queue, uint64_t at);
void spp_queue_poke(spp_queue *queue, uint64_t at, uint64_t word); /* in its place */
void spp_queue_take(spp_queue *queue, uint64_t n);

#endif
