/* SHA-256 of each source file whose name appears in the profile, in blocks F: who reads the profile later knows by it whether a
 * file of that name has the text that was run. A file is read as soon as its name appears, for it may be edited during the run;
 * by the writer's thread, when that has nothing else to do. */
#ifndef SPPROF_CORE_FILE_HASHES_H
#define SPPROF_CORE_FILE_HASHES_H

#include "core/resolve/resolved.h"

/* The first definitions of a run come next. */
void spp_hashes_start(void);
/* Drain thread: the files of what is about to be written. */
void spp_hashes_see(const spp_resolved *definitions);

#endif
