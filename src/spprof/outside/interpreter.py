"""Which Python a process runs, where its state is, and where that version keeps what is read."""

from __future__ import annotations

import os

from ..errors import SpprofError, Unsupported
from .elf import Symbols
from .layouts import LAYOUTS, SAID
from .memory import Memory, Unreadable, fields
from .named import NamedTuple
from .proc import Maps

TYPE_CHECKING = False  # the user of `attach` waits for the first sample
if TYPE_CHECKING:
    from typing import Dict, Iterator, List, Optional

INTERPRETERS_MOST = 1000
THREADS_MOST = 20_000
_COOKIE = b"xdebugpy"  # at the beginning of _PyRuntime, from 3.13 on
_FINALIZING = 32  # bytes into _PyRuntime, from 3.13 on: where in it is the thread that finalizes Python
_OFFSET_MOST = 1 << 20  # within a structure
_NEW_IN = (("PyIter_Send", "3.10"), ("PyFrame_GetBack", "3.9"))  # for those before Py_Version, which is new in 3.11


class Interpreter(NamedTuple):
    """A Python that is loaded in a process."""

    name: str  # such as 3.13t
    full: str  # such as 3.13.2, as far as it is known
    runtime: int  # the address of _PyRuntime
    at: Dict[str, int]  # the layout
    start: int = 0  # where the object begins that has it


class State(NamedTuple):
    """A thread that Python knows."""

    address: int
    interpreter: int
    gil: int  # 0: there is none


def of_process(memory: Memory, pid: int) -> Interpreter:
    """The Python that runs in it. Raises SpprofError."""
    try:
        return of_maps(memory, Maps(pid))
    except OSError:
        raise SpprofError(f"process {pid} has ended") from None


def of_maps(memory: Memory, maps: Maps) -> Interpreter:
    """The Python that is among what a process has mapped. Raises SpprofError."""
    unknown = None
    for start in _objects(maps):
        try:
            found = _of_object(memory, start)
        except Unreadable:
            continue
        except Unsupported as error:
            unknown = error
            continue
        if found is not None:
            return found
    which = f"process {maps.pid}" if maps.pid else "the process"
    raise unknown or Unsupported(f"{which} runs no Python that exports _PyRuntime, as CPython does")


def _objects(maps: Maps) -> List[int]:
    """Where objects begin in its memory: that of the program and of Python's library first."""
    found = maps.objects()
    first = next(iter(found), "")
    return [found[path] for path in sorted(found, key=lambda path: (path != first, "python" not in os.path.basename(path)))]


def _of_object(memory: Memory, start: int) -> Optional[Interpreter]:
    symbols = Symbols(memory, start)
    runtime = symbols.find("_PyRuntime")
    if runtime is None:
        return None
    if memory.read(runtime, len(_COOKIE)) == _COOKIE:
        version, free_threaded = fields("<QQ", memory.read(runtime + len(_COOKIE), 16))
        name = name_of(version) + ("t" if free_threaded else "")
        if name not in SAID:
            raise _not_known(name)
        return Interpreter(name, _full(version), runtime, _said(memory, runtime, name), start)
    number = symbols.find("Py_Version")
    if number is not None:
        version = memory.word(number)
        name, full = name_of(version), _full(version)
    else:
        name = full = next((name for symbol, name in _NEW_IN if symbols.find(symbol) is not None), "3.8 or older")
    if name not in LAYOUTS or name in SAID:
        raise _not_known(name)
    return Interpreter(name, full, runtime, LAYOUTS[name], start)


def is_at_its_end(memory: Memory, python: Interpreter) -> bool:
    """Whether it is being finalized; for 3.13 and later. Raises Unreadable."""
    return memory.word(python.runtime + memory.word(python.runtime + _FINALIZING)) != 0


def lets_in(name: str) -> bool:
    """Whether other processes can have this version run something (PEP 768)."""
    return name in LAYOUTS and LAYOUTS[name]["interp_entered"] >= 0


def name_of(version: int) -> str:
    """A version in words: `Py_Version`, `sys.hexversion`."""
    return f"{version >> 24 & 255}.{version >> 16 & 255}"


def _full(version: int) -> str:
    return f"{name_of(version)}.{version >> 8 & 255}"


def _not_known(name: str) -> Unsupported:
    return Unsupported(f"it runs Python {name}, and this spprof knows {', '.join(LAYOUTS)}")


def _said(memory: Memory, runtime: int, name: str) -> Dict[str, int]:
    """The layout with what the interpreter says itself: it may be a later release than the one that we know."""
    places = SAID[name]
    data = memory.read(runtime, places["size"])
    said = {key: fields("<Q", data[place:])[0] for key, place in places.items() if key != "size"}
    if any(value > _OFFSET_MOST for value in said.values()):
        raise Unreadable("no offsets")
    known = LAYOUTS[name]
    grown = said["thread_size"] - known["thread_size"]  # of a PyThreadState: fields of asyncio's are behind it
    return {**known, **said, **{key: known[key] + grown for key in ("ts_loop", "ts_tasks") if known[key] >= 0}}


def states(memory: Memory, python: Interpreter) -> Iterator[State]:
    """Its threads. What cannot be read ends the list."""
    at = python.at
    seen = set()
    try:
        interpreter = memory.word(python.runtime + at["runtime_interpreters"])
        for _ in range(INTERPRETERS_MOST):
            if not interpreter or interpreter in seen:
                break
            seen.add(interpreter)
            gil = _gil(memory, python, interpreter)
            state = memory.word(interpreter + at["interp_threads_head"])
            while state and state not in seen and len(seen) < THREADS_MOST:
                seen.add(state)
                yield State(state, interpreter, gil)
                state = memory.word(state + at["ts_next"])
            interpreter = memory.word(interpreter + at["interp_next"])
    except Unreadable:
        return


def _gil(memory: Memory, python: Interpreter, interpreter: int) -> int:
    at = python.at
    gil = python.runtime + at["runtime_gil"] if at["runtime_gil"] >= 0 else memory.word(interpreter + at["interp_gil"])
    if at["gil_enabled"] >= 0 and gil and memory.half(gil + at["gil_enabled"]) == 0:
        return 0
    return gil


def holds(memory: Memory, python: Interpreter, state: State) -> bool:
    """Whether the thread holds the GIL at this moment. Raises Unreadable."""
    at = python.at
    if not state.gil or memory.half(state.gil + at["gil_locked"]) != 1:
        return False
    return memory.word(state.gil + at["gil_holder"]) == state.address


def turns(memory: Memory, python: Interpreter, state: State) -> int:
    """How often the GIL has gone from one thread to another. Raises Unreadable."""
    return memory.word(state.gil + python.at["gil_switches"])
