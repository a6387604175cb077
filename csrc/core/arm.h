/* The run: finds threads, arms and disarms them, wakes the drain, keeps the account of ticks. */
#ifndef SPPROF_CORE_ARM_H
#define SPPROF_CORE_ARM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/vec.h"
#include "os/os.h"

typedef struct {
    int fd; /* owned by the run from here on */
    spp_clock clock;
    bool wall; /* time off the CPU too */
    uint64_t interval_ns;
    uint32_t max_depth;
    const void *header; /* a JSON object with at least one key; start_ns is added */
    size_t header_n;
    bool may_trap; /* spp_run_exec will be called before any thread replaces the program */
    int native;    /* spp_native_mode */
    bool native_full;
} spp_options;

#define SPP_STATE_UNKNOWN UINTPTR_MAX /* the list of thread states changed while it was read */

/* Where thread states come from (module/tstate.c). Both without the GIL. */
typedef struct {
    uintptr_t (*own)(const spp_os_subject *subject); /* of the calling thread, or of a suspended one if not NULL; handler */
    /* of another thread, by guarded reads; `last` is what it was last time, or 0. 0: none; or SPP_STATE_UNKNOWN */
    uintptr_t (*of_thread)(int32_t tid, uintptr_t last);
    uint64_t *births; /* the interpreter's count of thread states ever made, or NULL */
} spp_thread_states;

/* What any use needs, once a process. -1 with *why. */
int spp_run_prepare(const char **why);
/* Before spp_run_start, for native frames. Without the GIL: who holds the loader's lock may wait for it. `evaluator`: the address
 * of _PyEval_EvalFrameDefault. -1 with *why. */
int spp_run_native(uintptr_t evaluator, const char **why);
/* Called with the GIL held or not, by one thread at a time. -1 with errno and *why. */
int spp_run_start(const spp_options *options, const spp_thread_states *states, const char **why);
void spp_run_stop(void);
void spp_run_pause(bool paused);
/* Any thread, without the GIL: waits. When it returns, all samples that were taken before the call are in the file, unless it
 * gives an errno: that of the first write that failed. 0 without a run. */
int spp_run_flush(void);
/* Native functions sampled so far: where each begins in memory, and its code id in the file. The caller frees it. */
spp_vec64 spp_run_native_functions(void);
/* What is written as block N when the run stops. */
void spp_run_native_names(const char *text, size_t n);
/* Unless paused. A garbage collection of the calling thread has ended: counts are generation, objects collected, objects
 * uncollectable. */
void spp_run_collection(uint64_t began_ns, const uint64_t counts[3]);
bool spp_run_active(void);
bool spp_run_paused(void);

/* The account, as a JSON object (docs/file-format.md, block A); also after the run. Any thread. */
void spp_run_account(spp_bytes *to);
/* The calling thread is about to replace the program: no tick may be on its way then, for the new one has no handler for it.
 * If it fails, the thread is armed again after a second. */
void spp_run_exec(void);
/* A thread's name for people; name is UTF-8. Any thread. */
void spp_run_name(int32_t tid, const char *name);

extern const char *const spp_clock_names[SPP_CLOCK_COUNT];

#endif
