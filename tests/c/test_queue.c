/* One producer and one consumer at full speed: every word arrives, once, in order, and a full queue says so. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#include "check.h"
#include "core/capture/queue.h"

#define RECORDS 400000u

static spp_queue queue;
static atomic_ulong refused;

/* The i-th record: its length, and word k of it. Both sides compute it. */
static uint32_t length_of(uint64_t i) { return (uint32_t)(i * 2654435761u >> 7) % 90 + 1; }
static uint64_t word_of(uint64_t i, uint32_t k) { return i * 0x9E3779B97F4A7C15u + k; }

static void *produce(void *unused) {
    for (uint64_t i = 0; i < RECORDS; i++) {
        uint32_t n = length_of(i);
        while (!spp_queue_fits(&queue, n)) {
            atomic_fetch_add(&refused, 1);
            sched_yield();
        }
        for (uint32_t k = 0; k < n; k++) spp_queue_put(&queue, k, word_of(i, k));
        spp_queue_publish(&queue, n);
    }
    return unused;
}

static void stress(void) {
    pthread_t producer;
    uint64_t wrong = 0;
    CHECK_EQUAL(spp_queue_make(&queue), 0);
    CHECK_EQUAL(pthread_create(&producer, NULL, produce, NULL), 0);
    for (uint64_t i = 0; i < RECORDS; i++) {
        uint32_t n = length_of(i);
        while (spp_queue_ready(&queue) == 0) sched_yield();
        /* Published whole or not at all. */
        if (spp_queue_ready(&queue) < n) wrong++;
        for (uint32_t k = 0; k < n; k++) wrong += spp_queue_peek(&queue, k) != word_of(i, k);
        spp_queue_take(&queue, n);
    }
    pthread_join(producer, NULL);
    CHECK_EQUAL(wrong, 0);
    CHECK_EQUAL(spp_queue_ready(&queue), 0);
    spp_queue_free(&queue);
}

static void limits(void) {
    CHECK_EQUAL(spp_queue_make(&queue), 0);
    CHECK(spp_queue_fits(&queue, SPP_QUEUE_WORDS));
    CHECK(!spp_queue_fits(&queue, SPP_QUEUE_WORDS + 1));
    /* Nothing that was put can be read before it is published. */
    spp_queue_put(&queue, 0, 1);
    CHECK_EQUAL(spp_queue_ready(&queue), 0);
    spp_queue_publish(&queue, SPP_QUEUE_WORDS / 2);
    CHECK(!spp_queue_crowded(&queue));
    spp_queue_publish(&queue, 1);
    CHECK(spp_queue_crowded(&queue));
    CHECK(spp_queue_fits(&queue, SPP_QUEUE_WORDS / 2 - 1));
    CHECK(!spp_queue_fits(&queue, SPP_QUEUE_WORDS / 2));
    spp_queue_take(&queue, SPP_QUEUE_WORDS / 2 + 1);
    /* Around the end: the last word of the ring and the first. */
    for (uint32_t i = 0; i < SPP_QUEUE_WORDS; i++) spp_queue_put(&queue, i, i + 7);
    spp_queue_publish(&queue, SPP_QUEUE_WORDS);
    CHECK(!spp_queue_fits(&queue, 1));
    CHECK_EQUAL(spp_queue_ready(&queue), SPP_QUEUE_WORDS);
    for (uint32_t i = 0; i < SPP_QUEUE_WORDS; i++) CHECK_EQUAL(spp_queue_peek(&queue, i), i + 7);
    /* A new one is empty. */
    CHECK_EQUAL(spp_queue_make(&queue), 0);
    CHECK_EQUAL(spp_queue_ready(&queue), 0);
    spp_queue_free(&queue);
    CHECK(queue.words == NULL);
}

int main(void) {
    limits();
    stress();
    return check_done();
}
