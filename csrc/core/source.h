/* The sources of samples: one row each. A source's rows in a file are samples of its own type: what a weight counts is its unit,
 * and weights of two sources are never added. The first row is the run's clock.
 *
 * A new source is a row here, and what arms it: for an event of the system a row of os/event.h. */
#ifndef SPPROF_CORE_SOURCE_H
#define SPPROF_CORE_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

/* Where a sample's stack is walked. */
typedef enum {
    SPP_FROM_HANDLER, /* in a signal handler, on the thread */
    SPP_FROM_HOOK,    /* in a call of the program's that is ours, on the thread: a tick may interrupt it */
    SPP_FROM_OUTSIDE, /* by a thread of ours */
} spp_source_from;

/* X(NAME, key, unit, period, least, from, weight)
 * key, unit: as the file and users have them
 * period: units from one sample to the next, if nobody asks for another; a prime, so that no loop of the program is in step with
 * it. TIME: the run's interval says it
 * least: the shortest period that may be asked for. Of page faults not 1: a fault that is met by the signal of its own tick may
 * begin anew, which is a fault again, and so on for ever (Linux's fault_signal_pending)
 * weight: what a sample's weight means */
#define SPP_SOURCES(X)                                                                                      \
    X(TIME, "time", "nanoseconds", 0, 0, SPP_FROM_HANDLER, "time that passed on the thread up to the tick") \
    X(PAGE_FAULTS, "page-faults", "faults", 31, 4, SPP_FROM_HANDLER, "page faults of the thread since its sample before")

typedef enum {
#define X(name, key, unit, period, least, from, weight) SPP_SOURCE_##name,
    SPP_SOURCES(X)
#undef X
        SPP_SOURCE_COUNT,
} spp_source_id;

/* A sample's source is told by the upper byte of its 16 flags, in the queue and until it is stored; time is 0. */
#define SPP_SOURCE_SHIFT 8
static inline uint32_t spp_source_of_flags(uint32_t flags) { return flags >> SPP_SOURCE_SHIFT & 0xFF; }

/* Which sources a run has, and their periods; 0: it does not have that one. Of TIME any other number. */
typedef struct {
    uint64_t period[SPP_SOURCE_COUNT];
} spp_source_set;

typedef struct {
    const char *key, *unit, *weight;
    uint64_t period, least;
    spp_source_from from;
} spp_source;
extern const spp_source spp_sources[SPP_SOURCE_COUNT];

/* Whether there is any but time. */
bool spp_source_others(const spp_source_set *set);

/* Adds what `text` names: KEY or KEY=PERIOD, with commas between. False: *why says which is wrong, and how. Pure. */
bool spp_source_parse(spp_source_set *set, const char *text, const char **why);

#endif
