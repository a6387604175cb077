/* The thread that writes the file. An output may block for long (a FIFO whose reader sleeps, a file system of the network that
 * hangs): nobody else waits for it, but a second at the most, and what waits to be written has a bound.
 *
 * One writer at a time is in use; by one thread at a time (start, the drain thread, stop), unless said. It takes the drain lock
 * for moments, and allocates nothing, so that a fork need not wait for it. */
#ifndef SPPROF_CORE_FILE_WRITER_H
#define SPPROF_CORE_FILE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/files.h"

#define SPP_WRITER_STUCK_NS 1000000000u /* so long anybody waits for an output that does not move */

/* After a failed write the file is cut back to whole blocks that leave space for its last ones, and
 * nothing else is written. */
typedef enum {
    SPP_BLOCK_USUAL,
    SPP_BLOCK_STATS, /* is written then, too */
    SPP_BLOCK_END,   /* too, and further blocks go if it does not fit */
} spp_block_use;

typedef struct spp_block {
    struct spp_block *next;
    spp_block_use use;
    /* NULL: it is whole. Else the writer's thread has it made so, when nothing else waits to be written; false: it is dropped. */
    bool (*make)(struct spp_block *block);
    uint64_t ticks; /* that are in it */
    size_t n;
    uint8_t bytes[];
} spp_block;

/* `file` belongs to it from now on, also on failure: an errno. */
int spp_writer_start(spp_os_file *file);
/* Before the first block: what was in a regular file is gone. An errno. */
int spp_writer_empty(void);
/* Room for so many bytes, by spp_alloc, and a zero byte after them; NULL: no memory. */
spp_block *spp_writer_block(size_t n);
/* Has it written, after all that was given before, and freed. Returns at once. */
void spp_writer_put(spp_block *block);
/* Waits a little for blocks that are to be made whole, and drops those that are not by then: the last block comes next. */
void spp_writer_made(void);
/* Whether so much waits that no more should come. */
bool spp_writer_behind(void);
/* Whether all is written (or has failed); `rings`: the bell of the drain thread is rung when it is. */
bool spp_writer_idle(bool rings);
/* A number that changes while it writes. */
uint64_t spp_writer_moved(void);
/* Waits until all is written. 0, or the errno of the first failure; ETIMEDOUT: for a second nothing could be written. */
int spp_writer_wait(void);
/* Waits as above, and for the closing. If that is in vain the thread stays, alone with what waits: it writes that when it can,
 * and ends; or drops it (`drop`). An errno. */
int spp_writer_end(bool drop);
/* Has its thread end between two blocks, and go on in a new one: what is given meanwhile waits. False: it cannot, or did not
 * until then; or it could not be started (spp_writer_wait and spp_writer_end write themselves then). */
bool spp_writer_rest(uint64_t until_ns);
bool spp_writer_wake(void);
/* In a forked child: the file is the parent's. */
void spp_writer_abandon(void);
/* The first failure so far; 0: none. Any thread. */
int spp_writer_error(void);
/* Ticks of blocks that are not in the file. Any thread. */
uint64_t spp_writer_lost(void);
void spp_writer_lose(uint64_t ticks);
/* Whether the file is cut back after a failure: a regular one. */
bool spp_writer_cuts(void);
/* Whether it is the thread of a writer, now or of an earlier run. The drain thread, or start. */
bool spp_writer_is(int32_t tid);
/* What the thread of the one in use has run. */
uint64_t spp_writer_cpu_ns(void);

#endif
