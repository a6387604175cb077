"""Exact executions of lines and branches of chosen functions (`spprof run --lines`, docs/counts.md)."""

from __future__ import annotations

from typing import Dict, Iterable, List, NamedTuple, Tuple

from .calls import Function


class Way(NamedTuple):
    """One of the two ways of a branch. `line`: the next line that runs; or the branch's own, if that decides once more, or the
    function ends there. `offset`: of the instruction, as `dis` shows it."""

    line: int
    offset: int
    taken: int


class Branch(NamedTuple):
    """A condition or a loop, or a part of one. `ways`: those that were taken, one or two, in the order of their instructions."""

    line: int
    offset: int
    ways: List[Way]


class CountedFunction(NamedTuple):
    """`calls`: how often it began, a generator by its first step. `lines`: line -> executions, of each line that has code."""

    function: Function
    calls: int
    lines: Dict[int, int]
    branches: List[Branch]


class LineCounts(NamedTuple):
    """All that was counted. `uncounted`: functions for which there was no space; `lost`: branches that went a third way."""

    functions: List[CountedFunction]
    uncounted: int = 0
    lost: int = 0

    @property
    def missing(self) -> str:
        """What was not counted, in words; '' if all was."""
        words = [f"{self.uncounted:,} functions for which there was no space"] if self.uncounted else []
        words += [f"{self.lost:,} branches that went a third way"] if self.lost else []
        return "; ".join(words)


def branches_of(ways: Iterable[Tuple[int, int, Way]]) -> List[Branch]:
    """The branches by line. `ways`: line and offset of the branch with each way; several of one way are added up."""
    found: Dict[Tuple[int, int], Dict[int, Way]] = {}
    for line, offset, way in ways:
        of = found.setdefault((line, offset), {})
        known = of.get(way.offset)
        of[way.offset] = way if known is None else known._replace(taken=known.taken + way.taken)
    return [Branch(*where, [way for _, way in sorted(of.items())]) for where, of in sorted(found.items())]


def together(parts: Iterable[LineCounts]) -> LineCounts:
    """The counts of several processes; and of code objects that are one function."""
    each = list(parts)
    found: Dict[Function, List[CountedFunction]] = {}
    for one in (function for part in each for function in part.functions):
        found.setdefault(one.function, []).append(one)
    functions = [_added(function, same) for function, same in found.items()]
    return LineCounts(functions, sum(part.uncounted for part in each), sum(part.lost for part in each))


def _added(function: Function, same: List[CountedFunction]) -> CountedFunction:
    lines: Dict[int, int] = {}
    for line, count in (row for one in same for row in one.lines.items()):
        lines[line] = lines.get(line, 0) + count
    branches = (branch for one in same for branch in one.branches)
    ways = branches_of((branch.line, branch.offset, way) for branch in branches for way in branch.ways)
    return CountedFunction(function, sum(one.calls for one in same), dict(sorted(lines.items())), ways)
