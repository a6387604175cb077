/* Reads at the end of a run which instructions the interpreter did not specialize (core/run/adaptive.h). */
#ifndef SPPROF_MODULE_ADAPTIVE_H
#define SPPROF_MODULE_ADAPTIVE_H

#include <stdbool.h>

/* Attached (GIL held), all of it. Only the calling interpreter's code is read, and none if there are others. */
/* Before the run begins. 0; or -1 with an exception, and nothing has changed. Nothing, unless `asked`. */
int spp_adapting_enter(bool asked);
/* The run is about to be stopped. Nothing, if that was not asked for. A pending exception stays. */
void spp_adapting_ends(void);
/* After the run's end, and in a forked child: nothing is kept. */
void spp_adapting_leave(void);

#endif
