/* Sees the calls of the hottest functions while these are counted (core/run/hot.h). */
#ifndef SPPROF_MODULE_HOT_H
#define SPPROF_MODULE_HOT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

/* Attached (GIL held), all of it. Only the calling interpreter's calls are counted. */
/* Before the run begins: nothing is counted until the core says so. Nothing, if that is not asked for. 0; or -1 with an
 * exception, and nothing has changed. */
int spp_hot_enter(bool asked);
/* After the run's end, and in a forked child: no event is armed any more, no callback is left, and no table. Nothing, if calls
 * were not counted. A pending exception stays. */
void spp_hot_leave(void);

#endif
