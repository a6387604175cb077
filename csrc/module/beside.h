/* The supervisor of `spprof run`, as Python needs it. */
#ifndef SPPROF_MODULE_BESIDE_H
#define SPPROF_MODULE_BESIDE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The function `fork_unseen`: src/spprof/_core.pyi. */
extern PyMethodDef spp_beside_methods[];

/* From here on each way out of the interpreter waits for the supervisor at the other end of the socket `fd` (-1: none). Once, by
 * the main thread, with the GIL. */
void spp_beside_take(int fd);

#endif
