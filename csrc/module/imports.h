/* Times each import of the program while that is asked for (core/run/imports.h). */
#ifndef SPPROF_MODULE_IMPORTS_H
#define SPPROF_MODULE_IMPORTS_H

#include <stdbool.h>

/* Attached (GIL held), all of it. Only the calling interpreter's imports are timed. */
/* Before the run begins. 0; or -1 with an exception. Nothing, unless `asked`. */
int spp_importing_enter(bool asked);
/* After the run's end, and in a forked child: importlib has its own function again. */
void spp_importing_leave(void);

#endif
