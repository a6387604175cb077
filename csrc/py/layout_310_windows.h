/* Layout of CPython 3.10 on 64-bit Windows: as on Linux, but `long` has 4 bytes, and so a thread's state is shorter, and what
 * lies behind some of the interpreter's own fields is elsewhere.
 *
 * Taken from the headers of 3.10.8, compiled by gcc for Windows. */
#ifndef SPPROF_PY_LAYOUT_310_WINDOWS_H
#define SPPROF_PY_LAYOUT_310_WINDOWS_H

#include "py/layout_310.h"

#undef SPP_L_TS_SIZE
#define SPP_L_TS_SIZE 272
#undef SPP_L_INTERP_NEXT_UNIQUE_ID
#define SPP_L_INTERP_NEXT_UNIQUE_ID 3424

#define SPP_L_INTERP_NEXT_UNUSED /* csrc/module finds thread states by another way there */

#endif
