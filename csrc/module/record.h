/* The recorder of `spprof run`, in a program that does not know of it: started by one call before
 * the program's first line; it finishes by itself however the program ends. */
#ifndef SPPROF_MODULE_RECORD_H
#define SPPROF_MODULE_RECORD_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The function `record`: src/spprof/_core.pyi. */
extern PyMethodDef spp_record_methods[];

#endif
