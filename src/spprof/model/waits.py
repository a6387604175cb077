"""Why threads were off the CPU: the column `reason` of samples (docs/waits.md)."""

from __future__ import annotations

from typing import Callable, Dict, List, Sequence

from .layout import Columns
from .records import OFF_CPU

# Names of the column's numbers: csrc/base/reasons.h for Python. A test compares the two (`_core.REASONS`).
REASONS = (
    "running", "ready", "gil", "lock", "io", "child", "sleep", "idle", "kernel", "unknown", "loop", "task", "job", "future",
)  # fmt: skip
GIL, LOCK = REASONS.index("gil"), REASONS.index("lock")
_IO, _IDLE, _UNKNOWN, _FUTURE = (REASONS.index(name) for name in ("io", "idle", "unknown", "future"))
_RUNNING = 0

# For people.
TITLES = {
    "running": "running",
    "ready": "ready without a processor",
    "gil": "the GIL",
    "lock": "a lock",
    "io": "input or output",
    "child": "a child process",
    "sleep": "sleep",
    "idle": "idle",
    "kernel": "page faults and other kernel work",
    "unknown": "unknown",
    "loop": "ready, but its event loop is busy",
    "task": "another task",
    "job": "a job of another thread",
    "future": "a future",
}

# What a task waits for that waits in one of these modules of asyncio; in `sleep`, for that.
_ASYNCIO = {
    "locks": "lock",
    "queues": "lock",
    "streams": "io",
    "selector_events": "io",
    "proactor_events": "io",
    "unix_events": "io",
    "windows_events": "io",
    "sslproto": "io",
    "subprocess": "child",
    "base_subprocess": "child",
    "taskgroups": "task",
    "tasks": "task",
}
_THREADING = "threading.py"
_NOTIFIED = ("wait", "join", "_wait_for_tstate_lock")
_INSTALLED = ("/site-packages/", "/dist-packages/")


def reasons(columns: Columns, keys: Sequence[int], path: Callable[[int], List[int]]) -> Sequence[int]:
    """The reason of each sample. `keys`: their stacks, whose frames `path` gives.

    The file has `running` for a sample off the CPU of which nobody knows more. And to wait for a lock or for input is to be idle
    for a thread on whose stack is no function but the standard library's: a pool's thread without a job. What a future stands
    for, that a task waits for, the function of asyncio says in which it waits."""
    found = bytearray(columns["reason"])
    pools: Dict[int, bool] = {}
    futures: Dict[int, int] = {}
    for i, flags in enumerate(columns["flags"]):
        reason = found[i]
        if reason == _RUNNING:
            found[i] = _UNKNOWN if flags & OFF_CPU else _RUNNING
        elif reason >= len(REASONS):  # of a version to come
            found[i] = _UNKNOWN
        elif reason == _FUTURE:
            stack = keys[i]
            if stack not in futures:
                futures[stack] = _of_future(columns, path(stack))
            found[i] = futures[stack]
        elif reason in (LOCK, _IO):
            stack = keys[i]
            if stack not in pools:
                pools[stack] = _is_the_librarys(columns, path(stack))
            found[i] = _IDLE if pools[stack] else reason
    return found


def _of_future(columns: Columns, frames: Sequence[int]) -> int:
    """What a task waits for in a future, of a stack, root first."""
    code = columns["frame_code"][frames[-1]] if frames else None
    if code is None or columns["code_kind"][code]:
        return _FUTURE
    folder, _, file = columns["strings"][columns["code_file"][code]].rpartition("/")
    if not folder.endswith("/asyncio"):
        return _FUTURE
    is_sleep = file == "tasks.py" and columns["strings"][columns["code_name"][code]] == "sleep"
    return REASONS.index("sleep" if is_sleep else _ASYNCIO.get(file[: -len(".py")], "future"))


def _is_the_librarys(columns: Columns, frames: Sequence[int]) -> bool:
    """Whether a stack, root first, is that of a thread of `threading` in which the program has no function."""
    codes = (columns["frame_code"][frame] for frame in frames)
    files = [columns["strings"][columns["code_file"][code]] for code in codes if not columns["code_kind"][code]]
    if not files or not files[0].endswith("/" + _THREADING):
        return False
    library = files[0][: -len(_THREADING)]
    return all(file.startswith(library) and not any(place in file for place in _INSTALLED) for file in files)


def is_notified(columns: Columns, frames: Sequence[int]) -> bool:
    """Whether a thread with this stack, root first, waits to be notified: in Condition.wait, of which events, queues and
    semaphores are made, or for another thread's end. No thread owns that."""
    codes = (columns["frame_code"][frame] for frame in reversed(frames))
    leaf = next((code for code in codes if not columns["code_kind"][code]), None)
    if leaf is None:
        return False
    name, file = (columns["strings"][columns[each][leaf]] for each in ("code_name", "code_file"))
    return name in _NOTIFIED and file.endswith("/" + _THREADING)


def things(columns: Columns) -> Dict[int, str]:
    """What samples waited for: each number of the column `waits_on` -> what it is, as `socket 10.0.0.3:5432`; '': nothing with a
    name."""
    return {each: columns["strings"][each - 1] if each else "" for each in set(columns["waits_on"])}
