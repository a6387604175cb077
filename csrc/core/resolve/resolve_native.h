/* Native frames become names. Drain lock held, all of it. */
#ifndef SPPROF_CORE_RESOLVE_RESOLVE_NATIVE_H
#define SPPROF_CORE_RESOLVE_RESOLVE_NATIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sample.h"
#include "base/vec.h"

/* The id of a native frame that was sampled then (intern.h), or SPP_INTERN_HIDDEN. */
uint32_t spp_resolve_native(spp_frame frame, uint64_t sampled_ns);
/* The native functions that have been named and whose objects are still there: where each begins, and its code id. */
void spp_resolve_native_codes(spp_vec64 *to);
/* Objects came or went: addresses may mean something else from now on, but for those that stay (NULL: all). */
void spp_resolve_native_moved(bool (*stays)(uintptr_t address));

bool spp_resolve_native_is_full(void);
void spp_resolve_native_forget(void);
/* In a forked child: forgets without touching. */
void spp_resolve_native_abandon(void);

#endif
