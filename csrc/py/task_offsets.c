#include "internals.h"

#include <frameobject.h>

#include "task_offsets.h"

#if PY_VERSION_HEX >= 0x030D0000
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
#include <internal/pycore_tstate.h>
#endif
#if PY_VERSION_HEX >= 0x030B0000
#include <internal/pycore_frame.h>
#endif

#include <stddef.h>

/* The fields follow a PyThreadState, whose size a patch release may change. */
#if PY_VERSION_HEX >= 0x030D0000
#define BEHIND(field) \
    (long)(offsetof(_PyThreadStateImpl, field) - sizeof(PyThreadState) + (size_t)_PyRuntime.debug_offsets.thread_state.size)
#endif

void spp_task_offsets(long *loop, long *task, long *tasks) {
    *loop = *task = *tasks = -1;
#if PY_VERSION_HEX >= 0x030D0000
    *loop = BEHIND(asyncio_running_loop);
#endif
#if PY_VERSION_HEX >= 0x030E0000
    *task = BEHIND(asyncio_running_task);
    *tasks = BEHIND(asyncio_tasks_head);
#endif
}

spp_generator_offsets spp_generators(void) {
    spp_generator_offsets of = {.frame = -1, .top = -1, .base = -1, .depth = -1};
#if PY_VERSION_HEX < 0x030B0000
    of.frame = offsetof(PyGenObject, gi_frame);
#endif
#if PY_VERSION_HEX < 0x030A0000
    of.top = offsetof(PyFrameObject, f_stacktop);
#elif PY_VERSION_HEX < 0x030B0000
    of.base = offsetof(PyFrameObject, f_valuestack);
    of.depth = offsetof(PyFrameObject, f_stackdepth);
#elif PY_VERSION_HEX < 0x030E0000
    of.depth = offsetof(_PyInterpreterFrame, stacktop);
#else
    of.top = offsetof(_PyInterpreterFrame, stackpointer);
#endif
#if PY_VERSION_HEX >= 0x030D0000
    of.by_state = true;
    of.awaits = of.awaits_too = FRAME_SUSPENDED_YIELD_FROM;
#endif
#if PY_VERSION_HEX >= 0x030F0000
    of.awaits_too = FRAME_SUSPENDED_YIELD_FROM_LOCKED;
    of.above = 1;
#endif
    return of;
}
