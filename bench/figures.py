"""Medians and their 95 % intervals."""

import math
import random
import statistics
from typing import Callable, NamedTuple, Sequence, Union

Met = Union[bool, str, None]  # of a goal; OPEN: the interval does not say; None: there is none, or nothing was measured
OPEN = "open"


class Figure(NamedTuple):
    """A median with its interval. With fewer than 6 values no 95 % interval exists: then it is all values, `sure` is False."""

    value: float
    low: float
    high: float
    n: int
    sure: bool

    def text(self, form: str = "{:.3f}") -> str:
        between = f"{form.format(self.low)} .. {form.format(self.high)}"
        return f"{form.format(self.value)} ({between}, n = {self.n}{'' if self.sure else ', too few for 95 %'})"

    def at_most(self, goal: float) -> Met:
        """Whether the whole interval meets a goal, or none of it."""
        return (self.high <= goal) if self.sure and not self.low <= goal < self.high else OPEN

    def at_least(self, goal: float) -> Met:
        return (self.low >= goal) if self.sure and not self.low < goal <= self.high else OPEN

    def between(self, low: float, high: float) -> Met:
        return both(self.at_least(low), self.at_most(high))

    def json(self) -> dict:
        return self._asdict()


def median(values: Sequence[float]) -> Figure:
    """Median with the order statistics that hold the true one in at least 95 % of cases (sign test; no assumption of shape)."""
    ordered = sorted(values)
    n = len(ordered)
    skip, outside = 0, 2 * math.comb(n, 0) / 2**n
    sure = outside <= 0.05
    while sure and outside + 2 * math.comb(n, skip + 1) / 2**n <= 0.05:
        skip += 1
        outside += 2 * math.comb(n, skip) / 2**n
    return Figure(statistics.median(ordered), ordered[skip], ordered[n - 1 - skip], n, sure)


def bootstrap(rounds: Sequence, statistic: Callable[[Sequence], float], times: int = 2000) -> Figure:
    """`statistic` of whole rounds, with the percentile interval of resampled rounds (the same draws each time)."""
    rng = random.Random(1)
    drawn = sorted(statistic(rng.choices(rounds, k=len(rounds))) for _ in range(times))
    return Figure(statistic(rounds), drawn[int(times * 0.025)], drawn[int(times * 0.975) - 1], len(rounds), len(rounds) >= 6)


def proportion(held: int, of: int) -> Figure:
    """A share of independent cases, with its 95 % interval (E. B. Wilson, Journal of the American Statistical Association,
    1927, page 209)."""
    z, share = statistics.NormalDist().inv_cdf(0.975), held / of
    middle, reach = share + z * z / (2 * of), z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return Figure(share, (middle - reach) / (1 + z * z / of), (middle + reach) / (1 + z * z / of), of, True)


def both(one: Met, other: Met) -> Met:
    """Of two goals that are one."""
    return False if False in (one, other) else OPEN if OPEN in (one, other) else True


def exactly(value: float) -> Figure:
    """A figure that is counted, not estimated."""
    return Figure(value, value, value, 1, True)
