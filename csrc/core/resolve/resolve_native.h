/* Names of native frames. */
#ifndef SPPROF_CORE_RESOLVE_RESOLVE_NATIVE_H
#define SPPROF_CORE_RESOLVE_RESOLVE_NATIVE_H

#include "base/sample.h"
#include "core/native/native.h"

/* The drain lock held. The function at a native frame's address, and what is known of the place; false: it is not to be shown. */
bool spp_resolve_native_name(spp_frame frame, spp_native_place *place, spp_bytes *name);

#endif
