/* Spans of OpenTelemetry: a sample carries the ids of the trace and of the span that are current at its instant.
 *
 * A program that uses OpenTelemetry keeps the current span in a ContextVar of that library: thread state > context > the
 * variable's value, a dict > the span > its attribute `_context`, a tuple that begins with both ids. All is read where it is, by
 * guarded reads; nothing of the program's is changed or called. */
#ifndef SPPROF_CORE_CAPTURE_SPANS_H
#define SPPROF_CORE_CAPTURE_SPANS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SPP_SPAN_WORDS 3u

/* Both ids, as numbers. All 0: there is no span. */
typedef struct {
    uint64_t trace_high, trace_low, id;
} spp_trace_ids;

/* What the module knows of CPython (module/spans.h). Constant while a run is active. */
typedef struct {
    uintptr_t modules;                                    /* the dict `sys.modules`; 0: nothing is looked up */
    uintptr_t runtime, variable, key, api, type, context; /* names, interned: see spans.c */
    uintptr_t module, dict, integer, context_var;         /* types */
    uintptr_t hash, items;                                /* offsets: of a ContextVar's hash; of a tuple's first item */
    uintptr_t flags, dict_offset, basicsize, keys;        /* in types; the last: of the keys that instances share */
    uint64_t managed, inlined;                            /* flags of types whose instances have no dict of their own at first */
    long dict_at, values_at;                              /* offsets in these; 0: they have none */
    uint32_t values_first;                                /* where in a table of values the first one is */
    uint32_t digits_shift;                                /* of the word that says how many digits an int has */
} spp_span_rules;
extern spp_span_rules spp_span_rule;

/* OpenTelemetry's ContextVar; 0: samples have no spans, since the program has not imported OpenTelemetry. */
extern _Atomic uintptr_t spp_span_variable;

/* The span that is current in a thread. `own`: in a handler, for its own thread. `other`: on any thread but not in a handler, for
 * a thread that does not run. */
void spp_span_own(uintptr_t tstate, spp_trace_ids *span);
void spp_span_other(uintptr_t tstate, spp_trace_ids *span);

static inline bool spp_span_is(const spp_trace_ids *span) { return (span->trace_high | span->trace_low | span->id) != 0; }

/* Looks whether the program has imported OpenTelemetry by now. Not a handler; one thread at a time. */
void spp_span_look(void);
/* Before a run: what was found is forgotten. */
void spp_span_forget(void);

/* Any thread but not in a handler, of another thread's object: an attribute that it has by an interned name; 0: none. */
uintptr_t spp_span_attribute_other(uintptr_t object, uintptr_t name);

/* For the module's proof, not a handler. An attribute of an object, 0: none, or the two ways of reading differ; and whether both
 * read this from a tuple that begins with two ints. */
uintptr_t spp_span_attribute(uintptr_t object, uintptr_t name);
bool spp_span_ids(uintptr_t tuple, spp_trace_ids *span);

#endif
