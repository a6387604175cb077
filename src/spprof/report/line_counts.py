"""`spprof report --lines`: each line of the counted functions with its executions, sampled time and source (docs/counts.md)."""

from __future__ import annotations

from operator import add
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from ..errors import BadOption
from ..formats._sources import Texts
from ..model import intervals
from ..model.calls import Function
from ..model.data import ProfileData
from ..model.intervals import Whole
from ..model.line_counts import Branch, CountedFunction, LineCounts, together
from . import missing
from .document import document, estimate, limited
from .tables import check_units
from .text import amount, fit, place, printable, readable, share_of, shown

_LEAST = 24  # columns for the source, whatever the terminal

Figures = Tuple[int, float]  # weight and squares


class _Times:
    """The sampled time of each line with what it calls."""

    def __init__(self, profiles: Sequence[ProfileData]) -> None:
        check_units(profiles, "added up")
        self.unit = profiles[0].unit
        self.whole: Whole = intervals.together(profile.whole(None) for profile in profiles)
        self._of: Dict[Tuple[Any, ...], List[float]] = {}
        for profile in profiles:
            squares = profile.function_squares("line", None, None) if profile.has_big_samples(None) else {}
            for row in profile.functions("line", None, None):
                known = self._of.setdefault(row[:4], [0, 0.0])
                known[:] = map(add, known, (row.total_weight, squares.get(row[:4], (0.0, 0.0))[1]))

    def of(self, function: Function, line: int) -> Optional[Figures]:
        found = self._of.get((*function[:3], line))
        return (int(found[0]), found[1]) if found is not None else None


def line_counts(profiles: Sequence[ProfileData], limit: int, width: int, sources: bool = False) -> str:
    """The text: the functions of the most sampled time first. `sources`: source text as it is now, whatever ran."""
    profiles = list(map(readable, profiles))
    counts, times = _counted(profiles), _Times(profiles)
    lines: List[str] = []
    for one in _ordered(counts, times)[:limit]:
        lines += [*_listing(one, _source(one.function.file, profiles, sources), times, width), ""]
    if not counts.functions:
        lines = ["No function whose lines were to be counted was called.", ""]
    elif len(counts.functions) > limit:
        lines += [f"... {len(counts.functions) - limit} more functions (--limit)", ""]
    if counts.missing:
        lines += [f"Not counted: {counts.missing}.", ""]
    return "\n".join(lines[:-1]) + "\n"


def _ordered(counts: LineCounts, times: _Times) -> List[CountedFunction]:
    def weight(one: CountedFunction) -> int:
        return sum((times.of(one.function, line) or (0, 0.0))[0] for line in one.lines)

    return sorted(counts.functions, key=lambda one: (-weight(one), one.function[2:4], one.function))


def _listing(one: CountedFunction, source_of: Tuple[List[str], str], times: _Times, width: int) -> Iterator[str]:
    text, why = source_of
    yield f"{place(*one.function[1:4])}: {one.calls:,} calls"
    if not text:
        yield f"No source text: {why}."
    yield ""
    yield f"{'line':>7} {'executions':>13}  {'time':<24}source"
    branches: Dict[int, List[Branch]] = {}
    for branch in one.branches:
        branches.setdefault(branch.line, []).append(branch)
    numbers = sorted({one.function.line, *one.lines})
    for line in range(numbers[0], numbers[-1] + 1) if text else numbers:
        figures = times.of(one.function, line)
        time = ""
        if figures is not None:
            time = f"{amount(figures[0], times.unit, times.whole.weight):>10} {share_of(times.whole, *figures)}"
        executions = f"{one.lines[line]:,}" if line in one.lines else ""
        cells = f"{line:>7} {executions:>13} {time:<23}  "
        source = printable(text[line - 1].expandtabs(4)) if 0 < line <= len(text) else ""
        yield (cells + fit(source, max(_LEAST, width - len(cells)))).rstrip()
        for branch in branches.get(line, ()):
            indent = " " * (len(source) - len(source.lstrip()))
            yield f"{'':{len(cells)}}{indent}| {_ways(branch)}"


def _ways(branch: Branch) -> str:
    words = [f"{way.taken:,} to {way.line}" for way in sorted(branch.ways)]
    return ", ".join(words) + (", never elsewhere" if len(words) == 1 else "")


def _source(file: str, profiles: Sequence[ProfileData], asked: bool) -> Tuple[List[str], str]:
    """The lines of a file; or why there are none."""
    why = ""
    for profile in profiles:
        texts = Texts(profile, [(file, False)], asked or None)
        if file in texts.texts:
            return texts.texts[file].splitlines(), ""
        why = texts.without.get(file, why)
    return [], shown(why)


def as_json(profiles: Sequence[ProfileData], limit: Optional[int]) -> str:
    """The same for programs."""
    counts, times = _counted(profiles), _Times(profiles)
    functions = [_function(one, times) for one in _ordered(counts, times)]
    about = {"unit": times.unit, "uncounted": counts.uncounted, "lost": counts.lost}
    return document("lines", {**about, **limited("functions", functions, limit)})


def _function(one: CountedFunction, times: _Times) -> Dict[str, Any]:
    function = one.function
    lines = []
    for line, executions in sorted(one.lines.items()):
        weight, squares = times.of(function, line) or (0, 0.0)
        share = estimate(times.whole.share(weight, squares=squares), "share")
        lines.append({"line": line, "executions": executions, "total": weight, **share})
    branches = [
        {"line": branch.line, "offset": branch.offset, "ways": [way._asdict() for way in branch.ways]} for branch in one.branches
    ]
    named = {"name": function.name, "qualname": function.qualname, "file": function.file, "line": function.line}
    return {**named, "calls": one.calls, "lines": lines, "branches": branches}


def _counted(profiles: Sequence[ProfileData]) -> LineCounts:
    each = [profile.line_counts for profile in profiles]
    found = [counts for counts in each if counts is not None]
    if found:
        return together(found)
    raise BadOption(missing.why(profiles, "lines", "counts of lines", "--lines MODULE:QUALNAME", "Python 3.12"))
