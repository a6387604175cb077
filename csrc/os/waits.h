/* Why a thread is off the CPU. Our own threads; not in a handler. */
#ifndef SPPROF_OS_WAITS_H
#define SPPROF_OS_WAITS_H

#include <stddef.h>
#include <stdint.h>

#include "base/reasons.h"

#define SPP_OS_FDS 4u

/* What a thread that did not run during the call waits for: of one that did, this says nothing. */
typedef struct {
    spp_reason reason; /* SPP_REASON_running: the system does not say. A wait for Python's GIL is one for a lock here */
    int fd;            /* of the program's descriptors; -1: none, or several: then `several` has the first few */
    int several[SPP_OS_FDS];
    unsigned several_n;
    uintptr_t address; /* of the lock; 0: it has none */
    uintptr_t pc, sp;  /* its position; 0: it waits for a processor, or the system does not say */
} spp_os_wait;
spp_os_wait spp_os_thread_waits(int32_t tid);

/* What a descriptor of that thread's process is, as `socket 10.0.0.3:5432`, NUL-terminated; "" if the system does not say. */
#define SPP_OS_DESCRIPTOR 128u /* bytes; longer names keep their end */
void spp_os_descriptor(int32_t tid, int fd, char to[SPP_OS_DESCRIPTOR]);

#endif
