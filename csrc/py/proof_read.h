/* How the proof of the layout reads Python's memory: through a pipe, so that a wrong constant gives a message and not a fault.
 *
 * All of it on the thread that proves, between open and close: interpreters with a GIL each may do so at once. A constant that
 * this version lacks (-1) is never read: each call is under a plain if on the constant, which keeps one source for all versions.
 */
#ifndef SPPROF_PY_PROOF_READ_H
#define SPPROF_PY_PROOF_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 0, or -1: out of descriptors. */
int spp_proof_read_open(void);
void spp_proof_read_close(void);

/* Always `len` bytes, or false. */
bool spp_proof_read(uintptr_t base, long offset, void *to, size_t len);
/* Values at an offset; what cannot be read is 0, or 127 in a byte. */
uintptr_t spp_proof_word(uintptr_t base, long offset);
uint32_t spp_proof_u32(uintptr_t base, long offset);
int spp_proof_i8(uintptr_t base, long offset);
/* As CPython declares the ids of threads: 4 bytes on Windows. */
unsigned long spp_proof_id(uintptr_t base, long offset);
/* Whether these bytes, 64 at the most, are there. */
bool spp_proof_same(uintptr_t base, long offset, const void *want, size_t len);

/* What a part of the proof returns: NULL, or what is wrong: the field's name, or this, if it could not be tried. */
extern const char spp_proof_cannot[];

#ifdef Py_GIL_DISABLED
#define SPP_PROOF_FREE_THREADED true
#else
#define SPP_PROOF_FREE_THREADED false
#endif

#endif
