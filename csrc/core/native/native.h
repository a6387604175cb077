/* The loaded objects: their unwind tables and symbols, kept current by the drain thread and read by
 * handlers. */
#ifndef SPPROF_CORE_NATIVE_NATIVE_H
#define SPPROF_CORE_NATIVE_NATIVE_H

#include <stdatomic.h>

#include "core/native/unwind.h"

typedef struct {
    uintptr_t low, high;
} spp_range;
#define SPP_EVALUATOR_PARTS 4u

/* What handlers read. Never changed, only replaced. NULL: no native frames. */
typedef struct {
    spp_unwind_map map;
    /* The parts of CPython's evaluator, from symbols. Only 3.9 and 3.10 identify it by them; later
     * versions by its frames. */
    spp_range evaluator[SPP_EVALUATOR_PARTS];
    spp_range own; /* our object: the program's calls go through it, and its frames are not shown */
} spp_native_view;
extern _Atomic(const spp_native_view *) spp_native_now;

/* Callbacks for when objects come or go. */
typedef struct {
    /* Drain lock held, before the change: resolve the names of everything sampled so far. */
    void (*before)(void);
    /* Drain lock held, after it: addresses may now mean something else, except in objects that stay
     * (NULL: all may). */
    void (*after)(bool (*stays)(uintptr_t address));
    /* Without the lock. Returns when no handler that may have seen the old view still runs. */
    void (*wait)(void);
} spp_native_users;
/* Called without the drain lock. `evaluator`: the address of _PyEval_EvalFrameDefault. `users` must
 * stay valid; NULL: none. -1: no memory. */
int spp_native_start(uintptr_t evaluator, const spp_native_users *users);
/* Drain thread, without the drain lock. Notices objects that came or went. */
void spp_native_look(void);
/* Drain thread. The content of the next O block: objects not written yet (docs/file-format.md). The
 * caller frees it. */
spp_bytes spp_native_news(void);
/* Call when no handler runs any more. */
void spp_native_stop(void);
/* In a forked child: forgets everything without freeing what other threads may have held. */
void spp_native_abandon(void);

/* Drain lock held. Looks up an address; false if no object contains it. */
typedef struct {
    const char *function; /* NULL: no symbol */
    const char *file;     /* path of the object */
    uint64_t start, at;   /* of the function and of the address, relative to the file */
    bool python;          /* the object is the interpreter, or made by it */
} spp_native_place;
bool spp_native_place_of(uintptr_t address, spp_native_place *place);
/* Samples older than this (monotonic ns) can be symbolized with the current objects. UINT64_MAX
 * without native frames. */
extern _Atomic uint64_t spp_native_sure_ns;
/* Drain lock held. Whether an address sampled at this time may belong to an object unloaded since:
 * its name would be a guess. */
bool spp_native_doubtful(uintptr_t address, uint64_t ns);

#endif
