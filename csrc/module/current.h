/* Which of its thread states a thread is executing on. A subinterpreter's code runs on a state of
 * its own, called from code on another state. */
#ifndef SPPROF_MODULE_CURRENT_H
#define SPPROF_MODULE_CURRENT_H

#include <stddef.h>
#include <stdint.h>

/* With the GIL, in a thread that has a state, at start. */
void spp_current_init(void);
/* The current interpreters, newest first; returns their number. Any thread, no GIL. */
size_t spp_current_interps(uintptr_t *to, size_t most);
/* Returns the thread state a blocked thread is executing on, which may be another one than `any` of
 * its states. `stack_end`: the end of its stack, 0: unknown. Any thread, no GIL. */
uintptr_t spp_current_state(int32_t tid, uintptr_t any, uintptr_t stack_end);

#endif
