"""pprof's file (https://github.com/google/pprof/blob/main/proto/profile.proto), gzipped: the numbers in comments are its fields.

A sample of the file is a distinct stack of a thread with its labels; its values are ticks, and the weight of each type of samples
(those of another type than the first are samples of their own, without ticks).
"""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any, BinaryIO, Dict, List, Optional

from ._frames import Frames, Look
from ._protobuf import data, number, packed, text, varint
from ._samples import Group, groups, period_of, written_tids

if TYPE_CHECKING:
    from ..model.calls import Call
    from ..model.data import ProfileData
    from .options import Options


def write(profile: ProfileData, out: BinaryIO, options: Options) -> None:
    """Writes the file. With `weight='samples'` the tools show ticks first, else what the first type counts."""
    with gzip.GzipFile(filename="", mode="wb", fileobj=out, compresslevel=6, mtime=0) as packed_out:
        _File(profile, options).write(packed_out)


def _name_of(part: ProfileData) -> str:
    """What a value is called: CPU time after the profile's mode, as pprof's own."""
    return part.mode or part.unit if part.unit == "nanoseconds" else part.sample_types[0].name


class _File:
    def __init__(self, profile: ProfileData, options: Options) -> None:
        self.profile, self.options = profile, options
        self.frames = Frames(profile, options.lines, addresses=True)
        self.strings: Dict[str, int] = {"": 0}
        self.mappings: Dict[str, int] = {}  # path -> id
        self.limits: List[int] = []
        self.functions: Dict[Any, int] = {}
        self.tids = written_tids(profile)

    def string(self, value: str) -> int:
        return self.strings.setdefault(value, len(self.strings))

    def write(self, out: Any) -> None:
        parts = self.profile.each_type()
        named = [(self.string(_name_of(part)), self.string(part.unit)) for part in parts]
        calls = self.profile.calls if self.options.thread is None else None
        if calls is not None:
            named.append((self.string("calls"), self.string("count")))
        time, ns = named[0]
        samples = self.string("samples")
        out.write(data(1, number(1, samples) + number(2, self.string("count"))))  # sample_type
        out.writelines(data(1, number(1, name) + number(2, unit)) for name, unit in named)
        locations: Dict[int, bytes] = {}  # stack key -> location_id
        for place, part in enumerate(parts):
            before, after = varint(0) * place, varint(0) * (len(named) - 1 - place)
            for group in groups(part, self.options):
                labels = self._labels(group)
                counts, weights = group.sums
                for key, count in counts.items():
                    stack = locations.get(key)
                    if stack is None:
                        stack = locations[key] = packed(1, [number + 1 for number in reversed(self.frames.stack(key))])
                    values = varint(0 if place else count) + before + varint(weights[key]) + after
                    out.write(data(2, stack + data(2, values) + labels))
        for call in calls.rows if calls is not None else ():
            stack = packed(1, [number + 1 for number in self._call(call)])
            out.write(data(2, stack + data(2, varint(0) * len(named) + varint(call.calls + call.resumes))))
        self._mapping(self.program())  # the first is the program itself
        out.writelines(data(4, self._location(id, look)) for id, look in enumerate(self.frames.looks, 1))
        out.writelines(self._mappings())
        for (name, system_name, file, line), id in self.functions.items():
            # A name that equals the system's is taken for one to demangle, which makes '' of '<module>'.
            names = number(2, self.string(name)) + number(3, self.string(system_name) if system_name != name else 0)
            out.write(data(5, number(1, id) + names + number(4, self.string(file)) + number(5, line)))
        header, end = self.profile.header, self.profile.end
        out.write(number(9, int(header.get("start_unix_ns") or 0)))  # time_nanos
        if end and isinstance(end.get("stop_ns"), int):
            out.write(number(10, max(0, end["stop_ns"] - int(header.get("start_ns") or 0))))  # duration_nanos
        out.write(data(11, number(1, time) + number(2, ns)) + number(12, period_of(self.profile)))  # period_type, period
        out.write(packed(13, map(self.string, self._comments())))
        out.write(number(14, samples if self.options.weight == "samples" else time))  # default_sample_type
        out.writelines(text(6, string) for string in self.strings)  # the last: all are known now

    def _call(self, call: Call) -> List[int]:
        """A counted call as a stack of two: the called function, and the calling line."""
        places = [(call.function, call.function.line)] + ([(call.caller, call.line)] if call.caller else [])
        return [
            self.frames.intern(
                Look(of.qualname, of.name, of.file, line if self.options.lines else 0, 0, of.line, of.native, "", 0)
            )
            for of, line in places
        ]

    def program(self) -> str:
        """What pprof calls the main binary."""
        argv = self.profile.header.get("argv") or ["python"]
        return str(argv[0])

    def _labels(self, group: Group) -> bytes:
        pairs = dict(group.labels)
        result = b""
        if group.thread is not None:
            pairs["thread"] = self.profile.thread_name(group.thread)
            tid = self.tids[group.thread]
            result = data(3, number(1, self.string("thread_id")) + number(3, tid)) if tid else b""
        for key, value in sorted(pairs.items()):
            result += data(3, number(1, self.string(key)) + number(2, self.string(value)))
        return result

    def _mapping(self, path: str, address: int = 0) -> int:
        id = self.mappings.setdefault(path, len(self.mappings) + 1)
        if id > len(self.limits):
            self.limits.append(0)
        self.limits[id - 1] = max(self.limits[id - 1], address + 1)
        return id

    def _location(self, id: int, look: Look) -> bytes:
        function = (look.name, look.system_name, look.file, look.first_line)
        line = number(1, self.functions.setdefault(function, len(self.functions) + 1))
        line += number(2, look.line) + number(3, look.column)
        mapping = self._mapping(look.library, look.address) if look.library else 1 if look.file or not look.native else 0
        return number(1, id) + number(2, mapping) + number(3, look.address) + data(4, line)

    def _mappings(self) -> List[bytes]:
        """Libraries are mapped as their files count addresses. All have their names: no tool shall look for others."""
        ids: Dict[str, Any] = {}
        if len(self.mappings) > 1:
            from ..readers.spprof import build_ids

            ids = build_ids(*self.profile.raws())
        result = []
        for (path, id), limit in zip(self.mappings.items(), self.limits):
            known: Optional[str] = next(iter(ids[path])) if len(ids.get(path, ())) == 1 else None
            names = number(5, self.string(path)) + number(6, self.string(known or ""))
            resolved = b"".join(number(field, 1) for field in (7, 8, 9, 10))
            result.append(data(3, number(1, id) + (number(3, limit) if id > 1 else b"") + names + resolved))
        return result

    def _comments(self) -> List[str]:
        from .. import __version__

        header, stats = self.profile.header, self.profile.stats
        comments = [f"spprof {__version__}", "argv: " + " ".join(map(str, header.get("argv") or []))]
        comments += [f"{key}: {header[key]}" for key in ("python", "platform", "mode") if header.get(key)]
        comments += [f"{key}: {stats[key]}" for key in ("clock", "expected", "taken", "repeated", "dropped") if key in stats]
        if self.profile.warning:
            comments.append(f"warning: {self.profile.warning}")
        return comments
