/* Layout of CPython 3.15, free-threaded (Py_GIL_DISABLED), on 64-bit Windows: as on Linux, but `long` has
 * 4 bytes, and so what lies behind a thread's two ids, and behind some of the interpreter's own fields, is elsewhere.
 *
 * Taken from Linux's headers of 3.15.2 with Windows' pyconfig.h of 3.14.3, compiled by gcc for Windows with -DPy_GIL_DISABLED=1.
 * Never run: the proof at import decides. */
#ifndef SPPROF_PY_LAYOUT_315T_WINDOWS_H
#define SPPROF_PY_LAYOUT_315T_WINDOWS_H

#include "py/layout_315t.h" /* first: it is what the next one changes */

#include "py/layout_315_windows.h"

#undef SPP_L_STR_STATE
#define SPP_L_STR_STATE 52 /* of its bits: Windows' compilers begin a new word behind the `unsigned char` before them */
#undef SPP_L_STR_KIND_SHIFT
#define SPP_L_STR_KIND_SHIFT 0
#undef SPP_L_STR_COMPACT_BIT
#define SPP_L_STR_COMPACT_BIT 3
#undef SPP_L_STR_ASCII_BIT
#define SPP_L_STR_ASCII_BIT 4

#endif
