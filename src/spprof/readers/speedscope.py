"""speedscope's file (https://www.speedscope.app/file-format-schema.json), with `sampled` and `evented` profiles, each a thread.

An evented profile becomes a sample for each stretch of time in which its stack did not change: they were not taken by sampling.
"""

from __future__ import annotations

import math
import re
from typing import Any, Dict, List, Tuple

from ._columns import Columns
from ._fields import checked, field, index, text, whole

# Unit of the file -> ours, and how many of ours it is.
_UNITS: Dict[str, Tuple[str, int]] = {
    "nanoseconds": ("nanoseconds", 1),
    "microseconds": ("nanoseconds", 1_000),
    "milliseconds": ("nanoseconds", 1_000_000),
    "seconds": ("nanoseconds", 1_000_000_000),
    "bytes": ("bytes", 1),
    "none": ("samples", 1),
}
_OURS = re.compile(r"(.*) \((\d{1,9})\)", re.DOTALL)
_PY_SPY = re.compile(r'Thread (\d{1,18}|0x[0-9A-Fa-f]{1,16})(?: "(.*)")?', re.DOTALL)
_ROUNDING = 1e-12  # of a time: so much it may go back where a writer added up fractions


def read(document: Any) -> Dict[str, Any]:
    """The columns of a file. Raises ValueError."""
    profiles = field(document, "profiles", list, "the file")
    units = [field(profile, "unit", str, f"profile {n}") for n, profile in enumerate(profiles, 1)]
    unknown = sorted(set(units) - _UNITS.keys())
    if unknown:
        raise ValueError(f"the unit {', '.join(unknown)} is none of {', '.join(_UNITS)}")
    ours = {_UNITS[unit][0] for unit in units}
    if len(ours) > 1:
        raise ValueError(f"profiles with the units {', '.join(sorted(set(units)))} cannot be one")
    exporter = text(document, "exporter", "the file")
    by_us = exporter.startswith("spprof ")
    unit = ours.pop() if ours else "samples"
    columns = Columns("speedscope", unit, exporter=exporter, argv=[text(document, "name", "the file")])
    entries = field(field(document, "shared", dict, "the file"), "frames", list, "'shared'")
    frames = [_frame(columns, frame, by_us, f"frame {n}") for n, frame in enumerate(entries)]
    for n, (profile, unit) in enumerate(zip(profiles, units), 1):
        _Reading(columns, profile, frames, f"profile {n}", _UNITS[unit][1], by_us, n).read()
    return columns.result()


def _frame(columns: Columns, frame: Any, ours: bool, where: str) -> int:
    name, file = field(frame, "name", str, where), text(frame, "file", where)
    native = columns.titled(name) if ours else None
    if native is not None:
        return native
    return columns.frame(name, file, whole(frame, "line", where) or 0, col=(whole(frame, "col", where) or 0) - 1)


class _Reading:
    """One profile of the file."""

    def __init__(
        self, columns: Columns, profile: Dict[str, Any], frames: List[int], where: str, factor: int, ours: bool, number: int
    ) -> None:
        self.columns, self.profile, self.frames, self.where = columns, profile, frames, where
        self.factor = factor
        self.exact: float = 0  # of our units, and the whole ones that were given so far: so the sum of all is right to 1
        self.given = 0
        name = text(profile, "name", where)
        match = (_OURS if ours else _PY_SPY).fullmatch(name)
        tid = "0"
        if match:
            name, tid = match.groups() if ours else (match[2] or "", match[1])
        self.thread = columns.thread(name, int(tid, 0), number)  # profiles of one name are two

    def read(self) -> None:
        """Adds its samples."""
        kind = field(self.profile, "type", str, self.where)
        if kind not in ("sampled", "evented"):
            raise ValueError(f"{self.where} is {kind!r}, not 'sampled' or 'evented'")
        self._sampled() if kind == "sampled" else self._evented()

    def _step(self, value: float) -> int:
        """What a number adds."""
        self.exact += value * self.factor
        if not self.exact < 1 << 62:
            raise ValueError(f"{self.where}: {value!r} is an impossible weight")
        before, self.given = self.given, round(self.exact)
        return self.given - before

    def _sampled(self) -> None:
        samples, weights = (field(self.profile, name, list, self.where) for name in ("samples", "weights"))
        if len(samples) != len(weights):
            raise ValueError(f"{self.where}: samples and weights differ in number ({len(samples):,} and {len(weights):,})")
        for number, (indices, weight) in enumerate(zip(samples, weights)):
            where = f"sample {number} of {self.where}"
            checked(indices, list, where)
            stack = [self.frames[index(one, self.frames, f"a frame of {where}")] for one in indices]
            if not (type(weight) in (int, float) and math.isfinite(weight) and weight >= 0):
                raise ValueError(f"{where}: {weight!r:.40} is no weight")
            self.columns.sample(self.thread, self.columns.stack(stack), self._step(weight))

    def _time(self, record: Dict[str, Any], name: str, where: str) -> float:
        value: float = field(record, name, float, where)
        if not math.isfinite(value):
            raise ValueError(f"{name!r} of {where} is {value!r}")
        return value

    def _evented(self) -> None:
        events = field(self.profile, "events", list, self.where)
        path: List[Tuple[int, int]] = [(-1, 0)]  # the open frames, as the file numbers them, and the stack that each ends
        # Without a start it is the first event: it may have any clock.
        now = None if self.profile.get("startValue") is None else self._time(self.profile, "startValue", self.where)
        for number, event in enumerate(events):
            where = f"event {number} of {self.where}"
            at = self._time(event, "at", where)
            now = self._until(path, at if now is None else now, at, where)
            frame = index(event.get("frame"), self.frames, f"the frame of {where}")
            kind = event.get("type")
            if kind == "O":
                path.append((frame, self.columns.node(path[-1][1], self.frames[frame])))
            elif kind == "C" and path[-1][0] == frame:
                path.pop()
            else:
                open_frame = f"frame {path[-1][0]} is the last that is open" if len(path) > 1 else "no frame is open"
                what = f"closes frame {frame}, and {open_frame}" if kind == "C" else f"has the type {kind!r:.40}, not 'O' or 'C'"
                raise ValueError(f"its events do not match: {where} {what}")
        if len(path) > 1:  # open at the end: until then
            where = f"the end of {self.where}, where {len(path) - 1} frames are open"
            self._until(path, now or 0, self._time(self.profile, "endValue", where), where)

    def _until(self, path: List[Tuple[int, int]], now: float, at: float, where: str) -> float:
        """Gives the time until `at` to the frames that are open, and returns it."""
        if at < now:
            if now - at > _ROUNDING * max(abs(now), abs(at)):
                raise ValueError(f"{where}: time goes back from {now!r} to {at!r}")
            return now
        weight = self._step(at - now)
        if weight and len(path) > 1:
            self.columns.sample(self.thread, (path[-1][1], 0), weight)
        else:
            self.columns.elapse(self.thread, weight)
        return at
