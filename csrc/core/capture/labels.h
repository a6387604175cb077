/* Labels: names and values that a program gives to what it does. `spprof.label` keeps the current set in a ContextVar, so each
 * thread and each asyncio task has its own; a sample carries the set of the context that is current at its instant.
 *
 * The set is the value of that variable in the thread's context (contexts.h), an object of ours with a number. Whether it is
 * found there is proven when labels are first used (src/spprof/recording/labels.py). */
#ifndef SPPROF_CORE_CAPTURE_LABELS_H
#define SPPROF_CORE_CAPTURE_LABELS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the module knows of CPython. Constant once `used` is set. */
typedef struct {
    _Atomic bool used;          /* false: samples have no labels, and nothing is looked up */
    uintptr_t variable;         /* the ContextVar */
    uint32_t hash;              /* its hash, folded as hamt.c does */
    uintptr_t set_type, number; /* type of the values, offset of their number */
} spp_label_rules;
extern spp_label_rules spp_labels;

/* The number of a thread's current set of labels, 0: none. `own`: in a handler, for its own thread.
 * `other`: on any thread but not in a handler, for a thread that does not run. */
uint64_t spp_label_own(uintptr_t tstate);
uint64_t spp_label_other(uintptr_t tstate);

/* Drain lock held, all of them. A new set, by its text (a JSON object); 0: no memory. */
uint64_t spp_label_add(const char *text, size_t n);
/* The program dropped a set. Its text stays until the samples taken so far are resolved. */
void spp_label_drop(uint64_t number, bool sampling);
/* The text of a set, NULL if there is none of this number. */
const char *spp_label_text(uint64_t number, size_t *n);
/* Call when all samples before `before_ns` are resolved. */
void spp_label_forget(uint64_t before_ns);

#endif
