/* Thread-specific slots by POSIX. */
#include <limits.h>
#include <pthread.h>

#include "base/hints.h"
#include "os/slots.h"

#ifndef PTHREAD_KEYS_MAX
#define PTHREAD_KEYS_MAX 512 /* if a system does not define it */
#endif

uint32_t spp_os_slots(void) { return PTHREAD_KEYS_MAX; }
uint32_t spp_os_words(void) { return PTHREAD_KEYS_MAX; }

SPP_HOT uintptr_t spp_os_slot(uint32_t slot) { return (uintptr_t)pthread_getspecific((pthread_key_t)slot); }
