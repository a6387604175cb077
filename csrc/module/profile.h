/* A .spprof file as Python objects. */
#ifndef SPPROF_MODULE_PROFILE_H
#define SPPROF_MODULE_PROFILE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

/* GIL held. `_core.read`: see src/spprof/_core.pyi. */
PyObject *spp_profile_read(PyObject *self, PyObject *data);
/* GIL held. `_core.REASONS`, and `_core.COLUMNS`: a new reference, or NULL with an exception. */
PyObject *spp_profile_reasons(void);
PyObject *spp_profile_columns(void);
/* GIL held. Puts a new reference into a dictionary; false, with an exception, on failure or if there is none. */
bool spp_put(PyObject *dict, const char *key, PyObject *value);

#endif
