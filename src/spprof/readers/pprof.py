"""pprof's file (https://github.com/google/pprof/blob/main/proto/profile.proto): the numbers in comments are its fields.

Of several values of a sample, time is taken if there is one (the file's default first), else the file's default, else the last,
as pprof does; the profile's header says which. The file has sums and no times: a stack is one sample, however many it stands for.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union

from ..model.demangle import demangle
from ._columns import Columns

_TIME = {  # also the short names that pprof takes (its internal/measurement)
    name: factor
    for factor, names in (
        (1, "nanoseconds nanosecond ns"),
        (1_000, "microseconds microsecond us \u00b5s \u03bcs"),
        (1_000_000, "milliseconds millisecond ms"),
        (1_000_000_000, "seconds second sec s"),
        (60_000_000_000, "minutes minute min"),
        (3_600_000_000_000, "hours hour hrs hr"),
    )
    for name in names.split()
}
# Labels that are threads, with `_` for what writers put between words; the first that a sample has counts.
_THREAD_IDS = ("thread_id", "tid", "os_thread_id", "thread_native_id", "native_thread_id")
_THREAD_NAMES = ("thread", "thread_name")
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
    id: int
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
        strings: List[bytes] = []
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
                self.functions[function.get(1, 0)] = function
            elif field == 6 and isinstance(value, bytes):  # string_table
                strings.append(value)
            else:
                self.about[field] = value
        if not self.types or not strings:
            raise ValueError("it has no sample types or no strings")
        if strings[0]:
            raise ValueError("the first string is not empty")
        self._decode(strings)
        for mapping in mappings:
            self.mappings[mapping.get(1, 0)] = self._string(mapping, 5)
        self.index, self.factor, unit = self._choose()
        self.ours = any(self._text(number).startswith("spprof ") for number in _numbers(self.about.get(13, b"")))  # comment
        self.columns = Columns("pprof", unit, **self._header())
        self.frames: Dict[int, List[int]] = {}  # location -> its frames, root first
        self._samples(samples)

    def _decode(self, strings: List[bytes]) -> None:
        """What is no UTF-8 is replaced; if that made two strings one, it is spelled out."""
        self.strings = [string.decode("utf-8", "replace") for string in strings]
        if len(set(self.strings)) < len(set(strings)):
            self.strings = [string.decode("utf-8", "backslashreplace") for string in strings]

    def _text(self, number: Any) -> str:
        if not (isinstance(number, int) and 0 <= number < len(self.strings)):
            raise ValueError(f"string {number!r:.20} is wanted, and there are {len(self.strings)}")
        return self.strings[number]

    def _string(self, message: Dict[int, Any], field: int) -> str:
        """The text of a message's field; '' if it has none."""
        return self._text(message.get(field, 0))

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
        self.locations[id] = _Location(id, mapping, address, lines)

    def _type(self, number: int) -> Tuple[str, str]:
        kind = self.types[number]
        return self._string(kind, 1), self._string(kind, 2)

    def _choose(self) -> Tuple[int, int, str]:
        """Which value is the weight, how many of our units it is, and our unit."""
        every = range(len(self.types))
        default = self._string(self.about, 14)
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
        unit = self._string(period, 2)
        header: Dict[str, Any] = {"interval_ns": self.about.get(12, 0) * _TIME[unit]} if unit in _TIME else {}
        if name.partition("-")[0] in ("cpu", "wall"):
            header["mode"] = name.partition("-")[0]
        if any(self._type(number)[1] != "count" and number != self.index for number in range(len(self.types))):
            header["value"] = name
            header["values"] = [self._type(number)[0] for number in range(len(self.types))]
        if self.mappings:
            header["argv"] = [next(iter(self.mappings.values()))]
        return header

    def _samples(self, samples: List[bytes]) -> None:
        # Of several kinds of time each may have its own number of samples: cpu-samples, cpu-time, wall-samples, ...
        own = (self._type(self.index)[0].rpartition("-")[0] + "-samples", "count")
        types = [self._type(number) for number in range(len(self.types))]
        counted: Optional[int] = next((types.index(name) for name in (own, ("samples", "count")) if name in types), None)
        places: Dict[Tuple[int, ...], Tuple[int, int]] = {}
        total = 0
        for number, sample in enumerate(samples):
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
                raise ValueError(
                    f"sample {number} has more or fewer values than there are types: {len(values)}, {len(self.types)}"
                )
            if min(values) < 0:
                raise ValueError(
                    f"sample {number} is negative ({min(values)}), as in a difference of two profiles: "
                    "give `spprof diff` the two that it was made of"
                )
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
        """Thread and label set. Threads are labels with certain names, as we, py-spy, Datadog and others write them."""
        labels_of: Dict[str, Tuple[str, int]] = {}  # by their plain names
        pairs = []
        for label in labels:
            key, text, number = self._string(label, 1), self._string(label, 2), _signed(label.get(3, 0))
            plain = key.lower().replace(" ", "_").replace("-", "_")
            if plain in _THREAD_IDS + _THREAD_NAMES and plain not in labels_of:
                labels_of[plain] = text, number
            else:
                pairs.append((key, text or f"{number}{self._string(label, 4)}"))
        tid, name = 0, ""
        for plain in _THREAD_IDS + _THREAD_NAMES:
            if plain not in labels_of:
                continue
            text, number = labels_of[plain]
            number = int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0 if text else number
            if not tid and number > 0 and not (text and plain in _THREAD_NAMES):
                tid = number
            elif not name and text and (plain in _THREAD_NAMES or not number):
                name = text  # an id that is no number, too
            else:
                pairs.append((plain, text or str(number)))
        return self.columns.thread(name or ("" if tid else "all threads"), tid), self.columns.labels(pairs)

    def _frames(self, id: int) -> List[int]:
        frames = self.frames.get(id)
        if frames is None:
            location = self.locations.get(id)
            if location is None:
                raise ValueError(f"location {id} is wanted, and the file does not have it")
            frames = self.frames[id] = [self._frame(location, *line) for line in reversed(location.lines)]
            if not frames:
                frames.append(self._bare(location))
        return frames

    def _bare(self, location: _Location) -> int:
        """A place of which no function is known."""
        name = f"{location.address:#x}" if location.address else f"[unknown {location.id}]"
        return self.columns.native(name, self.mappings.get(location.mapping, ""), location.address)

    def _frame(self, location: _Location, id: int, line: int, column: int) -> int:
        if not id:
            return self._bare(location)
        function = self.functions.get(id)
        if function is None:
            raise ValueError(f"function {id} is wanted by location {location.id}, and the file does not have it")
        name, file = self._string(function, 2) or demangle(self._string(function, 3)), self._string(function, 4)
        name = name or f"[function {id}]"
        library = self.mappings.get(location.mapping, "")
        # In our own files native functions have their mapping; of others a function with a source is shown with that.
        if location.mapping != 1 if self.ours else library and not file:
            return self.columns.native(name, library, location.address, file, line)
        return self.columns.frame(name, file, line, _signed(function.get(5, 0)), column - 1)
