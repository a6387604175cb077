#include "core/queue.h"

#include <stdatomic.h>
#include <stddef.h>

#include "os/os.h"

#define MASK (SPP_QUEUE_WORDS - 1u)

int spp_queue_make(spp_queue *queue) {
    if (queue->words == NULL) queue->words = spp_os_pages(SPP_QUEUE_WORDS * sizeof(uint64_t));
    atomic_store_explicit(&queue->head, 0, memory_order_relaxed);
    atomic_store_explicit(&queue->tail, 0, memory_order_relaxed);
    return queue->words != NULL ? 0 : -1;
}

void spp_queue_free(spp_queue *queue) {
    spp_os_pages_free(queue->words, SPP_QUEUE_WORDS * sizeof(uint64_t));
    queue->words = NULL;
}

static uint64_t used_by_producer(const spp_queue *queue) {
    return atomic_load_explicit(&queue->head, memory_order_relaxed) - atomic_load_explicit(&queue->tail, memory_order_acquire);
}

bool spp_queue_room(const spp_queue *queue, uint32_t n) { return used_by_producer(queue) + n <= SPP_QUEUE_WORDS; }

void spp_queue_put(spp_queue *queue, uint32_t at, uint64_t word) {
    queue->words[(atomic_load_explicit(&queue->head, memory_order_relaxed) + at) & MASK] = word;
}

void spp_queue_publish(spp_queue *queue, uint32_t n) {
    uint64_t head = atomic_load_explicit(&queue->head, memory_order_relaxed);
    atomic_store_explicit(&queue->head, head + n, memory_order_release);
}

bool spp_queue_crowded(const spp_queue *queue) { return used_by_producer(queue) > SPP_QUEUE_WORDS / 2; }

uint64_t spp_queue_ready(const spp_queue *queue) {
    return atomic_load_explicit(&queue->head, memory_order_acquire) - atomic_load_explicit(&queue->tail, memory_order_relaxed);
}

uint64_t spp_queue_peek(const spp_queue *queue, uint64_t at) {
    return queue->words[(atomic_load_explicit(&queue->tail, memory_order_relaxed) + at) & MASK];
}

void spp_queue_take(spp_queue *queue, uint64_t n) {
    uint64_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);
    atomic_store_explicit(&queue->tail, tail + n, memory_order_release);
}
