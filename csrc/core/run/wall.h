#ifndef SPPROF_CORE_RUN_WALL_H
#define SPPROF_CORE_RUN_WALL_H

/* The sampler thread of wall mode. */
void spp_wall_body(void *unused);

#endif
