"""speedscope's file (https://www.speedscope.app/file-format-schema.json), with `sampled` and `evented` profiles, each a thread.

An evented profile becomes a sample for each stretch of time in which its stack did not change: they were not taken by sampling.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Dict, List, Tuple

from ._columns import Columns

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


def read(data: bytes) -> Dict[str, Any]:
    """The columns of a file. Raises ValueError; KeyError, TypeError and others of what has the wrong shape."""
    try:
        file = json.loads(data)
    except RecursionError:
        raise ValueError("its JSON is nested too deep") from None
    profiles = file["profiles"]
    units = {profile["unit"] for profile in profiles}
    if len(units) > 1 or not units <= _UNITS.keys():
        raise ValueError(f"profiles with the units {', '.join(sorted(map(str, units)))} cannot be one")
    unit, factor = _UNITS[units.pop() if units else "none"]
    exporter = str(file.get("exporter") or "")
    columns = Columns("speedscope", unit, exporter=exporter, argv=[str(file.get("name") or "")])
    ours = exporter.startswith("spprof ")
    frames = [_frame(columns, frame, ours) for frame in file["shared"]["frames"]]
    for profile in profiles:
        name = str(profile["name"])
        match = (_OURS if ours else _PY_SPY).fullmatch(name)
        if match:
            name, tid = match.groups() if ours else (match[2] or "", match[1])
        thread = columns.thread(name, int(tid, 0) if match else 0)
        reader = {"sampled": _sampled, "evented": _evented}[profile["type"]]
        reader(columns, profile, frames, thread, _Scale(factor))
    return columns.result()


class _Scale:
    """Numbers of the file -> whole ones of ours, so that the sum of all is right to 1."""

    def __init__(self, factor: int) -> None:
        self.factor = factor
        self.exact: float = 0
        self.given = 0

    def step(self, value: Any) -> int:
        """What a number adds."""
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
            raise ValueError(f"{value!r} is no weight, or time goes back")
        self.exact += value * self.factor
        if not self.exact < 1 << 62:
            raise ValueError(f"{value!r} is an impossible weight")
        before, self.given = self.given, round(self.exact)
        return self.given - before


def _frame(columns: Columns, frame: Dict[str, Any], ours: bool) -> int:
    name, file, line, col = frame["name"], frame.get("file"), frame.get("line"), frame.get("col")
    native = columns.titled(name) if ours else None
    if native is not None:
        return native
    if not all(value is None or isinstance(value, int) for value in (line, col)):
        raise ValueError("a frame's line or column is no number")
    return columns.frame(name, file or "", line or 0, col=(col or 0) - 1)


def _sampled(columns: Columns, profile: Dict[str, Any], frames: List[int], thread: int, scale: _Scale) -> None:
    samples, weights = profile["samples"], profile["weights"]
    if len(samples) != len(weights):
        raise ValueError("samples and weights differ in number")
    for indices, weight in zip(samples, weights):
        if indices and min(indices) < 0:
            raise ValueError("a frame's number is negative")
        columns.sample(thread, columns.stack([frames[index] for index in indices]), scale.step(weight))


def _evented(columns: Columns, profile: Dict[str, Any], frames: List[int], thread: int, scale: _Scale) -> None:
    path: List[Tuple[int, int]] = [(-1, 0)]  # the open frames, as the file numbers them, and the stack that each ends
    now = profile.get("startValue", 0)
    for event in profile["events"]:
        weight = scale.step(event["at"] - now)
        now = event["at"]
        if weight and len(path) > 1:
            columns.sample(thread, (path[-1][1], 0), weight)
        else:
            columns.elapse(thread, weight)
        frame = event["frame"]
        if event["type"] == "O":
            if not 0 <= frame < len(frames):
                raise ValueError("a frame's number is out of range")
            path.append((frame, columns.node(path[-1][1], frames[frame])))
        elif event["type"] == "C" and path[-1][0] == frame and len(path) > 1:
            path.pop()
        else:
            raise ValueError("its events do not match: a frame is closed that was not the last opened")
