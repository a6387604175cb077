/* Counts the executions of lines and branches of chosen functions (core/run/executions.h). */
#ifndef SPPROF_MODULE_EXECUTIONS_H
#define SPPROF_MODULE_EXECUTIONS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Attached (GIL held), all of it. Only what the calling interpreter runs is counted. */
/* Before the run begins: nothing is counted until the core says so. `what`: "" nothing; else patterns as in module/chosen.h. 0;
 * or -1 with an exception, and nothing has changed. */
int spp_executing_enter(const char *what);
/* After the run's end, and in a forked child: no event is armed any more, no callback is left, and no table. Nothing, if nothing
 * was counted. A pending exception stays. */
void spp_executing_leave(void);

#endif
