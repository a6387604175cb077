/* Layout of CPython 3.12 on macOS: as on Linux, but the locks of pthread are larger, and what lies behind some of them in the
 * interpreter's state is elsewhere.
 *
 * Taken from the headers of 3.12.1, compiled by clang for macOS. */
#ifndef SPPROF_PY_LAYOUT_312_DARWIN_H
#define SPPROF_PY_LAYOUT_312_DARWIN_H

#include "py/layout_312.h"

#undef SPP_L_INTERP_TRAMPOLINE
#define SPP_L_INTERP_TRAMPOLINE 381784 /* far into the struct: the first to move, proven at import */

#endif
