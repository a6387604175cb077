/* Drain before free: turns raw addresses into ids before the code objects behind them can die.
 *
 * All calls hold the drain lock (spp_os_lock). A code object's death takes the lock, drains every queue, and forgets the
 * address; so an address in a queue always names the code object that was sampled. What comes out collects in
 * `spp_resolved`, which the drain thread swaps for an empty one and stores without the lock. */
#ifndef SPPROF_CORE_RESOLVE_H
#define SPPROF_CORE_RESOLVE_H

#include "base/vec.h"
#include "core/capture.h"

/* Definitions and samples in the order in which they arose; ids count over the whole run. */
typedef struct {
    spp_vec64 string_len;
    spp_bytes string_bytes;
    spp_vec64 code_name, code_qualname, code_file, code_line, code_kind;
    spp_vec64 frame_code, frame_line, frame_end_line, frame_col, frame_end_col; /* as in the file */
    /* samples: slot | marks << 16 | count << 32 (one word); time ns; weight ns; depth | label << 32; then frame ids, root first.
     * A label is the string id of a set of labels, + 1; 0: none */
    spp_vec64 samples;
    uint64_t sample_count;
    spp_vec64 collections; /* of garbage, SPP_COLLECTION_WORDS each */
} spp_resolved;

/* thread id + 1 (0: unknown), beginning ns, duration ns, generation, objects collected and uncollectable */
#define SPP_COLLECTION_WORDS 6u

/* Signed numbers as the file keeps them: docs/file-format.md. Pure. */
uint64_t spp_zigzag(int64_t x);

int spp_resolve_start(void);
void spp_resolve_stop(void);
/* Everything in one thread's queue; in all queues; in all queues what has sure names (native.h), the rest a little later. */
void spp_resolve_queue(spp_thread *thread);
void spp_resolve_queues(void);
void spp_resolve_sure(void);
/* Keeps a stack walked from outside, with the number of its labels, as the thread's standing stack. */
void spp_resolve_stood(spp_thread *thread, const spp_walk *walk, uint64_t label);
/* The ticks of the standing stack so far, and the time off the CPU. */
void spp_resolve_flush(spp_thread *thread);
/* The native functions that have been named and whose objects are still there: where each begins, and its code id. */
void spp_resolve_native_codes(spp_vec64 *to);
/* Objects came or went: addresses of native frames may mean something else from now on, but for those that stay (NULL: all). */
void spp_resolve_forget_native(bool (*stays)(uintptr_t address));
/* A code object is about to die: drain all, forget it. */
void spp_resolve_death(uintptr_t code);
/* A run of the garbage collector in thread `tid`. */
void spp_resolve_collection(int32_t tid, uint64_t began_ns, uint64_t took_ns, const uint64_t counts[3]);
/* Exchanges what was collected for an empty one. */
void spp_resolve_swap(spp_resolved *with);
void spp_resolved_clear(spp_resolved *resolved);
void spp_resolved_free(spp_resolved *resolved);

#endif
