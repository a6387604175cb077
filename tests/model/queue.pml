/* The queue of csrc/core/capture/queue.h under C11's acquire and release, for spin (tests/model/run).
 *
 * spin interleaves, and would see each store at once. So memory is modelled as the views of a weak machine: a location keeps all
 * values that were ever stored to it, and a load may give any of them that is not older than what its thread has seen there. A
 * release store takes its thread's clock along, an acquire load of that value joins it. (Kang, Hur, Lahav, Vafeiadis, Dreyer, "A
 * promising semantics for relaxed-memory concurrency", POPL 2017, without promises: by its theorem DRF-PF those add nothing to
 * a program that has no race without them.) The words between are no atomics: each access is checked for a race with the other
 * thread's last one by those clocks, and what is read for being the word that was put there.
 *
 * Not modelled: more than one consumer (a lock passes the part on), making and freeing the queue.
 * Each of the four orders can be weakened to relaxed, -DWEAK_PUBLISH and so on; then a race must be found. */

#define WORDS 3 /* of the ring */
#define TOTAL 7 /* words sent: round the ring twice and more */

#ifdef WEAK_PUBLISH
#define PUBLISHED 0
#else
#define PUBLISHED producer_clock
#endif
#ifdef WEAK_TAKE
#define TAKEN 0
#else
#define TAKEN consumer_clock
#endif

/* head: stored by the producer; tail: by the consumer. All values, and the storing thread's clock that each carries. */
byte heads = 1, head_value[TOTAL + 1], head_clock[TOTAL + 1];
byte tails = 1, tail_value[TOTAL + 1], tail_clock[TOTAL + 1];

byte producer_clock, producer_knows; /* knows: of the other thread's clock */
byte consumer_clock, consumer_knows;

byte word[WORDS], written_at[WORDS], read_at[WORDS]; /* with the clocks of the last write and the last read */
byte received;

#define JOIN(knows, clock) knows = (clock > knows -> clock : knows)

proctype producer() {
    byte head, seen, tail, n, k;
    do
    :: head == TOTAL -> break
    :: head < TOTAL ->
        if /* a record of one word or two */
        :: n = 1
        :: head + 2 <= TOTAL -> n = 2
        fi;
        atomic { /* spp_queue_fits: an acquire load of the tail */
            do
            :: seen + 1 < tails -> seen++
            :: break
            od;
            tail = tail_value[seen];
#ifndef WEAK_ROOM
            JOIN(producer_knows, tail_clock[seen])
#endif
        }
        if
        :: head + n - tail > WORDS -> skip /* full: the sample is lost, and the next one tries */
        :: else ->
            k = 0;
            do /* spp_queue_put */
            :: k == n -> break
            :: k < n ->
                atomic {
                    assert(read_at[(head + k) % WORDS] <= producer_knows); /* else a write races with a read */
                    producer_clock++;
                    written_at[(head + k) % WORDS] = producer_clock;
                    word[(head + k) % WORDS] = head + k;
                    k++
                }
            od;
            atomic { /* spp_queue_publish: a release store of the head */
                head = head + n;
                head_value[heads] = head;
                head_clock[heads] = PUBLISHED;
                heads++
            }
        fi
    od
}

proctype consumer() {
    byte tail, seen, ready, k;
    do
    :: tail == TOTAL -> break
    :: tail < TOTAL ->
        atomic { /* spp_queue_ready: an acquire load of the head */
            do
            :: seen + 1 < heads -> seen++
            :: break
            od;
            ready = head_value[seen] - tail;
#ifndef WEAK_READY
            JOIN(consumer_knows, head_clock[seen])
#endif
        }
        if
        :: ready == 0 -> skip
        :: else ->
            k = 0;
            do /* spp_queue_peek */
            :: k == ready -> break
            :: k < ready ->
                atomic {
                    assert(written_at[(tail + k) % WORDS] <= consumer_knows); /* else a read races with a write */
                    assert(word[(tail + k) % WORDS] == tail + k);
                    consumer_clock++;
                    read_at[(tail + k) % WORDS] = consumer_clock;
                    received++;
                    k++
                }
            od;
            atomic { /* spp_queue_take: a release store of the tail */
                tail = tail + ready;
                tail_value[tails] = tail;
                tail_clock[tails] = TAKEN;
                tails++
            }
        fi
    od;
    assert(received == TOTAL)
}

init {
    atomic {
        run producer();
        run consumer()
    }
}
