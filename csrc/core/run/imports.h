/* Exact times of imports. The module says what was imported (module/imports.c); what was noted is written as block I of the
 * file. */
#ifndef SPPROF_CORE_RUN_IMPORTS_H
#define SPPROF_CORE_RUN_IMPORTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint64_t began_ns, took_ns; /* with what it imported itself */
    int32_t tid;
    bool failed;
    const char *name, *file; /* UTF-8; `file`: of its code, or empty */
} spp_import;

/* Whether imports are to be noted now: between start and stop, unless paused. */
extern _Atomic bool spp_imports_on;

/* The starting thread, before a run begins; nothing is noted until spp_imports_follow. */
void spp_imports_start(void);
/* One has ended. Any thread. */
void spp_imports_add(const spp_import *import);
void spp_imports_follow(bool paused); /* any thread */
/* Writes all that were noted so far; `last`: and notes no more. The drain thread, without the drain lock. */
void spp_imports_write(bool last);
void spp_imports_stop(void);
void spp_imports_child(void); /* in a forked child */

#endif
