/* What `threading` calls the program's threads. */
#ifndef SPPROF_MODULE_NAMES_H
#define SPPROF_MODULE_NAMES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

/* GIL held, all; they leave the exception that there is as it is. */
/* `threading.Thread._set_native_id` has called for this id, in a thread that has run nothing of the program's yet. */
void spp_names_born(PyObject *id);
/* `threading.Thread._delete`, the last that a thread calls, may have called for this thread's ident: it keeps its last name. */
void spp_names_ended(void);
/* All threads that there are, if the program has imported `threading`. Others may have the GIL between some of them and the next,
 * if it `lets_go`: thousands take longer than a turn. */
void spp_names_all(bool lets_go);

#endif
