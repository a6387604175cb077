/* Which of its thread states a thread runs on. Code of a subinterpreter runs on a state of its own, in the midst of what called
 * it. */
#ifndef SPPROF_MODULE_CURRENT_H
#define SPPROF_MODULE_CURRENT_H

#include <stddef.h>
#include <stdint.h>

/* With the GIL, in a thread that has a state, at start. */
void spp_current_init(void);
/* The interpreters that there are now, the newest first; how many. Any thread, no GIL. */
size_t spp_current_interps(uintptr_t *to, size_t most);
/* Of a thread that stands, and has the thread state `any`: the one that it runs on, or would if it went on. `stack_end`: where
 * its stack ends, 0: not known. Any thread, no GIL. */
uintptr_t spp_current_state(int32_t tid, uintptr_t any, uintptr_t stack_end);

#endif
