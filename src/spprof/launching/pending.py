"""CPython's queue of pending calls (`Py_AddPendingCall`), seen from outside: how another process's main thread is given a line of
Python to run, before 3.14. Nothing of the process runs meanwhile, and each write leaves it in a state that it can go on from.

Where a version keeps the queue is in LAYOUTS, from its headers. It is proven in this process, of the same version, before
another one is touched; in that one everything that is written to must look as it does there."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import time

from ..errors import Unsupported
from ..outside.named import NamedTuple

TYPE_CHECKING = False  # the user of `attach` waits for the first sample
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

    from ..outside.proc import Maps
    from .stopped import Stopped

RUNTIME, RUN = "_PyRuntime", "PyRun_SimpleString"
_CALL = struct.Struct("<QQ")
_THREADS_MOST = 10_000


class Layout(NamedTuple):
    """Bytes from the start of `_PyRuntimeState` (runtime_), `PyInterpreterState` (interpreter_), `PyThreadState` (thread_), and
    of the queue, `struct _pending_calls` (no prefix); -1: this version has no such field."""

    runtime_interpreter: int  # interpreters.main
    runtime_main_thread: int
    runtime_signals: int  # ceval.signals_pending
    runtime_current: int  # gilstate.tstate_current
    interpreter_threads: int
    thread_id: int
    thread_active: int  # the byte that says whether the thread has the GIL, and the bits of it
    thread_active_mask: int
    queue_in_runtime: int
    queue_in_interpreter: int
    interpreter_breaker: int
    thread_breaker: int
    lock: int
    to_do: int
    number: int
    calls: int
    first: int  # and the end of the queue in the word after it
    slots: int
    slot: int
    thread_next: int = 8
    thread_interpreter: int = 16


_LAYOUT_39 = Layout(40, 72, 344, 568, 8, 176, -1, 0, -1, 80, 72, -1, 0, 8, -1, 16, 528, 32, 16)
_LAYOUT_313 = Layout(640, 656, -1, -1, 7344, 152, 40, 255, 2640, -1, -1, 24, 8, -1, 12, 24, 7224, 300, 24)
LAYOUTS = {
    "3.9": _LAYOUT_39,
    "3.10": _LAYOUT_39._replace(interpreter_breaker=68),
    "3.11": Layout(48, 80, 352, 576, 16, 152, -1, 0, -1, 112, 100, -1, 0, 8, -1, 16, 528, 32, 16),
    "3.12": Layout(48, 64, 2008, -1, 72, 136, 24, 16, 2016, -1, 368, -1, 8, 16, -1, 24, 536, 32, 16),
    "3.13": _LAYOUT_313,
    "3.13t": _LAYOUT_313._replace(queue_in_runtime=2664),
}  # fmt: skip
_BREAK_FOR_CALLS, _BREAK_FOR_SIGNALS = 4, 2  # bits of thread_breaker


class Queue:
    """The queue of a process, through `read`, which gives bytes at an address or raises OSError. Raises OSError or ValueError if
    something is not as it must be."""

    def __init__(self, layout: Layout, runtime: int, read: Callable[[int, int], bytes]) -> None:
        self.layout, self.runtime, self._read = layout, runtime, read
        self.interpreter = self._word(runtime + layout.runtime_interpreter)
        in_runtime = layout.queue_in_runtime >= 0
        self.at = runtime + layout.queue_in_runtime if in_runtime else self.interpreter + layout.queue_in_interpreter
        self.main_id = self._word(runtime + layout.runtime_main_thread)
        self.main = self._main()
        self.first, self.end = struct.unpack("<ii", read(self.at + layout.first, 8))
        if not (0 <= self.first < layout.slots and 0 <= self.end < layout.slots):
            raise ValueError("the queue is not where it should be")

    def _word(self, address: int) -> int:
        return int.from_bytes(self._read(address, 8), "little")

    def _int(self, address: int) -> int:
        return int.from_bytes(self._read(address, 4), "little", signed=True)

    def _main(self) -> int:
        """The thread state of the main thread."""
        thread = self._word(self.interpreter + self.layout.interpreter_threads)
        for _ in range(_THREADS_MOST):
            if not thread or self._word(thread + self.layout.thread_interpreter) != self.interpreter:
                break
            if self._word(thread + self.layout.thread_id) == self.main_id:
                return thread
            thread = self._word(thread + self.layout.thread_next)
        raise ValueError("the main thread is not where it should be")

    def slot(self, index: int) -> int:
        """Its address."""
        return self.at + self.layout.calls + index % self.layout.slots * self.layout.slot

    def waiting(self) -> List[bytes]:
        """The calls in the queue."""
        length = (self.end - self.first) % self.layout.slots
        return [self._read(self.slot(self.first + i), self.layout.slot) for i in range(length)]

    def is_locked(self) -> bool:
        """Whether a thread is about to change it. Raises ValueError if there is no lock where it should be."""
        if self.layout.number >= 0:
            return bool(self._read(self.at + self.layout.lock, 1)[0] & 1)
        value, waiting = struct.unpack("<II", self._read(self._word(self.at + self.layout.lock), 8))  # a semaphore
        if value > 1 or waiting > _THREADS_MOST:
            raise ValueError("the queue's lock is not where it should be")
        return not value

    def counted(self) -> int:
        """How many calls there are, by the count that 3.13 keeps; else by the queue itself."""
        return self._int(self.at + self.layout.number) if self.layout.number >= 0 else len(self.waiting())

    def is_announced(self) -> bool:
        """Whether the main thread is to look into the queue."""
        if self.layout.thread_breaker >= 0:
            return bool(self._word(self.main + self.layout.thread_breaker) & _BREAK_FOR_CALLS)
        return self._int(self.at + self.layout.to_do) == 1

    def breaks(self) -> bool:
        """Whether a thread leaves its bytecode to see what is asked of it; always before 3.13, where one says it for all."""
        return self.layout.thread_breaker >= 0 or self._int(self.interpreter + self.layout.interpreter_breaker) == 1

    def signal_waits(self) -> bool:
        """Whether a signal's Python function is to be called."""
        if self.layout.thread_breaker >= 0:
            return bool(self._word(self.main + self.layout.thread_breaker) & _BREAK_FOR_SIGNALS)
        return self._int(self.runtime + self.layout.runtime_signals) != 0

    def main_holds_lock(self) -> bool:
        """Whether the main thread has the interpreter's lock (3.13t: is attached)."""
        if self.layout.runtime_current >= 0:
            return self._word(self.runtime + self.layout.runtime_current) == self.main
        return bool(self._read(self.main + self.layout.thread_active, 1)[0] & self.layout.thread_active_mask)


def layout_of(version: str) -> Layout:
    """Raises Unsupported."""
    if version not in LAYOUTS:
        raise Unsupported(f"spprof does not know where Python {version} keeps its pending calls")
    return LAYOUTS[version]


def prove(layout: Layout) -> None:
    """Adds a call to this process's own queue, on a thread that does not run it, and looks for all of it where it should be.
    Called on the main thread. Raises Unsupported."""
    if not any(_is_proven(layout, wait_ms) for wait_ms in _WAITS_MS):
        raise Unsupported(f"Python {sys.version.split()[0]} keeps its pending calls elsewhere than its other releases")


def _is_proven(layout: Layout, wait_ms: int) -> bool:
    """In vain if the main thread has run the call already: it may not be waiting yet when the other thread begins."""
    import _thread

    found: List[bool] = []
    done = _thread.allocate_lock()

    def look() -> None:
        try:
            time.sleep(wait_ms / 1000)
            found.append(_is_seen(layout) and _breaks(layout))
        except (OSError, ValueError):
            pass
        finally:
            done.release()

    done.acquire()
    try:
        if _own_queue(layout).main_holds_lock():
            _thread.start_new_thread(look, ())
            done.acquire()
    except (OSError, ValueError):
        pass
    return found == [True]


_WAITS_MS = (0, 1, 2, 5, 10, 20, 50, 100)
_NOTHING = ctypes.create_string_buffer(b"")
_LOOKS = 100_000


def _own_queue(layout: Layout) -> Queue:
    return Queue(layout, ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, RUNTIME)), _own_memory)


def _is_seen(layout: Layout) -> bool:
    own: Any = ctypes.pythonapi
    function = ctypes.cast(getattr(own, RUN), ctypes.c_void_p)
    add = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(("Py_AddPendingCall", own))
    before = _own_queue(layout)
    silent = not before.waiting() and not before.counted() and not before.is_locked() and not before.main_holds_lock()
    if not silent or add(function, ctypes.addressof(_NOTHING)) != 0:
        return False
    after = _own_queue(layout)
    expected = _CALL.pack(function.value or 0, ctypes.addressof(_NOTHING))
    return (
        [call[: len(expected)] for call in after.waiting()] == [expected]
        and after.counted() == 1
        and after.first == before.first
        and after.is_announced()
    )


def _breaks(layout: Layout) -> bool:
    """An exception for a thread that waits has each thread look, until that one has taken it."""
    import _thread

    queue = _own_queue(layout)
    if layout.thread_breaker >= 0:
        return True
    begun, held, ended = (_thread.allocate_lock() for _ in range(3))
    for lock in (begun, held, ended):
        lock.acquire()

    def wait() -> None:
        try:
            begun.release()
            held.acquire()
        finally:
            ended.release()

    thread = _thread.start_new_thread(wait, ())
    begun.acquire()
    silent = any(not queue.breaks() for _ in range(_LOOKS))
    own: Any = ctypes.pythonapi
    own.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(SystemExit))
    asked = queue.breaks()
    held.release()
    ended.acquire()
    return silent and asked and any(not queue.breaks() for _ in range(_LOOKS))


class _Piece(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


def _own_memory(address: int, size: int) -> bytes:
    """By a call that keeps the interpreter's lock."""
    buffer = ctypes.create_string_buffer(size)
    here, there = _Piece(ctypes.addressof(buffer), size), _Piece(address, size)
    read: Any = ctypes.PyDLL(None).process_vm_readv
    if (
        read(os.getpid(), ctypes.byref(here), ctypes.c_ulong(1), ctypes.byref(there), ctypes.c_ulong(1), ctypes.c_ulong(0))
        != size
    ):
        raise OSError(0, "memory that is not there")
    return buffer.raw


class Call:
    """`PyRun_SimpleString(text)`, to be run by the main thread of a process that has `symbols` there."""

    def __init__(self, layout: Layout, symbols: Dict[str, int], text: str) -> None:
        self.layout, self.symbols = layout, symbols
        self.text = text.encode("ascii") + b"\0"
        assert 2 * len(self.text) <= layout.slots * layout.slot  # else there may be no place for it beside the call (put)
        self._index: Optional[int] = None
        self._text_at = 0

    def queue(self, process: Stopped) -> Queue:
        """What it is now. Raises Unsupported if the process is not of the layout."""
        try:
            return Queue(self.layout, self.symbols[RUNTIME], process.read)
        except (OSError, ValueError) as error:
            raise Unsupported(f"process {process.pid} runs a Python of another build: {error}") from error

    def checked(self, process: Stopped, maps: Maps) -> Queue:
        """The same, with a look at all that is used of it."""
        queue = self.queue(process)
        try:
            self._check(queue, maps)
            self._is_free(queue)
        except (OSError, ValueError) as error:
            raise Unsupported(f"process {process.pid} runs a Python of another build: {error}") from error
        return queue

    def _is_free(self, queue: Queue) -> bool:
        """Whether it is empty and nobody is at it."""
        return not (queue.is_locked() or queue.waiting() or queue.counted())

    def put(self, process: Stopped, queue: Queue) -> bool:
        """Into the queue, as `checked`, if that is empty and nobody is at it."""
        if not self._is_free(queue):
            return False
        layout = self.layout
        used = -(-len(self.text) // layout.slot)
        # As far from the end as can be: the next calls of others go there before this one has run.
        index = queue.end - used if queue.end >= used else layout.slots - used
        self._text_at = queue.slot(index)
        process.write(self._text_at, self.text)
        # A slot at the end of an empty queue is not looked at.
        call = _CALL.pack(self.symbols[RUN], self._text_at)
        process.write(queue.slot(queue.end), call + bytes(layout.slot - len(call)))
        self._index = queue.end
        self.announce(process, queue)  # until the queue has it, in vain
        self._set_end(process, queue, queue.end + 1, 1)
        return True

    def _set_end(self, process: Stopped, queue: Queue, end: int, count: int) -> None:
        at, data = queue.at + self.layout.first + 4, struct.pack("<i", end % self.layout.slots)
        if self.layout.number < 0:
            process.write(at, data)
        else:
            process.write_both((at, data), (queue.at + self.layout.number, struct.pack("<i", count)))

    def _check(self, queue: Queue, maps: Maps) -> None:
        for address in (queue.at, queue.slot(-1) + self.layout.slot, queue.main, queue.interpreter):
            mapping = maps.at(address)
            if mapping is None or not mapping.access.startswith("rw"):
                raise ValueError("the queue is not in memory that is written to")
        mapping = maps.at(self.symbols[RUN])
        if mapping is None or "x" not in mapping.access:
            raise ValueError("its functions are not where they should be")

    def announce(self, process: Stopped, queue: Queue) -> None:
        """Has the main thread look into the queue."""
        if self.layout.thread_breaker >= 0:
            at = queue.main + self.layout.thread_breaker
            breaker = int.from_bytes(process.read(at, 8), "little") | _BREAK_FOR_CALLS
            process.write(at, breaker.to_bytes(8, "little"))
        else:
            process.write(queue.at + self.layout.to_do, struct.pack("<i", 1))
            process.write(queue.interpreter + self.layout.interpreter_breaker, struct.pack("<i", 1))

    def waits(self, queue: Queue) -> bool:
        """Whether it has not been begun."""
        call = _CALL.pack(self.symbols[RUN], self._text_at)
        return any(one[: len(call)] == call for one in queue.waiting())

    @property
    def is_there(self) -> bool:
        """Whether it was put, and has been neither taken back nor forgotten."""
        return self._index is not None

    def take_back(self, process: Stopped, empty: int) -> bool:
        """If it has not been begun; `empty`: an address with a zero byte that stays. False: a thread is at the queue."""
        if self._index is None:
            return True
        queue = self.queue(process)
        if queue.is_locked():
            return False
        if self.waits(queue):
            # Calls of others may have come after it: it stays and does nothing then.
            process.write(queue.slot(self._index) + 8, struct.pack("<Q", empty))
            if len(queue.waiting()) > 1:
                self._index = None
                return True
            self._set_end(process, queue, self._index, 0)
            self.forget(process)
        return True

    def forget(self, process: Stopped) -> bool:
        """Leaves nothing of it in slots that nobody uses, once it has been run. False: a thread is at the queue."""
        if self._index is None:
            return True
        queue = self.queue(process)
        if queue.is_locked():
            return False
        used = {queue.slot(queue.first + i) for i in range(len(queue.waiting()))}
        if process.read(self._text_at, len(self.text)) == self.text and not any(
            self._text_at <= at < self._text_at + len(self.text) for at in used
        ):
            process.write(self._text_at, bytes(len(self.text)))
        if queue.slot(self._index) not in used:
            process.write(queue.slot(self._index), bytes(_CALL.size))
        self._index = None
        return True
