/* What the core must know of this interpreter to find the running tasks of asyncio (core/capture/tasks.h). */
#ifndef SPPROF_MODULE_TASKS_H
#define SPPROF_MODULE_TASKS_H

/* GIL held, before a run. If the reads that find tasks do not find what is put there for a proof, samples have no tasks. Leaves
 * no exception. */
void spp_tasks_enter(void);

#endif
