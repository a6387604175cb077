/* Exact executions: how often each line of some functions ran, and each of the two ways of their branches was taken.
 *
 * Counts are atomic and nothing else is shared, so no lock is taken where a program runs. The module reports what runs
 * (module/executions.c) and keeps the code objects alive that are named here. The counts are written as block B of the file. */
#ifndef SPPROF_CORE_RUN_EXECUTIONS_H
#define SPPROF_CORE_RUN_EXECUTIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct spp_executions spp_executions; /* the counts of one code object; lives as long as the run's tables */

/* Whether executions are counted now: between start and stop, unless paused. */
extern _Atomic bool spp_executions_on;
/* Whether the run counts at all: until the counts were written for the last time. */
extern _Atomic bool spp_executions_open;

/* Begins a run's counting, which is off until spp_executions_follow. The thread that starts a run, before it begins; no table is
 * left of another. -1: no memory. */
int spp_executions_start(void);

/* Attached, all of these. Instructions are numbers: offsets in code units. */
/* The counts of a code object; NULL: it has none. */
spp_executions *spp_executions_find(uintptr_t code);
/* Adds a code object. `line_of`: the line of each of `n` instructions, 0: it has none; copied. The lines of the instructions from
 * `first` on can be executed. *added: the code object is referred to now. NULL: there is no space, which is counted; or nothing
 * is counted any more. */
spp_executions *spp_executions_add(uintptr_t code, const uint32_t *line_of, uint32_t n, uint32_t first, bool *added);
void spp_executions_call(spp_executions *of);
void spp_executions_line(spp_executions *of, uint32_t line);
/* A jump. One back within a line executes the line again, as sys.settrace has it; others are seen by spp_executions_line. False:
 * this one never counts. */
bool spp_executions_jump(spp_executions *of, uint32_t from, uint32_t to);
/* A branch. False: spp_executions_add_way must be called first. */
bool spp_executions_branch(spp_executions *of, uint32_t from, uint32_t to);
/* `line`: where the program goes on. */
void spp_executions_add_way(spp_executions *of, uint32_t from, uint32_t to, uint32_t line);
/* The line of an instruction; 0: it has none, or there is no such instruction. */
uint32_t spp_executions_at(const spp_executions *of, uint32_t instruction);

/* Counts from now on, or not. Any thread. */
void spp_executions_follow(bool paused);
/* Calls see(code) for each code object. Attached. */
void spp_executions_each(void (*see)(uintptr_t code));
/* Writes the counts so far; `last`: and counts no more. The drain thread, without the drain lock. Nothing if nothing is counted.
 */
void spp_executions_write(bool last);
/* Frees all tables; `release` is called for each code object that they refer to. No thread counts any more. Attached. */
void spp_executions_stop(void (*release)(uintptr_t code));
/* Nothing is counted any more. Any thread; also in a forked child. */
void spp_executions_close(void);

#endif
