"""The chain of a coroutine that waits: its frame, those of the coroutines and generators that it awaits, and what the last one
awaits. Read from a process's memory. While a coroutine runs, its frames are on its thread's stack."""

from __future__ import annotations

from typing import Dict, List, NamedTuple

from .interpreter import Interpreter
from .memory import Memory, Unreadable, fields
from .objects import MASK, Objects
from .stacks import DEPTH_MOST, Raw, bytes_of, raw_frame

ENDED, BEGINS, RUNS, WAITS = "has ended", "has not begun", "runs", "waits"
_KINDS = ("coroutine", "generator", "async_generator")
# First in these is the coroutine, or what they wait for.
_WRAPPERS = ("coroutine_wrapper", "async_generator_asend", "async_generator_athrow", "anext_awaitable", "_asyncio.FutureIter")
_AFTER_AWAIT = 2  # the argument of RESUME: 1 after yield, 2 and 3 after yield from and await
_YIELD_FROM = 72  # opcode, before 3.11


class Chain(NamedTuple):
    """Frames, the outermost first."""

    state: str  # of the coroutine
    frames: List[Raw]
    awaited: int  # 0: nothing; an object that is no coroutine
    cut: str  # why there are no more frames


class _Frame(NamedTuple):
    state: str
    address: int
    awaits: bool  # if it waits: by `await` or `yield from`, not by `yield`


def chain(objects: Objects, coroutine: int) -> Chain:
    """Of a coroutine. Raises Unreadable if that is none."""
    frames: List[Raw] = []
    first = _frame(objects, coroutine)
    if first.state in (ENDED, RUNS):
        return Chain(first.state, frames, 0, "")
    try:
        frame, here = first, coroutine
        while frame.state in (BEGINS, WAITS):
            if len(frames) >= DEPTH_MOST:
                return Chain(first.state, frames, 0, f"deeper than {DEPTH_MOST} frames")
            raw = raw_frame(objects.memory, objects.at, frame.address)
            frames += [raw] if raw is not None else []
            if not frame.awaits:
                return Chain(first.state, frames, 0, "")
            here = _unwrapped(objects, _awaited(objects.memory, objects.at, frame.address))
            if objects.kind(here) not in _KINDS:
                return Chain(first.state, frames, here, "")
            frame = _frame(objects, here)
    except Unreadable:
        return Chain(first.state, frames, 0, "what it awaits cannot be read")
    return Chain(first.state, frames, 0, "")


def resumed(python: Interpreter, frame: Raw) -> Raw:
    """A frame that waits, at the instruction that it goes on with: in 3.12 the table of exceptions has an entry of its own for
    the one that waits. From 3.13 on the frame is at the next one already."""
    return frame._replace(offset=frame.offset + 2) if python.at["state_awaits"] < 0 else frame


def _unwrapped(objects: Objects, awaited: int) -> int:
    for _ in _WRAPPERS:
        if objects.kind(awaited) not in _WRAPPERS:
            break
        awaited = objects.memory.word(awaited + objects.at["ob_size"])
    return awaited


def _frame(objects: Objects, coroutine: int) -> _Frame:
    memory, python, at = objects.memory, objects.python, objects.at
    if objects.kind(coroutine) not in _KINDS:
        raise Unreadable("no coroutine")
    if at["gen_iframe"] >= 0:
        address, state = coroutine + at["gen_iframe"], memory.byte(coroutine + at["gen_state"])
    else:
        address = memory.word(coroutine + at["gen_frame"])
        if not address:
            return _Frame(ENDED, 0, False)
        state = memory.byte(address + at["frame_state"]) if at["frame_state"] >= 0 else 0
    if at["gen_running"] >= 0:  # 3.9
        if memory.byte(coroutine + at["gen_running"]):
            return _Frame(RUNS, address, False)
        if memory.half(address + at["frame_instr"]) < 0:
            return _Frame(BEGINS, address, False)
        return _Frame(WAITS, address, _awaits(memory, python, address))
    if state == at["state_created"]:
        return _Frame(BEGINS, address, False)
    if state == at["state_executing"]:
        return _Frame(RUNS, address, False)
    if at["state_awaits"] >= 0 and state in (at["state_awaits"], at["state_awaits_too"]):
        return _Frame(WAITS, address, True)
    if state == at["state_suspended"]:
        return _Frame(WAITS, address, at["state_awaits"] < 0 and _awaits(memory, python, address))
    return _Frame(ENDED, address, False)


def _awaits(memory: Memory, python: Interpreter, frame: int) -> bool:
    """By the instruction that comes next, before 3.13."""
    at = python.at
    if at["code_code"] < 0:
        return memory.byte(memory.word(frame + at["frame_instr"]) + 3) & 3 >= _AFTER_AWAIT
    after = memory.half(frame + at["frame_instr"]) * at["instr_scale"] + 2
    code = bytes_of(memory, python, memory.word(memory.word(frame + at["frame_code"]) + at["code_code"]))
    return 0 <= after < len(code) and code[after] == _YIELD_FROM


def _awaited(memory: Memory, at: Dict[str, int], frame: int) -> int:
    """By its stack of values."""
    if at["top_is_pointer"] >= 0:
        end = memory.word(frame + at["frame_top"])
    else:
        (depth,) = fields("<i", memory.read(frame + at["frame_top"], 4))
        end = (memory.word(frame + at["frame_stack"]) if at["frame_stack"] >= 0 else frame + at["frame_size"]) + 8 * depth
    return memory.word(end - 8 * at["top_awaited"]) & MASK
