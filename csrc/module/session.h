/* Start and stop, and what a module of an interpreter keeps of the profile being taken. */
#ifndef SPPROF_MODULE_SESSION_H
#define SPPROF_MODULE_SESSION_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if PY_VERSION_HEX < 0x030A0000
#define Py_NewRef(object) (Py_INCREF(object), (PyObject *)(object))
#define Py_XNewRef(object) (Py_XINCREF(object), (PyObject *)(object))
#endif

/* Without the GIL, around what a thread takes from the module while another takes it away. */
#ifndef Py_BEGIN_CRITICAL_SECTION
#define Py_BEGIN_CRITICAL_SECTION(object) {
#define Py_END_CRITICAL_SECTION() }
#endif

/* Of one interpreter: whoever started a run stops it, and nobody may touch another interpreter's objects. */
typedef struct {
    PyObject *session;      /* of the profile being taken; NULL: none, or another interpreter's */
    PyObject *patch;        /* what was put in for it: (type, name, ours, original) */
    PyObject *write_error;  /* the exception WriteError */
    char layout_error[256]; /* empty: none */
} spp_module_state;

/* start, stop, session, forget, collection: src/spprof/_core.pyi. */
extern PyMethodDef spp_session_methods[];

/* -1: there is none. */
int spp_clock_of_name(const char *name);

#endif
