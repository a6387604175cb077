/* Layout of CPython 3.15 on 64-bit Windows: as on Linux, but `long` has 4 bytes, and so what lies behind a thread's two ids, and
 * behind some of the interpreter's own fields, is elsewhere.
 *
 * Taken from Linux's headers of 3.15.2 with Windows' pyconfig.h of 3.14.3, compiled by gcc for Windows.
 * Never run: the proof at import decides. */
#ifndef SPPROF_PY_LAYOUT_315_WINDOWS_H
#define SPPROF_PY_LAYOUT_315_WINDOWS_H

#ifndef SPPROF_PY_LAYOUT_315T_H /* the free-threaded build differs in the same */
#include "py/layout_315.h"
#endif

#undef SPP_L_TS_SIZE
#define SPP_L_TS_SIZE 880
#undef SPP_L_TS_CHUNK
#define SPP_L_TS_CHUNK 248
#undef SPP_L_TS_TOP
#define SPP_L_TS_TOP 256
#undef SPP_L_TS_LIMIT
#define SPP_L_TS_LIMIT 264
#undef SPP_L_TS_CACHED_CHUNK
#define SPP_L_TS_CACHED_CHUNK 272
#undef SPP_L_TS_NATIVE_ID
#define SPP_L_TS_NATIVE_ID 180
#undef SPP_L_INTERP_NEXT_UNIQUE_ID
#define SPP_L_INTERP_NEXT_UNIQUE_ID 7320
#undef SPP_L_INTERP_THREADS_HEAD
#define SPP_L_INTERP_THREADS_HEAD 7328

#define SPP_L_INTERP_NEXT_UNUSED /* csrc/module finds thread states by another way there */

#endif
