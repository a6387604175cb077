/* The core's entry: all that the module asks of a run. run.c says how; state.h is what the run keeps to itself. */
#ifndef SPPROF_CORE_RUN_RUN_H
#define SPPROF_CORE_RUN_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "core/capture/tstates.h"
#include "core/source.h"
#include "os/files.h"
#include "os/ticks.h"

/* What a thread's ticks may be apart: 20 kHz to 1 Hz. */
#define SPP_INTERVAL_LEAST_NS 50000u
#define SPP_INTERVAL_MOST_NS 1000000000u

typedef struct {
    spp_os_file file; /* owned by the run from here on */
    const spp_clock *clock;
    bool wall;              /* time off the CPU too */
    spp_source_set sources; /* probed; at least one */
    uint64_t interval_ns;
    uint32_t max_depth;
    const void *header; /* a JSON object with at least one key; start_ns is added */
    size_t header_n;
    bool may_trap; /* spp_run_exec will be called before any thread replaces the program */
    int native;    /* spp_native_mode */
    bool native_full;
    int calls;         /* which calls are counted, for who starts the run (module/calls.h) */
    const char *times; /* which are timed, likewise (module/times.h) */
    bool exceptions;   /* they are counted; likewise (module/exceptions.h) */
    uint64_t resume_at_ns,
        end_at_ns;       /* monotonic: no samples before the first, and the run ends itself at the second; 0: neither */
    uint64_t counted_ns; /* from when both were counted, which is to be the run's start: they move on to that. 0: they stay */
    void (*ended)(void); /* called by the drain thread when it has; what is left is for spp_run_stop */
} spp_options;

/* What any use needs, once a process. -1 with *why. */
int spp_run_prepare(const char **why);
/* Before spp_run_start, for native frames. Without the GIL: a thread that holds the loader's lock may wait for the GIL.
 * `evaluator`: the address of _PyEval_EvalFrameDefault. -1 with *why. */
int spp_run_native(uintptr_t evaluator, const char **why);
/* A process has one run at a time, in whatever interpreter, and one thread that starts or stops it.
 * The thread that sets STARTING or STOPPING owns the run until it sets the next phase. So no Python
 * lock is needed, which an exception could leave locked, and on which a signal handler or finalizer
 * would deadlock in the thread that holds it. */
typedef enum { SPP_RUN_NONE, SPP_RUN_STARTING, SPP_RUN_ACTIVE, SPP_RUN_STOPPING } spp_run_phase;
/* Any thread. False: it is another phase. */
bool spp_run_turn(spp_run_phase from, spp_run_phase to);
/* Any thread. What it is; *mine: it is this thread that starts or stops. */
spp_run_phase spp_run_phase_now(bool *mine);
/* The thread that has turned NONE to STARTING, without the GIL: with thousands of threads it takes a while. If it fails, *why
 * and perhaps errno say why, and it turns it back. */
typedef enum { SPP_START_DONE, SPP_START_REFUSED, SPP_START_UNWRITTEN } spp_start_result;
spp_start_result spp_run_start(spp_options *options, const spp_thread_states *states, const char **why);
void spp_run_stop(void); /* the one that has turned ACTIVE to STOPPING */
/* What the end of the file gives as the reason, if it is not "stop": a literal. Before spp_run_stop. */
void spp_run_reason(const char *reason);
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
/* Whether its time is over, the file is whole, and nobody has stopped it yet. */
bool spp_run_is_over(void);
bool spp_run_paused(void);

/* The tick stats, as a JSON object (docs/file-format.md, block A); also after the run. Any thread. */
void spp_run_tick_stats(spp_bytes *to);
/* The calling thread is about to replace the program: no tick may be on its way then, for the new one has no handler for it.
 * If it fails, the thread is armed again after a second. */
void spp_run_exec(void);
/* Called by a program's own thread around a fork, of which Python warns where the kernel counts more threads than one. Nothing
 * happens where the program has other threads anyway, where the system's ticks need a thread of ours, without a run, or where one
 * of our threads waits for something (50 ms). With or without the GIL; not a handler. Also in a forked child, to which the second
 * means nothing. */
void spp_run_rest(void);
/* Goes on without threads that could not be started (limits); without any, the thread that stops
 * the run finishes it. */
void spp_run_wake(void);
/* The calling thread is about to end the process, and no handler of its end runs: the file is finished, but for a second at the
 * most. Any thread, with or without the GIL, also in a handler of the program's. */
void spp_run_leave(void);
/* The calling thread is about to confine the process so that no tick may come any more, nor a thread of ours be there: the run is
 * over before that, and the file whole. As above. */
void spp_run_confined(void);
/* Call where Python reports a forked child: the C library, and so its atfork handlers, may not know
 * of the fork (a direct system call). */
void spp_run_look_forked(void);
/* A thread ends, or begins: so Python says. Any thread. */
void spp_run_ends(int32_t tid);
void spp_run_born(int32_t tid);
/* A thread's name for people; name is UTF-8. Any thread. */
void spp_run_name(int32_t tid, const char *name);
void spp_run_names(const int32_t *tids, const char *const *names, uint32_t n); /* nothing, without a run */

#endif
