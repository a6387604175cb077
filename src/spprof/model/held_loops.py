"""What held an event loop while tasks of it could have gone on (docs/tasks.md).

A sample of a task that is ready names the instant and its loop's thread. What that thread did at this instant, its own samples
of time say, each of which has a stack and the task that ran: the nearest. Off the CPU that is the one whose time this instant is
in; one of a thread that ran says what it did at one instant, not what it did before, so the next one is no better than the last.
Every nanosecond is charged: where none is near, to NOBODY."""

from __future__ import annotations

from bisect import bisect_left
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from .blame import NOBODY
from .layout import Columns
from .records import OFF_CPU
from .waits import REASONS

READY = REASONS.index("loop")
_NEAR = 10  # intervals of sampling: what a thread did so long before or after says nothing


class Hold(NamedTuple):
    """What a loop's thread did: the number of the task that ran (0: none, the loop itself did), and the stack, or NOBODY."""

    thread: int
    task: int
    stack: int


def holds(columns: Columns, reasons: Sequence[int], time: Optional[Columns], interval_ns: int) -> Iterator[Tuple[int, Hold, int]]:
    """Of each sample of a task that is ready: its place, what held its loop, and how many nanoseconds. `time`: the columns of the
    samples of time, if there are any."""
    did = _by_thread(time) if time is not None else {}
    rows = zip(reasons, columns["thread"], columns["time_ns"], columns["weight"])
    for i, (reason, thread, instant, weight) in enumerate(rows):
        if reason == READY:
            ends, others = did.get(thread, ([], []))
            after = bisect_left(ends, instant)
            beside = [at for at in (after, after - 1) if 0 <= at < len(ends)]
            distances = ((max(others[at][0] - instant, instant - ends[at], 0), at) for at in beside)
            away, at = min(distances, default=(0, -1))
            known = at >= 0 and away <= _NEAR * interval_ns
            yield i, Hold(thread, *others[at][1:]) if known else Hold(thread, 0, NOBODY), weight


def _by_thread(columns: Columns) -> Dict[int, Tuple[List[int], List[Tuple[int, int, int]]]]:
    """Of each thread the ends of its samples, and of each one where it begins, its task and stack."""
    found: Dict[int, Tuple[List[int], List[Tuple[int, int, int]]]] = {}
    rows = zip(*(columns[name] for name in ("thread", "time_ns", "weight", "flags", "task", "keys")))
    for thread, end, weight, flags, task, key in rows:
        ends, others = found.setdefault(thread, ([], []))
        ends.append(end)
        others.append((end - weight if flags & OFF_CPU else end, task, key))
    return found
