"""A core file of a process that has ended, or that gdb's `gcore` has copied (core(5), elf(5)).

What a process had mapped of files and never changed is not in it, so it is read from these files, if they are still the same.
A core file may say anything, so all that is read of it is bounded."""

from __future__ import annotations

import bisect
import os
import signal
import stat
from typing import Dict, List, NamedTuple, Optional, Tuple

from ..errors import BadFile
from . import calls
from .memory import Memory, Unreadable, fields
from .native import registers_of
from .proc import Mapping, Maps
from .target import Moment
from .unwinding import PROCESSORS

_LOAD, _NOTE = 1, 4  # p_type
_STATUS, _INFO, _FILES = 1, 3, 0x46494C45  # n_type: a thread, the process, its files
_SEGMENTS_MOST = 1 << 17
_NOTES_MOST = 64 << 20  # bytes
_THREADS_MOST = 20_000
_REGISTERS = 112  # where they are in a `struct elf_prstatus`, after pr_cursig (12) and pr_pid (32)
_X86_64 = 62
_CALL, _ARGUMENTS = 15, (14, 13, 12, 7, 9, 8)  # orig_rax; rdi, rsi, rdx, r10, r8, r9. aarch64 keeps no trace of a call
_KILLS = (62, 200, 234)  # kill, tkill, tgkill: a thread that signals itself
_OF_DEBUGGERS = (0, signal.SIGINT, signal.SIGTRAP, signal.SIGSTOP)  # gcore's, not why the process ended
_PAGE = 4096


class _Segment(NamedTuple):
    start: int
    kept: int  # so much of it is in the core file
    end: int
    place: int  # in the core file
    access: str


class _Thread(NamedTuple):
    signal: int
    words: Tuple[int, ...]  # registers


class CoreFile:
    """A Target: what there was when it was written."""

    is_still, folder, root, pid = True, "", "", 0

    def __init__(self, path: str) -> None:
        """Raises BadFile, OSError."""
        self.command = "?"
        self._name = "?"
        self._path = path
        self._threads: Dict[int, _Thread] = {}
        self._memory: Optional[_Memory] = None
        self._file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self._read()
        except (Unreadable, OverflowError) as error:
            self.close()
            raise BadFile(f"{path}: this is no core file of a 64-bit process on Linux: {error}") from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """It is not read any more."""
        if self._memory is not None:
            self._memory.close()
        os.close(self._file)

    # ---- what is in it

    def _read(self) -> None:
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise Unreadable("it is no file")
        head = os.pread(self._file, 64, 0)
        if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01" or head[16:18] != b"\x04\0":  # ET_CORE
            raise Unreadable("its first bytes say so")
        (self.machine,) = fields("<H", head[18:])
        (table, sections), (size, count) = fields("<QQ", head[32:]), fields("<HH", head[54:])
        if count == 0xFFFF:  # more: their number is in the first section
            (count,) = fields("<I", os.pread(self._file, 4, sections + 44))
        if size != 56 or count > _SEGMENTS_MOST:
            raise Unreadable("it has too many segments")
        rows = os.pread(self._file, size * count, table)
        segments, notes = [], b""
        for number in range(len(rows) // 56):
            kind, flags, place, address, _, kept, length = fields("<IIQQQQQ", rows[56 * number :])
            if kind == _LOAD and length and address + length < 1 << 63:
                access = "".join(letter if flags & bit else "-" for letter, bit in (("r", 4), ("w", 2), ("x", 1)))
                segments.append(_Segment(address, min(kept, length), address + length, place, access))
            elif kind == _NOTE:
                notes += os.pread(self._file, min(kept, _NOTES_MOST - len(notes)), place)
        segments.sort()
        files = self._notes(notes)
        if not self._threads:
            raise Unreadable("it has no threads")
        self.maps = Maps.of(_mappings(segments, files))
        self._memory = _Memory(self._file, segments, self.maps)
        self.memory: Memory = self._memory

    def _notes(self, notes: bytes) -> List[Mapping]:
        files: List[Mapping] = []
        at = 0
        while at + 12 <= len(notes):
            name, size, kind = fields("<III", notes[at:])
            begin = at + 12 + (name + 3) // 4 * 4
            data = notes[begin : begin + size]
            if kind == _STATUS and len(self._threads) < _THREADS_MOST and len(data) > _REGISTERS:
                (number,), (tid,) = fields("<h", data[12:]), fields("<i", data[32:])
                count = (len(data) - _REGISTERS) // 8
                self._threads.setdefault(tid, _Thread(number, fields(f"<{count}Q", data[_REGISTERS:])))
            elif kind == _INFO and len(data) >= 136:
                (self.pid,) = fields("<i", data[24:])
                self._name = data[40:56].split(b"\0")[0].decode("utf-8", "replace")
                self.command = data[56:136].split(b"\0")[0].decode("utf-8", "replace").strip() or "?"
            elif kind == _FILES and not files:
                files = _files(data)
            at = begin + (size + 3) // 4 * 4
        return files

    # ---- what a Target says

    def tids(self) -> List[int]:
        """All that there were."""
        return sorted(self._threads)

    def number(self, tid: int) -> int:
        """As it is."""
        return tid

    def moment(self, tid: int) -> Moment:
        """Always the same."""
        return Moment("R" if self.call(tid) is None else "S", ())

    def name(self, tid: int) -> str:
        """A core file has that of the process."""
        return self._name if tid == self.pid else "thread"

    def words(self, tid: int, does: str) -> str:
        """The signal by which it ended."""
        number = self._threads[tid].signal
        if tid != next(iter(self._threads)) or number in _OF_DEBUGGERS:  # the kernel names the one that got it first
            return "ran" if does == "runs" else does
        return f"got {_signal_name(number)}" if does == "runs" else f"{does}, and got {_signal_name(number)}"

    def call(self, tid: int) -> Optional[calls.Call]:
        """By the registers."""
        thread = self._threads[tid]
        if self.machine != _X86_64 or len(thread.words) <= _CALL or thread.words[_CALL] in _KILLS:
            return None
        return calls.of_numbers(thread.words[_CALL], [thread.words[place] for place in _ARGUMENTS], "x86_64")

    def registers(self, tid: int) -> Optional[Dict[int, int]]:
        """All."""
        words = self._threads[tid].words
        if self.machine not in PROCESSORS:
            return None
        try:
            return registers_of(PROCESSORS[self.machine], b"".join(word.to_bytes(8, "little") for word in words))
        except Unreadable:
            return None


def _files(data: bytes) -> List[Mapping]:
    """NT_FILE: how many, the size of a page, begin, end and place of each, their names."""
    count, page = fields("<QQ", data)
    if count > len(data) // 24:
        raise Unreadable("it has too many files")
    names = data[16 + 24 * count :].split(b"\0")
    found = []
    for number in range(min(count, len(names))):
        start, end, place = fields("<QQQ", data[16 + 24 * number :])
        found.append(Mapping(start, end, "r-xp", place * page, os.fsdecode(names[number])))
    return found


def _mappings(segments: List[_Segment], files: List[Mapping]) -> List[Mapping]:
    """What was mapped: segments, with the files that they are of, and files that have none."""
    by_start = {one.start: one for one in files}
    found = {one.start: Mapping(one.start, one.end, one.access, 0, "") for one in segments}
    for start, one in by_start.items():
        found[start] = one._replace(access=found[start].access) if start in found else one
    return [found[start] for start in sorted(found)]


class _Memory(Memory):
    def __init__(self, file: int, segments: List[_Segment], maps: Maps) -> None:
        super().__init__(file)
        self._segments, self._maps = segments, maps
        self._starts = [one.start for one in segments]
        self._files: Dict[str, int] = {}  # by path; -1: it cannot be read, or is another one now

    def close(self) -> None:
        for file in self._files.values():
            if file >= 0:
                os.close(file)
        self._files.clear()

    def _at(self, address: int, size: int) -> bytes:
        found = b""
        while len(found) < size:
            piece = self._piece(address + len(found), size - len(found))
            if not piece:
                break
            found += piece
        return found

    def _piece(self, address: int, size: int) -> bytes:
        number = bisect.bisect_right(self._starts, address) - 1
        try:
            if number >= 0:
                one = self._segments[number]
                place = address - one.start
                if place < one.kept:
                    return os.pread(self.file, min(size, one.kept - place), one.place + place)
            return self._of_file(address, size)
        except (OSError, OverflowError) as error:
            raise Unreadable(f"{size} bytes at {address:#x}: {error}") from None

    def _of_file(self, address: int, size: int) -> bytes:
        mapping = self._maps.at(address)
        if mapping is None or not mapping.path or "w" in mapping.access:
            return b""
        if mapping.path not in self._files:
            self._files[mapping.path] = -1
            self._files[mapping.path] = self._opened(mapping.path)
        file = self._files[mapping.path]
        place = address - mapping.start
        return os.pread(file, min(size, mapping.end - address), mapping.offset + place) if file >= 0 else b""

    def _opened(self, path: str) -> int:
        """The file, if it begins as it did; if that is not known, if it is older."""
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        found = os.fstat(file)
        if stat.S_ISREG(found.st_mode):
            start = self._maps.objects().get(path, 0)
            try:
                same = _identity(os.pread(file, _PAGE, 0)) == _identity(self.read(start, _PAGE))
            except Unreadable:
                same = found.st_mtime <= os.fstat(self.file).st_mtime
            if same:
                return file
        os.close(file)
        return -1


def _identity(page: bytes) -> List[bytes]:
    """What does not change of an object's first page: its headers, and notes (the build id). Raises Unreadable."""
    (at,), (size, count) = fields("<Q", page[32:]), fields("<HH", page[54:])
    rows = page[at : at + size * count]
    notes = [fields("<IIQQQQ", rows[place:]) for place in range(0, len(rows) - 55, 56)]
    return [page[:64], rows, *(page[place : place + length] for kind, _, place, _, _, length in notes if kind == _NOTE)]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
