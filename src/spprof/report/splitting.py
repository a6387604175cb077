"""What became of a function, split in two where calls were counted: how often it is called, and how long a call takes."""

from __future__ import annotations

from typing import NamedTuple, Optional

from ..model import intervals
from ..model.intervals import LEVEL, Estimate
from .comparison import Comparison, Row, Runs


class Factor(NamedTuple):
    """A figure of a run before and after, and how many times as much it became, with 95 % intervals. `ratio` is None if it was 0
    before; its `high` may be infinite.

    `significant`: as in `Change`. A count has no error, so those of one run each differ or do not."""

    a: Estimate
    b: Estimate
    ratio: Optional[Estimate]
    significant: Optional[bool]


class Split(NamedTuple):
    """`calls` times `per_call`: seconds (or what the files count) of a call. The latter is None if a run did not call it."""

    calls: Factor
    per_call: Optional[Factor]


def split(comparison: Comparison, row: Row, kind: str, compared: int) -> Optional[Split]:
    """That of the figure `kind` ('own' or 'total') of one of `compared` rows; None: nobody counted its calls. Both figures of
    each row are looked at together."""
    runs = comparison.calls.get(row.function) if comparison.calls is not None and not row.function.native else None
    if runs is None:
        return None
    level = intervals.at_once(LEVEL, 2 * compared)
    every = all(runs[0]) and all(runs[1])
    return Split(_calls(runs, level), _per_call(comparison, row, kind, runs, level) if every else None)


def _calls(runs: Runs, level: float) -> Factor:
    a, b = runs
    if len(a) == 1:
        before, after = (Estimate(*[one[0]] * 3) for one in runs)
    else:
        before, after = intervals.mean(a), intervals.mean(b)

    def difference(factor: float, at: float = LEVEL) -> Estimate:
        scaled = [factor * each for each in a]
        return intervals.welch(scaled, b, at) if len(a) > 1 else Estimate(*[b[0] - scaled[0]] * 3)

    sure = difference(1.0, level)
    ratio = intervals.ratio_of(before.value, after.value, difference) if before.value else None
    return Factor(before, after, ratio, not sure.low <= 0 <= sure.high)


def _per_call(comparison: Comparison, row: Row, kind: str, runs: Runs, level: float) -> Factor:
    figures = row.figures(kind)
    a, b, _ = comparison.estimates(figures, "time", 1.0, LEVEL, runs)
    sure = comparison.estimates(figures, "time", 1.0, level, runs)[2]
    ratio = None
    if a.value:
        ratio = intervals.ratio_of(a.value, b.value, lambda factor: comparison.estimates(figures, "time", factor, LEVEL, runs)[2])
    return Factor(a, b, ratio, not sure.low <= 0 <= sure.high if comparison.repeated else None)
