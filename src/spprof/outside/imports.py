"""Which module's import lock a thread waits for, and which it has, by the frames of importlib: a function of it that locks a
module has the module's name as its first argument."""

from __future__ import annotations

from typing import List, NamedTuple, Sequence, Tuple

from .interpreter import Interpreter
from .memory import Memory, Unreadable
from .objects import MASK
from .stacks import Frame, Raw, str_of

_FILE = "<frozen importlib._bootstrap>"


class Locks(NamedTuple):
    """Names of modules."""

    awaited: str  # '': none
    entered: List[str]


def locks_of(memory: Memory, python: Interpreter, stack: Sequence[Tuple[Raw, Frame]]) -> Locks:
    """Those of a thread, by its stack, the leaf first."""
    awaited, entered, called = "", [], ""  # called: the function of importlib that this one has called
    for raw, frame in stack:
        name = frame.name.rpartition(".")[2] if frame.file == _FILE else ""
        if name == "_lock_unlock_module" or (name == "_find_and_load" and called == "__enter__"):
            awaited = awaited or _module(memory, python, raw)
        elif name == "_find_and_load" and called != "_lock_unlock_module":  # which waits for another's import
            entered.append(_module(memory, python, raw))
        called = name
    return Locks(awaited, [name for name in entered if name])


def _module(memory: Memory, python: Interpreter, frame: Raw) -> str:
    try:
        return str_of(memory, python, memory.word(frame.address + python.at["frame_size"]) & MASK)
    except Unreadable:
        return ""
