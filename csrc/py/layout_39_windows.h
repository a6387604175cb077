/* Layout of CPython 3.9 on 64-bit Windows: as on Linux, but `long` has 4 bytes, and so a thread's state is shorter, and what lies
 * behind some of the interpreter's own fields is elsewhere.
 *
 * Taken from the headers of 3.9.6, compiled by gcc for Windows. */
#ifndef SPPROF_PY_LAYOUT_39_WINDOWS_H
#define SPPROF_PY_LAYOUT_39_WINDOWS_H

#include "py/layout_39.h"

#undef SPP_L_TS_SIZE
#define SPP_L_TS_SIZE 256
#undef SPP_L_INTERP_NEXT_UNIQUE_ID
#define SPP_L_INTERP_NEXT_UNIQUE_ID 3464

#define SPP_L_INTERP_NEXT_UNUSED /* csrc/module finds thread states by another way there */

#endif
