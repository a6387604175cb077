"""The system call ptrace, by which a thread of ours stops those of another process (Linux)."""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False  # the user of `attach` waits for the first sample
if TYPE_CHECKING:
    from typing import Any

GETREGS, SETREGS, DETACH = 12, 13, 17
GETREGSET, SEIZE, INTERRUPT, GETSIGMASK = 0x4204, 0x4206, 0x4207, 0x420A
EVENT_STOP = 128  # the reason of a stop that no signal caused
_GENERAL = 1  # NT_PRSTATUS: registers that are not for numbers with a point
_REGISTERS_MOST = 512  # bytes
WALL = 0x40000000  # of waitpid: threads too


def _call() -> Any:
    call = ctypes.CDLL(None, use_errno=True).ptrace
    call.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    call.restype = ctypes.c_long
    return call


_ptrace = _call()


def ptrace(request: int, tid: int, address: int = 0, data: int = 0) -> None:
    """Raises OSError."""
    if _ptrace(request, tid, address, data) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def registers(tid: int) -> bytes:
    """Of a thread that is stopped: a `user_regs_struct`. Raises OSError."""
    data = ctypes.create_string_buffer(_REGISTERS_MOST)
    both = (ctypes.c_size_t * 2)(ctypes.addressof(data), _REGISTERS_MOST)  # a `struct iovec`
    ptrace(GETREGSET, tid, _GENERAL, ctypes.addressof(both))
    return data.raw[: both[1]]


def signal_of(status: int) -> int:
    """The signal that a stopped thread must get: 0 for our own stop."""
    return 0 if status >> 16 == EVENT_STOP else os.WSTOPSIG(status)
