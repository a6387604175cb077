/* SHA-256 of each source file named in the profile, in blocks F. With it a reader can check later
 * whether a file of that name has the text that was run. A file is read as soon as its name
 * appears, since it may be edited during the run; the writer's thread reads it when it is idle. */
#ifndef SPPROF_CORE_FILE_HASHES_H
#define SPPROF_CORE_FILE_HASHES_H

#include "core/resolve/resolved.h"

/* Call before the first definitions of a run. */
void spp_hashes_start(void);
/* Drain thread: takes the files named in a block that is about to be written. */
void spp_hashes_see(const spp_resolved *definitions);

#endif
