/* Reads what never changes in a live code object, by guarded copies: no GIL, no reference, no trust.
 * Under the drain lock, which keeps the object from dying meanwhile (resolve.h). */
#ifndef SPPROF_CORE_RESOLVE_RESOLVE_CODE_H
#define SPPROF_CORE_RESOLVE_RESOLVE_CODE_H

#include <stdbool.h>

#include "base/vec.h"
#include <stddef.h>
#include <stdint.h>

typedef struct {
    spp_bytes name, qualname, file; /* UTF-8, surrogates encoded as three bytes each */
    uintptr_t lines;                /* where its line table is, of so many bytes (resolve_table.h) */
    size_t lines_n;
    bool lines_known; /* an empty table is one too: all on the first line (3.9) */
    int32_t first_line;
} spp_code;

/* CPython's, set by the module: types, and where a type object keeps its flags. */
extern uintptr_t spp_py_str_type, spp_py_bytes_type;
extern size_t spp_py_type_flags;

/* Fills `code`, whose byte vectors are used again from call to call. A name that cannot be read becomes "<unreadable>".
 * -1: this is no code object. */
int spp_code_read(uintptr_t address, spp_code *code);

/* Appends characters of `kind` bytes each as UTF-8, surrogates as three bytes each; `bytes` of them in all. */
void spp_code_characters(const uint8_t *at, size_t bytes, uint32_t kind, spp_bytes *to);
#endif
