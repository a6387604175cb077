/* Proof at import that the running interpreter is laid out as layout_3XX.h says. */
#ifndef SPPROF_PY_LAYOUT_PROOF_H
#define SPPROF_PY_LAYOUT_PROOF_H

#include <stdbool.h>
#include <stddef.h>

/* Whether every constant that can be proven holds; if not, `message` names the interpreter and the field. GIL held (or thread
 * attached); from module exec, in each interpreter, also in several at once. Reads only through a pipe, so that a wrong constant
 * gives a message and not a fault. Leaves no Python error set. */
bool spp_layout_prove(char *message, size_t size);

/* Whether SPP_L_TS_CACHED_CHUNK exists in this patch release. On the thread for which spp_layout_prove() just returned true. */
bool spp_layout_has_cached_chunk(void);

#endif
