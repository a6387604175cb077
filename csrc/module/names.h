/* The names that `threading` gives the program's threads. */
#ifndef SPPROF_MODULE_NAMES_H
#define SPPROF_MODULE_NAMES_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

/* GIL held, all of it. A pending exception stays. */
/* Call when `threading.Thread._set_native_id` may have asked for this id, in a thread that has run
 * no code of the program yet; or a thread of spprof's own, as it begins and ends. */
void spp_names_born(PyObject *id);
/* Takes the threads of spprof's own from listening.py: before a run, with the hooks put, and when
 * it says that they change. */
void spp_names_ours(void);
/* Call when `threading.Thread._delete`, the last call of a thread, may have asked for this thread's
 * ident: keeps its last name. */
void spp_names_ended(void);
/* Names all current threads, if the program has imported `threading`. If it `lets_go`, it releases
 * the GIL now and then: thousands take longer than a turn. */
void spp_names_all(bool lets_go);

#endif
