/* Where a thread state has what runs in asyncio, and where a coroutine has what it awaits. */
#ifndef SPPROF_PY_TASK_OFFSETS_H
#define SPPROF_PY_TASK_OFFSETS_H

#include <stdbool.h>

/* Any thread; reads constants of the interpreter only. Offsets in a thread state of its running loop (3.13+), its running task
 * and the list of its tasks (3.14+); -1: it has none. */
void spp_task_offsets(long *loop, long *task, long *tasks);

/* Where a suspended coroutine, generator or asynchronous generator keeps the newest object of its stack. Offsets; -1: there is
 * none in this version. */
typedef struct {
    long frame;    /* in the generator: what points to its frame (3.9, 3.10); -1: the frame lies in it, as layout.h says */
    long top;      /* in the frame: what points behind that object */
    long base;     /* or: what points to the first object of the stack (3.10); -1: it is in the frame, as layout.h says */
    long depth;    /* and an int: how many there are */
    bool by_state; /* one that awaits another has a state of its own: `awaits`; else its next instruction says it */
    int above;     /* what lies on the stack above it, in words: 3.15 keeps an index there, or nothing */
    int awaits, awaits_too; /* the latter: while another thread looks at it (3.15) */
} spp_generator_offsets;

/* As above. */
spp_generator_offsets spp_generators(void);

#endif
