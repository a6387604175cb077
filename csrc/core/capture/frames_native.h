/* Python and native frames in the order of calls. Handler.
 *
 * The two stacks are walked separately and then merged. Since 3.11 an evaluator's C frame holds the
 * entry frame of the Python frames that it runs (3.11: its cframe), which identifies it. On 3.9 and
 * 3.10 each Python frame has an evaluator of its own, identified by its address; they are counted
 * from the thread's entry point. Nothing is guessed: if the two stacks do not fit, the Python frames
 * are kept and a flag of the sample says so. */
#ifndef SPPROF_CORE_CAPTURE_FRAMES_NATIVE_H
#define SPPROF_CORE_CAPTURE_FRAMES_NATIVE_H

#include "core/capture/frames.h"
#include "core/native/native.h"
#include "os/context.h"

#define SPP_NATIVE_MAX 2048u

typedef enum {
    SPP_NATIVE_OFF,
    SPP_NATIVE_LEAF, /* only what lies below the last Python frame */
    SPP_NATIVE_ALL,
} spp_native_mode;

/* Scratch space of one thread. */
typedef struct {
    uint32_t most; /* native frames that a walk may have: spp_native_most() */
    spp_unwind_cache cache;
    uintptr_t pcs[SPP_NATIVE_MAX], cfas[SPP_NATIVE_MAX];
    spp_anchor anchors[SPP_NATIVE_MAX];
    spp_frame python[SPP_DEPTH_MAX]; /* the Python frames alone */
    uint32_t python_n;               /* spp_frames_native_other: how many */
} spp_native_scratch;

/* How many native frames a walk may have, so that walks leave the program most of the time between
 * two ticks. */
uint32_t spp_native_most(uint64_t interval_ns);

/* As spp_frames_own; `walk->out` holds walk->max Python frames and SPP_NATIVE_MAX more. */
enum spp_loss spp_frames_native_own(spp_native_scratch *scratch, spp_walk *walk, const spp_os_context *context,
                                    spp_native_mode mode);
/* As spp_frames_other, for a blocked thread at `pc` and walk->sp. Its other registers are unknown,
 * so where a frame pointer is needed the flag SPP_SAMPLE_GAP is likely. Not in a handler. */
enum spp_loss spp_frames_native_other(spp_native_scratch *scratch, spp_walk *walk, uintptr_t pc, spp_native_mode mode);

#endif
