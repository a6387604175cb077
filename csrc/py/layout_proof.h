/* Proof at import that the running interpreter is laid out as layout_3XX.h says. */
#ifndef SPPROF_PY_LAYOUT_PROOF_H
#define SPPROF_PY_LAYOUT_PROOF_H

#include <stdbool.h>

/* NULL if every constant that can be proven holds, else a message (static, so never freed) that names the interpreter
 * and the field. GIL held (or thread attached); call once, from module exec. Reads only through a pipe, so that a wrong
 * constant gives a message and not a fault. Leaves no Python error set. */
const char *spp_layout_prove(void);

/* Whether SPP_L_TS_CACHED_CHUNK exists in this patch release. Valid after spp_layout_prove() returned NULL. */
bool spp_layout_has_cached_chunk(void);

#endif
