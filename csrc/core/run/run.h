/* The core's entry: all calls by which the module uses a run. state.h has the run's private state. */
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
    int calls;           /* which calls are counted, for the module (module/calls.h) */
    const char *times;   /* which are timed, likewise (module/times.h) */
    const char *lines;   /* the executions of which functions are counted, likewise (module/executions.h) */
    bool exceptions;     /* they are counted; likewise (module/exceptions.h) */
    bool imports;        /* they are timed; likewise (module/imports.h) */
    bool specialization; /* what is not specialized is read at the end; likewise (module/adaptive.h) */
    uint64_t resume_at_ns,
        end_at_ns;       /* monotonic: no samples before the first, and the run ends itself at the second; 0: neither */
    uint64_t counted_ns; /* both are relative to this instant, and move with the run's start; 0: they are absolute */
    void (*ended)(void); /* called by the drain thread after that; spp_run_stop does the rest */
} spp_options;

/* Call once per process before anything else here. -1 with *why. */
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
/* The thread that ends the interpreter, in the place of one that goes on no more: it is this phase. */
void spp_run_take(spp_run_phase phase);
/* Any thread. The current phase; *mine: this thread is the one that starts or stops. */
spp_run_phase spp_run_phase_now(bool *mine);
/* On the thread that turned NONE to STARTING, without the GIL: with thousands of threads it takes a
 * while. If it fails, *why and perhaps errno say why, and the phase is NONE again. */
typedef enum { SPP_START_DONE, SPP_START_REFUSED, SPP_START_UNWRITTEN } spp_start_result;
spp_start_result spp_run_start(spp_options *options, const spp_thread_states *states, const char **why);
void spp_run_stop(void); /* the one that has turned ACTIVE to STOPPING */
/* The reason that the file's end gives instead of "stop": a literal. Before spp_run_stop. */
void spp_run_reason(const char *reason);
void spp_run_pause(bool paused);
/* Any thread, without the GIL: waits. Afterwards all samples taken before the call are in the file,
 * unless it returns the errno of the first failed write. 0 without a run. */
int spp_run_flush(void);
/* Native functions sampled so far: address in memory and code id in the file. The caller frees it. */
spp_vec64 spp_run_native_functions(void);
/* Sets the text of block N, written when the run stops. */
void spp_run_native_names(const char *text, size_t n);
/* Reports the end of a garbage collection on the calling thread; ignored while paused. Counts are
 * generation, objects collected, objects uncollectable. */
void spp_run_collection(uint64_t began_ns, const uint64_t counts[3]);
/* Any thread. Reports a request of the program's that has ended; ignored while paused. `label`: the number of its set of labels,
 * which lives as long as the call. */
void spp_run_request(uint64_t began_ns, uint64_t took_ns, uint64_t label);
bool spp_run_active(void);
/* Whether its time is up, its file is complete, and nothing has stopped it yet. */
bool spp_run_is_over(void);
bool spp_run_paused(void);

/* The tick stats, as a JSON object (docs/file-format.md, block A); also after the run. Any thread. */
void spp_run_tick_stats(spp_bytes *to);
/* Call before the calling thread replaces the program: afterwards no tick is under way, since the
 * new program has no handler for it. If the program is not replaced, the thread is armed again
 * after a second. */
void spp_run_exec(void);
/* Call before a fork or anything else that requires a single-threaded process: stops our threads.
 * (Python warns of a fork if the kernel counts more threads than one.) Does nothing if the program
 * has other threads anyway, if the system's ticks need a thread of ours, without a run, or if one
 * of our threads does not stop within 50 ms. With or without the GIL; not in a handler. Afterwards
 * call spp_run_wake, also in a forked child, where it has no effect. */
void spp_run_rest(void);
/* Goes on without threads that could not be started (limits); without any, the thread that stops
 * the run finishes it. */
void spp_run_wake(void);
/* Call before the calling thread ends the process without any exit handlers: finishes the file, for
 * at most a second. Any thread, with or without the GIL, also in a handler of the program's. */
void spp_run_leave(void);
/* Call before the calling thread confines the process so that ticks or our threads are not allowed:
 * ends the run and finishes the file. As above. */
void spp_run_confined(void);
/* Call where Python reports a forked child: the C library, and so its atfork handlers, may not know
 * of the fork (a direct system call). */
void spp_run_look_forked(void);
/* Python reports that a thread ends, or begins. Any thread. */
void spp_run_ends(int32_t tid);
void spp_run_born(int32_t tid);
/* Which threads that run Python are spprof's own, as in core/run/ours.h. Any thread, before and in a run. */
uint64_t spp_run_ours_look(void);
void spp_run_ours_found(uint64_t look, const int32_t *tids, uint32_t n, uint32_t births);
void spp_run_ours_leave(int32_t tid);
void spp_run_ours_forget(void); /* before a run */
/* A thread's name for people; name is UTF-8. Any thread. */
void spp_run_name(int32_t tid, const char *name);
void spp_run_names(const int32_t *tids, const char *const *names, uint32_t n); /* nothing, without a run */

#endif
