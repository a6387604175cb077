/* Proof of the layout of str, bytes and code objects. GIL held (or thread attached), reader open (proof_read.h). Returns the name
 * of the constant that is wrong, or NULL. May leave a Python error set. */
#ifndef SPPROF_PY_PROOF_OBJECTS_H
#define SPPROF_PY_PROOF_OBJECTS_H

#include <Python.h>

#include <stdint.h>

/* Where the bits of a str's state begin in it: its last four bytes. layout_check.c says why. */
#define SPP_PROOF_STR_STATE_BITS (sizeof(((PyASCIIObject *)0)->state) - sizeof(uint32_t))

/* str and bytes. */
const char *spp_proof_strings(void);
/* A code object, of a method. */
const char *spp_proof_code(PyObject *code);

/* What an attribute says, as a C long; -1: it has none. */
long spp_proof_long(PyObject *o, const char *name);

#endif
