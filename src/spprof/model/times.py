"""Exact times of calls: a histogram for each chosen function, and its slowest calls (`spprof run --time`, docs/times.md)."""

from __future__ import annotations

from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple

from .calls import Function

ROW = 64  # buckets for each power of two: csrc/base/histogram.h


class Histogram(NamedTuple):
    """Times in ns. `buckets`: number of a bucket -> how many times it has. `total_ns` and `max_ns` are exact."""

    buckets: Dict[int, int]
    total_ns: int
    max_ns: int

    @property
    def n(self) -> int:
        return sum(self.buckets.values())

    def quantile(self, share: float) -> int:
        """The least time that at least this share of all does not exceed, within 0.8 %; 0 if there is none."""
        rank, seen = share * self.n * (1 - 1e-12), 0  # 0.07 * 100 is more than 7
        for bucket, count in sorted(self.buckets.items()):
            seen += count
            if seen >= rank:
                low, high = bounds(bucket)
                return min((low + high) // 2, self.max_ns)
        return self.max_ns


def bounds(bucket: int) -> Tuple[int, int]:
    """The least and the largest time of a bucket, both in it."""
    if bucket < ROW:
        return bucket, bucket
    shift = bucket // ROW - 1
    low = ROW + bucket % ROW << shift
    return low, low + (1 << shift) - 1


class SlowCall(NamedTuple):
    """A call that is among the slowest of its function. `running_ns`: of a generator or coroutine, without the time between its
    steps, else None; `cpu_ns`: None if not asked for. `began_ns` and samples' times are of one clock. `stack`: functions and
    lines from root to leaf at the end of the call; `cut`: there were more at its root."""

    wall_ns: int
    running_ns: Optional[int]
    cpu_ns: Optional[int]
    began_ns: int
    thread_id: int
    raised: bool
    labels: Dict[str, str]
    stack: List[Tuple[Function, int]]
    cut: bool


class TimedFunction(NamedTuple):
    """The calls of one function. `calls` have ended, `raised` of them by an exception; `open` had begun and not ended. `running`
    and `cpu` as in `SlowCall`. `slowest`: the slowest first."""

    function: Function
    calls: int
    raised: int
    open: int
    wall: Histogram
    running: Optional[Histogram]
    cpu: Optional[Histogram]
    slowest: List[SlowCall]


class Times(NamedTuple):
    """All that was timed. `untimed`: functions for which there was no space; `lost`: calls that were not timed for want of
    memory, or whose end was not seen."""

    functions: List[TimedFunction]
    untimed: int = 0
    lost: int = 0

    @property
    def missing(self) -> str:
        """What was not timed, in words; '' if all was."""
        words = [f"{self.untimed:,} functions for which there was no space"] if self.untimed else []
        if self.lost:
            words.append(f"{self.lost:,} calls (no memory, or no end seen)")
        return "; ".join(words)


SLOWEST = 8  # calls that are kept of a function


def together(parts: Iterable[Times]) -> Times:
    """The times of several processes; and of code objects that are one function."""
    each = list(parts)
    found: Dict[Function, TimedFunction] = {}
    for one in (function for part in each for function in part.functions):
        known = found.get(one.function)
        found[one.function] = one if known is None else _added(known, one)
    return Times(list(found.values()), sum(part.untimed for part in each), sum(part.lost for part in each))


def _added(a: TimedFunction, b: TimedFunction) -> TimedFunction:
    slowest = sorted([*a.slowest, *b.slowest], key=lambda call: -call.wall_ns)[:SLOWEST]
    return TimedFunction(
        a.function,
        a.calls + b.calls,
        a.raised + b.raised,
        a.open + b.open,
        _sum(a.wall, b.wall),
        _either(a.running, b.running),
        _either(a.cpu, b.cpu),
        slowest,
    )


def _either(a: Optional[Histogram], b: Optional[Histogram]) -> Optional[Histogram]:
    return _sum(a, b) if a is not None and b is not None else a or b


def _sum(a: Histogram, b: Histogram) -> Histogram:
    buckets = dict(a.buckets)
    for bucket, count in b.buckets.items():
        buckets[bucket] = buckets.get(bucket, 0) + count
    return Histogram(buckets, a.total_ns + b.total_ns, max(a.max_ns, b.max_ns))
