/* The recorder of `spprof run`, in a program that knows nothing of it: begun by one call before the program's first line, and it
 * ends itself on every way out. */
#ifndef SPPROF_MODULE_RECORD_H
#define SPPROF_MODULE_RECORD_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The function `record`: src/spprof/_core.pyi. */
extern PyMethodDef spp_record_methods[];

#endif
