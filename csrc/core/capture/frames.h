/* Walks a thread's Python frames, leaf first, and trusts nothing that was not checked.
 *
 * One walker, two memories: `spp_frames_own` reads the interrupted thread's memory in place (handler: no lock, no
 * allocation, bounded by `max`); `spp_frames_other` reads an off-CPU thread's memory by guarded copies (any thread, not
 * a handler). The rules (a) to (h) are in docs/layouts.md. */
#ifndef SPPROF_CORE_CAPTURE_FRAMES_H
#define SPPROF_CORE_CAPTURE_FRAMES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/sample.h"

/* Addresses of CPython's that the checks compare with; constant once set by the module. */
typedef struct {
    uintptr_t code_type, frame_type, gen_type, coro_type, async_gen_type, none;
    /* The code object of CPython's own frames between a caller and the `__init__` of a class
     * (3.13+), which spp_frames_here skips; 0: not seen yet. Not every build exports it. */
    _Atomic uintptr_t init_cleanup;
    bool has_cached_chunk; /* tstate->datastack_cached_chunk exists: it came with patch releases of 3.13 and 3.14 */
} spp_python;
extern spp_python spp_py;

/* Code objects that this thread's walks have checked, and the death epoch at which they were alive. Direct-mapped.
 * A hit at the same epoch is a live code object: no code object has died since. */
#define SPP_KNOWN_CODES 256u
typedef struct {
    uintptr_t code;
    uint32_t epoch;
    uint32_t bytes; /* of its instructions */
} spp_known;

/* Where Python frames meet native ones: an entry frame (3.11: the evaluator's cframe) lies in the C frame of its evaluator. */
typedef struct {
    uintptr_t at;
    uint32_t depth; /* frames [depth of the anchor before, depth) are what that evaluator runs */
} spp_anchor;

typedef struct {
    uintptr_t tstate;
    uintptr_t sp; /* lowest address of the C stack in use */
    /* Everything from sp to stack_end can be read in place; from stack_low to sp lies what returned
     * calls left. 0: unknown, so each page is probed. */
    uintptr_t stack_low, stack_end;
    uint32_t epoch;
    spp_known *known; /* SPP_KNOWN_CODES of them; NULL: check every time */
    spp_frame *out;
    uintptr_t *at; /* of max: the frames' addresses, if not NULL; walks from outside alone */
    uint32_t max;
    spp_anchor *anchors; /* spp_frames_anchored: of anchors_max */
    uint32_t anchors_max;
    /* results */
    uint32_t depth;
    uint32_t flags; /* SPP_SAMPLE_TRUNCATED */
    uint32_t anchors_n;
} spp_walk;

/* Fills out[0 .. depth). Returns SPP_LOSS_NONE or the check that failed. tstate 0: depth 0. */
enum spp_loss spp_frames_own(spp_walk *walk);
enum spp_loss spp_frames_other(spp_walk *walk);
/* The same, and fills anchors[0 .. anchors_n). None before 3.11. */
enum spp_loss spp_frames_own_anchored(spp_walk *walk);
enum spp_loss spp_frames_other_anchored(spp_walk *walk);

/* Attached to the interpreter (GIL held); not a handler. The innermost Python frame of the calling thread, or its caller: the
 * code object, and the byte offset of its instruction or SPP_OFFSET_NONE; its address, or 0: there is none. Nothing is distrusted
 * here: the thread itself asks, between two instructions. */
uintptr_t spp_frames_here(uintptr_t tstate, bool caller, uintptr_t *code, uint32_t *offset);
/* The same of all frames from the innermost, at most `max`: the number of them. *more: there are others. */
uint32_t spp_frames_all(uintptr_t tstate, spp_frame *out, uint32_t max, bool *more);

#endif
