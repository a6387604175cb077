/* Proof of the layout by what CPython 3.13 and later say of themselves (_Py_DebugOffsets). */
#ifndef SPPROF_PY_PROOF_OFFSETS_H
#define SPPROF_PY_PROOF_OFFSETS_H

#include <stdbool.h>

/* Any thread; reads constants of the interpreter only. Returns the name of the constant that is wrong, or NULL, and then whether
 * SPP_L_TS_CACHED_CHUNK exists in this patch release. */
const char *spp_proof_offsets(bool *has_cached_chunk);

#endif
