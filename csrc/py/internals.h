/* Python.h with what CPython keeps to itself (`internal/`). Include it before everything else. */
#ifndef SPPROF_PY_INTERNALS_H
#define SPPROF_PY_INTERNALS_H

#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif
#ifndef Py_BUILD_CORE_MODULE
#define Py_BUILD_CORE_MODULE 1
#endif
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <Python.h>

#endif
