"""Addresses of exported symbols, by the tables that the dynamic linker uses. They are in the process's memory, so no file is
needed: it may be in another container, deleted, or stripped. Sections are only in files."""

from __future__ import annotations

import os
import stat

from .memory import Memory, Unreadable, fields

TYPE_CHECKING = False  # the user of `attach` waits for the first sample
if TYPE_CHECKING:
    from typing import Dict, Optional

_LOAD, _DYNAMIC = 1, 2  # p_type
_SYMBOLS, _NAMES, _GNU_HASH, _HASH = 6, 5, 0x6FFFFEF5, 4  # d_tag
_CHAIN_MOST = 1 << 16  # symbols of one hash
_SECTIONS_MOST = 1000
_NAMES_MOST = 1 << 16  # bytes


class Symbols:
    """Those of the object whose first byte is mapped at `start`."""

    def __init__(self, memory: Memory, start: int) -> None:
        """Raises Unreadable: there is no object."""
        self._memory = memory
        head = memory.read(start, 64)
        if head[:6] != b"\x7fELF\x02\x01":
            raise Unreadable("no 64-bit ELF")
        (at,), (size, count) = fields("<Q", head[32:]), fields("<HH", head[54:])
        dynamic: Optional[int] = None
        first: Optional[int] = None
        for number in range(min(count, 64)):
            kind, _, _, address = fields("<IIQQ", memory.read(start + at + number * size, 24))
            if kind == _LOAD and first is None:
                first = address & ~4095
            elif kind == _DYNAMIC:
                dynamic = address
        if dynamic is None or first is None:
            raise Unreadable("not linked dynamically")
        self.bias = start - first
        self._tables = self._read_dynamic(self.bias + dynamic)

    def _read_dynamic(self, at: int) -> Dict[int, int]:
        tables: Dict[int, int] = {}
        for number in range(256):
            tag, value = fields("<QQ", self._memory.read(at + 16 * number, 16))
            if tag == 0:
                break
            # The linker of glibc makes addresses of these, that of musl does not.
            tables[tag] = value if value >= self.bias else value + self.bias
        if _SYMBOLS not in tables or _NAMES not in tables:
            raise Unreadable("no symbols")
        return tables

    def find(self, name: str) -> Optional[int]:
        """The address, or None."""
        if _GNU_HASH in self._tables:
            return self._by_gnu_hash(name.encode())
        if _HASH in self._tables:
            return self._by_hash(name.encode())
        return None

    def _by_gnu_hash(self, name: bytes) -> Optional[int]:
        memory, table = self._memory, self._tables[_GNU_HASH]
        wanted = 5381
        for byte in name:
            wanted = (wanted * 33 + byte) & 0xFFFFFFFF
        buckets, first, words, _ = fields("<IIII", memory.read(table, 16))
        if not buckets:
            return None
        bucket = table + 16 + 8 * words
        index = memory.half(bucket + 4 * (wanted % buckets)) & 0xFFFFFFFF
        if index < first:
            return None
        for number in range(index, index + _CHAIN_MOST):
            value = memory.half(bucket + 4 * buckets + 4 * (number - first)) & 0xFFFFFFFF
            if value | 1 == wanted | 1:
                found = self._symbol(number, name)
                if found is not None:
                    return found
            if value & 1:
                break
        return None

    def _by_hash(self, name: bytes) -> Optional[int]:
        memory, table = self._memory, self._tables[_HASH]
        wanted = 0
        for byte in name:
            wanted = (wanted << 4) + byte
            wanted = (wanted ^ (wanted >> 24 & 0xF0)) & 0x0FFFFFFF
        buckets, _ = fields("<II", memory.read(table, 8))
        if not buckets:
            return None
        number = memory.half(table + 8 + 4 * (wanted % buckets)) & 0xFFFFFFFF
        for _ in range(_CHAIN_MOST):
            if number == 0:
                break
            found = self._symbol(number, name)
            if found is not None:
                return found
            number = memory.half(table + 8 + 4 * (buckets + number)) & 0xFFFFFFFF
        return None

    def _symbol(self, number: int, name: bytes) -> Optional[int]:
        """Its address, if this is its name and it is defined here."""
        at, _, _, section, value = fields("<IBBHQ", self._memory.read(self._tables[_SYMBOLS] + 24 * number, 24))
        if section == 0 or self._memory.text(self._tables[_NAMES] + at, len(name) + 1) != name:
            return None
        return self.bias + value


def section(path: str, name: str) -> int:
    """Where a section of an object's file is, from the object's first address on; 0: it has none, or there is no such file."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return 0
        head = os.pread(file, 64, 0)
        (at,), (size, count, names) = fields("<Q", head[40:]), fields("<HHH", head[58:])
        table = os.pread(file, size * count, at)
        rows = [fields("<IIQQQQ", table[size * number :]) for number in range(min(count, _SECTIONS_MOST))]
        texts = os.pread(file, min(rows[names][5], _NAMES_MOST), rows[names][4])
        wanted = name.encode() + b"\0"
        return next((address for begin, _, _, address, _, _ in rows if texts[begin : begin + len(wanted)] == wanted), 0)
    except (OSError, OverflowError, Unreadable, IndexError):
        return 0
    finally:
        os.close(file)
