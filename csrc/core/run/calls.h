/* Exact counts of calls: how often each function was called, from which instruction of which function.
 *
 * A table is open-addressed, and only one thread at a time counts in it: the one that holds the GIL,
 * or, without a GIL, the table's owner. So counting a known call takes no lock. The module reports
 * the calls (module/calls.h) and keeps the code objects in the tables alive. Their contents become
 * block C of the file. */
#ifndef SPPROF_CORE_RUN_CALLS_H
#define SPPROF_CORE_RUN_CALLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    SPP_CALL_PYTHON, /* the callee is a code object */
    SPP_CALL_RESUME, /* the same, and its generator or coroutine goes on */
    SPP_CALL_C,      /* a function in C: an address that is its alone */
} spp_call_kind;

typedef struct {
    uintptr_t callee, caller; /* callee 0: an empty slot; caller 0: no Python code called it */
    uint32_t at;              /* the byte offset of the caller's instruction, or SPP_OFFSET_NONE */
    uint32_t kind;
    _Atomic uint64_t count;
} spp_call;

typedef struct spp_calls {
    struct spp_calls *next;
    spp_call *slots;
    size_t mask, n;
    bool full;                  /* no place comes in any more */
    _Atomic uint64_t uncounted; /* calls for which there was no slot */
} spp_calls;

/* Whether calls are to be counted now: between start and stop, unless paused. */
extern _Atomic bool spp_calls_on;

/* Begins a run's counting, which is off until spp_calls_follow. On the thread that starts the run,
 * before it begins; no table of an earlier run is left. */
void spp_calls_start(void);
/* A new table for the calling thread, or NULL: no memory. Attached. */
spp_calls *spp_calls_table(void);
/* Counts a call if it was counted before; attached, by the table's thread. False: it was not. */
bool spp_calls_count(spp_calls *table, uintptr_t callee, uintptr_t caller, uint32_t at, spp_call_kind kind);
/* Counts one for the first time. `name`: of a function in C, UTF-8 of MODULE-OR-TYPE, a zero byte, NAME. True: the table now
 * refers to callee (if it is a code object) and caller. Attached, by the table's thread; takes the drain lock. */
bool spp_calls_add(spp_calls *table, uintptr_t callee, uintptr_t caller, uint32_t at, spp_call_kind kind, const char *name);
/* Another profiler took a thread away from us. Attached. */
void spp_calls_taken(void);
/* Counts from now on, or not. Any thread. */
void spp_calls_follow(bool paused);
/* Writes what was counted so far; `last`: and counts no more. The drain thread, without the drain lock. Nothing if calls are not
 * counted. */
void spp_calls_write(bool last);
/* Frees all tables; `release` is called for each code object that one refers to. Nobody counts any more. Attached. */
void spp_calls_stop(void (*release)(uintptr_t code));
/* In a forked child. */
void spp_calls_child(void);

#endif
