"""Intervals: against published tables, and against simulated programs whose shares are known."""

from __future__ import annotations

import random
import sys
from math import comb, sqrt
from pathlib import Path

import pytest
from spprof_file import Writer

from spprof import Profile
from spprof.model import intervals
from spprof.model.intervals import Estimate, Whole

TARGETS = Path(__file__).resolve().parents[2] / "bench" / "targets"


@pytest.mark.parametrize(
    "part, whole, low, high",
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718), (20, 20, 0.8389, 1.0)],
)
def test_shares_of_newcombes_table(part, whole, low, high):
    """Newcombe 1998, Statistics in Medicine 17, 857-872, table I, method 3."""
    assert intervals.share(part, whole, whole) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(
    "one, other, low, high",
    [((56, 70), (48, 80), 0.0524, 0.3339), ((9, 10), (3, 10), 0.1705, 0.8090), ((5, 56), (0, 29), -0.0381, 0.1926),
     ((10, 10), (0, 10), 0.6075, 1.0), ((10, 10), (0, 20), 0.6791, 1.0)],
)  # fmt: skip
def test_differences_of_newcombes_table(one, other, low, high):
    """Newcombe 1998, Statistics in Medicine 17, 873-890, table II, method 10."""
    b, a = (Estimate(part / whole, *intervals.share(part, whole, whole)) for part, whole in (one, other))
    assert intervals.difference(a, b)[1:] == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(
    "level, freedom, t",
    [(0.95, 1, 12.7062), (0.95, 2, 4.30265), (0.95, 4, 2.77645), (0.95, 10, 2.22814), (0.95, 30, 2.04227), (0.99, 7, 3.49948),
     (0.999, 3, 12.92398), (0.99, 120, 2.61742)],
)  # fmt: skip
def test_t_of_the_tables(level, freedom, t):
    assert intervals.t_of(level, freedom) == pytest.approx(t, abs=1e-5)
    assert intervals.t_of(level, freedom + 0.5) < t  # parts of a degree count


def test_z():
    assert intervals.z_of(0.95) == pytest.approx(1.959964, abs=1e-6) and intervals.z_of(0.99) == pytest.approx(2.575829, abs=1e-6)
    assert intervals.at_once(0.95, 50) == pytest.approx(0.999) and intervals.at_once(0.95, 0) == 0.95


def test_several_runs_by_hand():
    """Means 2 and 5; variances of the means 1/3 and 5/3; Welch's degrees of freedom 4.0755, of which 4.0 are counted."""
    value, low, high = intervals.welch([1, 2, 3], [2, 4, 6, 8])
    assert (value, high - value) == pytest.approx((3, 2.776445 * sqrt(2)), abs=1e-5) and low == pytest.approx(6 - high)
    assert intervals.mean([1, 2, 3]) == pytest.approx((2, 2 - 4.302653 / sqrt(3), 2 + 4.302653 / sqrt(3)), abs=1e-5)
    assert intervals.welch([1, 1], [2, 2]) == (1, 1, 1)
    # Runs that agree by chance: sampling is known to vary by more.
    assert intervals.mean([1, 1, 1], least_variance=3.0).high == pytest.approx(1 + 4.302653, abs=1e-5)
    assert intervals.welch([1, 1], [2, 2], least_variances=(1.0, 1.0)).high == pytest.approx(2 + 3.302653, abs=1e-5)


def test_the_old_name_of_an_interval(data):
    profile = Profile(data)
    with pytest.warns(DeprecationWarning, match="confidence_interval"):
        assert profile.interval(3_500_000) == profile.confidence_interval(3_500_000)


def test_effective_samples():
    """(sum w)^2 / sum w^2: a few heavy samples say little; ticks of a waiting thread are samples of even weight."""
    assert intervals.whole([5, 5, 5, 5], [1] * 4).samples == 4
    assert intervals.whole([7, 1, 1, 1], [1] * 4).samples == pytest.approx(100 / 52)
    assert intervals.whole([70, 10, 10, 10], [7, 1, 1, 1]).samples == 10
    assert intervals.together([Whole(10, 2, 50), Whole(5, 1, 25)]) == Whole(15, 3, 75)


def test_nothing_is_known_without_samples():
    assert intervals.share(0, 0, 0) == (0, 1) == intervals.whole([], []).share(0)[1:]
    assert intervals.whole([0], [1]).share(0) == (0, 0, 1)


def test_interval_of_a_profile(data):
    """4811 us in samples of 100, 200, 1000, 1, 3000, 10 and seven ticks of 500 us."""
    squares = 100**2 + 200**2 + 1000**2 + 1 + 3000**2 + 10**2 + 500**2 / 7
    profile = Profile(data)
    assert profile.whole().samples == pytest.approx(4811**2 / squares)
    n, z = 4811**2 / squares, 1.959964

    def end(us, side):
        p = us / 4811
        reach = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return (p + z * z / (2 * n) + side * reach) / (1 + z * z / n)

    # 1000 us are the kernel's, sampled by its tick: all of them are this function's, or none.
    assert profile.confidence_interval(3_500_000) == pytest.approx((end(2500, -1), end(4500, 1)), abs=1e-6)
    assert profile.whole().unknown_weight == 1_000_000
    assert profile.whole(thread="71").samples == pytest.approx(501**2 / (1 + 500**2 / 7))
    assert profile.confidence_interval(501_000, thread="71")[1] == 1.0


# ---- samples that were taken at no random instant


def of_flags(flags, **header):
    """A profile of samples of 1 ms in turn by `a` and `b`, with these flags."""
    writer = Writer(**header)
    for at, flag in enumerate(flags):
        writer.sample([("ab"[at % 2], "ab"[at % 2], "/app/x.py", 1, 1)], 6000 + 1000 * at, 1000, flags=flag)
    writer.flush()
    return Profile(writer.data)


@pytest.mark.parametrize(
    "flags, clock, unknown",
    [([0] * 100, "perf", 0), ([0] * 90 + [2] * 10, "perf-user", 10), ([0] * 60 + [32] * 40, "perf", 40),
     ([32] * 100, "timer", 100), ([32] * 50 + [4] * 50, "timer", 50),
     # Older files: the clock says it.
     ([0] * 100, "timer", 100), ([1] * 50 + [4] * 50, "timer", 50), ([0] * 100, "gil", 100)],
)  # fmt: skip
def test_what_is_unknown(flags, clock, unknown):
    """Kernel time and coarse samples, but what a waiting thread waited."""
    profile = of_flags(flags, clock=clock)
    assert profile.whole().unknown_weight == unknown * 1_000_000
    assert profile.whole("Thread*").unknown_weight == unknown * 1_000_000
    assert intervals.together([profile.whole()] * 2).unknown_share == unknown / 100


def test_the_worst_case():
    """Both ends are those of the share that it would be if all, or none, of the unknown time were its own."""
    whole = Whole(1000, 1000, 1000.0, 100)
    assert whole.share(300)[1:] == (intervals.share(200, 1000, 1000)[0], intervals.share(400, 1000, 1000)[1])
    assert whole.share(50).low == 0 and whole.share(950).high == 1
    assert whole.is_known and Whole(1000, 1000, 1000.0, 500).is_known and not Whole(1000, 1000, 1000.0, 501).is_known
    assert Whole(1000, 1000, 1000.0, 1000).share(0)[1:] == (0, 1) == Whole(1000, 1000, 1000.0, 1000).share(1000)[1:]


def test_coverage_where_some_samples_are_in_step():
    """Fixed seed. A tenth of 1000 ticks are the kernel's: all, half or none are shown as the function's, and so is the truth."""
    draw, held, runs, plain = random.Random(5), 0, 400, 0
    for run in range(runs):
        own, true, seen = 0.02 if run % 2 else 0.3, (0, 0.05, 0.1)[run % 3], (0, 50, 100)[run // 3 % 3]
        kernel = sum(draw.random() < 0.1 for _ in range(1000))
        part = sum(draw.random() < own / 0.9 for _ in range(1000 - kernel)) + min(seen, kernel)
        whole = Whole(1000, 1000, 1000.0, kernel)
        held += whole.share(part).low <= own + true <= whole.share(part).high
        plain += whole.sampled(part).low <= own + true <= whole.sampled(part).high
    assert tail(held, runs) > 0.001
    assert plain < 0.7 * runs


def tail(held, of, level=0.95):
    """Probability that at most so many intervals hold, if each does with probability `level`."""
    return sum(comb(of, k) * level**k * (1 - level) ** (of - k) for k in range(held + 1))


@pytest.fixture(scope="module")
def simulated():
    sys.path.insert(0, str(TARGETS))
    try:
        import simulated
    finally:
        sys.path.remove(str(TARGETS))
    return simulated


def test_coverage_of_simulated_programs(simulated):
    """Fixed seed. At least 95 % where programs are sampled; just 95 % where samples are as independent as the theory has them
    (checked to 1 in 1000 on either side)."""
    found = simulated.scenarios(seed=1, runs=40)
    for name, (held, of, _) in found.items():
        assert tail(held, of) > 0.001, f"{name}: {held} of {of}"
        if name.startswith("independent"):
            assert 1 - tail(held - 1, of) > 0.001, f"{name}: {held} of {of}: wider than it has to be"
    # A wait that counts as one observation, however long it was: five times as wide, and no surer.
    ticks, rows = (found[f"waits (wall), a {what} an observation"] for what in ("tick", "wait"))
    assert rows[2] > 3 * ticks[2] and ticks[0] == ticks[1]


def test_equal_programs_are_not_reported_to_differ(simulated):
    """Fixed seed. Without counting the comparisons most diffs of equal programs would mark something."""
    one, several = (simulated.equal_programs(seed=3, diffs=40, runs=runs) for runs in (1, 3))
    for reported in one, several:
        assert tail(40 - reported["counted"], 40) > 0.001, reported
    assert one["alone"] > 20
    assert simulated.equal_programs(seed=4, diffs=40, changed=0.03)["counted"] > 36


def test_a_part_of_few_big_samples_is_as_sure_as_these():
    """A thousand samples of 1 ms, one in ten of them the part's; then three of 60 ms, all its own."""
    weights, own = [1] * 1000 + [60] * 3, [1] * 100 + [60] * 3
    whole, part = intervals.whole(weights, [1] * len(weights)), intervals.whole(own, [1] * len(own))
    p = 280 / 1180
    expected = p * (1 - p) * 1180**2 / ((1 - p) ** 2 * (100 + 3 * 3600) + p**2 * 900)
    assert whole.samples_of(280, part.squares) == pytest.approx(expected) and 39 < expected < 40
    # The others have none of these, but nobody knows that it was no chance.
    assert whole.samples_of(900, 900.0) == pytest.approx(expected)  # all the rest: as sure as the part
    assert whole.samples_of(100, 100.0) == whole.samples == pytest.approx(1180**2 / 11800)
    low, high = whole.share(280, squares=part.squares)[1:]
    assert (low, high) == pytest.approx(intervals.share(280, 1180, expected))


@pytest.mark.parametrize("part", [0, 1, 500, 999, 1000])
def test_a_part_whose_samples_weigh_what_all_do_is_as_sure_as_all(part):
    whole = intervals.whole([1] * 1000, [1] * 1000)
    assert whole.samples_of(part, float(part)) == pytest.approx(1000)
    assert whole.share(part, squares=float(part)) == pytest.approx(whole.share(part))


def test_what_one_sample_says_is_hardly_anything():
    """One processor, SCHED_FIFO: the sampler ran once. 0.95 s in one sample, fifty of 1 ms before."""
    weights = [1] * 50 + [950]
    whole = intervals.whole(weights, [1] * len(weights))
    assert whole.samples < 1.2
    low, high = whole.share(950, squares=950.0**2)[1:]
    assert low < 0.25 and high > 0.99
