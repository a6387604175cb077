/* The sources of samples: one row each. A source's rows in a file are samples of its own type: what a weight counts is its unit,
 * and weights of two sources are never added. The first row is the run's clock.
 *
 * A new source is a row here, and what arms it: for an event of the system a row of os/event.h, and of the system's file. */
#ifndef SPPROF_CORE_SOURCE_H
#define SPPROF_CORE_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "os/event.h"

/* Where a sample's stack is walked. */
typedef enum {
    SPP_FROM_HANDLER, /* in a signal handler, on the thread */
    SPP_FROM_HOOK,    /* in a call of the program's that is ours, on the thread: a tick may interrupt it */
    SPP_FROM_OUTSIDE, /* by a thread of ours */
} spp_source_from;

/* X(NAME, key, unit, event, period, least, from, weight)
 * key, unit: as the file and users have them
 * event: the system's, if it counts it
 * period: units from one sample to the next at the least, if nobody asks for another: one of spp_source_period(). TIME: the run's
 * interval says it. Of a hook: 1, each is a sample. Of TASKS: time from one draw to the next, in the mean
 * least: the shortest period that may be asked for. Of page faults not 1: the signal of its own tick may have a fault
 * begin again, which is a fault again, and so on for ever (Linux's fault_signal_pending)
 * weight: what a sample's weight means */
#define SPP_SOURCES(X)                                                                                                     \
    X(TIME, "time", "nanoseconds", NONE, 0, 0, SPP_FROM_HANDLER, "time that passed on the thread up to the tick")          \
    SPP_EVENT_SOURCE(X, PAGE_FAULTS, "page-faults", "faults", 31, 4, "first touches of a page of memory or of a file")     \
    SPP_EVENT_SOURCE(X, MAJOR_FAULTS, "major-faults", "faults", 1, 1, "page faults that waited for a disk")                \
    SPP_EVENT_SOURCE(X, CONTEXT_SWITCHES, "context-switches", "switches", 1, 1, "times that it left the processor")        \
    SPP_EVENT_SOURCE(X, CPU_MIGRATIONS, "cpu-migrations", "migrations", 1, 1, "times that it came to another processor")   \
    SPP_EVENT_SOURCE(X, ALIGNMENT_FAULTS, "alignment-faults", "faults", 1, 1, "misaligned accesses that the kernel mends") \
    SPP_EVENT_SOURCE(X, INSTRUCTIONS, "instructions", "instructions", 1048573, 1000, "instructions that it has completed") \
    SPP_EVENT_SOURCE(X, CYCLES, "cycles", "cycles", 1048573, 1000, "cycles of the processor")                              \
    SPP_EVENT_SOURCE(X, CACHE_MISSES, "cache-misses", "misses", 1021, 100, "accesses that the last cache did not have")    \
    SPP_EVENT_SOURCE(X, BRANCH_MISSES, "branch-misses", "misses", 1021, 100, "branches that were foretold wrongly")        \
    X(GC, "gc", "nanoseconds", NONE, 1, 1, SPP_FROM_HOOK, "time of one garbage collection")                                \
    X(TASKS, "tasks", "nanoseconds", NONE, 10000000, 1, SPP_FROM_OUTSIDE, "time in which a task of asyncio does not run")  \
    SPP_TRACEPOINT_SOURCE(X, 1) SPP_TRACEPOINT_SOURCE(X, 2) SPP_TRACEPOINT_SOURCE(X, 3) SPP_TRACEPOINT_SOURCE(X, 4)

/* Of those that the system counts, a weight is what the thread's counter has more than at its sample before. */
#define SPP_EVENT_SOURCE(X, name, key, unit, period, least, weight) \
    X(name, key, unit, name, period, least, SPP_FROM_HANDLER, weight)

/* Of these a run has some, each for what its name says: `names` of the set. The handler itself may pass a
 * tracepoint, a system call's say: with a period that is no longer than what it passes at a tick, ticks would have no end. */
#define SPP_TRACEPOINT "tracepoint:"
#define SPP_TRACEPOINTS 4
#define SPP_TRACEPOINT_SOURCE(X, n) \
    X(TRACEPOINT_##n, SPP_TRACEPOINT "GROUP:NAME", "events", TRACEPOINT, 61, 61, SPP_FROM_HANDLER, "times that it came by")

typedef enum {
#define X(name, key, unit, event, period, least, from, weight) SPP_SOURCE_##name,
    SPP_SOURCES(X)
#undef X
        SPP_SOURCE_COUNT,
} spp_source_id;

/* The upper byte of a sample's 16 flags is its source, in the queue and until it is stored; time is
 * 0. */
#define SPP_SOURCE_SHIFT 8
static inline uint32_t spp_source_of_flags(uint32_t flags) { return flags >> SPP_SOURCE_SHIFT & 0xFF; }

/* Which sources a run has, and their periods; 0: it does not have that one. Of TIME any other number. */
typedef struct {
    uint64_t period[SPP_SOURCE_COUNT];
    bool fixed[SPP_SOURCE_COUNT];      /* asked for: else a period grows with the rate of its event */
    uint64_t detail[SPP_SOURCE_COUNT]; /* as os/event.h has it; known by spp_events_probe() */
    char names[SPP_TRACEPOINTS][64];   /* "tracepoint:GROUP:NAME" */
} spp_source_set;

typedef struct {
    const char *key, *unit, *weight, *range;
    spp_event_kind event;
    uint64_t period, least;
    spp_source_from from;
} spp_source;
extern const spp_source spp_sources[SPP_SOURCE_COUNT];

/* Whether there is any but time. */
bool spp_source_others(const spp_source_set *set);

/* The shortest period that is not less, of those that a source may have by itself: primes (and 1), each about twice the one
 * before, so that no loop of the program is in step with one. Handler. */
uint64_t spp_source_period(uint64_t least);

/* What a run calls a source of its own. */
const char *spp_source_key(const spp_source_set *set, uint32_t id);

/* Adds what `text` names: KEY or KEY=PERIOD, with commas between. False: *why says which is wrong, and how. Pure. */
bool spp_source_parse(spp_source_set *set, const char *text, const char **why);

#endif
