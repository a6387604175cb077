"""Stops one thread of another process for a moment, by ptrace.

Only a thread that runs is stopped: it is then hardly ever in a call that a stop could interrupt, so it does not notice. If we
are killed meanwhile, the kernel lets it run."""

from __future__ import annotations

import ctypes
import os
import time
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Iterator, Optional

STOP_S = 0.001  # a thread is stopped for no longer than this, and what the machine's other work adds
_PATIENCE_S = 0.05  # for a thread to stop: it may be in the kernel
_SEIZE, _INTERRUPT, _DETACH = 0x4206, 0x4207, 17
_EVENT_STOP = 128  # the reason of a stop that no signal caused
_WALL = 0x40000000  # also threads: __WALL


@lru_cache(None)
def _libc() -> Any:
    call = ctypes.CDLL(None, use_errno=True).ptrace
    call.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    call.restype = ctypes.c_long
    return call


def _ptrace(request: int, tid: int, data: int = 0) -> bool:
    return bool(_libc()(request, tid, None, data) == 0)


@contextmanager
def stopped(tid: int) -> Iterator[bool]:
    """Whether it is stopped; it is not if a debugger has it, if it has ended, or if it stays in the kernel."""
    if not _ptrace(_SEIZE, tid):
        yield False
        return
    signal = None
    try:
        signal = _wait(tid) if _ptrace(_INTERRUPT, tid) else None
        yield signal is not None
    finally:
        if signal is None:
            signal = _wait(tid)
        # One that has not stopped by now is let go when we end: nobody can detach from a thread that runs.
        if signal is not None:
            _ptrace(_DETACH, tid, signal)


def _wait(tid: int) -> Optional[int]:
    """The signal that it stopped for, which it must get: 0 for our own stop. None: it has not stopped."""
    late = time.monotonic() + _PATIENCE_S
    while True:
        try:
            found, status = os.waitpid(tid, os.WNOHANG | _WALL)
        except ChildProcessError:
            return None
        if found:
            if not os.WIFSTOPPED(status):
                return None
            return 0 if status >> 16 == _EVENT_STOP else os.WSTOPSIG(status)
        if time.monotonic() > late:
            return None
