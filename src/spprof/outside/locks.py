"""Which lock of Python's a thread waits for, and which thread has entered a `with` block of it.

A lock does not know its owner. But a frame in the block of `with lock:` keeps the lock, or its method __exit__, on its stack of
values until the block ends. How much of that stack is in use for sure, the tables of exceptions say: an exception in the block
would find it there. A lock that was taken by acquire() alone has no such trace: nothing is said about its owner."""

from __future__ import annotations

from typing import Dict, Iterable, Iterator, List, Optional, Set, Tuple

from .calls import Call
from .interpreter import Interpreter
from .memory import Memory, Unreadable
from .objects import MASK
from .stacks import Raw, bytes_of, type_name

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


def queue_of(memory: Memory, python: Interpreter, call: Call, frame: Raw) -> int:
    """The SimpleQueue of which a thread in a futex call waits for an item; 0: it waits for something else. Its innermost frame
    has the queue, or its method, among its variables and values; from which on these are old, need not be known: what is waited
    for is compared. That is the queue's semaphore, or from 3.13 on a place in it, as of a mutex."""
    try:
        wanted = {call.arguments[0], memory.word(call.arguments[0] - 8)} - {0}
        for value in _values(memory, python.at, frame):
            queue = next((one for one, first in _firsts(memory, python, value) if first in wanted), 0)
            if queue and type_name(memory, python, queue).rpartition(".")[2] == "SimpleQueue":
                return queue
    except Unreadable:  # there are no more values
        pass
    return 0


def _values(memory: Memory, at: Dict[str, int], frame: Raw) -> Iterator[int]:
    """Its variables and what follows them: more than it has values."""
    variables = memory.half(frame.code + at["code_nlocalsplus"]) if at["code_nlocalsplus"] >= 0 else _VALUES_MOST
    for number in range(min(max(variables, 0), _VALUES_MOST) + _VALUES_MOST):
        value = memory.word(frame.address + at["frame_size"] + 8 * number) & MASK
        if value:
            yield value


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
    """What `waited_for` would return of it, if it is a lock, or a method of one."""
    return (first for _, first in _firsts(memory, python, value))


def _firsts(memory: Memory, python: Interpreter, value: int) -> Iterator[Tuple[int, int]]:
    """The object, or that of which it is a method, each with what is first in it. In a lock (Modules/_threadmodule.c) that is a
    mutex, or the address of a semaphore."""
    at = python.at
    for is_method in (False, True):
        try:
            owner = memory.word(value + at["cfunction_self"]) if is_method else value
            yield owner, owner + at["ob_size"]
            yield owner, memory.word(owner + at["ob_size"])
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
