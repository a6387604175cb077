/* Walks native frames from interrupted registers, by the tables of unwind_table.h. Handler: no
 * lock, no allocation. Reads the thread's own stack in place where it is known to be mapped;
 * everything else only after a probe. The same code walks a blocked thread from outside. */
#ifndef SPPROF_CORE_NATIVE_UNWIND_H
#define SPPROF_CORE_NATIVE_UNWIND_H

#include "core/native/unwind_table.h"

/* All objects at one moment, sorted by address. Never changed, only replaced. */
typedef struct {
    const spp_unwind_rule *rules;
    const spp_unwind_object *const *objects;
    uint32_t objects_n;
    uint32_t serial; /* not 0; differs from those of all earlier maps */
} spp_unwind_map;

/* A thread's cache of lookups: pc << 16 | rule. */
#define SPP_UNWIND_CACHED 1024u
typedef struct {
    uint32_t serial; /* of the map that they are from */
    uint64_t of_pc[SPP_UNWIND_CACHED];
} spp_unwind_cache;

typedef enum {
    SPP_UNWIND_REACHED, /* the thread's entry point */
    SPP_UNWIND_STOPPED, /* at the frame that holds `stop` */
    SPP_UNWIND_NO_RULE, /* code without a usable rule, and no frame pointer */
    SPP_UNWIND_ASTRAY,  /* a frame that is not above the previous one, on the stack */
    SPP_UNWIND_TOO_DEEP,
} spp_unwind_end;

typedef enum {
    SPP_UNWIND_OWN,    /* this thread's stack, mapped from sp to stack_end */
    SPP_UNWIND_PROBED, /* this thread's, but not known to be mapped: each page is probed */
    SPP_UNWIND_OTHER,  /* of a thread that may go on or end: each word is copied, guarded. Not in a handler */
} spp_unwind_memory;

typedef struct {
    /* the position of the walk; set for the interrupted frame, and advanced by each call */
    uintptr_t pc, sp, fp;
    bool called; /* pc is behind a call (else where a signal came, or may have come) */

    const uintptr_t *registers; /* by DWARF number, of the frame with depth 0; NULL: only sp and fp are known */
    uintptr_t stack_end;
    spp_unwind_memory memory;
    uintptr_t probed;        /* an address in the page that was probed last */
    bool guess;              /* frame pointers may be followed from code outside all objects */
    uintptr_t stop;          /* the walk ends with the frame that holds this address; 0: at the entry point */
    spp_unwind_cache *cache; /* NULL: none */
    uintptr_t *pcs, *cfas;   /* leaf first: an address in the instruction that runs or calls; canonical frame address */
    uint32_t max;
    /* results */
    uint32_t depth;
    bool guessed; /* a frame pointer was followed without a rule that says so */
    spp_unwind_end end;
} spp_unwind_walk;

/* The object that holds an address, or NULL. */
const spp_unwind_object *spp_unwind_object_of(const spp_unwind_map *map, uintptr_t pc);

/* Appends frames from `depth` on. */
void spp_unwind(const spp_unwind_map *map, spp_unwind_walk *walk);

/* Reads a word of the stack; false if it is not on the stack. */
bool spp_unwind_peek(spp_unwind_walk *walk, uintptr_t at, uintptr_t *value);

#endif
