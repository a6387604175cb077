"""Stacks of Python, read from a process's memory: first addresses, while nothing may change; names afterwards."""

from __future__ import annotations

import time
from typing import Dict, List, NamedTuple, Optional

from .interpreter import Interpreter
from .lines import line_of
from .memory import Memory, Unreadable, fields

DEPTH_MOST = 2000  # frames of a stack
_TEXT_MOST = 4096  # characters of a name
_TABLE_MOST = 1 << 19  # bytes of a code object's lines
_CHAIN_OBJECTS, _CHAIN_CFRAME = 1, 2  # SPP_CHAIN_* of csrc/py/layout.h


class Raw(NamedTuple):
    """A frame: the address of its code object, and the instruction that it runs, in bytes."""

    code: int
    offset: int


class Frame(NamedTuple):
    """A frame, for people."""

    name: str
    file: str
    line: int  # 0: unknown


class Walk(NamedTuple):
    """A stack, the leaf first. `cut`: why there is no more of it."""

    frames: List[Raw]
    cut: str


def walk(memory: Memory, python: Interpreter, state: int, until: Optional[float] = None) -> Walk:
    """The stack of a thread's state. `until`: a time of time.monotonic()."""
    at = python.at
    frames: List[Raw] = []
    try:
        frame = memory.word(state + at["ts_frame"])
        if at["chain"] == _CHAIN_CFRAME and frame:
            frame = memory.word(frame + at["cframe_current"])
        while frame:
            if len(frames) >= DEPTH_MOST:
                return Walk(frames, f"deeper than {DEPTH_MOST} frames")
            if until is not None and time.monotonic() > until:
                return Walk(frames, "the thread could not be stopped for longer")
            raw = _frame(memory, python, frame)
            if raw is not None:
                frames.append(raw)
            elif until is None and memory.left <= 0:
                break
            previous = memory.word(frame + at["frame_previous"])
            if previous == frame:
                raise Unreadable("a frame that calls itself")
            frame = previous
    except Unreadable:
        return Walk(frames, "what comes before cannot be read")
    return Walk(frames, "")


def _frame(memory: Memory, python: Interpreter, frame: int) -> Optional[Raw]:
    """None: it is the interpreter's own."""
    at = python.at
    code = memory.word(frame + at["frame_code"])
    if at["chain"] == _CHAIN_OBJECTS:
        return Raw(code, memory.half(frame + at["frame_instr"]) * at["instr_scale"])
    code &= ~7  # of a tagged reference; an address has none of these bits
    if at["owner_entry_min"] <= memory.byte(frame + at["frame_owner"]) <= at["owner_entry_max"]:
        return None
    start = code + at["code_bytecode"]
    if at["frame_tlbc"] >= 0:
        index, copies = memory.half(frame + at["frame_tlbc"]), memory.word(code + at["code_tlbc"])
        if 0 < index < 1 << 20 and copies:
            start = memory.word(copies + at["tlbc_entries"] + 8 * index)
    return Raw(code, memory.word(frame + at["frame_instr"]) - start)


class Names:
    """Frames with their names. Each code object is read once."""

    def __init__(self, memory: Memory, python: Interpreter) -> None:
        self._memory, self._python = memory, python
        self._codes: Dict[int, Optional[tuple[str, str, int, bytes]]] = {}

    def frame(self, raw: Raw) -> Optional[Frame]:
        """None: there is no code object (any more)."""
        if raw.code not in self._codes:
            try:
                self._codes[raw.code] = self._read(raw.code)
            except Unreadable:
                self._codes[raw.code] = None
        code = self._codes[raw.code]
        if code is None:
            return None
        name, file, first_line, table = code
        return Frame(name, file, line_of(self._python.at["lines"], table, first_line, raw.offset))

    def _read(self, code: int) -> tuple[str, str, int, bytes]:
        memory, at = self._memory, self._python.at
        if type_name(memory, self._python, code) != "code":
            raise Unreadable("no code object")
        name = self._text(memory.word(code + (at["code_qualname"] if at["code_qualname"] >= 0 else at["code_name"])))
        file = self._text(memory.word(code + at["code_filename"]))
        table = memory.word(code + at["code_linetable"])
        size = memory.word(table + at["ob_size"])
        lines = memory.read(table + at["bytes_data"], size) if size <= _TABLE_MOST else b""
        return name, file, memory.half(code + at["code_firstlineno"]), lines

    def _text(self, address: int) -> str:
        """A str."""
        memory, at = self._memory, self._python.at
        head = memory.read(address, at["str_data"])
        (length,), (state,) = fields("<Q", head[at["str_length"] :]), fields("<I", head[at["str_state"] :])
        if not state >> at["str_compact_bit"] & 1:
            raise Unreadable("no compact str")
        is_ascii = state >> at["str_ascii_bit"] & 1
        width = state >> at["str_kind_shift"] & at["str_kind_mask"]
        if width not in (1, 2, 4):
            raise Unreadable("no str")
        data = memory.read(address + at["str_ascii_data" if is_ascii else "str_data"], min(length, _TEXT_MOST) * width)
        return data.decode({1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[width], "backslashreplace")


def type_name(memory: Memory, python: Interpreter, address: int) -> str:
    """The name of an object's type. Raises Unreadable."""
    kind = memory.word(address + python.at["ob_type"])
    return memory.text(memory.word(kind + python.at["type_name"]), 64).decode("ascii", "replace")
