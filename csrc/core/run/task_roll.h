/* The tasks in the lists of event loops (3.14+), without a walk of all of them at each draw. Walks go round the lists in parts, a
 * part a turn, each noting the tasks that it passes. The roll is what the latest whole walk noted and what joined since, which is
 * at the ends of the lists. A task is in it once, so each has the same chance to be drawn; one that is gone is noticed when it is
 * read. By the sampler of wall mode alone; the program is not held up. */
#ifndef SPPROF_CORE_RUN_TASK_ROLL_H
#define SPPROF_CORE_RUN_TASK_ROLL_H

#include <stdbool.h>
#include <stdint.h>

/* The sampler: at its start and its end. All is forgotten. */
void spp_task_roll_forget(void);
/* The sampler, without the drain lock: goes on, over lists with these heads. False: no walk has been round them yet. */
bool spp_task_roll_turn(const uintptr_t *heads, uint32_t n);
/* The sampler: the roll until the next turn: slots, *mask + 1 of them, *used of which have a task; the others are 0. */
const uintptr_t *spp_task_roll(uint64_t *mask, uint64_t *used);

#endif
