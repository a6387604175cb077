/* Samples of the source `tasks`: in each round some of all tasks of asyncio are drawn at random, and those that wait or are ready
 * are read from outside (core/capture/coroutines.h). Each stands for the time since the round before, of as many tasks as there
 * are for each one drawn. The program's threads are not held up. By the sampler of wall mode. */
#ifndef SPPROF_CORE_RUN_TASK_ROUNDS_H
#define SPPROF_CORE_RUN_TASK_ROUNDS_H

/* At the sampler's start and end. */
void spp_task_rounds_begin(void);
void spp_task_rounds_end(void);
/* The sampler, without the drain lock: has a round, if one is due. */
void spp_task_rounds_turn(void);

#endif
