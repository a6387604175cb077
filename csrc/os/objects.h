/* Loaded objects: the program, its libraries, the vDSO, and code made at run time. The drain thread or a Python thread inside
 * start; not in a handler. */
#ifndef SPPROF_OS_OBJECTS_H
#define SPPROF_OS_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    char path[512];                          /* of its file, with slashes; the vDSO's is no path */
    uintptr_t base, low, high;               /* base is added to the file's addresses; its code is in [low, high) */
    uintptr_t index, index_end;              /* .eh_frame_hdr, and the end of its segment; 0: none */
    uintptr_t functions, functions_end, end; /* Windows: its table of functions (0: none), and the end of the object */
    /* Mach-O: __unwind_info (0: none), the __eh_frame it refers to, and LC_FUNCTION_STARTS */
    uintptr_t compact, compact_end, frames, frames_end, starts, starts_end;
    uint8_t build_id[32], build_id_n;
} spp_os_object;

/* Whether native frames can be walked on this system. */
extern const bool spp_os_native;
/* Calls see(arg, object) for each object. The loader's lock is held meanwhile: `see` only copies. */
void spp_os_objects(void (*see)(void *arg, const spp_os_object *object), void *arg);
/* The address of a function that any object of the process exports; 0 if none does. */
uintptr_t spp_os_symbol(const char *name);
/* A number that changes when objects come or go; its lower 32 bits count those that were unloaded. */
uint64_t spp_os_objects_stamp(void);
/* Reads an ELF file's headers, symbol tables and their strings, each at its own offset; the rest is zero and takes no memory.
 * Free it by spp_os_pages_free. NULL if it cannot be read. */
void *spp_os_symbol_file(const char *path, size_t *n);
/* Where objects are not ELF: calls add(arg, address in the file's own counting, size or 0, name) for each function named by the
 * system or by the object in memory. Returns -1 where objects are ELF, whose files are read instead. The drain thread. */
int spp_os_symbols(const spp_os_object *object, void (*add)(void *arg, uint64_t at, uint32_t size, const char *name), void *arg);
/* The text of /tmp/perf-PID.map, where JIT compilers name the functions they made, if this user owns it and it is longer than
 * *known bytes (updated); else NULL. Free it by spp_os_pages_free. */
char *spp_os_jit_map(uint64_t *known, size_t *n);

#endif
