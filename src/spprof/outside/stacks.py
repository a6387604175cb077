"""Stacks of Python, read from a process's memory: first addresses, while nothing may change; names afterwards."""

from __future__ import annotations

import time
from typing import Dict, List, NamedTuple, Optional, Tuple

from .interpreter import Interpreter
from .lines import line_of
from .memory import Memory, Unreadable, fields
from .stopping import STOP_S

DEPTH_MOST = 2000  # frames of a stack
_LINKS_MOST = 3 * DEPTH_MOST  # with the frames of the interpreter's own
_TEXT_MOST = 4096  # characters of a name
_TABLE_MOST = 1 << 19  # bytes of a code object's table
_CHAIN_OBJECTS, _CHAIN_CFRAME = 1, 2  # SPP_CHAIN_* of csrc/py/layout.h


class Raw(NamedTuple):
    """A frame: its address, that of its code object, and the instruction that it runs, in bytes."""

    address: int
    code: int
    offset: int


class Frame(NamedTuple):
    """A frame, for people."""

    name: str
    file: str
    line: int  # 0: unknown
    variables: Optional[Tuple[Tuple[str, str], ...]] = None  # names and values; None: they were not read
    native: bool = False  # a function of C, and `file` its object


class Walk(NamedTuple):
    """A stack, the leaf first."""

    frames: List[Raw]
    cut: str  # why there is no more of it
    late: bool = False  # because `until` has come
    # Where evaluators are on the C stack, each with the number of the frames up to the last that it runs (3.11 and later).
    anchors: Tuple[Tuple[int, int], ...] = ()


def walk(memory: Memory, python: Interpreter, state: int, until: Optional[float] = None) -> Walk:
    """The stack of a thread's state. `until`: a time of time.monotonic(). While it works the thread may be stopped: it reads each
    frame once, and nothing else."""
    at = python.at
    frames: List[Raw] = []
    entries: List[Tuple[int, int]] = []
    cut, late = "", False
    previous, newest = at["frame_previous"], 0
    size = _size(at)
    try:
        frame = memory.word(state + at["ts_frame"])
        if at["chain"] == _CHAIN_CFRAME and frame:
            frame = memory.word(frame + at["cframe_current"])
        for _ in range(_LINKS_MOST):
            if not frame:
                break
            if len(frames) >= DEPTH_MOST:
                cut = f"deeper than {DEPTH_MOST} frames"
                break
            if until is not None and time.monotonic() > until:
                cut, late = f"reading ends after {STOP_S * 1000:g} ms of a stop", True
                break
            data = memory.read(frame, size)
            raw = _frame(memory, at, frame, data)
            if raw is not None:
                frames.append(raw)
                newest = newest or frame
                if at["frame_is_entry"] >= 0 and data[at["frame_is_entry"]]:
                    entries.append((newest, len(frames)))
                    newest = 0
            else:
                entries.append((frame, len(frames)))
            frame = int.from_bytes(data[previous : previous + 8], "little")
    except Unreadable:
        cut = "what comes before cannot be read"
    if at["frame_is_entry"] >= 0 and not late:
        entries = _cframes(memory, at, state, entries)
    return Walk(frames, cut, late, tuple(entries))


def _cframes(memory: Memory, at: Dict[str, int], state: int, entries: List[Tuple[int, int]]) -> List[Tuple[int, int]]:
    """3.11: each evaluator has a cframe on the C stack that names its newest frame. The newest cframe may have none yet."""
    found: List[Tuple[int, int]] = []
    try:
        cframe = memory.word(state + at["ts_frame"])
        for newest, depth in entries:
            if not found and memory.word(cframe + at["cframe_current"]) != newest:
                cframe = memory.word(cframe + at["cframe_previous"])
            if memory.word(cframe + at["cframe_current"]) != newest:
                break
            found.append((cframe, depth))
            cframe = memory.word(cframe + at["cframe_previous"])
    except Unreadable:
        pass
    return found


def _size(at: Dict[str, int]) -> int:
    places = ("frame_previous", "frame_code", "frame_instr", "frame_owner", "frame_tlbc", "frame_is_entry")
    return max(at[name] for name in places) + 8


def raw_frame(memory: Memory, at: Dict[str, int], frame: int) -> Optional[Raw]:
    """The frame at an address; None: it is the interpreter's own. Raises Unreadable."""
    return _frame(memory, at, frame, memory.read(frame, _size(at)))


def _frame(memory: Memory, at: Dict[str, int], frame: int, data: bytes) -> Optional[Raw]:
    """None: it is the interpreter's own."""
    place, instruction = at["frame_code"], at["frame_instr"]
    code = int.from_bytes(data[place : place + 8], "little")
    if at["chain"] == _CHAIN_OBJECTS:
        return Raw(frame, code, int.from_bytes(data[instruction : instruction + 4], "little", signed=True) * at["instr_scale"])
    code &= ~7  # of a tagged reference; an address has none of these bits
    if at["owner_entry_min"] <= data[at["frame_owner"]] <= at["owner_entry_max"]:
        return None
    start = code + at["code_bytecode"]
    if at["frame_tlbc"] >= 0:
        index = int.from_bytes(data[at["frame_tlbc"] : at["frame_tlbc"] + 4], "little", signed=True)
        copies = memory.word(code + at["code_tlbc"]) if index > 0 else 0
        if copies:
            start = memory.word(copies + at["tlbc_entries"] + 8 * index)
    return Raw(frame, code, int.from_bytes(data[instruction : instruction + 8], "little") - start)


class Names:
    """Frames with their names. Each code object is read once, and each line of it looked up once."""

    def __init__(self, memory: Memory, python: Interpreter) -> None:
        self._memory, self._python = memory, python
        self._codes: Dict[int, Optional[tuple[str, str, int, bytes]]] = {}
        self._frames: Dict[Tuple[int, int], Optional[Frame]] = {}

    def frame(self, raw: Raw) -> Optional[Frame]:
        """None: there is no code object (any more)."""
        place = raw.code, raw.offset
        if place not in self._frames:
            self._frames[place] = self._frame(raw)
        return self._frames[place]

    def _frame(self, raw: Raw) -> Optional[Frame]:
        if raw.code not in self._codes:
            try:
                self._codes[raw.code] = self._read(raw.code)
            except Unreadable:
                self._codes[raw.code] = None
        code = self._codes[raw.code]
        if code is None:
            return None
        name, file, first_line, table = code
        try:
            self._memory.spend(len(table) // 8)
        except Unreadable:
            return Frame(name, file, 0)
        return Frame(name, file, line_of(self._python.at["lines"], table, first_line, raw.offset))

    def _read(self, code: int) -> tuple[str, str, int, bytes]:
        memory, at = self._memory, self._python.at
        if type_name(memory, self._python, code) != "code":
            raise Unreadable("no code object")
        name = self._text(code + (at["code_qualname"] if at["code_qualname"] >= 0 else at["code_name"]))
        file = self._text(code + at["code_filename"])
        lines = bytes_of(memory, self._python, memory.word(code + at["code_linetable"]))
        return name, file, memory.half(code + at["code_firstlineno"]), lines

    def _text(self, place: int) -> str:
        return str_of(self._memory, self._python, self._memory.word(place))


def str_of(memory: Memory, python: Interpreter, address: int, most: int = _TEXT_MOST) -> str:
    """A str, or the first characters of one. Raises Unreadable."""
    at = python.at
    head = memory.read(address, at["str_data"])
    (length,), (state,) = fields("<Q", head[at["str_length"] :]), fields("<I", head[at["str_state"] :])
    if not state >> at["str_compact_bit"] & 1:
        raise Unreadable("no compact str")
    is_ascii = state >> at["str_ascii_bit"] & 1
    width = state >> at["str_kind_shift"] & at["str_kind_mask"]
    if width not in (1, 2, 4):
        raise Unreadable("no str")
    data = memory.read(address + at["str_ascii_data" if is_ascii else "str_data"], min(length, most) * width)
    return data.decode({1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[width], "backslashreplace")


def bytes_of(memory: Memory, python: Interpreter, address: int) -> bytes:
    """What a bytes object has; nothing if that is too much. Raises Unreadable."""
    size = memory.word(address + python.at["ob_size"])
    return memory.read(address + python.at["bytes_data"], size) if size <= _TABLE_MOST else b""


def type_name(memory: Memory, python: Interpreter, address: int) -> str:
    """The name of an object's type. Raises Unreadable."""
    kind = memory.word(address + python.at["ob_type"])
    return memory.text(memory.word(kind + python.at["type_name"]), 64).decode("ascii", "replace")
