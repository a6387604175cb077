#include "internals.h"

#include "task_offsets.h"

#if PY_VERSION_HEX >= 0x030D0000
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
#include <internal/pycore_tstate.h>
#endif

#include <stddef.h>

/* The fields follow a PyThreadState, whose size a patch release may change. */
#if PY_VERSION_HEX >= 0x030D0000
#define BEHIND(field) \
    (long)(offsetof(_PyThreadStateImpl, field) - sizeof(PyThreadState) + (size_t)_PyRuntime.debug_offsets.thread_state.size)
#endif

void spp_task_offsets(long *loop, long *task) {
    *loop = *task = -1;
#if PY_VERSION_HEX >= 0x030D0000
    *loop = BEHIND(asyncio_running_loop);
#endif
#if PY_VERSION_HEX >= 0x030E0000
    *task = BEHIND(asyncio_running_task);
#endif
}
