/* The records that travel from the signal handler to the drain thread.
 *
 * Words used everywhere: a *tick* is one firing of a thread's trigger; a *sample* is a tick that gave a stack;
 * a *frame* is one Python activation: code object plus byte offset of its instruction; a *stack* is frames from
 * root to leaf; a *weight* is the nanoseconds that a sample stands for. */
#ifndef SPPROF_BASE_SAMPLE_H
#define SPPROF_BASE_SAMPLE_H

#include <stdint.h>

/* The deepest stack that can be configured; a walk never goes further, whatever it reads. */
#define SPP_DEPTH_MAX 4096
#define SPP_DEPTH_DEFAULT 512

/* One frame as captured: raw, unresolved. `code` is only an address; see resolve.h for when it may be read. */
typedef struct {
    uint64_t code;   /* address of the code object */
    uint32_t offset; /* byte offset of the instruction in the code, or SPP_OFFSET_NONE */
    uint32_t extra;  /* 0; free-threaded 3.14+: index of the thread-local bytecode copy that offset refers to */
} spp_frame;

#define SPP_OFFSET_NONE UINT32_MAX

/* Marks on a sample. */
enum {
    SPP_SAMPLE_TRUNCATED = 1, /* deeper than the configured depth: the root part is missing */
    SPP_SAMPLE_KERNEL = 2,    /* weight of time spent in the kernel (clock user+timer) */
    SPP_SAMPLE_STANDING = 4,  /* taken from outside, of a thread that stood still (wall mode) */
};

#endif
