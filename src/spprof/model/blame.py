"""What a wait for the GIL or a lock is charged to (docs/waits.md).

A sample of a thread that waits for one of these names the thread that held it (the column `held_by`). Of that thread's own
samples those with the flag HOLDS_GIL were taken while it held the GIL; a lock it held all the time. So the time of a wait goes to
the stacks of those that were taken during it, each as much as its own time overlaps; if it is too short to have any, to the one
next to it. Every nanosecond of a wait is charged: where the holder is not known, to NOBODY, and where there can be none, as of
a condition, to NO_OWNER."""

from __future__ import annotations

from bisect import bisect_right
from typing import Callable, Dict, Iterator, List, NamedTuple, Sequence, Set, Tuple

from .layout import Columns
from .records import HOLDS_GIL
from .waits import LOCK

NOBODY = -1  # for a thread, or a stack, that is not known
NO_OWNER = -2  # for a thread: any thread may end the wait
_NEAR = 10  # intervals of sampling: what a thread did so long before or after a wait says nothing about it


class Charge(NamedTuple):
    """What a wait is charged to: a thread's id, or NOBODY or NO_OWNER, and the node of its stack, or NOBODY."""

    holder: int
    stack: int


class _Holds:
    """The samples of a thread that held the GIL, or of any thread, in order of time."""

    def __init__(self) -> None:
        self.begins: List[int] = []
        self.ends: List[int] = []
        self.stacks: List[int] = []

    def add(self, end: int, weight: int, stack: int) -> None:
        self.begins.append(max(end - weight, self.ends[-1] if self.ends else end - weight))
        self.ends.append(end)
        self.stacks.append(stack)

    def during(self, begin: int, end: int, near: int) -> List[Tuple[int, int]]:
        """Stacks, and how much of that time each has."""
        at = first = bisect_right(self.ends, begin)
        found = []
        while at < len(self.ends) and self.begins[at] < end:
            overlap = min(end, self.ends[at]) - max(begin, self.begins[at])
            found += [(self.stacks[at], overlap)] if overlap > 0 else []
            at += 1
        if not found:
            beside = [n for n in (first - 1, first) if 0 <= n < len(self.ends)]
            away = [(max(begin - self.ends[n], self.begins[n] - end), n) for n in beside]
            found = [(self.stacks[n], 1) for distance, n in sorted(away) if distance <= near][:1]
        return found


def charges(
    columns: Columns,
    reasons: Sequence[int],
    whole: Columns,
    waiters: Set[int],
    interval_ns: int,
    reason: int,
    is_notified: Callable[[int], bool],
) -> Iterator[Tuple[int, Charge, int]]:
    """Of each sample of these threads that waits for this reason, GIL or LOCK: its place, what it is charged to, and how many
    nanoseconds. They add up to its weight. `whole`: what the columns are a part of, with the samples of the holders.
    `is_notified`: whether the thread of such a sample waits to be notified."""
    wanted = [each == reason and thread in waiters for each, thread in zip(reasons, columns["thread"])]
    held_by = columns["held_by"]
    holds = _holds(whole, reason, {held_by[i] - 1 for i in range(len(wanted)) if wanted[i] and held_by[i]})
    rows = zip(wanted, columns["time_ns"], columns["weight"], held_by)
    for i, (is_wanted, time, weight, by) in enumerate(rows):
        if is_wanted:
            of = holds.get(by - 1)
            parts = of.during(time - weight, time, _NEAR * interval_ns) if of is not None else []
            holder = NO_OWNER if not by and reason == LOCK and is_notified(i) else by - 1
            for stack, ns in _split(weight, parts or [(NOBODY, 1)]):
                yield i, Charge(holder, stack), ns


def _holds(columns: Columns, reason: int, holders: Set[int]) -> Dict[int, _Holds]:
    found: Dict[int, _Holds] = {}
    rows = zip(columns["flags"], columns["thread"], columns["time_ns"], columns["weight"], columns["keys"])
    for flags, thread, time, weight, key in rows:
        if thread in holders and (reason == LOCK or flags & HOLDS_GIL):
            found.setdefault(thread, _Holds()).add(time, weight, key)
    return found


def _split(whole: int, parts: Sequence[Tuple[int, int]]) -> Iterator[Tuple[int, int]]:
    """A whole in these proportions, to the last nanosecond."""
    total, passed, given = sum(part for _, part in parts), 0, 0
    for stack, part in parts:
        passed += part
        until = whole * passed // total
        yield stack, until - given
        given = until
