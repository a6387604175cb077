/* Where CPython keeps what spprof reads, for the one version that this is compiled for.
 *
 * Every layout_3XX.h defines the same constants (byte offsets unless said otherwise) and nothing else, so walkers never
 * test a version. layout_check.c asserts each against CPython's own headers; layout_proof.c proves them at import.
 * No Python header is needed here: C tests and fuzzers choose a layout by -DSPP_LAYOUT='"layout_313.h"'. */
#ifndef SPPROF_PY_LAYOUT_H
#define SPPROF_PY_LAYOUT_H

#include SPP_LAYOUT

/* The kind of frame chain; decides which rules of frames.c apply. */
#define SPP_CHAIN_OBJECTS 1 /* 3.9, 3.10: PyFrameObject linked by f_back */
#define SPP_CHAIN_CFRAME 2  /* 3.11, 3.12: _PyInterpreterFrame, found through tstate->cframe */
#define SPP_CHAIN_DIRECT 3  /* 3.13+: _PyInterpreterFrame, found through tstate->current_frame */

#endif
