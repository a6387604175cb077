/* What older versions of Python's API lack. */
#ifndef SPPROF_MODULE_COMPAT_H
#define SPPROF_MODULE_COMPAT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if PY_VERSION_HEX < 0x030A0000
#define Py_NewRef(object) (Py_INCREF(object), (PyObject *)(object))
#define Py_XNewRef(object) (Py_XINCREF(object), (PyObject *)(object))
#endif

/* A lock between threads that the GIL would keep apart; where there is a GIL, none. */
#ifdef Py_GIL_DISABLED
typedef PyMutex spp_turn;
#define SPP_TURN_BEGINS(turn) PyMutex_Lock(turn)
#define SPP_TURN_ENDS(turn) PyMutex_Unlock(turn)
#else
typedef char spp_turn;
#define SPP_TURN_BEGINS(turn) ((void)(turn))
#define SPP_TURN_ENDS(turn) ((void)(turn))
#endif

#endif
