"""Chrome's trace events (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU): what begins and ends
on a thread, as complete events ("X") or pairs ("B", "E"); of our own `chrome` format, py-spy, viztracer, node, Chrome and others.

Each stretch of time in which a thread's stack did not change is a sample: nothing was taken by sampling. What is on no thread's
stack (asynchronous events, counters, instants) is left out; the profile's warning says so where that is time.
"""

from __future__ import annotations

import math
import re
from typing import Any, Dict, List, NamedTuple, NoReturn, Tuple

from ..model.records import COARSE
from ._columns import Columns
from ._fields import checked, field, text

_ASYNCHRONOUS = "bneSTpF"
_WITHOUT_TIME = "iIRCcMNODstfVv()aP"  # instants, counters, names, objects, flows, memory, marks, contexts, samples
_PLACED = re.compile(r"(.+) \((.+):(\d{1,9})\)", re.DOTALL)
_GRAIN_NS = 1000  # of many writers' times: so much may be lost where they cut off the fractions

_NEAR = 64  # events of one time whose order is looked at: more would take quadratic time

Track = Tuple[Any, Any]  # process and thread
_Event = Tuple[int, int, Dict[str, Any]]  # time, number, and the event


class _Span(NamedTuple):
    """A call. `number`: of its event."""

    begin: int
    end: int
    number: int
    frame: int


def read(document: Any) -> Dict[str, Any]:
    """The columns of a file. Raises ValueError."""
    return _File(document).columns.result()


class _File:
    def __init__(self, document: Any) -> None:
        other = document.get("otherData") if isinstance(document, dict) else None
        exporter = text(other, "exporter", "'otherData'") if isinstance(other, dict) else ""
        self.ours = exporter.startswith("spprof ")
        self.columns = Columns("chrome", "nanoseconds", exporter=exporter)
        self.frames: Dict[Any, int] = {}
        self.names: Dict[Track, str] = {}
        self.spans: Dict[Track, List[_Span]] = {}
        self.pairs: Dict[Track, List[_Event]] = {}  # each B and E
        self.left_out = self.cut = 0
        events = document if isinstance(document, list) else field(document, "traceEvents", list, "the file")
        for number, event in enumerate(events):
            self._add(number, event)
        for track, pairs in self.pairs.items():
            self._match(track, pairs)
        begin = min((span.begin for spans in self.spans.values() for span in spans), default=0)
        several = len({pid for pid, _ in self.spans}) > 1
        for track in sorted(self.spans, key=lambda track: min(span.number for span in self.spans[track])):
            self._nest(track, begin, several)
        said = [f"{self.left_out:,} asynchronous events, which are on no stack, were left out"] if self.left_out else []
        if self.cut:
            said.append(f"{self.cut:,} calls end up to 1 us after their caller or the next call, and were cut there")
        self.columns.warning = "; ".join(said) or None

    def _add(self, number: int, event: Any) -> None:
        where = f"event {number}"
        phase = field(event, "ph", str, where)
        track = _id(event, "pid", where), _id(event, "tid", where)
        if phase == "X":
            begin, lasts = _ns(event, "ts", where), _ns(event, "dur", where)
            if lasts < 0:
                raise ValueError(f"'dur' of {where} is {event['dur']!r:.40}: it ends before it begins")
            end = _ns({"end": event["ts"] + event["dur"]}, "end", where)
            self.spans.setdefault(track, []).append(_Span(begin, end, number, self._frame(event, where)))
        elif phase in ("B", "E"):
            self.pairs.setdefault(track, []).append((_ns(event, "ts", where), number, event))
        elif phase == "M":
            args = event.get("args")
            if event.get("name") == "thread_name" and isinstance(args, dict) and isinstance(args.get("name"), str):
                self.names[track] = args["name"]
        elif phase == "P" and str(event.get("name")).startswith("Profile"):
            raise ValueError(
                f"{where} is a part of a CPU profile, which is not read from trace events: open the file in speedscope, whose "
                "`Export` writes a file that spprof reads, or record with `node --cpu-prof`"
            )
        elif phase and phase in _ASYNCHRONOUS:
            self.left_out += 1
        elif not phase or phase not in _WITHOUT_TIME:
            raise ValueError(f"{where} has the unknown phase {phase!r:.40}")

    def _match(self, track: Track, pairs: List[_Event]) -> None:
        """Makes calls of what begins and ends. Events of one time are in the file's order, or in the one that makes sense."""
        spans = self.spans.setdefault(track, [])
        opened: List[_Event] = []
        early: List[_Event] = []  # ends that the file has before those of what they called, at the same time

        def close(which: int, at: int) -> None:
            begin, beginning, first = opened.pop(which)
            spans.append(_Span(begin, at, beginning, self._frame(first, f"event {beginning}")))

        for event in sorted(pairs, key=lambda pair: pair[:2]):
            at, _, about = event
            if early and early[0][0] < at:
                self._refuse(early[0], opened)
            if about["ph"] == "B":
                opened.append(event)
                continue
            if not opened:
                self._refuse(event, opened)
            which = next((k for k in range(1, min(len(opened), _NEAR) + 1) if _ends(about, opened[-k])), 0)
            if which and all(begin == at for begin, _, _ in opened[len(opened) - which + 1 :]):
                close(len(opened) - which, at)
            elif len(early) < _NEAR:
                early.append(event)
            else:
                self._refuse(event, opened)
            while opened and (late := next((each for each in early if _ends(each[2], opened[-1])), None)):
                early.remove(late)
                close(len(opened) - 1, at)
        if early:
            self._refuse(early[0], opened)
        if opened:
            raise ValueError(f"event {opened[-1][1]} begins what does not end ({opened[-1][2].get('name')!r:.60})")

    @staticmethod
    def _refuse(event: _Event, opened: List[_Event]) -> NoReturn:
        """An end of something else than what began."""
        if not opened:
            raise ValueError(f"event {event[1]} ends what has not begun on its thread")
        last = f"{opened[-1][2].get('name')!r:.60}"
        raise ValueError(f"event {event[1]} ends {event[2].get('name')!r:.60}, and the last that began is {last}")

    def _frame(self, event: Dict[str, Any], where: str) -> int:
        name, category, args = text(event, "name", where), text(event, "cat", where), event.get("args")
        file, line = (args.get("filename"), args.get("line")) if isinstance(args, dict) else (None, None)  # py-spy's
        if not isinstance(file, str) or type(line) is not int:
            file, line = "", 0
        key = name, category, file, line
        if key not in self.frames:
            self.frames[key] = self._made(name, category, file, line)
        return self.frames[key]

    def _made(self, name: str, category: str, file: str, line: int) -> int:
        if self.ours and category == "native":
            native = self.columns.titled(name)
            return self.columns.native(name) if native is None else native
        match = _PLACED.fullmatch(name) if not file and name.endswith(")") else None
        return self.columns.frame(match[1], match[2], int(match[3])) if match else self.columns.frame(name, file, line)

    def _nest(self, track: Track, start: int, several: bool) -> None:
        """Gives each stretch of a thread's time to the calls that are open in it."""
        pid, tid = track
        number = tid if type(tid) is int and tid > 0 else 0
        name = self.names.get(track) or (str(tid) if tid is not None and not number else "")
        thread = self.columns.thread(name or ("" if number else "all threads"), number, pid)
        base = self.columns.node(0, self.columns.frame(f"process {pid}")) if several else 0, 0
        path: List[Tuple[_Span, Tuple[int, int]]] = []  # the open calls, and the stack of each
        now = start

        def until(at: int) -> None:
            nonlocal now
            if path:
                node, flags = path[-1][1]
                self.columns.sample(thread, (node, flags | COARSE), at - now)
            else:
                self.columns.elapse(thread, at - now)
            now = at

        for span in sorted(self.spans[track], key=lambda span: (span.begin, -span.end, span.number)):
            while path and path[-1][0].end <= span.begin:
                until(path[-1][0].end)
                path.pop()
            until(span.begin)
            while (
                path and span.end > path[-1][0].end and path[-1][0].end - span.begin <= _GRAIN_NS
            ):  # it follows: times are rounded
                path.pop()
                self.cut += 1
            outer, stack = path[-1] if path else (span, base)
            if span.end > outer.end:
                if span.end - outer.end > _GRAIN_NS:
                    raise ValueError(f"event {span.number} begins within event {outer.number} and ends after it")
                span = span._replace(end=outer.end)
                self.cut += 1
            path.append((span, self.columns.called(stack, span.frame)))
        while path:
            until(path[-1][0].end)
            path.pop()


def _ends(event: Dict[str, Any], begun: _Event) -> bool:
    """Whether an end is of what began, by its name; many have none."""
    return event.get("name") in (None, "", begun[2].get("name"))


def _id(event: Dict[str, Any], name: str, where: str) -> Any:
    value = event.get(name)
    if value is not None and type(value) not in (int, str):
        raise ValueError(f"{name!r} of {where} is {value!r:.40}, no number or text")
    return value


def _ns(event: Dict[str, Any], name: str, where: str) -> int:
    """A time of an event, which has microseconds."""
    value: float = checked(field(event, name, float, where), float, where)
    if not math.isfinite(value) or abs(value) > 1 << 51:
        raise ValueError(f"{name!r} of {where} is {value!r:.40}, an impossible time")
    return round(value * 1000)
