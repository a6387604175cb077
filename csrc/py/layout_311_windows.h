/* Layout of CPython 3.11 on 64-bit Windows: as on Linux, but `long` has 4 bytes, and so what lies behind a thread's two ids is
 * elsewhere.
 *
 * Taken from the headers of 3.11.3, compiled by gcc for Windows. */
#ifndef SPPROF_PY_LAYOUT_311_WINDOWS_H
#define SPPROF_PY_LAYOUT_311_WINDOWS_H

#include "py/layout_311.h"

#undef SPP_L_TS_SIZE
#define SPP_L_TS_SIZE 352
#undef SPP_L_TS_CHUNK
#define SPP_L_TS_CHUNK 288
#undef SPP_L_TS_TOP
#define SPP_L_TS_TOP 296
#undef SPP_L_TS_LIMIT
#define SPP_L_TS_LIMIT 304
#undef SPP_L_TS_NATIVE_ID
#define SPP_L_TS_NATIVE_ID 156

#define SPP_L_INTERP_NEXT_UNUSED /* csrc/module finds thread states by another way there */

#endif
