"""Several processes' profiles as one, which every format takes: each thread is called by its process, too."""

from __future__ import annotations

import os
from array import array
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Type, cast

from ..errors import BadOption
from . import calls, hot
from .data import Data, ProfileData
from .filtering import filtered
from .layout import NAMING, Columns, column, columns_of
from .records import NO_FRAMES, TRUNCATION, Marker
from .requests import Request
from .tree import Tree
from .types import listed_types
from .types import of as type_of

_TITLE = 40  # characters of a command line
_SAME_CLOCK_NS = 1_000_000_000  # what the time of day may have been set by while a machine ran
_LONGEST = ("wall_ns", "paused_ns")  # tick stats that processes have at the same time
_SINGLE = ("times", "lines", "exceptions", "imports", "specialization")  # of a header: what a joined profile does not have


def title_of(header: Dict[str, Any]) -> str:
    """A process as people know it: `gunicorn app:app 4711`."""
    name, *arguments = map(str, header.get("argv") or ["python"])
    words = " ".join([os.path.basename(name) or name, *arguments])
    return f"{words if len(words) <= _TITLE else words[: _TITLE - 3] + '...'} {header.get('pid') or ''}".rstrip()


def joined(profiles: Sequence[Data], thread: Optional[str] = None) -> Data:
    """One profile of several, of the threads that match a pattern, with the types of samples that each of them has. Their weights
    are of the same units, which the caller has checked. What was counted or timed exactly is not in it, but for calls.

    Times are those of the first one's clock: those of other machines are moved to where the time of day has them. Raises
    BadOption if they have no type in common."""
    parts = profiles if thread is None else [filtered(profile, thread=thread) for profile in profiles]
    return _Joining(parts).result(type(profiles[0]))


class _Joining:
    def __init__(self, profiles: Sequence[ProfileData]) -> None:
        self.profiles = profiles
        self.foreign = any("source" in profile.header for profile in profiles)
        self.strings: Dict[str, int] = {}
        self.codes: Dict[Tuple[int, ...], int] = {}
        self.frames: Dict[Tuple[Any, ...], int] = {}
        self.tree = Tree()
        self.sets: Dict[Tuple[Tuple[str, str], ...], int] = {(): 0}
        self.threads: Dict[int, Dict[str, Any]] = {}
        self.markers: List[Marker] = []
        self.requests: List[Request] = []
        self.no_frames, self.truncation = (
            self._frame(self._code(*each[:3], 0, 0), *each[3:7], None) for each in (NO_FRAMES, TRUNCATION)
        )

    def _string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def _code(self, name: str, qualname: str, file: str, line: int, kind: int) -> int:
        return self.codes.setdefault((*map(self._string, (name, qualname, file)), line, kind), len(self.codes))

    def _frame(self, *frame: Any) -> int:
        """Of a code its lines, columns and source."""
        return self.frames.setdefault(frame, len(self.frames))

    def result(self, kind: Type[Data]) -> Data:
        listed = self._listed()
        names = {**columns_of("sample"), "keys": "I"}
        rows = {about["type"]: {name: array(typecode) for name, typecode in names.items()} for about in listed}
        for number, profile in enumerate(self.profiles):
            parts = [profile] if self.foreign else [profile.of(about["name"]) for about in listed]
            self._add(number, profile, list(zip(parts, rows.values())))
        columns = self._tables()
        columns["header"] = self._header(listed)
        columns["explained"] = True
        columns["by_type"] = {type: {name: memoryview(each) for name, each in of.items()} for type, of in rows.items()}
        columns["tick_stats"] = _added([profile.stats for profile in self.profiles])
        columns["tick_stats"].pop("write_error", None)  # `_ends` says it
        columns.update(self._ends())
        columns.update(type_of(cast(Columns, columns), listed[0]))
        made = kind.of_columns(cast(Columns, columns))
        made.joins = list(self.profiles)
        return made

    def _listed(self) -> List[Dict[str, Any]]:
        """The types that each has. A file of another profiler has one, whose name no other need know: then what each shows."""
        listed = listed_types(self.profiles[0].header)
        if self.foreign:
            return listed[:1]
        names = [[each.name for each in profile.sample_types] for profile in self.profiles]
        found = [about for about in listed if all(about["name"] in each for each in names)]
        if not found:
            raise BadOption("the files have no type of samples in common: " + "; ".join(map(", ".join, names)))
        return found

    def _add(self, number: int, profile: ProfileData, types: Sequence[Tuple[ProfileData, Dict[str, array[int]]]]) -> None:
        columns = profile._columns()
        frames = self._frames_of(profile, columns)
        moved = self.tree.graft(profile.tree, range(len(profile.tree)), lambda id: (frames[id],))
        sets = [self.sets.setdefault(tuple(sorted(each.items())), len(self.sets)) for each in profile.label_sets]
        shift, base, name_of = self._shift(profile), len(self.threads), title_of(profile.header)
        origin = profile.origin  # a part names threads that it has no samples of
        named = {by - 1 for part, _ in types for by in part._columns()["held_by"]} - {-1}
        ids = {id: base + at for at, id in enumerate(sorted({*profile._thread_ids(), *named}))}
        for id, new in ids.items():
            name = f"{origin.thread_name(id)}, {name_of}"
            self.threads[new] = {"id": new, "tid": origin.thread_tid(id), "name": name, "process": number}
        moves: Dict[str, Any] = {  # a kind of name -> what each becomes
            "thread": ids,
            "thread + 1": {0: 0, **{id + 1: new + 1 for id, new in ids.items()}},
            "label": sets,
            "stack": moved,
        }
        for part, rows in types:
            texts = {each for name, kind in NAMING.items() if kind == "string + 1" for each in column(part._columns(), name)}
            moves["string + 1"] = {each: self._string(columns["strings"][each - 1]) + 1 if each else 0 for each in texts}
            for name in columns_of("sample"):
                values: Iterable[int] = part.stack_keys() if name == "stack" else part.column(name)
                if name in NAMING:
                    values = map(moves[NAMING[name]].__getitem__, values)
                elif name == "time_ns" and shift:
                    values = [time + shift for time in values]
                rows[name].extend(iter(values))  # an array may be of other items
            rows["keys"] = rows["stack"]
        self.markers += [mark._replace(thread=ids.get(mark.thread, -1), time_ns=mark.time_ns + shift) for mark in profile.markers]
        self.requests += [each._replace(time_ns=each.time_ns + shift) for each in profile.requests]

    def _frames_of(self, profile: ProfileData, columns: Columns) -> List[int]:
        strings, sources = columns["strings"], columns["sources"]
        of_codes = (
            columns["code_name"],
            columns["code_qualname"],
            columns["code_file"],
            columns["code_line"],
            columns["code_kind"],
        )
        codes = [
            self._code(strings[name], strings[qualname], strings[file], line, kind)
            for name, qualname, file, line, kind in zip(*of_codes)
        ]
        places = zip(columns["frame_line"], columns["frame_end_line"], columns["frame_col"], columns["frame_end_col"])
        return [
            self._frame(codes[code], *place, sources.get(id))
            for id, (code, place) in enumerate(zip(columns["frame_code"], places))
        ]

    def _shift(self, profile: ProfileData) -> int:
        """Nanoseconds between its clock and the first one's."""
        offsets = []
        for each in (self.profiles[0], profile):
            start, unix = each.header.get("start_ns"), each.header.get("start_unix_ns")
            if not start or not unix:
                return 0
            offsets.append(int(unix) - int(start))
        shift = offsets[1] - offsets[0]
        return shift if abs(shift) > _SAME_CLOCK_NS else 0

    def _tables(self) -> Dict[str, Any]:
        result: Dict[str, Any] = {"strings": list(self.strings), "threads": self.threads, "markers": self.markers}
        result["markers"].sort(key=lambda marker: marker.time_ns)
        result["requests"] = sorted(self.requests, key=lambda request: request.time_ns)
        result["label_sets"] = list(map(dict, self.sets))
        for name, values in zip(("code_name", "code_qualname", "code_file", "code_line", "code_kind"), zip(*self.codes)):
            result[name] = values
        for name, values in zip(
            ("frame_code", "frame_line", "frame_end_line", "frame_col", "frame_end_col"), list(zip(*self.frames))[:5]
        ):
            result[name] = values
        result["sources"] = {id: frame[5] for frame, id in self.frames.items() if frame[5] is not None}
        result["node_parent"], result["node_frame"], result["tree"] = self.tree.parents, self.tree.frames, self.tree
        result["no_frames"], result["truncation"] = self.no_frames, self.truncation
        counted, hottest = [each.calls for each in self.profiles], [each.hot for each in self.profiles]
        result["calls"] = None if None in counted else calls.together(cast(List[calls.Calls], counted))
        result["hot"] = None if None in hottest else hot.together(cast(List[hot.HotCalls], hottest))
        return {**result, **dict.fromkeys(("times", "line_counts", "exceptions", "imports", "unspecialized"))}

    def _header(self, listed: Sequence[Dict[str, Any]]) -> Dict[str, Any]:
        headers = [profile.header for profile in self.profiles]
        result = dict(headers[0])
        result["native"] = max((str(header.get("native") or "") for header in headers), key=len)
        for name in _SINGLE:
            result.pop(name, None)
        starts = [
            int(header["start_ns"]) + self._shift(each) for header, each in zip(headers, self.profiles) if "start_ns" in header
        ]
        if starts:
            early = int(result.get("start_ns", starts[0])) - min(starts)
            result["start_ns"] = min(starts)
            if result.get("start_unix_ns"):
                result["start_unix_ns"] -= early
        if "events" in result:
            result["events"] = list(listed)
        sources = dict.fromkeys(str(header["source"]) for header in headers if "source" in header)
        if sources:
            result["source"] = ", ".join(sources)
        return result

    def _ends(self) -> Dict[str, Any]:
        """When all had ended, and what each of them lacks."""
        ends: List[Optional[Dict[str, Any]]] = [profile.end for profile in self.profiles]
        missing = [
            f"process {profile.header.get('pid')}: {profile.unfinished}" for profile in self.profiles if profile.unfinished
        ]
        known = [int(end["stop_ns"]) + self._shift(each) for end, each in zip(ends, self.profiles) if end and "stop_ns" in end]
        end = {"stop_ns": max(known), "reason": (ends[0] or {}).get("reason", "")} if known else None
        return {"end": end, "warning": "; ".join(missing) or None}


def _added(stats: Sequence[Dict[str, Any]]) -> Dict[str, Any]:
    """Tick stats of all."""
    result: Dict[str, Any] = {}
    for name in dict.fromkeys(name for each in stats for name in each):
        values = [each[name] for each in stats if each.get(name) is not None]
        if values and all(isinstance(value, dict) for value in values):
            result[name] = _added(values)
        elif values and all(type(value) is int for value in values):
            result[name] = max(values) if name in _LONGEST else sum(values)
        else:
            result[name] = values[0] if values else None
    return result
