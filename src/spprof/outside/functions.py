"""Names of native functions, by the symbol tables of files. A file may have been replaced since it was mapped, so its build id is
compared with the one in the process's memory."""

from __future__ import annotations

import bisect
import os
import stat
import struct
from typing import List, Optional, Tuple

from ..model.demangle import demangle
from .memory import Memory, Unreadable, fields

_NOTE, _LOAD = 4, 1  # p_type
_BUILD_ID = 3  # n_type
_SYMBOLS, _DYNAMIC_SYMBOLS = 2, 11  # sh_type
_FUNCTION, _INDIRECT = 2, 10  # STT_FUNC, STT_GNU_IFUNC
_TABLE_MOST = 64 << 20  # bytes of a table of symbols, or of their names
_DEBUG = "/usr/lib/debug/.build-id"
# What compilers add to copies and parts of a function, as in csrc/core/resolve/resolve_native.c.
_ADDED = (".isra.", ".constprop.", ".part.", ".cold", ".lto_priv.", ".llvm.")


def _build_id_of(notes: bytes) -> bytes:
    at = 0
    while at + 12 <= len(notes):
        name, size, kind = fields("<III", notes[at:])
        begin = at + 12 + (name + 3) // 4 * 4
        if kind == _BUILD_ID and notes[at + 12 : at + 16] == b"GNU\0":
            return notes[begin : begin + size]
        at = begin + (size + 3) // 4 * 4
    return b""


def build_id(memory: Memory, start: int) -> bytes:
    """Of the object whose first byte is mapped at `start`; b'': it has none. Raises Unreadable."""
    head = memory.read(start, 64)
    if head[:6] != b"\x7fELF\x02\x01":
        raise Unreadable("no 64-bit ELF")
    (at,), (size, count) = fields("<Q", head[32:]), fields("<HH", head[54:])
    first: Optional[int] = None
    notes: List[Tuple[int, int]] = []
    for number in range(min(count, 64)):
        kind, _, _, address, _, length = fields("<IIQQQQ", memory.read(start + at + number * size, 40))
        if kind == _LOAD and first is None:
            first = address & ~4095
        elif kind == _NOTE:
            notes.append((address, min(length, 4096)))
    found = (_build_id_of(memory.read(start - (first or 0) + address, length)) for address, length in notes)
    return next((one for one in found if one), b"")


class _File:
    """An ELF file. Raises OSError, Unreadable."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(self._file).st_mode):
                raise Unreadable("no file")
            head = self._read(0, 64)
            if head[:6] != b"\x7fELF\x02\x01":
                raise Unreadable("no 64-bit ELF")
            (segments, sections), (size, count, row, rows) = fields("<QQ", head[32:]), fields("<HHHH", head[54:])
            table = self._read(segments, size * count)
            self.segments = [fields("<IIQQQQ", table[size * number :]) for number in range(count)]
            table = self._read(sections, row * rows)
            self.sections = [fields("<IIQQQQII", table[row * number :]) for number in range(rows)]
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        os.close(self._file)

    def _read(self, at: int, size: int) -> bytes:
        if size > _TABLE_MOST or at >= 1 << 62:
            raise Unreadable("too large a table")
        return os.pread(self._file, size, at)

    def build_id(self) -> bytes:
        notes = (_build_id_of(self._read(at, min(size, 4096))) for kind, _, at, _, _, size in self.segments if kind == _NOTE)
        return next((one for one in notes if one), b"")

    def functions(self) -> List[Tuple[int, int, bytes]]:
        """(first address, length, name) of each, sorted; of the whole table of symbols, or of what is exported."""
        for wanted in (_SYMBOLS, _DYNAMIC_SYMBOLS):
            for _, kind, _, _, at, size, names, _ in self.sections:
                if kind == wanted and names < len(self.sections):
                    return self._of_table(self._read(at, size), names)
        return []

    def _of_table(self, table: bytes, names: int) -> List[Tuple[int, int, bytes]]:
        _, _, _, _, at, size, _, _ = self.sections[names]
        texts = self._read(at, size)
        rows = struct.iter_unpack("<IBBHQQ", table[: len(table) // 24 * 24])
        return sorted(
            (value, length, texts[name : texts.find(b"\0", name)])
            for name, kind, _, section, value, length in rows
            if kind & 15 in (_FUNCTION, _INDIRECT) and section
        )


class Functions:
    """Those of an object."""

    def __init__(self, root: str, path: str, wanted: bytes) -> None:
        """`root`: what leads to the process's files; `wanted`: the build id in memory."""
        self._rows: List[Tuple[int, int, bytes]] = []
        self._firsts: List[int] = []
        for place in (f"{_DEBUG}/{wanted.hex()[:2]}/{wanted.hex()[2:]}.debug" if wanted else "", path):
            try:
                self._rows = self._of_file(f"{root}{place}", wanted) if place else []
            except (OSError, Unreadable, OverflowError, MemoryError):
                continue
            if self._rows:
                break
        self._firsts = [first for first, _, _ in self._rows]

    @staticmethod
    def _of_file(path: str, wanted: bytes) -> List[Tuple[int, int, bytes]]:
        file = _File(path)
        try:
            return file.functions() if file.build_id() == wanted else []
        finally:
            file.close()

    def at(self, address: int) -> str:
        """The name of the function that has an address, relative to the object; '': unknown."""
        found = bisect.bisect_right(self._firsts, address) - 1
        if found < 0:
            return ""
        first, length, name = self._rows[found]
        if address >= first + max(length, 1):
            return ""
        text = name.decode("utf-8", "replace").partition("@")[0]
        ends = [end for end in (text.find(part) for part in _ADDED) if end > 0]
        return demangle(text[: min(ends, default=len(text))])
