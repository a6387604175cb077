/* The objects that are loaded: their unwind tables and symbols, kept current by the drain thread and read by handlers. */
#ifndef SPPROF_CORE_NATIVE_NATIVE_H
#define SPPROF_CORE_NATIVE_NATIVE_H

#include <stdatomic.h>

#include "core/native/unwind.h"

typedef struct {
    uintptr_t low, high;
} spp_range;
#define SPP_EVALUATOR_PARTS 4u

/* What handlers read; never changed, another takes its place. NULL: no native frames. */
typedef struct {
    spp_unwind_map map;
    /* The parts of CPython's evaluator, from symbols. Only 3.9 and 3.10 identify it by them; later
     * versions by its frames. */
    spp_range evaluator[SPP_EVALUATOR_PARTS];
    spp_range own; /* our object: the program's calls go through it, and its frames are shown to nobody */
} spp_native_view;
extern _Atomic(const spp_native_view *) spp_native_now;

/* What others do when objects come or go. */
typedef struct {
    /* Drain lock held, before it happens: what was sampled by now gets its names. */
    void (*before)(void);
    /* Drain lock held, after it: addresses mean something else, but those that stay (NULL: all may). */
    void (*after)(bool (*stays)(uintptr_t address));
    /* Without the lock. Returns when no handler runs any more that may have seen the former view. */
    void (*wait)(void);
} spp_native_users;
/* Called without the drain lock. `evaluator`: the address of _PyEval_EvalFrameDefault. `users` stay; NULL: there are none. -1: no
 * memory. */
int spp_native_start(uintptr_t evaluator, const spp_native_users *users);
/* The drain thread, not under the drain lock. Notices objects that came or went. */
void spp_native_look(void);
/* The drain thread. What an O block says of objects that it has not said yet (docs/file-format.md); the caller frees it. */
spp_bytes spp_native_news(void);
/* No handler runs any more. */
void spp_native_stop(void);
/* A forked child: forgets all without freeing what others may have held. */
void spp_native_abandon(void);

/* The drain lock held. What is known of an address: false if no object holds it. */
typedef struct {
    const char *function; /* NULL: no symbol */
    const char *file;     /* path of the object */
    uint64_t start, at;   /* of the function and of the address, in the file's own counting */
    bool python;          /* the object is the interpreter, or made by it */
} spp_native_place;
bool spp_native_place_of(uintptr_t address, spp_native_place *place);
/* Monotonic ns: what was sampled before has the objects that are known. UINT64_MAX without native frames. */
extern _Atomic uint64_t spp_native_sure_ns;
/* The drain lock held. Whether an address sampled at a time may be of an object that had gone by then: its name would be a guess.
 */
bool spp_native_doubtful(uintptr_t address, uint64_t ns);

#endif
