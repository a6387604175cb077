/* Our threads end while the program must be alone in its process, and start again afterwards: around a fork, of which Python
 * warns where the kernel counts more threads than one, and around calls that fail in a process of several threads. */
#ifndef SPPROF_CORE_RUN_ALONE_H
#define SPPROF_CORE_RUN_ALONE_H

#include <stdint.h>

/* A program's own thread, with or without the GIL; not a handler. Waits for our threads to end, `most_ns` at the most. Does
 * nothing where the program has other threads anyway, where the system's ticks need a thread of ours, or without a run. */
void spp_alone_rest(uint64_t most_ns);
/* The same thread, afterwards: starts them again. If that fails (limits), the next call does, or the run's end works without. In
 * a forked child it does nothing. */
void spp_alone_wake(void);

#endif
