/* What dicts and modules of the program hold. Without the GIL another thread may change them at any moment, so a reference that
 * they only lend may be to an object that is gone; here it is taken by the look itself. */
#ifndef SPPROF_MODULE_HELD_H
#define SPPROF_MODULE_HELD_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* GIL held, or attached on a free-threaded build. New references; NULL: there is none. An exception that there is stays. */
PyObject *spp_held(PyObject *dict, const char *key);                /* NULL and what is no dict hold nothing */
PyObject *spp_held_by_module(const char *module, const char *name); /* of those imported; no code of the program's runs */

#endif
