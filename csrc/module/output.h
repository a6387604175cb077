/* The descriptor that a profile is written to, as a Python object that owns it: an exception may come between any two
 * instructions of Python code, and a number on its stack would be lost then. */
#ifndef SPPROF_MODULE_OUTPUT_H
#define SPPROF_MODULE_OUTPUT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

/* GIL held, all of it. The functions `open_output` and `copy_output`: see src/spprof/_core.pyi. */
extern PyMethodDef spp_output_methods[];
/* Creates the type for a module. NULL with an exception. */
PyObject *spp_output_type(void);
/* Creates a new file at *path, or at the first free name beside it (X.spprof, X.2.spprof), and sets
 * *path to that; NULL with an exception. */
PyObject *spp_output_first_free(PyObject *module, PyObject **path);
/* The file is kept, also when it is closed. */
void spp_output_keep(PyObject *output);
void spp_output_close(PyObject *output);
/* The descriptor of such an object; -1 if it is closed. */
int spp_output_fd(PyObject *output);

#endif
