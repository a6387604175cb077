"""Callgrind's file (https://valgrind.org/docs/manual/cl-format.html), for KCachegrind, QCachegrind and callgrind_annotate.

Costs are what the samples count (nanoseconds, faults) and samples: of each line its own, and of each line that calls a function
those of the call. Readers take the sum of the calls to a function for its inclusive cost. So a stack adds to one call of each
function, to the outermost one; a call back into a function that is already running adds nothing. Then inclusive costs are right
under recursion too. The outermost functions are called by their thread, which is a function here, `[thread NAME]`.

The number of calls is that of samples; where calls were counted (`spprof run --calls`) it is exact, with resumes of generators,
and calls without a sample are there too.
"""

from __future__ import annotations

import re
from array import array
from typing import TYPE_CHECKING, BinaryIO, Dict, Iterator, List, Tuple

from ..model.sums import moved
from ..model.unicode import clean
from ._frames import Frames, Look
from ._samples import distinct_names, groups
from ._tree import Part

if TYPE_CHECKING:
    from ..model import calls as counts
    from ..model.data import ProfileData
    from .options import Options

Function = Tuple[str, str, str]  # object, file, name: so readers keep functions apart
Cost = List[int]  # what the profile counts, samples
_UNKNOWN = "???"  # as Callgrind writes it
_NO_WORD = re.compile("[^A-Za-z0-9]+")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def write(profile: ProfileData, out: BinaryIO, options: Options) -> None:
    """Writes each function with its lines and its calls. Readers sort by the first event: what samples count, or their number if
    `weight` says so."""
    costs = _Costs(profile, options)
    events = _events(profile)
    order = [place for place in ((1, 0) if options.weight == "samples" else (0, 1)) if place < len(events)]
    names: Dict[Tuple[str, str], int] = {}

    def name(position: str, kind: str, text: str) -> str:
        """The line of a name: in full the first time, then by its number."""
        id = names.get((kind, text))
        if id is None:
            id = names[kind, text] = len(names) + 1
            return f"{position}=({id}) {text}"
        return f"{position}=({id})"

    def numbers(cost: Cost) -> str:
        return " ".join(str(cost[place]) for place in order)

    lines = ["# callgrind format", "version: 1", *_about(profile), "positions: line"]
    lines += [f"event: {event} : {title}" for event, title in events]
    lines += ["events: " + " ".join(events[place][0] for place in order), "summary: " + numbers(costs.whole)]
    for function, id in costs.functions.items():
        library, file, title = function
        lines += ["", name("ob", "ob", library), name("fl", "fl", file), name("fn", "fn", title)]
        lines += [f"{line} {numbers(cost)}" for line, cost in sorted(costs.own[id].items())]
        for (line, callee), cost in sorted(costs.calls[id].items()):
            called = costs.listed[callee]
            # Only what differs: callgrind_annotate takes a call into a file that is named for one that leaves the caller's file.
            lines += [name("cob", "ob", called[0])] if called[0] != function[0] else []
            lines += [name("cfi", "fl", called[1])] if called[1] != function[1] else []
            lines += [name("cfn", "fn", called[2])]
            lines += [
                f"calls={costs.numbers[id].get((line, callee), cost[1])} {costs.first_lines[callee]}",
                f"{line} {numbers(cost)}",
            ]
        out.write("\n".join(lines).encode() + b"\n")
        lines = []
    out.write("\n".join(lines).encode())


def _about(profile: ProfileData) -> Iterator[str]:
    from .. import __version__

    yield f"creator: spprof {__version__}"
    yield f"pid: {profile.header.get('pid') or 0}"
    yield "cmd: " + _line(" ".join(map(str, profile.header.get("argv") or [])))


def _events(profile: ProfileData) -> List[Tuple[str, str]]:
    """Names and titles of the costs. What is counted may be samples itself."""
    if profile.unit == "nanoseconds":
        counted = "ns", f"{'CPU' if profile.mode == 'cpu' else 'wall'} time in nanoseconds"
    else:
        counted = _NO_WORD.sub("_", profile.unit) or "value", _line(profile.unit)
    return [counted] if counted[0] == "samples" else [counted, ("samples", "samples")]


def _line(text: str) -> str:
    """Text that stays on its line and is not empty, as an empty name means the one before."""
    return _CONTROL.sub(lambda match: ascii(match.group())[1:-1], clean(text)) or "[no name]"


class _Costs:
    """What is written: by function number the own costs of its lines, and those of its calls by line and called function."""

    def __init__(self, profile: ProfileData, options: Options) -> None:
        self.functions: Dict[Function, int] = {}
        self.listed: List[Function] = []
        self.first_lines: List[int] = []
        self.own: List[Dict[int, Cost]] = []
        self.calls: List[Dict[Tuple[int, int], Cost]] = []
        self.numbers: List[Dict[Tuple[int, int], int]] = []  # of calls, by the same; empty where they were not counted
        self.whole = [0, 0]
        parts = groups(profile, options)
        names = distinct_names(profile)
        sums = profile.stack_sums(options.thread)
        frames = Frames(profile, options.lines)
        shown = Part(profile, frames, sums[0])
        tree = shown.tree
        number = [self._function(look) for look in frames.looks]
        line = [look.line or (0 if look.native else look.first_line) for look in frames.looks]
        looks = shown.looks
        labels = array("I", [0])
        labels.extend(number[look] for look in looks[1:])
        for stack, count in sums[0].items():
            look = looks[shown.nodes[stack]]
            if count:
                _add(self.own[number[look]], line[look], sums[1][stack], count)
        totals = tree.totals(moved(sums, shown.nodes))
        for node in totals.outermost(labels):
            if tree.parents[node]:
                caller = looks[tree.parents[node]]
                _add(self.calls[number[caller]], (line[caller], labels[node]), totals.nanoseconds[node], totals.samples[node])
        roots = array("I", [0])
        for node in range(1, len(tree)):
            roots.append(roots[tree.parents[node]] or node)
        for part in parts:
            title = "[all threads]" if part.thread is None else f"[thread {names[part.thread]}]"
            thread = self._add_function((_UNKNOWN, _UNKNOWN, _line(title)), 0)
            for key, count in part.sums[0].items():
                weight = part.sums[1][key]
                _add(self.calls[thread], (0, labels[roots[shown.nodes[key]]]), weight, count)
                self.whole[0] += weight
                self.whole[1] += count

        if profile.calls is not None and options.thread is None:
            self._count(profile.calls, options.lines)

    def _count(self, calls: counts.Calls, lines: bool) -> None:
        """Exact numbers of calls. A sampled call of which none was counted had begun before: it has 0."""
        for call in calls.rows:
            callee = self._counted_function(call.function)
            if call.caller is None:
                continue
            caller = self._counted_function(call.caller)
            place = (call.line if lines and call.line else call.caller.line), callee
            self.numbers[caller][place] = self.numbers[caller].get(place, 0) + call.calls + call.resumes
            self.calls[caller].setdefault(place, [0, 0])
        python = {id for (library, _, _), id in self.functions.items() if library == "python"}
        for id in python:
            for place in self.calls[id]:
                if place[1] in python:
                    self.numbers[id].setdefault(place, 0)

    def _counted_function(self, function: counts.Function) -> int:
        library = "python" if function.file else _UNKNOWN
        return self._add_function((library, _line(function.file or _UNKNOWN), _line(function.qualname)), function.line)

    def _function(self, look: Look) -> int:
        library = look.library if look.native else "python" if look.file else ""
        return self._add_function((_line(library or _UNKNOWN), _line(look.file or _UNKNOWN), _line(look.name)), look.first_line)

    def _add_function(self, function: Function, first_line: int) -> int:
        id = self.functions.setdefault(function, len(self.functions))
        if id == len(self.listed):
            self.listed.append(function)
            self.first_lines.append(first_line)
            self.own.append({})
            self.calls.append({})
            self.numbers.append({})
        return id


def _add(costs: Dict, key: object, ns: int, samples: int) -> None:  # type: ignore[type-arg]
    cost = costs.setdefault(key, [0, 0])
    cost[0] += ns
    cost[1] += samples
