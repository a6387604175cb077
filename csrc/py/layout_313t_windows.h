/* Layout of CPython 3.13, free-threaded (Py_GIL_DISABLED), on 64-bit Windows: as on Linux, but `long` has
 * 4 bytes, and so what lies behind a thread's two ids, and behind some of the interpreter's own fields, is elsewhere.
 *
 * Taken from the headers of 3.13.5, compiled by gcc for Windows with -DPy_GIL_DISABLED=1. Never run: the proof at import
 * decides. */
#ifndef SPPROF_PY_LAYOUT_313T_WINDOWS_H
#define SPPROF_PY_LAYOUT_313T_WINDOWS_H

#include "py/layout_313t.h" /* first: it is what the next one changes */

#include "py/layout_313_windows.h"

#endif
