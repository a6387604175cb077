/* Proof of the layout of the chain of frames: the calling thread's own, against what CPython's API shows of it. GIL held (or
 * thread attached), reader open (proof_read.h). `ts` is the calling thread's state. */
#ifndef SPPROF_PY_PROOF_FRAMES_H
#define SPPROF_PY_PROOF_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uintptr_t frame; /* 0 at the end */
    uintptr_t code;
    long byte_offset; /* of the instruction; negative: not started */
    int owner;
} spp_proof_frame;

/* The newest frame of a thread, of any kind. */
uintptr_t spp_proof_frame_top(uintptr_t ts);
void spp_proof_frame_read(uintptr_t frame, spp_proof_frame *f);
/* Whether it is one of the interpreter's own, where C enters Python. */
bool spp_proof_frame_is_entry(const spp_proof_frame *f);
/* Moves *frame to the next one that CPython's API would show, and reads it; f->frame is 0 at the end. Returns the name of the
 * constant that is wrong, or NULL. */
const char *spp_proof_frame_next(uintptr_t ts, uintptr_t *frame, spp_proof_frame *f);

/* Each returns the name of the constant that is wrong, or NULL: of one entry frame; of the whole chain of the calling thread. */
const char *spp_proof_entry(uintptr_t ts, const spp_proof_frame *f);
const char *spp_proof_chain(void);

#endif
