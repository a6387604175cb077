/* Which lock is Python's GIL. */
#ifndef SPPROF_MODULE_GIL_H
#define SPPROF_MODULE_GIL_H

#include <stdbool.h>
#include <stdint.h>

/* GIL held. Finds the GIL, and proves that it is one. */
void spp_gil_init(void);
/* Any thread, without the GIL. Whether the lock at an address is the one of the interpreter of a thread state (0: of the main
 * one). -1: the proof failed, so nobody knows. */
int spp_gil_is(uintptr_t state, uintptr_t address);
/* Any thread, without the GIL. The thread state that holds the GIL of a state's interpreter; 0: none does, or nobody knows. */
uintptr_t spp_gil_holder(uintptr_t state);
/* Handler. Whether the calling thread, whose state this is (0: it has none), holds the GIL. */
bool spp_gil_holds(uintptr_t state);

#endif
