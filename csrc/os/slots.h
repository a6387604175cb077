/* Thread-specific slots (pthread_getspecific, TlsGetValue) and thread-local variables, read by number. */
#ifndef SPPROF_OS_SLOTS_H
#define SPPROF_OS_SLOTS_H

#include <stdint.h>

/* Slots have the numbers from 0 up to this. 0 if their place is unknown. Any thread. */
uint32_t spp_os_slots(void);
/* Words of thread-local variables have the numbers from spp_os_slots() up to this; the same number if they cannot be read. Any
 * thread. */
uint32_t spp_os_words(void);
/* Handler. A slot or word of the calling thread. */
uintptr_t spp_os_slot(uint32_t slot);
/* The distance from the calling thread's pthread_t to the one word of its own (a slot or a thread-local variable) that holds
 * `value`; 0 if there is none or more than one. Other threads have the same word at the same distance, to be read as untrusted.
 * Not in a handler. */
intptr_t spp_os_own_place(uintptr_t value);

#endif
