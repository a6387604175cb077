"""A main thread of another process that waits in a call runs no Python, so it would come to a pending call (pending.py) only when
its call ends. Here it is led to it: by registers alone, set at once while the process is stopped, so that it finds its way back
by itself whatever becomes of us.

A wait for a lock ends with EINTR, as by a signal: CPython then runs its pending calls and waits again. Its other calls look for
signals only. There the thread is sent by way of three functions of CPython, as a signal handler that calls Python would go:
PyGILState_Ensure, PyRun_SimpleString of nothing, which runs the pending calls, and PyGILState_Release. The frames between them
are those of signals, which the kernel takes off (rt_sigreturn); the last one has the thread as it was. It then makes its call
again, as after a signal with SA_RESTART; a call that the kernel cannot take up again ends with EINTR, as CPython expects of it
(PEP 475)."""

from __future__ import annotations

import os
import struct

from ..outside.named import NamedTuple
from ..outside.proc import status
from .pending import RUN

TYPE_CHECKING = False  # the user of `attach` waits for the first sample
if TYPE_CHECKING:
    from typing import Dict, Optional

    from ..outside.proc import Maps
    from .pending import Queue
    from .stopped import Stopped

ENSURE, RELEASE = "PyGILState_Ensure", "PyGILState_Release"
_FUTEX, _RESTART = 202, 219
# Of x86_64: calls that wait and that the kernel can make again, or that CPython makes again after EINTR.
_WAITS = {
    0: "read", 7: "poll", 19: "readv", 23: "select", 35: "nanosleep", 43: "accept", 45: "recvfrom", 47: "recvmsg", 61: "wait4",
    73: "flock", 230: "clock_nanosleep", 232: "epoll_wait", 247: "waitid", 270: "pselect6", 271: "ppoll", 281: "epoll_pwait",
    288: "accept4", 441: "epoll_pwait2",
}  # fmt: skip
_EINTR = -4
_RESTARTS = (-512, -513, -514)  # ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND: the same call again
_RESTART_BLOCK = -516  # another call, which a signal's frame makes impossible
_SYSCALL = b"\x0f\x05"
_LOAD, _LOADED_WITHIN = 0xB8, 32  # mov $NUMBER, %eax; bytes before the end of the system call's instruction
_SIGRETURN = b"\x48\xc7\xc0\x0f\x00\x00\x00" + _SYSCALL  # mov $15, %rax; syscall: in each C library
ENDED = "has ended"
_LOCK = "waits for a lock"  # the GIL, too
_RUNS = "runs C code that does not end"  # if it is still so after a while: Python code would have come to its calls
_RELEASED = 1  # PyGILState_UNLOCKED: what PyGILState_Ensure gives to a thread that is without the lock

_RED_ZONE = 128
_SPACE = 64 << 10  # bytes of stack for the functions
_RETURN_WITHIN = 512  # bytes of stack from a system call to the return address of the function that CPython called
_STATE_MOST = 2696  # bytes: what the kernel takes back from a signal's frame
_STATE_MAGIC, _STATE_END = 0x46505853, 0x46505845
_SW_RESERVED = 464
_UC_FLAGS = 6  # UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS
_UC_STATE = 1  # UC_FP_XSTATE
_NO_STACK = 0xFFFF  # flags that sigaltstack refuses: the thread's own stays
_CONTEXT = "r8 r9 r10 r11 r12 r13 r14 r15 rdi rsi rbp rbx rdx rax rcx rsp rip eflags".split()
_C_LIBRARY = ("libc.", "libc-", "libpthread", "ld-")
_FRAME = 8 + 40 + 256 + 8 + 128  # return address, ucontext, sigcontext, mask, siginfo


class Place(NamedTuple):
    """In a system call of a thread: nothing has happened to it as long as it is there."""

    pid: int
    tid: int
    stack: int
    code: int

    def is_left(self) -> bool:
        """Without stopping it. Also if that is not known."""
        try:
            with open(f"/proc/{self.pid}/task/{self.tid}/syscall") as file:
                words = file.read().split()  # of one that runs there is one
        except OSError:
            return True
        return words[-2:] != [hex(self.stack), hex(self.code)]


class Woken(NamedTuple):
    """What the main thread does, and where it stays if it does not go to its pending calls by itself now."""

    does: str
    stays: Optional[Place] = None


class Places(NamedTuple):
    """What is used of a process, which stays as long as that lives."""

    interpreter: str  # the file that has CPython's functions
    symbols: Dict[str, int]
    empty: int  # an address with a zero byte
    back: Optional[int]  # where the C library returns from signals


def main_thread(process: Stopped, queue: Queue) -> Optional[int]:
    """The id that the system gives to Python's main thread: not always that of the process."""
    for tid in process.threads:
        if process.registers(tid)["fs_base"] == queue.main_id:
            return tid
    return None


def wake(process: Stopped, maps: Maps, queue: Queue, places: Places) -> Woken:
    """Leads the main thread to the queue."""
    tid = main_thread(process, queue)
    if tid is None:
        return Woken(ENDED)
    registers = process.registers(tid)
    call, result = registers["orig_rax"], registers["rax"]
    if call < 0:
        return Woken(_RUNS if queue.main_holds_lock() else "runs native code")
    if not process.stopped_for_us(tid) or result not in (*_RESTARTS, _RESTART_BLOCK, _EINTR):
        # The call is at its end. One that waits for the GIL takes a new turn every 5 ms.
        return Woken(_LOCK if call == _FUTEX and not queue.main_holds_lock() else _RUNS)
    if call == _RESTART:
        call = _first_call(process, registers)
    if call == _FUTEX:
        process.set_registers(tid, {**registers, "rax": _EINTR, "orig_rax": -1})
        return Woken(_LOCK)
    name = _WAITS.get(call, f"system call {call}")
    stays = Place(process.pid, tid, registers["rsp"], registers["rip"])
    caller = _caller(process, maps, registers, places.interpreter)
    if caller:
        return Woken(f"waits in {name}, called by {caller}", stays)
    if queue.main_holds_lock():
        return Woken(f"waits in {name} with the interpreter's lock", stays)
    if call not in _WAITS:
        return Woken(f"is in {name}", stays)
    if queue.signal_waits() or _signals(process.pid, tid):
        # Its own function comes first, and may raise: CPython calls it where that is expected.
        process.set_registers(tid, {**registers, "rax": _EINTR, "orig_rax": -1})
        return Woken(f"waits in {name}")
    frames = _frames(process, maps, tid, registers, places)
    if frames is None:
        return Woken(f"waits in {name}, and there is no way from there", stays)
    process.write(*frames)
    away = {"rip": places.symbols[ENSURE], "rsp": frames[0], "rax": 0, "orig_rax": -1}
    process.set_registers(tid, {**registers, **away})
    return Woken(f"waits in {name}")


def _caller(process: Stopped, maps: Maps, registers: Dict[str, int], interpreter: str) -> str:
    """The library that made the call if it is not CPython: it may have locks of its own then, which others wait for."""
    data = process.read(registers["rsp"], _RETURN_WITHIN)
    for (address,) in struct.iter_unpack("<Q", data):
        mapping = maps.at(address)
        if mapping is None or "x" not in mapping.access:
            continue
        name = os.path.basename(mapping.path)
        if name.startswith(_C_LIBRARY) or _is_core(mapping.path):
            continue
        own = mapping.path == interpreter or os.path.basename(os.path.dirname(mapping.path)) == "lib-dynload"
        return "" if own else name or "generated code"
    return "native code"


def _is_core(path: str) -> bool:
    """Whether it is spprof's own library, through which a program's calls go while it is profiled."""
    folder, name = os.path.split(path)
    return name.startswith("_core.") and os.path.basename(folder) == "spprof"


def _first_call(process: Stopped, registers: Dict[str, int]) -> int:
    """Which call the kernel has taken up again: the number that the C library loads just before it."""
    data = process.read(registers["rip"] - _LOADED_WITHIN, _LOADED_WITHIN)
    for at in reversed(range(_LOADED_WITHIN - 5)):
        number = int.from_bytes(data[at + 1 : at + 5], "little")
        if data[at] == _LOAD and (number == _FUTEX or number in _WAITS):
            return number
    return _RESTART


def _signals(pid: int, tid: int) -> bool:
    """Whether some wait to be taken by the thread."""
    words = status(pid, tid)
    blocked = int(words["SigBlk"], 16)
    return bool((int(words["SigPnd"], 16) | int(words["ShdPnd"], 16)) & ~blocked)


def _frames(process: Stopped, maps: Maps, tid: int, registers: Dict[str, int], places: Places) -> Optional[tuple[int, bytes]]:
    """The stack of the way, and where it is to be written: unused, below the thread's own. None: it cannot be gone."""
    back, symbols = places.back, places.symbols
    stack = maps.at(registers["rsp"])
    state = process.extended_state(tid)[:_STATE_MOST]
    here = process.read(registers["rip"] - len(_SYSCALL), len(_SYSCALL))
    if back is None or stack is None or here != _SYSCALL or _has_shadow_stack(process.pid):
        return None
    state_at = (registers["rsp"] - _RED_ZONE - len(state) - 4) & ~63
    top = (state_at & ~15) - 8  # as after a call
    bottom = top - 3 * (_FRAME + 8)
    if bottom - _SPACE < stack.start:
        return None
    sizes = struct.pack("<IIQI28x", _STATE_MAGIC, len(state) + 4, _features(state), len(state))
    state = state[:_SW_RESERVED] + sizes + state[_SW_RESERVED + len(sizes) :] + struct.pack("<I", _STATE_END)
    end = dict(registers)
    if registers["rax"] in _RESTARTS:
        end["rax"], end["rip"] = registers["orig_rax"], registers["rip"] - len(_SYSCALL)
    else:
        end["rax"] = _EINTR
    mask = process.blocked_signals(tid)
    last, second, first = (top - i * (_FRAME + 8) for i in (1, 2, 3))
    stop_run = {**registers, "rip": symbols[RELEASE], "rdi": _RELEASED, "rsp": last}
    run = {**registers, "rip": symbols[RUN], "rdi": places.empty, "rsp": second}
    data = bytearray(state_at + len(state) - first)
    for at, then, with_state in ((first, run, 0), (second, stop_run, 0), (last, end, state_at)):
        data[at - first : at - first + _FRAME] = _frame(back, then, mask, with_state)
    data[state_at - first :] = state
    return first, bytes(data)


def _frame(back: int, registers: Dict[str, int], mask: int, state_at: int) -> bytes:
    """What rt_sigreturn takes the registers from (struct rt_sigframe), and the return address that leads to it."""
    words = [registers[name] & (1 << 64) - 1 for name in _CONTEXT]
    segments = (registers["cs"], registers["gs"] & 0xFFFF, registers["fs"] & 0xFFFF, registers["ss"])
    flags = _UC_FLAGS | (_UC_STATE if state_at else 0)
    head = struct.pack("<QQQQiiQ", back, flags, 0, 0, _NO_STACK, 0, 0)
    context = struct.pack("<18Q4H4QQ64x", *words, *segments, 0, 0, 0, 0, state_at)
    return head + context + struct.pack("<Q", mask) + bytes(128)


def _features(state: bytes) -> int:
    """Which parts the kernel saves: it says so where the processor has nothing."""
    return int(struct.unpack_from("<Q", state, _SW_RESERVED)[0])


def way_back(maps: Maps) -> Optional[int]:
    """Where the C library returns from signals. Raises OSError."""
    with open(f"/proc/{maps.pid}/mem", "rb", buffering=0) as memory:
        for mapping in maps.mappings:
            name = os.path.basename(mapping.path)
            if "x" in mapping.access and name.startswith(_C_LIBRARY):
                memory.seek(mapping.start)
                found = memory.read(mapping.end - mapping.start).find(_SIGRETURN)
                if found >= 0:
                    return mapping.start + found
    return None


def _has_shadow_stack(pid: int) -> bool:
    return "shstk" in status(pid).get("x86_Thread_features", "")
