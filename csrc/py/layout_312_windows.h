/* Layout of CPython 3.12 on 64-bit Windows: as on Linux, but `long` has 4 bytes, and so what lies behind a thread's two ids, and
 * behind some of the interpreter's own fields, is elsewhere.
 *
 * Taken from the headers of 3.12.1, compiled by gcc for Windows. */
#ifndef SPPROF_PY_LAYOUT_312_WINDOWS_H
#define SPPROF_PY_LAYOUT_312_WINDOWS_H

#include "py/layout_312.h"

#undef SPP_L_TS_SIZE
#define SPP_L_TS_SIZE 280
#undef SPP_L_TS_CHUNK
#define SPP_L_TS_CHUNK 224
#undef SPP_L_TS_TOP
#define SPP_L_TS_TOP 232
#undef SPP_L_TS_LIMIT
#define SPP_L_TS_LIMIT 240
#undef SPP_L_TS_NATIVE_ID
#define SPP_L_TS_NATIVE_ID 140
#undef SPP_L_INTERP_TRAMPOLINE
#define SPP_L_INTERP_TRAMPOLINE 381624 /* far into the struct: the first to move, proven at import */

#define SPP_L_INTERP_NEXT_UNUSED /* csrc/module finds thread states by another way there */

#endif
