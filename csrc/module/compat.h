/* What older versions of Python's API lack. */
#ifndef SPPROF_MODULE_COMPAT_H
#define SPPROF_MODULE_COMPAT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if PY_VERSION_HEX < 0x030A0000
#define Py_NewRef(object) (Py_INCREF(object), (PyObject *)(object))
#define Py_XNewRef(object) (Py_XINCREF(object), (PyObject *)(object))
#endif

#endif
