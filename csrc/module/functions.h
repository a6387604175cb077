/* Names of functions written in C: which native function is `zlib.compress`, which is `numpy.ndarray.sum`. */
#ifndef SPPROF_MODULE_FUNCTIONS_H
#define SPPROF_MODULE_FUNCTIONS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* native_functions, function_address, functions: src/spprof/_core.pyi. */
extern PyMethodDef spp_functions_methods[];
/* GIL held. Before the stop of a run with native frames: names the native functions sampled so far
 * as Python does. A pending exception stays. About 10 ms in a process with numpy. */
void spp_functions_name(void);

#endif
