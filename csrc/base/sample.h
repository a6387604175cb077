/* The records that travel from the signal handler to the drain thread.
 *
 * Words used everywhere: a *tick* is one firing of a thread's trigger; a *sample* is a tick that gave a stack;
 * a *frame* is one Python activation: code object plus byte offset of its instruction; a *stack* is frames from
 * root to leaf; a *weight* is what a sample represents: nanoseconds, or what its source counts (core/source.h). */
#ifndef SPPROF_BASE_SAMPLE_H
#define SPPROF_BASE_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "arch/arch.h"

/* The deepest stack that can be configured; a walk never goes further, whatever it reads. */
#define SPP_DEPTH_MAX 4096

/* One frame as captured: raw and unresolved, in one word, because cache lines are what a handler pays for. The upper bits (44 on
 * x86_64, whose programs have addresses of 47 bits) are the address of the code object divided by 8; resolve.h says when it may
 * be read. The lower bits (20) are the byte offset of the instruction divided by 2, or SPP_NO_OFFSET: there is none yet, or it is
 * beyond 2 MB of bytecode (aarch64: 1 MB). */
typedef uint64_t spp_frame;
#define SPP_OFFSET_BITS (64 - (SPP_ADDRESS_BITS - 3))
#define SPP_NO_OFFSET ((1u << SPP_OFFSET_BITS) - 1)
/* A native frame in the same word, with an offset larger than any code object's. The upper bits are the address divided by 8, the
 * lowest three its remainder; one bit marks CPython's evaluator, known by its place among the Python frames. Address 0: frames
 * that could not be paired. */
#define SPP_NATIVE_BITS (SPP_NO_OFFSET & ~31u)
#define SPP_NATIVE_UNPAIRED ((spp_frame)SPP_NATIVE_BITS)
#define SPP_NATIVE_EVALUATOR ((spp_frame)8)
/* Address 2: a whole stack that is unknown. */
#define SPP_UNKNOWN_STACK ((spp_frame)(SPP_NATIVE_BITS | 2u))

/* A frame that is resolved already: the upper bits are a frame id. */
#define SPP_KNOWN_BITS (SPP_NATIVE_BITS | 16u)
static inline spp_frame spp_frame_known(uint32_t id) { return (spp_frame)id << SPP_OFFSET_BITS | SPP_KNOWN_BITS; }
static inline bool spp_frame_is_known(spp_frame frame) { return (frame & SPP_NO_OFFSET) == SPP_KNOWN_BITS; }
static inline uint32_t spp_frame_id(spp_frame frame) { return (uint32_t)(frame >> SPP_OFFSET_BITS); }

static inline spp_frame spp_frame_make(uintptr_t code, uint32_t half_offset) {
    return (spp_frame)code >> 3 << SPP_OFFSET_BITS | half_offset;
}
static inline uintptr_t spp_frame_code(spp_frame frame) { return (uintptr_t)(frame >> SPP_OFFSET_BITS << 3); }
static inline spp_frame spp_frame_native(uintptr_t pc) {
    return (spp_frame)pc >> 3 << SPP_OFFSET_BITS | SPP_NATIVE_BITS | (pc & 7);
}
static inline bool spp_frame_is_native(spp_frame frame) { return (frame & SPP_NO_OFFSET & ~15u) == SPP_NATIVE_BITS; }
static inline uintptr_t spp_frame_pc(spp_frame frame) { return (uintptr_t)(frame >> SPP_OFFSET_BITS << 3 | (frame & 7)); }
/* In bytes, or SPP_OFFSET_NONE. */
#define SPP_OFFSET_NONE UINT32_MAX
static inline uint32_t spp_frame_offset(spp_frame frame) {
    uint32_t half = (uint32_t)frame & SPP_NO_OFFSET;
    return half == SPP_NO_OFFSET ? SPP_OFFSET_NONE : half * 2;
}

/* The kinds of code in a file. */
typedef enum { SPP_KIND_PYTHON, SPP_KIND_NATIVE } spp_code_kind;

/* Flags of a sample, in the lower byte; the upper one is its source. */
enum {
    SPP_SAMPLE_TRUNCATED = 1, /* deeper than the configured depth: the root part is missing */
    SPP_SAMPLE_KERNEL = 2,    /* time spent in the kernel (clock perf-user) */
    SPP_SAMPLE_OFF_CPU = 4,   /* taken from outside, of a thread that was off-CPU (wall mode) */
    SPP_SAMPLE_GAP = 8,       /* native frames are missing: code without unwind information was crossed, or ended the walk */
    SPP_SAMPLE_UNPAIRED = 16, /* native frames were left out: they did not fit the Python frames */
    SPP_SAMPLE_COARSE = 32,   /* not at a random instant: by the kernel's tick, a hand-over of the GIL, a late sampler */
    SPP_SAMPLE_GIL = 64,      /* the thread held the GIL (wall mode) */
};

#endif
