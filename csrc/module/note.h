#ifndef SPPROF_MODULE_NOTE_H
#define SPPROF_MODULE_NOTE_H

#include <stdint.h>

/* The address of an int that Python makes 1 when a signal waits for the main thread, and 0 when that has seen it; it tests only
 * whether it is 0. Or 0 if it is not found. With the GIL. */
uintptr_t spp_note_find(void);

#endif
