"""The text of `perf script`: for each sample a line with thread, time, period and event, and its stack, the leaf first.

The period is the weight: nanoseconds of perf's clocks, else how often the event happened. What CPython writes for perf
(`-X perf`) are Python functions again. Of several events the first is taken, a clock before others; the header says which.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ._columns import MAX_NUMBER, Columns

_LINE_END = re.compile("\r\n|\n|\r")
# `comm` may have blanks, and a process before the thread only if it was asked for. Repetitions are bounded: no line is slow.
_THREAD = r"[ \t]{0,64}(?P<comm>\S.{0,63}?)[ \t]{1,64}(?:(?P<pid>-?\d{1,10})/)?(?P<tid>-?\d{1,10})[ \t]{1,64}"
_WHEN = r"(?:\[\d{1,6}\][ \t]{1,64})?\d{1,12}\.\d{1,9}:[ \t]{1,64}"
_HEAD = re.compile(
    _THREAD + _WHEN + r"(?:(?P<period>\d{1,20})[ \t]{1,64})?(?P<event>\S{1,255}?):(?:[ \t]+(?P<rest>.*))?", re.ASCII
)
_RECORD = re.compile(_THREAD + _WHEN + r"PERF_RECORD_(?P<record>\w+)", re.ASCII)
_LOST = re.compile(r"lost (\d{1,18})")
_FRAME = re.compile(r"\s*([0-9a-f]{1,16}) (\S.*)")
_OFFSET = re.compile(r"(.*)\+0x[0-9a-f]{1,16}(?: \((.*)\))?")
_MODIFIERS = re.compile(r":[ukhGHpPSDeIW]{1,8}\Z")
_CLOCKS = ("cpu-clock", "task-clock")
# A path that ends as a file of a library does may have parentheses in it: `f (/tmp/my lib (1).so)`.
_PATH = re.compile(r"(.+?) \((/(?:[^()]|\([^()]*\)){1,4096}[^()])\)")
_PYTHON = re.compile(r"py::(.+?):(.*)")


class _Sample(NamedTuple):
    line: int
    comm: str
    pid: str
    tid: int
    period: Optional[int]
    event: str
    frames: List[int]  # the leaf first


def is_perf(opening: str) -> bool:
    """Whether a text begins as perf's does."""
    lines = [line for line in _LINE_END.split(opening) if line.strip() and not line.startswith("#")]
    return bool(lines) and (_HEAD.fullmatch(lines[0]) is not None or _RECORD.match(lines[0]) is not None)


def read(text: str) -> Dict[str, Any]:
    """The columns of a file. Raises ValueError."""
    reading = _Reading(text)
    samples = reading.samples
    events = list(dict.fromkeys(sample.event for sample in samples))
    chosen = next((event for event in events if event in _CLOCKS), events[0] if events else "")
    samples = [sample for sample in samples if sample.event == chosen]
    with_period = [sample for sample in samples if sample.period is not None]
    if with_period and len(with_period) < len(samples):
        without = next(sample.line for sample in samples if sample.period is None)
        raise ValueError(f"line {without} has no period, as line {with_period[0].line} has: two files are one")
    columns = reading.columns
    if not with_period:
        columns.header["unit"] = "samples"
    elif chosen in _CLOCKS:
        columns.header.update(unit="nanoseconds", mode="cpu")
        periods = {sample.period for sample in samples}
        if len(periods) == 1:
            columns.header["interval_ns"] = periods.pop()
    else:
        columns.header["unit"] = chosen
    if len(events) > 1:
        columns.header.update(value=chosen, values=events)
    for sample in samples:
        thread = columns.thread(sample.comm, max(0, sample.tid), sample.pid)
        weight = 1 if sample.period is None else sample.period
        if weight > MAX_NUMBER:
            raise ValueError(f"line {sample.line} has the period {weight}, which is more than 62 bits hold")
        columns.sample(thread, columns.stack(sample.frames[::-1]), weight)
    if reading.lost:
        columns.warning = f"perf lost {reading.lost:,} records while it recorded: their samples are missing"
    return columns.result()


class _Reading:
    """The samples of a text."""

    def __init__(self, text: str) -> None:
        self.columns = Columns("perf", "samples")
        self.samples: List[_Sample] = []
        self.lost = 0
        self.ids: Dict[str, int] = {}
        within = False  # a sample's stack
        for number, line in enumerate(_LINE_END.split(text), 1):
            if not line.strip():
                within = False
            elif line.startswith("#") and not within:
                continue
            elif within and (line[0] == "\t" or (line[0] == " " and not _HEAD.fullmatch(line))):
                self.samples[-1].frames.append(self._frame(line, number))
            else:
                within = self._head(line, number)

    def _head(self, line: str, number: int) -> bool:
        """A sample's first line: whether lines of its stack may follow."""
        record = _RECORD.match(line)
        if record:
            lost = _LOST.search(line) if record["record"].startswith("LOST") else None
            self.lost += int(lost[1]) if lost else 0
            return False
        match = _HEAD.fullmatch(line)
        if not match:
            raise ValueError(f"line {number} is no sample (thread, time, event) of `perf script` with its usual fields")
        period, event = match["period"], _MODIFIERS.sub("", match["event"])
        rest = (match["rest"] or "").strip()
        frames = [self._frame(rest, number)] if _FRAME.fullmatch(rest) and ":" not in event else []
        if rest and not frames and ":" not in event:  # what a tracepoint says of itself is no matter
            raise ValueError(f"line {number} has {rest!r:.60} after the event, no address and function")
        self.samples.append(
            _Sample(number, match["comm"], match["pid"] or "", int(match["tid"]), int(period) if period else None, event, frames)
        )
        return not frames

    def _frame(self, line: str, number: int) -> int:
        match = _FRAME.fullmatch(line)
        if not match or match[2].startswith("|"):
            raise ValueError(
                f"line {number}: {line.strip()!r:.60} is no frame of a stack (an address and a function): give `perf script` "
                "no more fields than its usual ones"
            )
        if match[2] not in self.ids:
            self.ids[match[2]] = self._made(*_parted(match[2]))
        return self.ids[match[2]]

    def _made(self, name: str, library: str) -> int:
        python = _PYTHON.fullmatch(name)
        if python:
            return self.columns.frame(python[1], python[2])
        return self.columns.native(name, "" if library == "[unknown]" else library.strip("[]"))


def _parted(text: str) -> Tuple[str, str]:
    """A function and its library: `f(int)+0x1c (/lib/libx.so)`, `[unknown] (/tmp/x (deleted))`, `f (inlined)`."""
    match = _OFFSET.fullmatch(text)
    if match:
        return match[1], match[2] or ""
    path = _PATH.fullmatch(text)
    if path:
        return path[1], path[2]
    if text.endswith("))") and " (" in text:
        name, _, library = text[: text.rindex(" (")].rpartition(" (")
        if name and library.startswith("/"):
            return name, library
    name, between, library = text.rpartition(" (")
    if between and text.endswith(")") and (library[:1] in "/[" or library == "inlined)"):
        return name, "" if library == "inlined)" else library[:-1]
    return text, ""
