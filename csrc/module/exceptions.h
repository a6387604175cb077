/* Hears of each exception of the program while exceptions are counted (core/run/raises.h). */
#ifndef SPPROF_MODULE_EXCEPTIONS_H
#define SPPROF_MODULE_EXCEPTIONS_H

#include <stdbool.h>

/* Attached (GIL held), all of it. Only the calling interpreter's exceptions are counted. */
/* Before the run begins: nothing is counted until the core says so. 0; or -1 with an exception. Nothing, unless `asked`. */
int spp_exceptions_enter(bool asked);
/* After the run's end, and in a forked child, when no event is armed any more: frees what was counted. */
void spp_exceptions_leave(void);

#endif
