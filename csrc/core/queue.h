/* A single-producer single-consumer queue of records, each a few 64-bit words.
 *
 * Producer: the signal handler on the queue's own thread, or, once the thread's trigger is gone, nobody.
 * Consumer: whoever holds the drain lock. No call blocks, allocates or takes a lock (but make and free). */
#ifndef SPPROF_CORE_QUEUE_H
#define SPPROF_CORE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#define SPP_QUEUE_WORDS 16384u /* 128 KiB a thread, touched as it is used */

typedef struct {
    _Atomic uint64_t head; /* next word to write; producer */
    _Atomic uint64_t tail; /* next word to read; consumer */
    uint64_t *words;
} spp_queue;

int spp_queue_make(spp_queue *queue);
void spp_queue_free(spp_queue *queue);

/* Producer. Room for n words? Then put at will and publish all n at once. */
bool spp_queue_room(const spp_queue *queue, uint32_t n);
void spp_queue_put(spp_queue *queue, uint32_t at, uint64_t word); /* the at-th word of the record in the making */
void spp_queue_publish(spp_queue *queue, uint32_t n);
/* Producer. More than half full? */
bool spp_queue_crowded(const spp_queue *queue);

/* Consumer. Words that can be read now; peek the at-th; take n away. */
uint64_t spp_queue_ready(const spp_queue *queue);
uint64_t spp_queue_peek(const spp_queue *queue, uint64_t at);
void spp_queue_take(spp_queue *queue, uint64_t n);

#endif
