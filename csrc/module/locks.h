/* What the sampler must know of Python's locks. */
#ifndef SPPROF_MODULE_LOCKS_H
#define SPPROF_MODULE_LOCKS_H

/* GIL held, before a run. Proves where locks have their owners and states, by locks of our own; if that fails, no holder is
 * known. */
void spp_locks_enter(void);

#endif
