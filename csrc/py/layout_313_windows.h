/* Layout of CPython 3.13 on 64-bit Windows: as on Linux, but `long` has 4 bytes, and so what lies behind a thread's two ids, and
 * behind some of the interpreter's own fields, is elsewhere.
 *
 * Taken from the headers of 3.13.5, compiled by gcc for Windows. */
#ifndef SPPROF_PY_LAYOUT_313_WINDOWS_H
#define SPPROF_PY_LAYOUT_313_WINDOWS_H

#ifndef SPPROF_PY_LAYOUT_313T_H /* the free-threaded build differs in the same */
#include "py/layout_313.h"
#endif

#undef SPP_L_TS_SIZE
#define SPP_L_TS_SIZE 304 /* with datastack_cached_chunk; always readable, a _PyThreadStateImpl follows */
#undef SPP_L_TS_CHUNK
#define SPP_L_TS_CHUNK 224
#undef SPP_L_TS_TOP
#define SPP_L_TS_TOP 232
#undef SPP_L_TS_LIMIT
#define SPP_L_TS_LIMIT 240
#undef SPP_L_TS_CACHED_CHUNK
#define SPP_L_TS_CACHED_CHUNK 296 /* from 3.13.13 on: spp_layout_has_cached_chunk() */
#undef SPP_L_TS_NATIVE_ID
#define SPP_L_TS_NATIVE_ID 156
#undef SPP_L_INTERP_NEXT_UNIQUE_ID
#define SPP_L_INTERP_NEXT_UNIQUE_ID 7328
#undef SPP_L_INTERP_THREADS_HEAD
#define SPP_L_INTERP_THREADS_HEAD 7336

#define SPP_L_INTERP_NEXT_UNUSED /* csrc/module finds thread states by another way there */

#endif
