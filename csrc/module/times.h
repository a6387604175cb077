/* Hears of the calls of chosen functions while they are timed (core/run/times.h). */
#ifndef SPPROF_MODULE_TIMES_H
#define SPPROF_MODULE_TIMES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Attached (GIL held), all of it. Only the calling interpreter's calls are timed. */
/* Before the run begins: nothing is timed until the core says so. `what`: "" nothing; else patterns MODULE:QUALNAME with * and ?,
 * separated by commas, and perhaps the word "cpu" before them. Functions that were marked come on top. 0; or -1 with an
 * exception, and nothing has changed. */
int spp_timing_enter(const char *what);
/* A code object whose calls are timed whenever there is a run in this interpreter, as long as it lives. 0; or -1 with an
 * exception: not in this run, because no event can be armed. */
int spp_timing_mark(PyObject *code);
/* After the run's end, and in a forked child: no event is armed any more, no callback is left, and no table. Nothing, if nothing
 * was timed. An exception that there is stays. */
void spp_timing_leave(void);

#endif
