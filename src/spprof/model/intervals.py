"""How sure a share is: intervals of shares of time, and of differences between runs.

A share is estimated from samples, so it has an interval that holds the true share (what the run's own clocks would say, read at
every call and return) in 95 % of runs. docs/intervals.md says what was measured of that.

- One run: the score interval (Wilson 1927, J. Am. Stat. Assoc. 22, 209-212), which holds for few samples and for shares near 0
  and 1 too. Samples have weights, so their number is the effective one, (sum w)^2 / (sum w^2) (Kish 1965, Survey Sampling).
- The difference of two runs: from the two intervals (Newcombe 1998, Statistics in Medicine 17, 873-890, method 10).
- The ratio of two figures: all factors such that B less so many times A may be 0 (Fieller 1954, J. R. Stat. Soc. B 16, 175-185).
- Several runs a side: from the variation between runs alone, which holds more than sampling (Welch 1947, Biometrika 34, 28-35).
- Samples that were taken at no random instant (`Whole.unknown_weight`): the program may be in step with what took them, so nobody
  knows whose time they are. Both ends of an interval are those of the worst case: all of it, or none, is the part's.
- Many functions at once: `level` is to be `at_once(0.95, number)` (Bonferroni), so that in 95 of 100 comparisons of equal
  programs not one of all of them is reported to differ.
"""

from __future__ import annotations

from functools import lru_cache
from math import exp, hypot, inf, lgamma, pi, sin, sqrt, tan
from operator import mul, truediv
from typing import Callable, Iterable, NamedTuple, Sequence, Tuple

LEVEL = 0.95
_Z = 1.959963984540054  # of LEVEL, spelled out so that a summary imports no `statistics`
BIG = 2  # times the mean weight: only where a sample is so big, each part's own weights are asked for
MOST_UNKNOWN = 0.5  # of the time; where it is more, no interval is shown
_MOST_FREEDOM = 1000.0  # degrees of freedom above which less is assumed: at most 0.2 % wider


class Estimate(NamedTuple):
    """A figure and its interval."""

    value: float
    low: float
    high: float

    def times(self, factor: float) -> Estimate:
        """The same in another unit (`factor` >= 0)."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)

    @property
    def reach(self) -> float:
        """What is shown behind the ±: the larger side."""
        return max(self.high - self.value, self.value - self.low)

    @property
    def is_more_than_nothing(self) -> bool:
        """Whether the figure less what is behind its ± is above 0."""
        return self.value > self.reach


class Whole(NamedTuple):
    """The samples that a share is of: their weight in ns, their ticks, and `squares`, the sum of weight^2 / ticks; and the weight
    of those that were taken at no random instant.

    A sample of an off-CPU thread (wall mode) is for many ticks, and counts as many samples of even weight: it says of all
    that time, not of one instant, that the thread was there, so this is on the safe side."""

    weight: int
    ticks: int
    squares: float
    unknown_weight: int = 0

    @property
    def samples(self) -> float:
        """The effective number of samples: how many of one weight would say as much. Never more than `ticks`."""
        return self.weight**2 / self.squares if self.squares else 0.0

    @property
    def unknown_share(self) -> float:
        """The share of its time that was sampled at no random instant."""
        return self.unknown_weight / self.weight if self.weight else 0.0

    @property
    def is_known(self) -> bool:
        """Whether intervals say something. Where most of the time is unknown, so is each share."""
        return self.unknown_share <= MOST_UNKNOWN

    def share(self, part: float, level: float = LEVEL, squares: float = 0.0) -> Estimate:
        """The share of `part`, and its interval, that holds whatever the unknown time was. `squares`: see `samples_of`."""
        seen = self.sampled(part, level, squares)
        if not self.unknown_weight:
            return seen
        samples = self.samples_of(part, squares)
        least, most = (self.of_samples(part + sign * self.unknown_weight, samples, level) for sign in (-1, 1))
        return Estimate(seen.value, least.low, most.high)

    def sampled(self, part: float, level: float = LEVEL, squares: float = 0.0) -> Estimate:
        """The same, if all samples had been taken at random instants."""
        return self.of_samples(part, self.samples_of(part, squares), level)

    def of_samples(self, part: float, samples: float, level: float = LEVEL) -> Estimate:
        """The same, where it rests on so many samples."""
        part = min(max(part, 0.0), self.weight)
        value = part / self.weight if self.weight else 0.0
        return Estimate(value, *share(part, self.weight, samples, level))

    def samples_of(self, part: float, squares: float = 0.0) -> float:
        """The effective number of samples that the share of a part rests on. `squares`: the sum of weight^2 / ticks of its own
        samples; 0: they weigh what all do.

        The variance of a share p is the sum of (weight / ticks)^2 (x - p)^2 / weight^2 over all ticks, with x = 1 for those of
        the part (a ratio's, Cochran 1977, Sampling Techniques, 2.11); of so many samples of one weight it is p (1 - p) / number.
        Never more than Kish's: that few big samples missed the part says nothing for it."""
        p = part / self.weight if self.weight else 0.0
        if squares <= 0 or not 0 < p < 1:
            return self.samples
        spread = (1 - p) ** 2 * squares + p**2 * max(self.squares - squares, 0.0)
        return min(self.samples, p * (1 - p) * self.weight**2 / spread)


def together(wholes: Iterable[Whole]) -> Whole:
    """The whole that several make: threads, or processes."""
    figures = list(wholes)
    return Whole(*(sum(one[field] for one in figures) for field in range(4)))  # type: ignore[arg-type]


def whole(weights: Sequence[int], ticks: Sequence[int], unknown_weight: int = 0) -> Whole:
    """The whole of samples with these weights in ns, each of so many ticks."""
    counts: Iterable[int] = ticks if 0 not in ticks else (each or 1 for each in ticks)  # other profilers' files may say 0
    squares = sum(map(truediv, map(mul, weights, weights), counts))
    return Whole(sum(weights), sum(ticks), squares, unknown_weight)


def share(part: float, whole: float, samples: float, level: float = LEVEL) -> Tuple[float, float]:
    """The interval (low, high) of the share part / whole, where the whole has so many (effective) samples.

    Without samples nothing is known: (0, 1)."""
    if samples <= 0 or whole <= 0:
        return 0.0, 1.0
    p, z2 = min(max(part / whole, 0.0), 1.0), z_of(level) ** 2
    middle = p + z2 / (2 * samples)
    reach = sqrt(z2 * (p * (1 - p) + z2 / (4 * samples)) / samples)
    scale = 1 + z2 / samples
    # Of 0 and 1 the ends are exact; only rounding would put them beside.
    return (max(0.0, (middle - reach) / scale) if p > 0 else 0.0), (min(1.0, (middle + reach) / scale) if p < 1 else 1.0)


def difference(a: Estimate, b: Estimate) -> Estimate:
    """b - a, where both were measured apart and their intervals are of the level that is wanted. The reach down is that of b down
    and of a up, and so on, so it holds where intervals are lopsided; for shares and for shares times a known whole."""
    value = b.value - a.value
    return Estimate(value, value - hypot(b.value - b.low, a.high - a.value), value + hypot(b.high - b.value, a.value - a.low))


def mean(values: Sequence[float], level: float = LEVEL, least_variance: float = 0.0) -> Estimate:
    """The mean of several runs' figures, with its interval from their variation (Student's t).

    `least_variance`: of one run's figure, known from sampling; so that few runs that agree by chance are not believed."""
    value = sum(values) / len(values)
    reach = t_of(level, len(values) - 1) * sqrt(_variance(values, least_variance))
    return Estimate(value, value - reach, value + reach)


def welch(
    a: Sequence[float], b: Sequence[float], level: float = LEVEL, least_variances: Tuple[float, float] = (0.0, 0.0)
) -> Estimate:
    """mean(b) - mean(a) of at least two runs each, whose variation may differ."""
    value = sum(b) / len(b) - sum(a) / len(a)
    of_a, of_b = _variance(a, least_variances[0]), _variance(b, least_variances[1])
    if not of_a + of_b:
        return Estimate(value, value, value)
    freedom = (of_a + of_b) ** 2 / (of_a**2 / (len(a) - 1) + of_b**2 / (len(b) - 1))
    reach = t_of(level, freedom) * sqrt(of_a + of_b)
    return Estimate(value, value - reach, value + reach)


def ratio_of(a: float, b: float, difference_at: Callable[[float], Estimate]) -> Estimate:
    """b / a (both > 0, or b 0) and its interval. `difference_at(factor)`: b - factor * a. `high` may be infinite: a may be 0."""
    value = b / a

    def end(side: int) -> float:
        """Where the interval's lower (1) or upper (2) end is 0: it falls as the factor grows."""
        inside, outside = value, value
        for _ in range(40):
            outside = outside / 2 if side == 1 else outside * 2 + 1e-9
            if (difference_at(outside)[side] > 0) == (side == 1):
                break
            inside = outside
        else:
            return 0.0 if side == 1 else inf
        for _ in range(30):
            middle = (inside + outside) / 2
            if (difference_at(middle)[side] > 0) == (side == 1):
                outside = middle
            else:
                inside = middle
        return outside

    at = difference_at(value)
    return Estimate(value, value, value) if at.low == at.high else Estimate(value, end(1) if value else 0.0, end(2))


def at_once(level: float, number: int) -> float:
    """The level of each of `number` intervals such that all hold together at `level` (Bonferroni)."""
    return 1 - (1 - level) / max(1, number)


def _variance(values: Sequence[float], least: float) -> float:
    """Of the mean, estimated from the values."""
    middle = sum(values) / len(values)
    return max(sum((value - middle) ** 2 for value in values) / (len(values) - 1), least) / len(values)


@lru_cache(maxsize=64)
def z_of(level: float) -> float:
    """How many standard deviations around the mean hold a share `level` of a normal distribution."""
    if level == LEVEL:
        return _Z
    from statistics import NormalDist

    return NormalDist().inv_cdf((1 + level) / 2)


def t_of(level: float, freedom: float) -> float:
    """The same of Student's t distribution. Degrees of freedom need not be whole; they are rounded down to tenths."""
    return _t_of(level, int(10 * min(max(freedom, 1.0), _MOST_FREEDOM)) / 10)


@lru_cache(maxsize=1024)
def _t_of(level: float, freedom: float) -> float:
    # With t = sqrt(freedom) / tan(angle), the probability of a larger |t| is the integral of sin^(freedom - 1) from 0 to the
    # angle, as a part of that to pi / 2 (Abramowitz and Stegun 1964, 26.7.1 and 6.2.1).
    whole = sqrt(pi) / 2 * exp(lgamma(freedom / 2) - lgamma((freedom + 1) / 2))
    low, high = 0.0, pi / 2
    for _ in range(50):
        angle = (low + high) / 2
        low, high = (low, angle) if _integral(angle, freedom - 1) > (1 - level) * whole else (angle, high)
    return sqrt(freedom) / tan(high)


def _integral(end: float, power: float, steps: int = 100) -> float:
    """Of sin^power from 0, by Simpson's rule."""
    step = end / (2 * steps)
    heights: list[float] = [sin(i * step) ** power for i in range(2 * steps + 1)]
    return step / 3 * (heights[0] + 4 * sum(heights[1::2]) + 2 * sum(heights[2:-1:2]) + heights[-1])
