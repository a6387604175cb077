"""pprof's file (https://github.com/google/pprof/blob/main/proto/profile.proto): the numbers in comments are its fields.

Of several values of a sample, time is taken if there is one, else the file's default, else the last, as pprof does. The file has
sums and no times: a stack is one sample, however many it stands for.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

from ._columns import Columns

_TIME = {"nanoseconds": 1, "microseconds": 1_000, "milliseconds": 1_000_000, "seconds": 1_000_000_000}
_MAX_FRAMES = 100_000_000  # of all stacks together: inlined functions could make many of a small file
_MAX_DEPTH = 1 << 16

Value = Union[int, bytes]


def _varint(data: bytes, at: int) -> Tuple[int, int]:
    """A number and where it ends."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a number is cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: bytes) -> Iterator[Tuple[int, Value]]:
    """Number and value of each field of a message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            number, at = _varint(data, at)
            yield key >> 3, number
            continue
        if kind == 2:
            size, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise ValueError("no protocol buffer")
        if size > len(data) - at:
            raise ValueError("a field is cut off")
        if kind == 2:
            yield key >> 3, data[at : at + size]
        at += size


def _numbers(value: Value) -> List[int]:
    """A repeated field of numbers, packed or one of them."""
    if isinstance(value, int):
        return [value]
    result = []
    at = 0
    while at < len(value):
        number, at = _varint(value, at)
        result.append(number)
    return result


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _message(data: Value) -> Dict[int, Any]:
    """The fields of a small message; the last one of a number."""
    if isinstance(data, int):
        raise ValueError("a message is a number")
    return dict(_fields(data))


class _Location(NamedTuple):
    mapping: int
    address: int
    lines: List[Tuple[int, int, int]]  # function, line, column; what was inlined first


def read(data: bytes) -> Dict[str, Any]:
    """The columns of a file. Raises ValueError; KeyError, TypeError and others of what refers to nothing."""
    return _File(data).columns.result()


class _File:
    def __init__(self, data: bytes) -> None:
        self.strings: List[str] = []
        self.types: List[Dict[int, Any]] = []
        self.mappings: Dict[int, str] = {}
        self.functions: Dict[int, Dict[int, Any]] = {}
        self.locations: Dict[int, _Location] = {}
        self.about: Dict[int, Any] = {}
        samples: List[bytes] = []
        mappings: List[Dict[int, Any]] = []
        for field, value in _fields(data):
            if field == 1:  # sample_type
                self.types.append(_message(value))
            elif field == 2 and isinstance(value, bytes):
                samples.append(value)
            elif field == 3:
                mappings.append(_message(value))
            elif field == 4:
                self._location(value)
            elif field == 5:
                function = _message(value)
                self.functions[function[1]] = function
            elif field == 6 and isinstance(value, bytes):  # string_table
                self.strings.append(value.decode("utf-8", "replace"))
            else:
                self.about[field] = value
        if not self.types or not self.strings:
            raise ValueError("it has no sample types or no strings")
        for mapping in mappings:
            self.mappings[mapping[1]] = self.strings[mapping.get(5, 0)]
        self.index, self.factor, unit = self._choose()
        self.ours = any(self.strings[number].startswith("spprof ") for number in _numbers(self.about.get(13, b"")))  # comment
        self.columns = Columns("pprof", unit, **self._header())
        self.frames: Dict[int, List[int]] = {}  # location -> its frames, root first
        self._samples(samples)

    def _location(self, value: Value) -> None:
        if isinstance(value, int):
            raise ValueError("a message is a number")
        id, mapping, address = 0, 0, 0
        lines: List[Tuple[int, int, int]] = []
        for field, part in _fields(value):
            if field == 4:
                line = _message(part)
                lines.append((line.get(1, 0), _signed(line.get(2, 0)), line.get(3, 0)))
            elif isinstance(part, int):
                id, mapping, address = (part if field == at else old for at, old in ((1, id), (2, mapping), (3, address)))
        self.locations[id] = _Location(mapping, address, lines)

    def _type(self, number: int) -> Tuple[str, str]:
        kind = self.types[number]
        return self.strings[kind.get(1, 0)], self.strings[kind.get(2, 0)]

    def _choose(self) -> Tuple[int, int, str]:
        """Which value is the weight, how many of our units it is, and our unit."""
        every = range(len(self.types))
        default = self.strings[self.about.get(14, 0)]
        index = next((number for number in every if default and self._type(number)[0] == default), len(self.types) - 1)
        if self._type(index)[1] not in _TIME:
            index = next((number for number in every if self._type(number)[1] in _TIME), index)
        name, unit = self._type(index)
        if unit in _TIME:
            return index, _TIME[unit], "nanoseconds"
        return index, 1, name if unit == "count" else unit or name

    def _header(self) -> Dict[str, Any]:
        name = self._type(self.index)[0]
        period = _message(self.about.get(11, b""))  # period_type
        unit = self.strings[period.get(2, 0)]
        header: Dict[str, Any] = {"interval_ns": self.about.get(12, 0) * _TIME[unit]} if unit in _TIME else {}
        if name in ("cpu", "wall"):
            header["mode"] = name
        if self.mappings:
            header["argv"] = [next(iter(self.mappings.values()))]
        return header

    def _samples(self, samples: List[bytes]) -> None:
        counted: Optional[int] = next((n for n in range(len(self.types)) if self._type(n) == ("samples", "count")), None)
        places: Dict[Tuple[int, ...], Tuple[int, int]] = {}
        total = 0
        for sample in samples:
            locations: List[int] = []
            values: List[int] = []
            labels: List[Dict[int, Any]] = []
            for field, value in _fields(sample):
                if field == 1:
                    locations += _numbers(value)
                elif field == 2:
                    values += map(_signed, _numbers(value))
                elif field == 3:
                    labels.append(_message(value))
            if len(values) != len(self.types):
                raise ValueError("a sample has more or fewer values than there are types")
            key = tuple(locations)
            if key not in places:
                depth = sum(len(self._frames(id)) for id in key)
                total += depth
                if depth > _MAX_DEPTH or total > _MAX_FRAMES:
                    raise ValueError(f"a stack of more than {_MAX_DEPTH} frames, or stacks of {_MAX_FRAMES} together")
                places[key] = self.columns.stack([frame for id in reversed(key) for frame in self._frames(id)])
            thread, label = self._labels(labels)
            count = values[counted] if counted is not None else 1
            self.columns.sample(thread, places[key], values[self.index] * self.factor, count, label)

    def _labels(self, labels: List[Dict[int, Any]]) -> Tuple[int, int]:
        """Thread and label set. Threads are labels with these names, as ours and py-spy's."""
        name, tid = "", 0
        pairs = []
        for label in labels:
            key, text, number = self.strings[label.get(1, 0)], self.strings[label.get(2, 0)], _signed(label.get(3, 0))
            if key in ("thread", "thread_name") and text:
                name = text
            elif key in ("thread_id", "tid") and not text:
                tid = number
            else:
                pairs.append((key, text or f"{number}{self.strings[label.get(4, 0)]}"))
        return self.columns.thread(name or ("" if tid else "all threads"), tid), self.columns.labels(pairs)

    def _frames(self, id: int) -> List[int]:
        frames = self.frames.get(id)
        if frames is None:
            location = self.locations[id]
            frames = self.frames[id] = [self._frame(location, *line) for line in reversed(location.lines)]
            if not frames:
                frames.append(
                    self.columns.native(f"{location.address:#x}", self.mappings.get(location.mapping, ""), location.address)
                )
        return frames

    def _frame(self, location: _Location, id: int, line: int, column: int) -> int:
        function = self.functions[id]
        name, file = self.strings[function.get(2, 0)], self.strings[function.get(4, 0)]
        library = self.mappings.get(location.mapping, "")
        # Our own files tell natives by their mapping; of others a function with a source is shown with that.
        if location.mapping != 1 if self.ours else library and not file:
            return self.columns.native(name, library, location.address, file, line)
        return self.columns.frame(name, file, line, _signed(function.get(5, 0)), column - 1)
