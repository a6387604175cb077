#include "core/capture/queue.h"

#include <stddef.h>

#include "os/memory.h"

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

uint64_t spp_queue_ready(const spp_queue *queue) {
    return atomic_load_explicit(&queue->head, memory_order_acquire) - atomic_load_explicit(&queue->tail, memory_order_relaxed);
}

uint64_t spp_queue_peek(const spp_queue *queue, uint64_t at) {
    return queue->words[(atomic_load_explicit(&queue->tail, memory_order_relaxed) + at) & SPP_QUEUE_MASK];
}

void spp_queue_poke(spp_queue *queue, uint64_t at, uint64_t word) {
    queue->words[(atomic_load_explicit(&queue->tail, memory_order_relaxed) + at) & SPP_QUEUE_MASK] = word;
}

void spp_queue_take(spp_queue *queue, uint64_t n) {
    uint64_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);
    atomic_store_explicit(&queue->tail, tail + n, memory_order_release);
}
