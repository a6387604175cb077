/* Hears of each call of the program while calls are counted (core/run/calls.h). */
#ifndef SPPROF_MODULE_CALLS_H
#define SPPROF_MODULE_CALLS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

typedef enum { SPP_CALLS_NO, SPP_CALLS_OF_PYTHON, SPP_CALLS_OF_ALL, SPP_CALLS_HOT } spp_calls_which;

/* Attached (GIL held), all of it. Only the calling interpreter's calls are counted. */
/* Before the run begins: nothing is counted until the core says so. Nothing, if it is to be no function or the hottest ones only
 * (module/hot.h). 0; or -1 with an exception, and nothing has changed. */
int spp_calling_enter(spp_calls_which which);
/* Before the run's end: whether another one took our place is part of it. */
void spp_calling_ends(void);
/* After the run's end, and in a forked child: no event is armed any more, no callback is left, and no table. Nothing, if calls
 * were not counted. An exception that there is stays. */
void spp_calling_leave(void);

#endif
