"""The files that another process has mapped: which one an address lies in, and where the functions are that a file exports. What
is read is distrusted: a process can be anything."""

from __future__ import annotations

import bisect
import mmap
import os
import re
import struct
from typing import Dict, Iterable, List, NamedTuple, Optional

from ..errors import Unsupported

_SYMBOL = struct.Struct("<IBBHQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_LOAD, _DYNSYM = 1, 11


class Mapping(NamedTuple):
    """A line of /proc/PID/maps."""

    start: int
    end: int
    access: str
    offset: int
    device: str
    inode: int
    path: str


class Images:
    """What process `pid` has mapped now."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.mappings: List[Mapping] = []
        with open(f"/proc/{pid}/maps", errors="surrogateescape") as file:
            for line in file:
                words = line.rstrip("\n").split(None, 5)
                start, end = (int(word, 16) for word in words[0].split("-"))
                path = words[5] if len(words) == 6 else ""
                self.mappings.append(Mapping(start, end, words[1], int(words[2], 16), words[3], int(words[4]), path))
        self._starts = [mapping.start for mapping in self.mappings]

    def at(self, address: int) -> Optional[Mapping]:
        """The mapping that has the address."""
        found = bisect.bisect_right(self._starts, address) - 1
        return self.mappings[found] if found >= 0 and address < self.mappings[found].end else None

    def interpreter(self) -> str:
        """The path of the file that has CPython's functions. Raises Unsupported."""
        paths = {mapping.path: None for mapping in self.mappings if mapping.path.startswith("/")}
        for path in paths:
            if re.match(r"libpython3\.\d", os.path.basename(path)):
                return path
        try:
            return os.readlink(f"/proc/{self.pid}/exe")
        except OSError as error:
            raise Unsupported(f"process {self.pid} has no program: {error.strerror}") from error

    def symbols(self, path: str, names: Iterable[str]) -> Dict[str, int]:
        """Where the process has what the file exports. Raises Unsupported if it lacks one of them, or is no longer the file that
        the process began with."""
        first = next((one for one in self.mappings if one.path == path and one.offset == 0), None)
        try:
            with open(f"/proc/{self.pid}/root{path}", "rb") as file:
                if first is None or os.fstat(file.fileno()).st_ino != first.inode:
                    raise Unsupported(f"process {self.pid} runs a Python that has been replaced since: {path}")
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                    found = _exported(data, set(names))
        except OSError as error:
            raise Unsupported(f"{path} cannot be read: {error.strerror}") from error
        except (struct.error, IndexError, ValueError, OverflowError, StopIteration) as error:
            raise Unsupported(f"{path} is no ELF file that spprof can read: {error}") from error
        missing = sorted(set(names) - set(found))
        if missing:
            raise Unsupported(f"{path} does not export {', '.join(missing)}")
        return {name: first.start + value for name, value in found.items()}


def _exported(data: mmap.mmap, names: set[str]) -> Dict[str, int]:
    """Distances from where the file's first byte is mapped."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not of 64 bits")
    segments, sections = struct.unpack_from("<QQ", data, 32)
    segment_size, segment_count, section_size, section_count = struct.unpack_from("<4H", data, 54)
    loaded = (_SEGMENT.unpack_from(data, segments + i * segment_size) for i in range(segment_count))
    base = next(address - offset for kind, _, offset, address, *_ in loaded if kind == _LOAD)
    table = [_SECTION.unpack_from(data, sections + i * section_size) for i in range(section_count)]
    found = {}
    for _, kind, _, _, offset, size, link, _, _, _ in table:
        if kind != _DYNSYM:
            continue
        texts, length = table[link][4:6]
        wanted = {data.find(b"\0" + name.encode() + b"\0", texts, texts + length) + 1 - texts: name for name in names}
        for name, _, _, section, value, _ in _SYMBOL.iter_unpack(data[offset : offset + size - size % _SYMBOL.size]):
            if section and name in wanted:
                found[wanted[name]] = value - base
    return found
