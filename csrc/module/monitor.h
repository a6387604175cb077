/* Events of sys.monitoring (3.12+) for what is counted or timed exactly, each with a tool id of its own. */
#ifndef SPPROF_MODULE_MONITOR_H
#define SPPROF_MODULE_MONITOR_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

#define SPP_MONITORS (PY_VERSION_HEX >= 0x030C0000)

typedef struct {
    int tool; /* -1: none */
    PyMethodDef *callbacks;
    size_t n;
} spp_monitor;
#define SPP_MONITOR_NONE \
    { -1, NULL, 0 }

#define SPP_MONITOR_CALLBACK(event, function, does) \
    { event, (PyCFunction)(void (*)(void))function, METH_FASTCALL, does }

/* Attached (GIL held), all of it. */
/* An object of sys.monitoring that means something to callbacks ("DISABLE", "MISSING"): borrowed, for it lives as long as its
 * interpreter. NULL: there is none. */
PyObject *spp_monitor_sign(const char *name);
/* Takes an id and registers callbacks, each METH_FASTCALL and named like its event, which live as long as the program. The first
 * `everywhere` events are armed, the others where spp_monitor_arm says. 0; or -1 with an exception: `what` ("calls cannot be
 * counted") says what is refused; what was done is for spp_monitor_leave. */
int spp_monitor_enter(spp_monitor *monitor, PyMethodDef *callbacks, size_t n, size_t everywhere, const char *what);
/* Events that callbacks disabled come again, in all tools: they stay disabled for an id across its owners. 0, or -1 with an
 * exception. */
int spp_monitor_restart(void);
/* Arms all events from the one of this number on for one code object, or none. 0, or -1 with an exception. */
int spp_monitor_arm(const spp_monitor *monitor, PyObject *code, size_t from);
/* Likewise; nothing, if there is no id, and no exception is left. */
int spp_monitor_disarm(const spp_monitor *monitor, PyObject *code);
/* Disarms all events but those of single code objects, takes all callbacks away and gives the id back; without the GIL this stops
 * all threads, so none is in a callback any more. Nothing, if there is no id. */
void spp_monitor_leave(spp_monitor *monitor);
/* CPython's _Py_InitCleanup (core/capture/frames.h), which is remembered. */
bool spp_monitor_is_init_cleanup(PyObject *code);

#endif
