/* Looks up objects in dicts and modules of the program. Without the GIL another thread may change
 * these at any moment, so a borrowed reference may be to a freed object; here the lookup itself
 * takes a reference. */
#ifndef SPPROF_MODULE_HELD_H
#define SPPROF_MODULE_HELD_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

/* GIL held, or attached on a free-threaded build. New references; NULL: there is none. A pending exception stays. */
PyObject *spp_held(PyObject *dict, const char *key);                /* NULL and what is no dict hold nothing */
PyObject *spp_held_by_module(const char *module, const char *name); /* of those imported; no code of the program's runs */
/* Gives back a reference that the core kept by its address: code of the program's may run. */
void spp_held_release(uintptr_t object);

/* Refers to a code object that the core knows, from 3.11 on. The caller has the drain lock. False: it dies; or the process has
 * other interpreters, one of which it may belong to. */
bool spp_held_code(uintptr_t code);

#endif
