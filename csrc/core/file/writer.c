#include "core/file/writer.h"

#include <errno.h>
#include <stdatomic.h>

#include "base/heap.h"
#include "base/patience.h"
#include "core/capture/capture.h"
#include "core/rest.h"
#include "os/clock.h"
#include "os/lock.h"
#include "os/worker.h"

#define AHEAD_MOST ((size_t)4 << 20) /* bytes that wait: some seconds of the fastest run */
#define PIECE ((size_t)64 << 10)     /* written at once: shows that a slow output moves */
#define STEP_NS 100000u
#define STUCK_NS 1000000000u    /* the longest that a thread waits for an output without progress */
#define STARVED_NS 10000000000u /* the same, where the writer's thread does not even run */
#define MAKING_NS 300000000u    /* a run's end waits so long for what is still to be made */
#define REST_NS 50000000u       /* on some systems another's bell may take the ring */

/* When a write has failed, blocks A and E need space. */
#define END_MOST 256u /* bytes of block E */
#define KEPT 64u      /* blocks that may go for them */

typedef struct {
    uint64_t at, ticks;
    spp_block_use use;
} kept_block;

typedef struct writer {
    struct writer *next; /* of those that were left */
    spp_os_worker *worker;
    int32_t tid;
    spp_os_file file; /* the thread's own */
    spp_os_bell bell;
    /* under the drain lock */
    spp_block *first, *last, *written;
    spp_block *unmade, *unmade_last;
    bool ending, drop;
    spp_rest rest;
    uint64_t cpu_before;     /* of threads that ended for a rest */
    _Atomic size_t waiting;  /* bytes */
    _Atomic uint32_t making; /* blocks that are to be made whole */
    _Atomic bool late;       /* no more of them are */
    _Atomic uint64_t moved;
    _Atomic int error;
    _Atomic bool ended, rings, busy;
    /* the writer's thread */
    uint64_t size;         /* of the whole blocks in the file */
    uint64_t size_most;    /* how far the write that failed came */
    kept_block kept[KEPT]; /* the last of them, but the first of all */
    uint32_t kept_n;       /* so many ever: the newest is kept[(kept_n - 1) % KEPT] */
    uint32_t gone;         /* and so many of them are not there any more */
    bool regular, cut;
} writer;

static writer *current, *left;
static _Atomic int last_error; /* of the one in use, or of the last */
static _Atomic uint64_t lost;  /* the same */

static void note(writer *w, int error) {
    int none = 0;
    if (error == 0) return;
    atomic_compare_exchange_strong(&w->error, &none, error);
    if (w == current) atomic_store(&last_error, w->error);
}

void spp_writer_lose(uint64_t ticks) { atomic_fetch_add(&lost, ticks); }

/* The writer's thread, as all that follows here. */
static void keep(writer *w, const spp_block *block) {
    if (w->size > 0) w->kept[w->kept_n++ % KEPT] = (kept_block){w->size, block->ticks, block->use};
    if (w->kept_n - w->gone > KEPT) w->gone++;
    w->size += block->n;
}

/* How many of the last blocks must go, for so many bytes to fit; false: all are too few. */
static bool how_many(const writer *w, uint64_t bytes, uint32_t *n) {
    uint64_t at = w->size;
    for (*n = 0; w->size_most - at < bytes && *n < w->kept_n - w->gone; at = w->kept[(w->kept_n - *n) % KEPT].at) ++*n;
    return w->size_most - at >= bytes;
}

static void cut(writer *w, uint32_t blocks) {
    for (; blocks > 0; blocks--) {
        const kept_block *newest = &w->kept[--w->kept_n % KEPT];
        w->size = newest->at;
        spp_writer_lose(newest->ticks);
    }
    w->cut = spp_os_file_cut(&w->file, w->size) == 0;
}

/* After a failed write: what it left goes. */
static void cut_rest(writer *w) {
    uint64_t size = w->regular ? spp_os_file_size(&w->file) : UINT64_MAX;
    if (size == UINT64_MAX || size < w->size || w->size == 0) return; /* or the program has emptied it */
    w->size_most = size;
    cut(w, 0);
}

/* An errno. */
static int write_bytes(writer *w, const spp_block *block) {
    int failed = 0;
    for (size_t at = 0, n; at < block->n && failed == 0; at += n) {
        n = block->n - at < PIECE ? block->n - at : PIECE;
        failed = spp_os_file_write(&w->file, block->bytes + at, n);
        atomic_fetch_add(&w->moved, n);
    }
    return failed;
}

static bool ends_with(const writer *w, spp_block_use use) {
    return w->kept_n > w->gone && w->kept[(w->kept_n - 1) % KEPT].use == use;
}

/* In the place of those that were written before it was known what they say, and of samples if need be. */
static bool write_last(writer *w, const spp_block *block) {
    uint32_t n;
    if (!w->cut || block->use == SPP_BLOCK_USUAL) return false;
    if (ends_with(w, SPP_BLOCK_END)) cut(w, 1);
    if (block->use == SPP_BLOCK_STATS) {
        if (ends_with(w, SPP_BLOCK_STATS)) cut(w, 1);
        if (!how_many(w, block->n + END_MOST, &n)) return false;
        cut(w, n);
    }
    while (write_bytes(w, block) != 0) {
        bool more = block->use == SPP_BLOCK_END && w->kept_n > w->gone;
        cut(w, more ? 1 : 0);
        if (!more || !w->cut) return false;
    }
    return true;
}

static void write_block(writer *w, const spp_block *block, bool drop) {
    bool written = false;
    if (!drop && atomic_load(&w->error) != 0) {
        written = write_last(w, block);
    } else if (!drop) {
        int failed = write_bytes(w, block);
        written = failed == 0;
        if (failed) cut_rest(w);
        note(w, failed);
    }
    if (written)
        keep(w, block);
    else
        spp_writer_lose(block->ticks);
    atomic_fetch_add(&w->moved, 1);
    atomic_fetch_sub(&w->waiting, block->n);
}

/* What does not become whole is dropped without a word: it has no ticks. */
static void make_block(writer *w, spp_block *block, bool drop) {
    bool made = !drop && !atomic_load(&w->late) && atomic_load(&w->error) == 0 && block->make(block);
    write_block(w, block, drop || !made || atomic_load(&w->late));
    atomic_fetch_sub(&w->making, 1);
}

/* On the writer's thread, or on the caller's if there is no writer. False: nothing waits. */
static bool write_next(writer *w) {
    spp_os_lock();
    spp_block **from = w->first != NULL ? &w->first : &w->unmade, *block = *from;
    bool drop = w->drop;
    if (block != NULL) *from = block->next;
    spp_os_unlock();
    if (block == NULL) return false;
    atomic_store(&w->busy, true);
    if (block->make != NULL)
        make_block(w, block, drop);
    else
        write_block(w, block, drop);
    atomic_store(&w->busy, false);
    spp_os_lock();
    block->next = w->written;
    w->written = block;
    spp_os_unlock();
    return true;
}

static void end(writer *w) {
    atomic_store(&w->busy, true);
    note(w, spp_os_file_end(&w->file));
    atomic_store(&w->ended, true);
}

static bool is_ending(const writer *w) {
    spp_os_lock();
    bool ending = w->ending && w->first == NULL;
    spp_os_unlock();
    return ending;
}

static void body(void *arg) {
    writer *w = arg;
    while (!spp_rest_begins(&w->rest)) {
        if (write_next(w)) continue;
        if (is_ending(w)) {
            end(w);
            return;
        }
        if (atomic_exchange(&w->rings, false)) spp_os_bell_ring(&spp_cap.bell);
        spp_os_bell_wait(&w->bell, spp_os_now_ns() + REST_NS);
    }
    w->cpu_before += spp_os_own_cpu_ns();
}

static void free_blocks(spp_block *block) {
    while (block != NULL) {
        spp_block *next = block->next;
        spp_free(block);
        block = next;
    }
}

static void free_writer(writer *w) {
    free_blocks(w->first);
    free_blocks(w->unmade);
    free_blocks(w->written);
    spp_free(w);
}

/* Those that were left and could end at last. */
static void free_left(void) {
    for (writer **at = &left; *at != NULL;) {
        writer *w = *at;
        if (!atomic_load(&w->ended)) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        free_writer(w);
    }
}

#define NAME "spprof-writer"

static bool start_thread(writer *w) {
    w->worker = spp_os_worker_start(NAME, false, body, w);
    w->tid = w->worker != NULL ? spp_os_worker_tid(w->worker) : 0;
    return w->worker != NULL;
}

int spp_writer_start(spp_os_file *file) {
    free_left();
    atomic_store(&last_error, 0);
    atomic_store(&lost, 0);
    writer *w = spp_alloc_zeroed(1, sizeof *w);
    if (w == NULL) {
        spp_os_file_close(file);
        return ENOMEM;
    }
    w->file = *file;
    w->regular = spp_os_file_size(file) != UINT64_MAX;
    current = w;
    if (start_thread(w)) return 0;
    current = NULL;
    spp_free(w);
    spp_os_file_close(file);
    return EAGAIN;
}

int spp_writer_empty(void) { return spp_os_file_empty(&current->file); }

spp_block *spp_writer_block(size_t n) {
    spp_block *block = spp_alloc(sizeof *block + n + 1);
    if (block == NULL) return NULL;
    block->bytes[n] = 0;
    block->n = n;
    block->use = SPP_BLOCK_USUAL;
    block->make = NULL;
    block->ticks = 0;
    return block;
}

static void append(spp_block **first, spp_block **last, spp_block *block) {
    if (*first != NULL)
        (*last)->next = block;
    else
        *first = block;
    *last = block;
}

void spp_writer_put(spp_block *block) {
    writer *w = current;
    if (w == NULL || (atomic_load(&w->error) != 0 && block->use == SPP_BLOCK_USUAL)) {
        spp_writer_lose(block->ticks);
        spp_free(block);
        return;
    }
    block->next = NULL;
    atomic_fetch_add(&w->waiting, block->n);
    if (block->make != NULL) atomic_fetch_add(&w->making, 1);
    spp_os_lock();
    if (block->make != NULL)
        append(&w->unmade, &w->unmade_last, block);
    else
        append(&w->first, &w->last, block);
    spp_block *written = w->written;
    w->written = NULL;
    spp_os_unlock();
    free_blocks(written);
    spp_os_bell_ring(&w->bell);
}

void spp_writer_made(void) {
    writer *w = current;
    spp_patience patience = MAKING_NS;
    if (w == NULL) return;
    while (w->worker != NULL && atomic_load(&w->making) != 0 && spp_patience_sleep(&patience, STEP_NS)) {}
    atomic_store(&w->late, true);
}

bool spp_writer_behind(void) { return current != NULL && atomic_load(&current->waiting) > AHEAD_MOST; }

bool spp_writer_idle(bool rings) {
    if (current == NULL) return true;
    atomic_store(&current->rings, rings); /* first: else it may have looked already */
    return atomic_load(&current->waiting) == 0;
}

static spp_writer_watch watch_of(writer *w) { return (spp_writer_watch){atomic_load(&w->moved), STUCK_NS, STARVED_NS}; }

static bool turn(spp_writer_watch *watch, writer *w, uint64_t took_ns) {
    if (atomic_load(&w->moved) != watch->moved) *watch = watch_of(w);
    return spp_patience_spend(atomic_load(&w->busy) ? &watch->output : &watch->thread, took_ns);
}

spp_writer_watch spp_writer_watch_begin(void) { return current != NULL ? watch_of(current) : (spp_writer_watch){0}; }

bool spp_writer_watch_turn(spp_writer_watch *watch, uint64_t took_ns) { return current == NULL || turn(watch, current, took_ns); }

/* False: it did not move. */
static bool wait_for(writer *w, bool end) {
    spp_writer_watch watch = watch_of(w);
    while (end ? !atomic_load(&w->ended) : atomic_load(&w->waiting) != 0) {
        uint64_t since = spp_os_now_ns();
        spp_os_sleep_until(since + STEP_NS);
        if (!turn(&watch, w, spp_patience_took(since, STEP_NS))) return false;
        if (w->worker != NULL && spp_os_worker_was_ended(w->worker)) return end && atomic_load(&w->ended);
    }
    return true;
}

int spp_writer_wait(void) {
    if (current == NULL) return 0;
    if (current->worker == NULL)
        while (write_next(current)) {}
    if (!wait_for(current, false)) return ETIMEDOUT;
    return atomic_load(&current->error);
}

int spp_writer_end(bool drop) {
    writer *w = current;
    if (w == NULL) return 0;
    bool moves = drop || wait_for(w, false);
    spp_os_lock();
    w->ending = true;
    w->drop = drop;
    spp_os_unlock();
    spp_os_bell_ring(&w->bell);
    if (w->worker == NULL) {
        while (write_next(w)) {}
        end(w);
    }
    if (moves && wait_for(w, true)) {
        int error = atomic_load(&w->error);
        current = NULL;
        if (w->worker != NULL) spp_os_worker_join(w->worker);
        free_writer(w);
        return error;
    }
    atomic_store(&last_error, ETIMEDOUT);
    spp_os_worker_leave(w->worker);
    current = NULL;
    w->next = left;
    left = w;
    return ETIMEDOUT;
}

/* A table of descriptors that is the thread's own ends with it. */
bool spp_writer_rest(spp_patience *left_ns) {
    writer *w = current;
    if (left != NULL) free_left();
    if (left != NULL) return false;
    if (w == NULL || w->worker == NULL) return true;
    if (w->file.apart) return false;
    spp_rest_ask(&w->rest, &w->bell);
    if (!spp_rest_await(&w->rest, &w->worker, left_ns)) return false;
    w->tid = 0;
    return true;
}

bool spp_writer_wake(void) {
    writer *w = current;
    if (w == NULL || !spp_rest_is(&w->rest)) return true;
    if (!start_thread(w)) return false;
    spp_rest_over(&w->rest);
    return true;
}

void spp_writer_abandon(void) {
    if (current != NULL) spp_os_file_drop(&current->file);
    for (writer *w = left; w != NULL; w = w->next) spp_os_file_drop(&w->file);
    current = left = NULL;
}

int spp_writer_error(void) { return atomic_load(&last_error); }
uint64_t spp_writer_lost(void) { return atomic_load(&lost); }
bool spp_writer_cuts(void) { return current != NULL && current->regular; }

bool spp_writer_is(int32_t tid) {
    if (current != NULL && tid == current->tid) return true;
    for (const writer *w = left; w != NULL; w = w->next) {
        if (!atomic_load(&w->ended) && w->tid == tid) return true;
    }
    return false;
}

uint64_t spp_writer_cpu_ns(void) {
    uint64_t cpu = 0;
    if (current == NULL) return 0;
    if (current->worker == NULL || spp_os_thread_cpu_ns(current->tid, &cpu) != 0) cpu = 0;
    return current->cpu_before + cpu;
}
