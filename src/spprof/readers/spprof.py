"""The slow twin of `_core.read`: the same result, in plain Python. Format: docs/file-format.md.

Tests compare the two; and it reads files where the C core is missing.
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from array import array
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from ..model.layout import COLUMNS, FIRST, OPTIONAL, VALUES, VALUES_OPTIONAL, columns_of

MAGIC = b"\x89SPPROF\n"
_BLOCK = struct.Struct("<IIB")
_LIMIT_FIRST, _LIMIT_PER_BYTE = 1 << 20, 64  # values of all columns that a file may have: see csrc/core/file/read.c
_MAX_US = ((1 << 64) - 1) // 4000  # keeps nanoseconds within 64 bits
_MAX_THREADS = 1 << 24
_FOLLOWERS = 16
_LISTS = 65536


class _Damage(Exception):
    """A block whose checksum is right but whose content is not."""


class _Cursor:
    """Reads varints and columns from one block's payload."""

    def __init__(self, data: bytes, budget: int) -> None:
        """`budget`: how many values all columns may have."""
        self.data = data
        self.at = 0
        self.budget = budget

    def varint(self) -> int:
        value = shift = 0
        while True:
            if self.at >= len(self.data) or shift > 62:
                raise _Damage("a number is cut off")
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def plane(self, n: int) -> bytes:
        size = self.varint()
        packed = self.data[self.at : self.at + size]
        if len(packed) != size or size > n:
            raise _Damage("a plane is cut off")
        self.at += size
        if size == 0:
            return bytes(n)
        if size == n:
            return packed
        inflater = zlib.decompressobj(-15)
        try:
            plain = inflater.decompress(packed, n + 1)
        except zlib.error as error:
            raise _Damage(f"a plane does not inflate: {error}") from None
        if len(plain) != n or not inflater.eof:
            raise _Damage("a plane has the wrong length")
        return plain

    def skip(self) -> int:
        """Passes over a column; the number of its values."""
        n = self.varint()
        width = self.data[self.at] if self.at < len(self.data) else 9
        self.at += 1
        if width > 8:
            raise _Damage("a column has an impossible size")
        for _ in range(width):
            size = self.varint()
            self.at += size
        if self.at > len(self.data):
            raise _Damage("a column is cut off")
        return n

    def column(self) -> array[int]:
        n = self.varint()
        if self.at >= len(self.data):
            raise _Damage("a column is cut off")
        width = self.data[self.at]
        self.at += 1
        if n > self.budget or width > 8:
            raise _Damage("a column has an impossible size")
        self.budget -= n
        spread = bytearray(8 * n)
        for k in range(width):
            spread[k::8] = self.plane(n)
        values = array("Q", bytes(spread))
        if sys.byteorder == "big":
            values.byteswap()
        return values


def _unzigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)


def text_of(raw: bytes) -> str:
    """A string of the file; what is no UTF-8 (a path may be) is replaced."""
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return raw.decode("utf-8", "replace")


def _same_length(*columns: array[int]) -> None:
    if len({len(column) for column in columns}) > 1:
        raise _Damage("columns of one table differ in length")


def _check_below(column: Any, limit: int, what: str) -> None:
    if column and max(column) >= limit:
        raise _Damage(f"a {what} id is out of range")


class _Tables:
    """Everything read so far. Of a block, all rows are added or none; after a damaged one nothing is read."""

    def __init__(self) -> None:
        self.strings: List[str] = []
        self.columns: Dict[str, array[int]] = {
            **{name: array(typecode) for name, typecode in columns_of("code", "frame", "sample", "value").items()},
            **{name: array(typecode, [0]) for name, typecode in columns_of("node").items()},
        }
        self.followers: Dict[int, List[int]] = {}  # frame + 1, 0 for the root, modulo _LISTS -> frames that followed it
        self.granted = self.budget = _LIMIT_FIRST  # values that the columns may have in all, and that they may still get
        self.clocks: Dict[int, Tuple[int, int]] = {}  # thread -> its last time and four times its usual step, us
        self.value_clocks: Dict[int, int] = {}  # thread -> its last time in blocks V, us

    def grant(self, size: int) -> None:
        """A block of so many bytes was read: the columns may have more values."""
        self.granted += _LIMIT_PER_BYTE * size
        self.budget += _LIMIT_PER_BYTE * size

    def add(self, payload: bytes) -> None:
        cursor = _Cursor(payload, self.budget)
        raw: List[array[int]] = []
        for number, (_, table, _) in enumerate(COLUMNS[:VALUES]):
            missing = number >= OPTIONAL and cursor.at == len(payload)
            raw.append(array("Q", bytes(8 * len(raw[FIRST[table]]))) if missing else cursor.column())
        fresh: Dict[str, Any] = {name: values for (name, _, _), values in zip(COLUMNS, raw) if name}
        try:
            for table in ("code", "frame", "node", "sample"):
                _same_length(*(fresh[name] for name in columns_of(table)))
            strings = self._strings(raw[0], raw[1])
            self._codes(len(self.strings) + len(strings), fresh)
            self._frames(fresh)
            self._nodes(fresh)
            clocks = self._samples(fresh)
            _check_below(fresh["label"], len(self.strings) + len(strings) + 1, "label")
            _check_below(fresh["reason"], 256, "reason")
            _check_below(fresh["waits_on"], len(self.strings) + len(strings) + 1, "string")
            _check_below(fresh["task"], len(self.strings) + len(strings) + 1, "string")
            _check_below(fresh["held_by"], _MAX_THREADS + 1, "thread")
            _check_below(fresh["span"], len(self.strings) + len(strings) + 1, "string")
            _check_below(fresh["awaited_by"], len(self.strings) + len(strings) + 1, "string")
            typed = {name: array(self.columns[name].typecode, values) for name, values in fresh.items()}
        except OverflowError as error:
            raise _Damage(str(error)) from None
        self.strings += strings
        self.clocks.update(clocks)
        self.budget = cursor.budget
        for name, values in typed.items():
            self.columns[name].extend(values)

    def add_values(self, payload: bytes) -> None:
        """A block V."""
        cursor = _Cursor(payload, self.budget)
        fresh: Dict[str, Any] = {}
        for number, (name, _, _) in enumerate(COLUMNS[VALUES:], VALUES):
            missing = number >= VALUES_OPTIONAL and cursor.at == len(payload)
            fresh[name] = array("Q", bytes(8 * len(fresh["value_type"]))) if missing else cursor.column()
        _same_length(*fresh.values())
        _check_below(fresh["value_type"], 256, "type")
        if 0 in fresh["value_type"]:
            raise _Damage("a value is of time")
        _check_below(fresh["value_thread"], min(_MAX_THREADS, self.granted), "thread")
        _check_below(fresh["value_weight"], 1 << 62, "weight")
        _check_below(fresh["value_stack"], len(self.columns["node_parent"]), "node")
        _check_below(fresh["value_count"], (1 << 32) - 1, "count")
        _check_below(fresh["value_flags"], 256, "flag")
        _check_below(fresh["value_label"], len(self.strings) + 1, "label")
        _check_below(fresh["value_reason"], 256, "reason")
        for name in ("value_waits_on", "value_task", "value_awaited_by"):
            _check_below(fresh[name], len(self.strings) + 1, "string")
        clocks: Dict[int, int] = {}
        time_ns = []
        for thread, step in zip(fresh["value_thread"], fresh["value_time_ns"]):
            clocks[thread] = clocks.get(thread, self.value_clocks.get(thread, 0)) + step
            if clocks[thread] > _MAX_US:
                raise _Damage("a time is impossible")
            time_ns.append(clocks[thread] * 1000)
        fresh.update(value_time_ns=time_ns, value_count=[count + 1 for count in fresh["value_count"]])
        self.value_clocks.update(clocks)
        self.budget = cursor.budget
        for name, values in fresh.items():
            self.columns[name].extend(array(self.columns[name].typecode, values))

    @staticmethod
    def _strings(lengths: array[int], text: array[int]) -> List[str]:
        if sum(lengths) != len(text):
            raise _Damage("string lengths do not add up")
        _check_below(text, 256, "byte")
        data = bytes(text.tolist())
        strings, at = [], 0
        for length in lengths:
            strings.append(text_of(data[at : at + length]))
            at += length
        return strings

    @staticmethod
    def _codes(strings: int, fresh: Dict[str, Any]) -> None:
        for name in ("code_name", "code_qualname", "code_file"):
            _check_below(fresh[name], strings, "string")
        _check_below(fresh["code_line"], (1 << 31) - 1, "line")
        _check_below(fresh["code_kind"], 2, "kind")

    def _frames(self, fresh: Dict[str, Any]) -> None:
        codes, lines, end_lines = fresh["frame_code"], fresh["frame_line"], fresh["frame_end_line"]
        known, more = self.columns["code_line"], fresh["code_line"]
        _check_below(codes, len(known) + len(more), "code")
        _check_below(lines, 1 << 32, "line")
        first_lines = (known[code] if code < len(known) else more[code - len(known)] for code in codes)
        line = [first + _unzigzag(x - 1) if x else 0 for first, x in zip(first_lines, lines)]
        if line and min(line) < 0:
            raise _Damage("a line is negative")
        fresh["frame_line"] = line
        fresh["frame_end_line"] = [start + x - 1 if x else 0 for start, x in zip(line, end_lines)]
        fresh["frame_col"] = [x - 1 for x in fresh["frame_col"]]
        fresh["frame_end_col"] = [x - 1 for x in fresh["frame_end_col"]]

    def _nodes(self, fresh: Dict[str, Any]) -> None:
        deltas, coded = fresh["node_parent"], fresh["node_frame"]
        parents = [node - delta for node, delta in enumerate(deltas, len(self.columns["node_parent"]))]
        if parents and (min(parents) < 0 or 0 in deltas):
            raise _Damage("a node's parent is out of range")
        known, limit = self.columns["node_frame"], len(self.columns["frame_code"]) + len(fresh["frame_code"])
        frames: List[int] = []
        for parent, number in zip(parents, coded):
            before = -1 if parent == 0 else known[parent] if parent < len(known) else frames[parent - len(known)]
            after = self.followers.setdefault((before + 1) % _LISTS, [])  # the last one first
            if _FOLLOWERS <= number < limit + _FOLLOWERS:
                after.insert(0, number - _FOLLOWERS)
                del after[_FOLLOWERS:]
            elif number < len(after):
                after.insert(0, after.pop(number))
            else:
                raise _Damage("a frame id is out of range")
            frames.append(after[0])
        fresh["node_parent"] = parents
        fresh["node_frame"] = frames

    def _samples(self, fresh: Dict[str, Any]) -> Dict[int, Tuple[int, int]]:
        threads, times, weights = fresh["thread"], fresh["time_ns"], fresh["weight"]
        _check_below(threads, min(_MAX_THREADS, self.granted), "thread")
        _check_below(fresh["stack"], len(self.columns["node_parent"]) + len(fresh["node_parent"]), "node")
        clocks: Dict[int, Tuple[int, int]] = {}
        time_ns, in_ns = [], []
        for thread, time, weight in zip(threads, times, weights):
            now, pace = clocks.get(thread) or self.clocks.get(thread) or (0, 0)
            unforeseen = _unzigzag(time)
            step = (pace >> 2) + unforeseen
            weight_us = step + _unzigzag(weight)
            now += step
            if step < 0 or weight_us < 0 or max(now, weight_us) > _MAX_US:
                raise _Damage("a time goes back, or a weight or time is impossible")
            clocks[thread] = (now, pace + unforeseen)
            time_ns.append(now * 1000)
            in_ns.append(weight_us * 1000)
        fresh.update(time_ns=time_ns, weight=in_ns, count=[count + 1 for count in fresh["count"]])
        return clocks


class Reading:
    """What the blocks that were read so far add up to. `Follower` (live/follow.py) reads on as a file grows."""

    def __init__(self) -> None:
        self.tables = _Tables()
        self.last: Dict[int, Any] = {ord("H"): None, ord("A"): None, ord("E"): None}
        self.threads: List[bytes] = []

    def add(self, kind: int, payload: bytes) -> Optional[str]:
        """Adds a block whose checksum is right; what is wrong with it, if it makes no sense."""
        self.tables.grant(len(payload))
        if kind in b"SV":
            try:
                if kind == ord("S"):
                    self.tables.add(payload)
                else:
                    self.tables.add_values(payload)
            except _Damage as damage:
                return f"a block does not make sense ({damage}): the file is damaged; it is read up to there"
        elif kind in self.last:
            self.last[kind] = payload
        elif kind == ord("T"):
            self.threads.append(payload)
        return None

    def result(self) -> Dict[str, Any]:
        """See `_core.read`; without `warning`."""
        columns = {name: values.tobytes() for name, values in self.tables.columns.items()}
        start_ns = _start_ns(self.last[ord("H")])
        for name in ("time_ns", "value_time_ns"):
            columns[name] = array("q", [start_ns + ns for ns in self.tables.columns[name]]).tobytes()
        header, tick_stats, end = (self.last[ord(kind)] for kind in "HAE")
        about = {"header": header, "tick_stats": tick_stats, "end": end, "threads": list(self.threads)}
        return {**about, "strings": self.tables.strings, **columns}


def read(data: Any) -> Dict[str, Any]:
    """Reads a whole .spprof file (bytes-like); see `_core.read` for the result.

    Raises ValueError if it is not a .spprof file. Anything wrong later ends the reading there, and `warning` says why."""
    data = bytes(data)
    if data[: len(MAGIC)] != MAGIC:
        raise ValueError("not a .spprof file")
    reading = Reading()
    warning = None
    at = len(MAGIC)
    while at < len(data):
        kind, payload, warning = _block(data, at)
        warning = warning or reading.add(kind, payload)
        if warning:
            break
        at += _BLOCK.size + len(payload)
    return {**reading.result(), "warning": warning}


def blocks(data: bytes, kinds: bytes = b"") -> Iterator[Tuple[int, bytes]]:
    """Offset and payload of each block (of these kinds; others are passed over unread), up to the first that is damaged."""
    at = len(MAGIC)
    while len(data) - at >= _BLOCK.size:
        length, _, kind = _BLOCK.unpack_from(data, at)
        if not kinds or kind in kinds:
            _, payload, warning = _block(data, at)
            if warning:
                return
            yield at, payload
        at += _BLOCK.size + length


def framed(kind: bytes, payload: bytes) -> bytes:
    """A block."""
    return _BLOCK.pack(len(payload), zlib.crc32(payload, zlib.crc32(kind)), kind[0]) + payload


def columns_in(payload: bytes) -> List[Tuple[int, bytes]]:
    """Of each column of an S block, packed as it is, the number of its values and its bytes. []: the block makes no sense."""
    cursor = _Cursor(payload, 0)
    columns: List[Tuple[int, bytes]] = []
    try:
        while cursor.at < len(payload) and len(columns) < VALUES:
            start = cursor.at
            columns.append((cursor.skip(), payload[start : cursor.at]))
    except _Damage:
        return []
    return columns if len(columns) >= OPTIONAL else []


def _unpacked(payload: bytes, columns: int) -> List[array[int]]:
    """So many columns of a block. Raises _Damage."""
    cursor = _Cursor(payload, _LIMIT_FIRST + _LIMIT_PER_BYTE * len(payload))
    return [cursor.column() for _ in range(columns)]


def size_of_column(payload: bytes) -> int:
    """How many values the first column of a block has; 0: the block makes no sense."""
    try:
        return _Cursor(payload, 0).varint()
    except _Damage:
        return 0


def collections(data: bytes) -> Iterator[Tuple[int, ...]]:
    """Garbage collections: thread id (-1: unknown), beginning (ns), duration (ns), generation, collected, uncollectable."""
    for thread, *rest in _rows(data, b"G", 6):
        yield thread - 1, *rest


def requests(data: bytes) -> Iterator[Tuple[int, ...]]:
    """Requests that have ended: beginning (ns), duration (ns), the string id of their labels (-1: none)."""
    for began, took, label in _rows(data, b"R", 3) if data.startswith(MAGIC) else ():
        yield began, took, label - 1


def _rows(data: bytes, kind: bytes, width: int) -> Iterator[Tuple[int, ...]]:
    """The rows of all blocks of a kind, up to one that makes no sense."""
    for _, payload in blocks(data, kind):
        try:
            columns = _unpacked(payload, width)
        except _Damage:
            return
        yield from zip(*columns)


def hashes(data: bytes) -> Dict[str, str]:
    """Path of each source file -> SHA-256 of what was in it while the program ran, in hexadecimal digits. {}: it is another
    profiler's file."""
    found: Dict[str, str] = {}
    for _, payload in blocks(data, b"F") if data.startswith(MAGIC) else ():
        digits, _, path = payload.partition(b" ")
        found.setdefault(text_of(path), digits.decode("ascii", "replace"))
    return found


def build_ids(*files: bytes) -> Dict[str, Set[str]]:
    """Path of each library that was loaded -> its build ids, in hexadecimal digits ('': it has none)."""
    ids: Dict[str, Set[str]] = {}
    for payload in (payload for data in files for _, payload in blocks(data, b"O")):
        for entry in payload.split(b"\0")[:-1]:
            build_id, _, path = entry.partition(b" ")
            ids.setdefault(text_of(path), set()).add(build_id.decode("ascii", "replace"))
    return ids


def _block(data: bytes, at: int) -> Tuple[int, bytes, Optional[str]]:
    """Kind and payload of the block at an offset, or what is wrong with it."""
    if len(data) - at < _BLOCK.size:
        return 0, b"", "the file ends inside a block: it was cut short, or is still being written"
    length, crc, kind = _BLOCK.unpack_from(data, at)
    payload = data[at + _BLOCK.size : at + _BLOCK.size + length]
    if len(payload) < length:
        return 0, b"", "the file ends inside a block: it was cut short, or is still being written"
    if zlib.crc32(payload, zlib.crc32(bytes([kind]))) != crc:
        return 0, b"", "a block's checksum is wrong: the file is damaged; it is read up to there"
    return kind, payload, None


def _start_ns(header: Optional[bytes]) -> int:
    """Whole microseconds, as all times in the file."""
    values = json.loads(header.decode("utf-8")) if header is not None else None
    start = values.get("start_ns") if isinstance(values, dict) else None
    start = start if isinstance(start, int) else 0
    if not 0 <= start < 1 << 63:
        raise ValueError("the header's start_ns does not make sense")
    return start // 1000 * 1000
