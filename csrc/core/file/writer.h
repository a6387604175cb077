/* The thread that writes the file. An output may block for long (a FIFO with a sleeping reader, a
 * network file system that hangs): no other thread waits for it longer than a second (ten, if it
 * is this thread that does not run), and the amount of waiting data is bounded.
 *
 * One writer at a time is in use, by one thread at a time (start, the drain thread, stop) unless
 * stated otherwise. It takes the drain lock only for moments and allocates nothing, so a fork need
 * not wait for it. */
#ifndef SPPROF_CORE_FILE_WRITER_H
#define SPPROF_CORE_FILE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/patience.h"
#include "os/files.h"

/* After a failed write the file is cut back to whole blocks that leave space for its last ones, and
 * nothing else is written. */
typedef enum {
    SPP_BLOCK_USUAL,
    SPP_BLOCK_STATS, /* is written after a failure, too */
    SPP_BLOCK_END,   /* likewise; more blocks are cut if it does not fit */
} spp_block_use;

typedef struct spp_block {
    struct spp_block *next;
    spp_block_use use;
    /* NULL: complete. Otherwise the writer's thread completes it when nothing else waits to be
     * written; false: drop the block. */
    bool (*make)(struct spp_block *block);
    uint64_t ticks; /* that are in it */
    size_t n;
    uint8_t bytes[];
} spp_block;

/* Takes over `file`, also on failure. Returns an errno. */
int spp_writer_start(spp_os_file *file);
/* Before the first block: truncates a regular file. Returns an errno. */
int spp_writer_empty(void);
/* Allocates a block of so many bytes, by spp_alloc, followed by a zero byte; NULL: no memory. */
spp_block *spp_writer_block(size_t n);
/* Queues a block behind all others; the writer frees it. Returns at once. */
void spp_writer_put(spp_block *block);
/* Waits a little for incomplete blocks, and drops those that are still incomplete: the last block
 * comes next. */
void spp_writer_made(void);
/* Whether so much is queued that no more should be added. */
bool spp_writer_behind(void);
/* Whether everything is written (or has failed). `rings`: ring the drain thread's bell when it is. */
bool spp_writer_idle(bool rings);
/* The patience of a thread that looks at the writer in turns; each write renews it. */
typedef struct {
    uint64_t moved;
    spp_patience output, thread; /* for an output that takes nothing, for a thread that does not run */
} spp_writer_watch;
spp_writer_watch spp_writer_watch_begin(void);
/* Counts a turn. False: it was too long. */
bool spp_writer_watch_turn(spp_writer_watch *watch, uint64_t took_ns);
/* Waits until everything is written. 0, or the errno of the first failure; ETIMEDOUT: no progress
 * for too long. */
int spp_writer_wait(void);
/* Waits as above, and for the closing. If that fails, the thread stays behind with the queue: it
 * writes the rest when it can, or drops it (`drop`), and ends. Returns an errno. */
int spp_writer_end(bool drop);
/* Ends the thread between two blocks, and continues in a new one: blocks queued meanwhile wait.
 * False: it cannot, or did not end in time; or the new one could not be started (then
 * spp_writer_wait and spp_writer_end write themselves). */
bool spp_writer_rest(spp_patience *left_ns);
bool spp_writer_wake(void);
/* In a forked child: the file is the parent's. */
void spp_writer_abandon(void);
/* The first failure so far; 0: none. Any thread. */
int spp_writer_error(void);
/* Ticks in blocks that did not reach the file. Any thread. */
uint64_t spp_writer_lost(void);
void spp_writer_lose(uint64_t ticks);
/* Whether the file is truncated after a failure: a regular one is. */
bool spp_writer_cuts(void);
/* Whether the calling thread belongs to a writer, of this or an earlier run. Drain thread, or
 * start. */
bool spp_writer_is(int32_t tid);
/* CPU time of the current writer's thread. */
uint64_t spp_writer_cpu_ns(void);

#endif
