/* Finds the thread state of a thread. */
#ifndef SPPROF_MODULE_TSTATE_H
#define SPPROF_MODULE_TSTATE_H

#include "core/capture/tstates.h"

/* GIL held. Fills `states`; or returns which assumption about the list of thread states is wrong. */
const char *spp_tstate_init(spp_thread_states *states);

#endif
