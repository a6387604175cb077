"""Which lock of Python's a thread waits for, and which thread has entered a `with` block of it.

A lock does not know its owner. But a frame in the block of `with lock:` keeps the lock, or its method __exit__, on its stack of
values until the block ends. How much of that stack is in use for sure, the tables of exceptions say: an exception in the block
would find it there. A lock that was taken by acquire() alone has no such trace: nothing is said about its owner."""

from __future__ import annotations

from typing import Dict, Iterable, Iterator, List, Optional, Set

from .calls import Call
from .interpreter import Interpreter
from .memory import Memory, Unreadable
from .objects import MASK
from .stacks import Raw, bytes_of

_VALUES_MOST = 64  # of a frame, that blocks keep
_BLOCKS_MOST = 20  # CO_MAXBLOCKS
_PRIVATE = 128  # FUTEX_PRIVATE_FLAG
_LOCKED_AND_AWAITED = 3  # the bits of a PyMutex


def waited_for(memory: Memory, call: Call) -> int:
    """The lock that a thread in a futex call waits for: the address of its semaphore, or of its mutex."""
    address = call.arguments[0]
    try:
        # For a mutex (3.14, 3.13t) a thread waits at a semaphore on its own stack; struct wait_entry of Python/parking_lot.c has
        # the mutex before that.
        mutex = memory.word(address - 8)
        return mutex if memory.byte(mutex) & _LOCKED_AND_AWAITED == _LOCKED_AND_AWAITED else address
    except Unreadable:
        return address


def is_for_ever(call: Call) -> bool:
    """Whether a futex call has no end of its own, and no other process could end it."""
    return bool(call.arguments[1] & _PRIVATE) and call.arguments[3] == 0


def entered(memory: Memory, python: Interpreter, frames: Iterable[Raw], locks: Set[int]) -> Set[int]:
    """Those of the locks whose `with` blocks these frames are in."""
    found = set()
    for frame in frames:
        try:
            for value in list(kept(memory, python, frame)):
                found |= locks & set(_locks_of(memory, python, value))
        except Unreadable:
            continue
    return found


def kept(memory: Memory, python: Interpreter, frame: Raw) -> Iterator[int]:
    """The values that the frame's blocks keep for their ends."""
    at = python.at
    if at["frame_stack"] >= 0:
        stack = memory.word(frame.address + at["frame_stack"])
        blocks = min(max(memory.half(frame.address + at["frame_block"]), 0), _BLOCKS_MOST)
        first = frame.address + at["frame_blocks"] + at["block_level"]
        depth = max((memory.half(first + number * at["block_size"]) for number in range(blocks)), default=0)
    else:
        stack = frame.address + at["frame_size"] + 8 * memory.half(frame.code + at["code_nlocalsplus"])
        table = bytes_of(memory, python, memory.word(frame.code + at["code_exceptions"]))
        memory.spend(len(table) // 8)
        depth = depth_at(table, frame.offset)
    for number in range(min(depth, _VALUES_MOST)):
        yield memory.word(stack + 8 * number) & MASK


def _locks_of(memory: Memory, python: Interpreter, value: int) -> Iterator[int]:
    """What `waited_for` would return of it, if it is a lock, or a method of one. First in a lock (Modules/_threadmodule.c) is a
    mutex, or the address of a semaphore."""
    at = python.at
    for is_method in (False, True):
        try:
            first = (memory.word(value + at["cfunction_self"]) if is_method else value) + at["ob_size"]
            yield first
            yield memory.word(first)
        except Unreadable:
            continue


def depth_at(table: bytes, offset: int) -> int:
    """How many values are on the stack at least, by a table of exceptions (3.11): where one would be caught, so many are left."""
    place = 0

    def number() -> int:
        nonlocal place
        value = 0
        while place < len(table):
            byte = table[place]
            place += 1
            value = value << 6 | byte & 63
            if not byte & 64:
                break
        return value

    while place < len(table):
        start, length, _, depth = number(), number(), number(), number()
        if 2 * start <= offset < 2 * (start + length):
            return depth >> 1
    return 0


def cycles(waits: Dict[int, int], owners: Dict[int, int]) -> List[List[int]]:
    """Threads of which each waits for a lock of the next, and the last for one of the first. `waits`: the lock of each thread;
    `owners`: the thread of each lock."""
    found: List[List[int]] = []
    seen: Set[int] = set()
    for first in waits:
        path: List[int] = []
        thread: Optional[int] = first
        while thread is not None and thread not in seen:
            seen.add(thread)
            path.append(thread)
            thread = owners.get(waits.get(thread, 0))
        if thread in path:
            found.append(path[path.index(thread) :])
    return found
