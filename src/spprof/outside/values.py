"""Local variables of a frame, in words: values of small types, of others the type and the length. Only what is in the objects
themselves is read, a bounded part of it, and nothing of the program's is run: no __repr__, no __len__.

A type is one of Python's own if it is static and its name has no module: a class of a program's called `list` is not."""

from __future__ import annotations

import struct
import time
from itertools import islice
from typing import Dict, Iterator, List, Optional, Tuple

from .interpreter import Interpreter
from .memory import Memory, Unreadable, fields
from .objects import MASK
from .stacks import Raw, str_of

LOCALS_MOST = 64  # of a frame
_TEXT_MOST = 60  # characters, and bytes, of a value
_DIGITS_MOST = 10  # of an int: numbers below 2**300
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE


class Values:
    """Reads them. What is the same for all frames is read once."""

    def __init__(self, memory: Memory, python: Interpreter) -> None:
        self._memory, self._python, self._at = memory, python, python.at
        self._own_types: Dict[int, str] = {}
        self._tuples: Dict[int, List[Tuple[int, int]]] = {}
        self._names_of: Dict[int, List[str]] = {}  # by code

    def of_frame(self, frame: Raw, until: Optional[float] = None) -> Optional[List[Tuple[int, str]]]:
        """The number of each variable that has a value, and that. While it works the thread may be stopped: None if `until` comes
        first. Raises Unreadable."""
        count = sum(size for _, size in self._names(frame.code))
        data = self._memory.read(frame.address + self._at["frame_size"], 8 * min(count, LOCALS_MOST))
        addresses = [word & MASK for word in fields(f"<{len(data) // 8}Q", data)]
        found: List[Tuple[int, str]] = []
        for number, address in enumerate(addresses):
            if _is_past(until):
                return None
            if address:
                found.append((number, self.text(address)))
        return None if _is_past(until) else found

    def named(self, frame: Raw, found: List[Tuple[int, str]]) -> Tuple[Tuple[str, str], ...]:
        """What `of_frame` found, with names. Raises Unreadable."""
        if frame.code not in self._names_of:
            self._names_of[frame.code] = [self._name(address) for address in islice(self._items(frame.code), LOCALS_MOST)]
        names = self._names_of[frame.code]
        return tuple((names[number], text) for number, text in found if number < len(names))

    def _names(self, code: int) -> List[Tuple[int, int]]:
        """The tuples of names that a code object has, in the order of the variables, with their sizes."""
        if code not in self._tuples:
            places = [self._at[key] for key in ("code_localsplusnames", "code_varnames", "code_cellvars", "code_freevars")]
            tuples = [self._memory.word(code + place) for place in places if place >= 0]
            self._tuples[code] = [(address, self._memory.word(address + self._at["ob_size"])) for address in tuples]
        return self._tuples[code]

    def _items(self, code: int) -> Iterator[int]:
        for address, size in self._names(code):
            data = self._memory.read(address + self._at["tuple_items"], 8 * min(size, LOCALS_MOST))
            yield from fields(f"<{len(data) // 8}Q", data)

    def _name(self, address: int) -> str:
        try:
            return str_of(self._memory, self._python, address)
        except Unreadable:
            return "?"

    def text(self, address: int) -> str:
        """An object, in words."""
        try:
            kind, is_own = self._type(address)
            if kind == "cell" and is_own:
                address = self._memory.word(address + self._at["cell_value"]) & MASK
                if not address:
                    return "<no value yet>"
                kind, is_own = self._type(address)
            return (self._own(kind, address) if is_own else "") or f"<{kind}>"
        except Unreadable:
            return "<cannot be read>"

    def _type(self, address: int) -> Tuple[str, bool]:
        """The name of an object's type, and whether it is one of Python's own. (Others may go, and another take its place.)"""
        memory = self._memory
        kind = memory.word(address + self._at["ob_type"])
        if kind in self._own_types:
            return self._own_types[kind], True
        name = memory.text(memory.word(kind + self._at["type_name"]), 64).decode("utf-8", "replace")
        is_own = not memory.word(kind + self._at["type_flags"]) & _HEAP_TYPE and "." not in name
        if is_own:
            self._own_types[kind] = name
        return name, is_own

    def _own(self, kind: str, address: int) -> str:
        """'': there are no more words for it than its type."""
        memory, at = self._memory, self._at
        if kind == "NoneType":
            return "None"
        if kind == "bool":
            return "True" if self._int(address) != "0" else "False"
        if kind == "int":
            return self._int(address)
        if kind == "float":
            return repr(struct.unpack("<d", memory.read(address + at["float_value"], 8))[0])
        if kind == "str":
            length = memory.word(address + at["str_length"])
            text = str_of(memory, self._python, address, _TEXT_MOST)
            return repr(text) if length <= len(text) else f"{text!r}... ({length:,} characters)"
        if kind == "bytes":
            length = memory.word(address + at["ob_size"])
            data = memory.read(address + at["bytes_data"], min(length, _TEXT_MOST))
            return repr(data) if length <= len(data) else f"{data!r}... ({length:,} bytes)"
        places = {"list": "ob_size", "tuple": "ob_size", "bytearray": "ob_size", "dict": "dict_used", "set": "set_used",
                  "frozenset": "set_used"}  # fmt: skip
        return f"<{kind} of {memory.word(address + at[places[kind]]):,}>" if kind in places else ""

    def _int(self, address: int) -> str:
        memory, at = self._memory, self._at
        if at["int_tag"] >= 0:
            tag = memory.word(address + at["int_tag"])
            count, is_negative = tag >> 3, tag & 3 == 2
            count = 0 if tag & 3 == 1 else count
        else:
            (size,) = fields("<q", memory.read(address + at["ob_size"], 8))
            count, is_negative = abs(size), size < 0
        if count > _DIGITS_MOST:
            return f"<int of up to {count * at['int_shift']:,} bits>"
        digits = fields(f"<{count}I", memory.read(address + at["int_digits"], 4 * count))
        value = sum(digit << at["int_shift"] * place for place, digit in enumerate(digits))
        return str(-value if is_negative else value)


def _is_past(until: Optional[float]) -> bool:
    return until is not None and time.monotonic() > until
