/* Which thread state is whose. */
#ifndef SPPROF_MODULE_TSTATE_H
#define SPPROF_MODULE_TSTATE_H

#include "core/capture/tstates.h"

/* GIL held. Fills `states`, or returns what does not hold of the list of thread states. */
const char *spp_tstate_init(spp_thread_states *states);

#endif
