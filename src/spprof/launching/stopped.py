"""Another process whose threads are all stopped: its memory and its registers (Linux, x86_64). It is the kernel that lets the
threads go on when this process ends in any way, so nothing that is here can leave them stopped."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import time

from ..errors import SpprofError, Unsupported
from ..outside.proc import status
from ..outside.ptrace import DETACH, GETREGS, GETREGSET, GETSIGMASK, INTERRUPT, SEIZE, SETREGS, WALL, ptrace, signal_of
from ..outside.rank import FirstInRank

TYPE_CHECKING = False  # the user of `attach` waits for the first sample
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any, Callable, Dict, List, Optional, Tuple

_XSTATE = 0x202
_TRAP = 5  # SIGTRAP
_LOOK_S = 20e-6  # between two looks; we sleep, since on our processor a thread could not stop
_LONGEST_S = 1.0  # until all threads have stopped: one that waits for a disk, for a processor, or in vfork, does not

REGISTERS = (
    "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base ds es fs gs"
).split()  # struct user_regs_struct
_SIGNED = ("rax", "orig_rax")


# Calls that the kernel ends with EINTR for a stop, of which the program need not know (signal(7), "Interruption of system calls
# and library functions by stop signals"). These are the same call when they begin again: they have no time limit, or the socket
# has it, and a program that makes the call again waits for all of it, too.
_AGAIN = (0, 1, 19, 20, 42, 43, 44, 45, 46, 47, 65, 288)  # read, write, readv, writev, connect to recvmsg, semop, accept4
_MINUS_ONE = (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)  # an int
_AGAIN_IF = {  # the register of a time limit, and what it has where there is none
    128: ("rdx", (0,)),  # rt_sigtimedwait
    220: ("r10", (0,)),  # semtimedop
    232: ("r10", _MINUS_ONE),  # epoll_wait
    281: ("r10", _MINUS_ONE),  # epoll_pwait
    299: ("r8", (0,)),  # recvmmsg
    441: ("r10", (0,)),  # epoll_pwait2
}
_EINTR, _ERESTARTNOHAND = -4, -514  # the latter: for the kernel, the same call again if no function of the program's runs


class _Piece(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


class Halted(SpprofError):
    """The process is stopped by a signal (SIGSTOP, Ctrl-Z), until SIGCONT."""


class Stopped:
    """Process `pid` while its threads are stopped: `with Stopped(pid) as process`. Its calls must come from one thread. Raises
    SpprofError if they cannot be stopped, and Unsupported if this user may not.

    `rehearse` is called right before, with this, and reads what is going to be read: the first time takes ten times as long as
    the second, and no thread is stopped yet. What it raises means nothing: memory may change meanwhile."""

    def __init__(self, pid: int, rehearse: Optional[Callable[[Stopped], object]] = None) -> None:
        self.pid, self._rehearse = pid, rehearse
        self._seized: Dict[int, Optional[int]] = {}  # thread: what it stopped with, 0 for our request; None: not yet, or gone
        self._libc: Any = ctypes.CDLL(None, use_errno=True)
        self._memory = -1
        self._words = ctypes.create_string_buffer(8 * len(REGISTERS))
        self._rank = FirstInRank()

    def __enter__(self) -> Stopped:
        self._memory = os.open(f"/proc/{self.pid}/mem", os.O_RDWR | os.O_CLOEXEC)
        try:
            if self._rehearse is not None:
                self._rehearse(self)
        except (OSError, OverflowError, ValueError, SpprofError):  # any number may be there for an address
            pass
        except BaseException:
            self._close()
            raise
        self._rank.__enter__()  # now: the process must not wait while what takes long is read
        try:
            self._stop()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        """Each gets the signal that it stopped with."""
        try:
            self._let_go()
            self._close()
        finally:
            self._rank.__exit__(None, None, None)

    def _close(self) -> None:
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1

    def _let_go(self) -> None:
        for tid, sent in self._seized.items():
            try:
                if sent == 0:
                    self._begin_again(tid)
                if sent is not None:
                    ptrace(DETACH, tid, 0, sent)
            except OSError:  # it may have ended
                pass
        self._seized.clear()

    def _begin_again(self, tid: int) -> None:
        """The call that our stop has ended, where that is the same call."""
        registers = self.registers(tid)
        call, result = registers["orig_rax"], registers["rax"]
        limit, none = _AGAIN_IF.get(call, ("rax", ()))
        if result == _EINTR and (call in _AGAIN or registers[limit] in none):
            self.set_registers(tid, {**registers, "rax": _ERESTARTNOHAND})

    def _stop(self) -> None:
        late = time.monotonic() + _LONGEST_S
        self._halted = False
        while True:
            new = [tid for tid in map(int, os.listdir(f"/proc/{self.pid}/task")) if tid not in self._seized]
            if not new:
                break
            for tid in new:
                self._seize(tid)
            for tid in new:
                self._wait(tid, late)
        if self._halted:  # each of its threads is let go, or it would not take the SIGCONT
            raise Halted(f"process {self.pid} is stopped: `kill -CONT {self.pid}` lets it go on")

    def _seize(self, tid: int) -> None:
        self._seized[tid] = None
        try:
            ptrace(SEIZE, tid)
            ptrace(INTERRUPT, tid)
        except OSError as error:
            if error.errno == errno.ESRCH or (error.errno == errno.EPERM and _state(self.pid, tid) in "ZX"):
                return
            raise Unsupported(f"process {self.pid} cannot be stopped for a moment: {_why(self.pid, error)}") from error

    def _wait(self, tid: int, late: float) -> None:
        while True:
            try:
                found, status = os.waitpid(tid, os.WNOHANG | WALL)
            except ChildProcessError:  # it has ended
                return
            if found and os.WIFSTOPPED(status):
                self._seized[tid] = sent = signal_of(status)
                self._halted = self._halted or (sent == 0 and os.WSTOPSIG(status) != _TRAP)
                return
            if found:
                return
            time.sleep(_LOOK_S)
            if time.monotonic() > late:
                # A thread stops when it runs next: of a nice process on a full machine that may be seconds later.
                what = "a processor" if _state(self.pid, tid) == "R" else "a disk or a child"
                raise SpprofError(f"thread {tid} of process {self.pid} waits for {what}, and cannot be stopped: try again")

    @property
    def threads(self) -> List[int]:
        """Those that live."""
        return [tid for tid, sent in self._seized.items() if sent is not None]

    def stopped_for_us(self, tid: int) -> bool:
        """Whether a thread was not about to take a signal."""
        return self._seized[tid] == 0

    def read(self, address: int, size: int) -> bytes:
        """Raises OSError."""
        data = os.pread(self._memory, size, address)
        if len(data) != size:
            raise OSError(errno.EIO, "memory that is not there")
        return data

    def write(self, address: int, data: bytes) -> None:
        """At once for the process. Raises OSError."""
        if os.pwrite(self._memory, data, address) != len(data):
            raise OSError(errno.EIO, "memory that is not there")

    def write_both(self, first: Tuple[int, bytes], second: Tuple[int, bytes]) -> None:
        """By one system call, which we may only die before or after: the pages are there. Raises OSError."""
        buffers = [ctypes.create_string_buffer(data, len(data)) for _, data in (first, second)]
        here = (_Piece * 2)(*(_Piece(ctypes.addressof(buffer), len(buffer)) for buffer in buffers))
        there = (_Piece * 2)(*(_Piece(address, len(data)) for address, data in (first, second)))
        size = sum(len(buffer) for buffer in buffers)
        two, none = ctypes.c_ulong(2), ctypes.c_ulong(0)
        if self._libc.process_vm_writev(self.pid, here, two, there, two, none) != size:
            raise OSError(errno.EIO, "memory that cannot be written")

    def registers(self, tid: int) -> Dict[str, int]:
        """Raises OSError."""
        ptrace(GETREGS, tid, 0, ctypes.addressof(self._words))
        found = dict(zip(REGISTERS, struct.unpack(f"{len(REGISTERS)}Q", self._words.raw)))
        return {name: value - (1 << 64) if name in _SIGNED and value >> 63 else value for name, value in found.items()}

    def set_registers(self, tid: int, registers: Dict[str, int]) -> None:
        """All at once. Raises OSError."""
        words = struct.pack(f"{len(REGISTERS)}Q", *(registers[name] & (1 << 64) - 1 for name in REGISTERS))
        buffer = ctypes.create_string_buffer(words, len(words))
        ptrace(SETREGS, tid, 0, ctypes.addressof(buffer))

    def extended_state(self, tid: int) -> bytes:
        """Registers of floating point and vectors, as XSAVE lays them out. Raises OSError."""
        buffer = ctypes.create_string_buffer(1 << 16)
        piece = _Piece(ctypes.addressof(buffer), len(buffer))
        ptrace(GETREGSET, tid, _XSTATE, ctypes.addressof(piece))
        return buffer.raw[: piece.size]

    def blocked_signals(self, tid: int) -> int:
        """A bit for each. Raises OSError."""
        mask = ctypes.c_uint64()
        ptrace(GETSIGMASK, tid, 8, ctypes.addressof(mask))
        return mask.value


def _status(pid: int, tid: Optional[int] = None) -> Dict[str, str]:
    try:
        return status(pid, tid)
    except OSError:
        return {}


def _state(pid: int, tid: int) -> str:
    return _status(pid, tid).get("State", "X")[0]


def _why(pid: int, error: OSError) -> str:
    """Its memory could be opened, so that the rights are there."""
    tracer = _status(pid).get("TracerPid", "0")
    if tracer != "0":
        return f"process {tracer} traces it (a debugger, strace, another attach)"
    if _status(os.getpid()).get("Seccomp", "0") != "0":
        return "a seccomp filter of this container forbids ptrace (Docker: --security-opt seccomp=unconfined)"
    return str(error.strerror)
