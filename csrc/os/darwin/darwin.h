/* What the files of os/darwin share among themselves. */
#ifndef SPPROF_OS_DARWIN_DARWIN_H
#define SPPROF_OS_DARWIN_DARWIN_H

#include "os/darwin/mach.h"

/* Ports. A send right that is held keeps its name from being given to another port. */
void spp_darwin_release(mach_port_t port); /* gives one right back */

/* The table of threads (threads.c), which holds one right for each. Its lock is recursive. A thread that suspends another one
 * holds it all the while, so no suspended thread holds it. */
void spp_darwin_table_lock(void);
void spp_darwin_table_unlock(void);

/* Not while a thread is suspended. Whether there is such a thread, new ones included. */
bool spp_darwin_knows(int32_t tid);
/* Under that lock. MACH_PORT_NULL: no such thread was found by the last listing. *slots: where its specific slots lie. */
mach_port_t spp_darwin_port_of(int32_t tid, uintptr_t *slots);
/* Under that lock. A suspended thread's CPU clock, which the kernel knows exactly then; *ns stays if it is gone. */
void spp_darwin_exact_cpu(int32_t tid, uint64_t *ns);

/* Not while a thread is suspended. Finds out whether slots can be read where the kernel says that they lie (slots.c). */
void spp_darwin_prove_slots(void);

#endif
