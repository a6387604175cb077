"""spprof's own format: a copy of the file, with everything in it; of a part, the same blocks with the part's samples.

A part's file has the strings, frames and stacks of the whole, byte for byte: no id changes, and blocks that name one are
copied. Counts and times of calls and counts of exceptions, of which nobody knows when they were made, are left out. Only the
columns of samples are packed here (docs/file-format.md). The core packs while it records, and only what it records.
"""

from __future__ import annotations

import json
import sys
from array import array
from typing import TYPE_CHECKING, Any, BinaryIO, Dict, Iterator, List, Sequence, Tuple
from zlib import DEFLATED, compressobj

from ..errors import BadFile
from ..model.filtering import filtered
from ..model.layout import COLUMNS, FIRST, VALUES, columns_of
from ..model.requests import made
from ..model.types import TIME, header_of_file
from ..readers.loading import read_columns
from ..readers.spprof import MAGIC, blocks, columns_in, framed, requests, size_of_column

if TYPE_CHECKING:
    from ..model.data import ProfileData
    from .options import Options


def write(profile: ProfileData, out: BinaryIO, options: Options) -> None:
    """Writes the .spprof file itself. `options`: thread; no other applies."""
    if options.thread is not None:
        profile = filtered(profile, thread=options.thread)
    if profile.part_of is None:
        out.write(profile.raw())
    else:
        out.writelines(_blocks(profile))


def _blocks(part: ProfileData) -> Iterator[bytes]:
    data, columns = part.raw(), part._columns()
    whole = read_columns(data)
    samples, values = _Samples(part, whole), _Values(part, whole)
    # What the whole lacks, the reader saw from where it ended; the part has an end, or none, of its own.
    lacks = {"warning": part.warning or part.unfinished} if part.warning or part.end is None else {}
    yield MAGIC
    yield _json(b"H", {**header_of_file(part.header, part._listed_types()), **lacks})
    for at, payload in blocks(data):
        kind = data[at + 8 : at + 9]
        if kind in b"SV":
            made = samples.of_block(payload) if kind == b"S" else values.of_block(payload)
            if made:
                yield framed(kind, made)
        elif kind not in b"HTGRBCIKMQWAE":
            yield framed(kind, payload)
    known = part.origin._columns()["threads"]  # a part names threads that it has no samples of
    holders = {by - 1: known[by - 1] for by in sorted({*_rows(part, TIME)["held_by"]}) if by - 1 in known}
    yield _json(b"T", list({**columns["threads"], **holders}.values()))
    if part.markers:
        rows = [(marker.thread + 1, marker.time_ns, marker.duration_ns, *marker.data.values()) for marker in part.markers]
        yield framed(b"G", b"".join(map(_packed, zip(*rows))))
    if part.requests:
        yield framed(b"R", b"".join(map(_packed, zip(*_requests(part, data)))))
    if whole["tick_stats"] is not None:
        yield framed(b"A", whole["tick_stats"])
    if part.end is not None:
        yield _json(b"E", part.end)


def _requests(part: ProfileData, data: bytes) -> Iterator[Tuple[int, ...]]:
    """The rows of the part's requests in the file: its strings have the ids that they have there."""
    kept = {(each.time_ns, each.duration_ns, each.id) for each in part.requests}
    strings = part.origin._columns()["strings"]
    for began, took, text in requests(data):
        if any((each.time_ns, each.duration_ns, each.id) in kept for each in made([(began, took, text)], strings)):
            yield began, took, text + 1


def _json(kind: bytes, value: Any) -> bytes:
    return framed(kind, json.dumps(value, separators=(",", ":")).encode("ascii"))


class _Samples:
    """The part's samples of time, block by block of the whole file."""

    def __init__(self, part: ProfileData, whole: Dict[str, Any]) -> None:
        """`whole`: the columns of the file now. Raises BadFile if that has become another."""
        self.part, self.whole, self.numbers = _rows(part, TIME), whole, _numbers(part, TIME)
        _check_same(whole["time_ns"], self.numbers, self.part["time_ns"])
        self.start_ns = int(part.header["start_ns"]) // 1000 * 1000
        self.clocks: Dict[int, Tuple[int, int]] = {}  # thread -> its last time and four times its usual step, us
        self.passed = self.used = 0  # samples of the whole and of the part
        # What the reader has taken, and is still to come here.
        self.left = {table: len(whole[COLUMNS[FIRST[table]][0]]) for table in ("code", "frame", "node", "sample")}
        self.left.update(string=len(whole["strings"]), node=self.left["node"] - 1)  # the root is in no block

    def of_block(self, payload: bytes) -> bytes:
        """The block's definitions with the part's samples. b"" if there is neither; or if the reader did not take the block."""
        columns = columns_in(payload)
        sizes = {table: columns[FIRST[table]][0] for table in self.left} if columns else {}
        if not sizes or any(size > self.left[table] for table, size in sizes.items()):
            self.left = dict.fromkeys(self.left, -1)  # damaged: nor did it take what follows
            return b""
        self.left = {table: left - sizes[table] for table, left in self.left.items()}
        self.passed += sizes.pop("sample")
        first = self.used
        while self.used < len(self.numbers) and self.numbers[self.used] < self.passed:
            self.used += 1
        if self.used == first and not any(sizes.values()):
            return b""
        made = self._columns(first, self.used)
        absent = _packed([0] * sizes["code"])  # the column of kinds; that of labels is made
        kept = [*(column for _, column in columns), absent]
        return b"".join(_packed(made[name]) if name in made else kept[at] for at, (name, _, _) in enumerate(COLUMNS[:VALUES]))

    def _columns(self, first: int, last: int) -> Dict[str, Sequence[int]]:
        """The columns of samples as the file has them."""
        part, whole, numbers = self.part, self.whole, self.numbers[first:last]
        times, weights = [], []
        for thread, time_ns, weight in zip(*(part[name][first:last] for name in ("thread", "time_ns", "weight"))):
            last_us, pace = self.clocks.get(thread, (0, 0))
            now = (time_ns - self.start_ns) // 1000
            step = now - last_us
            unforeseen = step - (pace >> 2)
            times.append(_zigzag(unforeseen))
            weights.append(_zigzag(weight // 1000 - step))
            self.clocks[thread] = now, pace + unforeseen
        made = {"count": [count - 1 for count in part["count"][first:last]], "time_ns": times, "weight": weights}
        kept = [name for name in columns_of("sample") if name not in made]
        return {**{name: [whole[name][number] for number in numbers] for name in kept}, **made}


class _Values:
    """The part's samples of other types, block by block of the whole file."""

    def __init__(self, part: ProfileData, whole: Dict[str, Any]) -> None:
        """Raises BadFile if the file has become another."""
        self.whole = whole
        self.numbers: List[int] = []  # of the part's samples in all blocks V
        for type in {about["type"] for about in part._listed_types()} - {TIME}:
            places = [place for place, each in enumerate(whole["value_type"]) if each == type]
            numbers, times = _numbers(part, type), _rows(part, type)["time_ns"]
            _check_same([whole["value_time_ns"][place] for place in places], numbers, times)
            self.numbers += [places[number] for number in numbers]
        self.numbers.sort()
        self.start_ns = int(part.header["start_ns"]) // 1000 * 1000
        self.clocks: Dict[int, int] = {}  # thread -> its last time
        self.passed = self.used = 0  # samples of the whole and of the part

    def of_block(self, payload: bytes) -> bytes:
        """The block with the part's samples. b"" if it has none; or if the reader did not take the block."""
        self.passed += size_of_column(payload)
        first = self.used
        while self.used < len(self.numbers) and self.numbers[self.used] < self.passed:
            self.used += 1
        if self.used == first:
            return b""
        numbers = self.numbers[first : self.used]
        made = {name: [self.whole[name][number] for number in numbers] for name, _, _ in COLUMNS[VALUES:]}
        made["value_count"] = [count - 1 for count in made["value_count"]]
        for at, (thread, time_ns) in enumerate(zip(made["value_thread"], made["value_time_ns"])):
            made["value_time_ns"][at] = (time_ns - self.clocks.get(thread, self.start_ns)) // 1000
            self.clocks[thread] = time_ns
        return b"".join(_packed(made[name]) for name, _, _ in COLUMNS[VALUES:])


def _rows(part: ProfileData, type: int) -> Dict[str, Any]:
    """The columns of the part's samples of a type, empty if it is of others."""
    reported = [about["type"] for about in part._listed_types()]
    columns: Dict[str, Any] = {**part._columns()}
    if type not in reported:
        return dict.fromkeys(columns, ())
    rows: Dict[str, Any] = columns if type == reported[0] else columns["by_type"][type]
    return rows


def _numbers(part: ProfileData, type: int) -> Sequence[int]:
    """Of each of these samples its place among those of the whole."""
    rows = _rows(part, type)
    numbers: Sequence[int] = rows["numbers"] if "numbers" in rows else range(len(rows["time_ns"]))
    return numbers


def _check_same(times: Sequence[int], numbers: Sequence[int], known: Sequence[int]) -> None:
    """Raises BadFile if the samples of these numbers have other times in the file than were read."""
    if any(number >= len(times) or times[number] != time for number, time in zip(numbers, known)):
        raise BadFile("the file that this is a part of was replaced after it had been read")


def _zigzag(value: int) -> int:
    return 2 * value if value >= 0 else -2 * value - 1


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def _packed(values: Sequence[int]) -> bytes:
    """A column."""
    wide = array("Q", values)
    if sys.byteorder == "big":
        wide.byteswap()
    raw, width = wide.tobytes(), (max(values, default=0).bit_length() + 7) // 8
    made: List[bytes] = [_varint(len(values)), bytes([width])]
    for plane in (raw[byte::8] for byte in range(width)):
        deflate = compressobj(6, DEFLATED, -15)
        small = deflate.compress(plane) + deflate.flush() if any(plane) else b""
        small = small if len(small) < len(plane) else plane
        made += [_varint(len(small)), small]
    return b"".join(made)
