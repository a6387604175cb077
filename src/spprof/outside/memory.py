"""Guarded reads of another process's memory.

Nothing that is read is believed: an address may be anything, a length too. Every read is bounded, and all reads of a dump
together, so a process whose memory says anything can neither crash nor hang the reader."""

from __future__ import annotations

import os
import struct

TYPE_CHECKING = False  # the user of `attach` waits for the first sample
if TYPE_CHECKING:
    from typing import Dict

READ_MOST = 1 << 20  # bytes of one read
STEPS_MOST = 5_000_000  # of one dump: more than 5,000 threads need, some seconds at most
_FETCH_STEPS = 4  # what a read that asks the kernel takes, in reads that do not
_PAGE = 4096
_PAGES_MOST = 4096  # that are kept


class Unreadable(Exception):
    """There is no memory there, or what is there is not what it should be."""


class Memory:
    """Reads by pages, and keeps them until `forget`: what is read in between is of one moment if the process does not run."""

    def __init__(self, file: int) -> None:
        """`file`: /proc/PID/mem, open. It stays with the program that was there, whatever becomes of the process."""
        self.file = file
        self.left = STEPS_MOST
        self._pages: Dict[int, bytes] = {}

    def forget(self) -> None:
        """What is read from now on is read again."""
        self._pages.clear()

    def spend(self, steps: int) -> None:
        """Work that depends on what was read. Raises Unreadable when there has been too much of it."""
        self.left -= steps
        if self.left < 0:
            raise Unreadable("too much was read")

    def read(self, address: int, size: int) -> bytes:
        """So many bytes. Raises Unreadable."""
        self.spend(1)
        if not (0 <= size <= READ_MOST and 0 < address < 1 << 56):
            raise Unreadable(f"{size} bytes at {address:#x}")
        first, last = address // _PAGE, (address + size - 1) // _PAGE
        if last - first > 1:
            return self._fetch(address, size)
        data = self._page(first)
        if last > first:
            data += self._page(last)
        start = address - first * _PAGE
        return data[start : start + size]

    def _page(self, number: int) -> bytes:
        page = self._pages.get(number)
        if page is None:
            page = self._fetch(number * _PAGE, _PAGE)
            if len(self._pages) >= _PAGES_MOST:
                self._pages.clear()
            self._pages[number] = page
        return page

    def _fetch(self, address: int, size: int) -> bytes:
        self.spend(_FETCH_STEPS)
        data = self._at(address, size)
        if len(data) != size:
            raise Unreadable(f"{size} bytes at {address:#x}")
        return data

    def _at(self, address: int, size: int) -> bytes:
        """So many bytes, or the first of them. Raises Unreadable."""
        try:
            return os.pread(self.file, size, address)
        except (OSError, OverflowError) as error:
            raise Unreadable(f"{size} bytes at {address:#x}: {error}") from None

    def some(self, address: int, most: int) -> bytes:
        """Up to so many bytes, read now: what is mapped there without a gap. Raises Unreadable if that is nothing."""
        self.spend(_FETCH_STEPS)
        if not (0 < most <= READ_MOST and 0 < address < 1 << 56):
            raise Unreadable(f"{most} bytes at {address:#x}")
        data = self._at(address, most)
        if not data:
            raise Unreadable(f"{most} bytes at {address:#x}")
        return data

    def word(self, address: int) -> int:
        """8 bytes, unsigned."""
        return int.from_bytes(self.read(address, 8), "little")

    def half(self, address: int) -> int:
        """4 bytes, signed."""
        return int.from_bytes(self.read(address, 4), "little", signed=True)

    def byte(self, address: int) -> int:
        """One byte."""
        return self.read(address, 1)[0]

    def text(self, address: int, most: int) -> bytes:
        """Bytes up to a 0, or the first `most`. Raises Unreadable."""
        found = b""
        while len(found) < most:
            here = self.read(address + len(found), min(most - len(found), _PAGE - (address + len(found)) % _PAGE))
            end = here.find(b"\0")
            if end >= 0:
                return found + here[:end]
            found += here
        return found


def fields(form: str, data: bytes) -> tuple[int, ...]:
    """Numbers, as `struct` says. Raises Unreadable if the data are too short."""
    try:
        return struct.unpack_from(form, data)
    except struct.error as error:
        raise Unreadable(str(error)) from None
