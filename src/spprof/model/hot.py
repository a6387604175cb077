"""Counts of the hottest functions' calls, each in a part of the run (`spprof run --calls=hot`, docs/counts.md)."""

from __future__ import annotations

from operator import add
from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple

from .calls import Function


class HotFunction(NamedTuple):
    """A function that was counted in windows. `calls` is exact: its bodies that began in them. `counted_ns`: how long they were
    open. `samples` and `self_ns`: ticks in them that were in the function itself, and their time; `squares`: the sum of
    weight^2 / ticks of these."""

    function: Function
    calls: int
    counted_ns: int
    samples: int
    self_ns: int
    squares: float

    @property
    def per_call_ns(self) -> Optional[float]:
        """The function's own sampled time of one call, both from its windows; None: no call began."""
        return self.self_ns / self.calls if self.calls else None

    def estimate(self, self_ns: float) -> Optional[int]:
        """About how often it was called in a run in which it took so much time itself, if all calls take what those in its
        windows took. None: it was not sampled there."""
        return round(self.calls * self_ns / self.self_ns) if self.self_ns else None


class HotCalls(NamedTuple):
    """All functions that were ever counted."""

    functions: List[HotFunction]


def together(parts: Iterable[HotCalls]) -> HotCalls:
    """The counts of several processes; and of code objects that are one function."""
    sums: Dict[Function, Tuple[float, ...]] = {}
    for function, *figures in (each for part in parts for each in part.functions):
        known = sums.get(function)
        sums[function] = tuple(figures) if known is None else tuple(map(add, known, figures))
    return HotCalls([HotFunction(function, *figures) for function, figures in sums.items()])  # type: ignore[arg-type]
