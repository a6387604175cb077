/* Start and stop: the run as an interpreter sees it. */
#ifndef SPPROF_MODULE_SESSION_H
#define SPPROF_MODULE_SESSION_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "core/run/run.h"

/* The state of one interpreter. */
typedef struct {
    PyObject *write_error;  /* the exception WriteError */
    char layout_error[256]; /* empty: none */
} spp_module_state;

/* start, stop, session, forget, name_all, collection: src/spprof/_core.pyi. */
extern PyMethodDef spp_session_methods[];

/* GIL held, all of it. */
/* Begins a run; `session` is kept until its stop. 1; 0: there is one already, or this thread is just starting or stopping one;
 * -1: an exception (the layout is unproven, a bad option, the output, the system), and nothing has changed. `calls`: or NULL. */
typedef struct {
    void *(*exec)(PyObject **env); /* as in spp_hooks_to */
    void (*exec_failed)(void *kept);
    const char *(*reason)(void); /* why the run ended by itself: a literal, or NULL for the usual reason */
} spp_session_calls;
int spp_session_begin(PyObject *module, PyObject *session, spp_options *options, PyObject *output,
                      const spp_session_calls *calls);
/* A new reference; NULL: there is none, or it is another interpreter's. In a forked child the
 * parent's, until it is forgotten. */
PyObject *spp_session_now(void);
/* Ends the run and everything that belongs to it, if this interpreter began it. A pending exception
 * stays. */
void spp_session_end(void);
/* The same, if its time is over: before 3.13 the main thread does not notice a pending call while nothing else makes it look. */
void spp_session_settle(void);
/* In a forked child: reverts what the parent's start changed, and returns the parent's session, or
 * None. A method. */
PyObject *spp_session_forget(PyObject *self, PyObject *none);

#endif
