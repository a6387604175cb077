/* Where a thread state has what runs in asyncio. */
#ifndef SPPROF_PY_TASK_OFFSETS_H
#define SPPROF_PY_TASK_OFFSETS_H

/* Any thread; reads constants of the interpreter only. The offset of its running loop (3.13+) and of its running task (3.14+);
 * -1: it has none. */
void spp_task_offsets(long *loop, long *task);

#endif
