"""Samples taken of simulated programs as spprof takes them, and whether the intervals of spprof hold what is known to be true.

A program is a list of (state, ns) on the thread's clock. A tick's sample has the state of that instant and weighs the time since
the sample before, so lost ticks fall to the next one; periods are drawn within 20 % of the interval for a group of ticks at a
time."""

import random
from collections import Counter

from spprof.model import intervals

MS = 1_000_000


def turns(rng, whole_ns, shares, shortest=0.5 * MS, longest=20 * MS):
    """Functions in turn, each for a while that is drawn each time and is as long as its share."""
    program, used = [], 0
    while used < whole_ns:
        for state, share in shares.items():
            program.append((state, int(rng.uniform(shortest, longest) * share * len(shares))))
            used += program[-1][1]
    return program


def loop(rng, whole_ns):
    """A loop of exactly 2 ms, in step with 1 kHz: 0.6 ms of one thing, 1.4 ms of another."""
    return [("early", 600_000), ("late", 1_400_000)] * (whole_ns // (2 * MS))


def phases(rng, whole_ns):
    """Few long phases: what is sampled does not change from sample to sample, so it is known better than the number says."""
    return turns(rng, whole_ns, {"a": 0.6, "b": 0.3, "c": 0.1}, 200 * MS, 900 * MS)


def sampled(rng, program, interval=MS, group=15, lost=0.0, merged=(), standing=()):
    """(state, weight, ticks) of each sample. Ticks within a state of `merged` (a long system call) give one sample at its end; a
    state of `standing` is walked once and repeated by each further tick, up to 80 ms."""
    samples, begin, last, due = [], 0, 0, rng.randrange(interval)
    left = period = 0
    for state, length in program:
        end, within = begin + length, []
        while due < end:
            if rng.random() >= lost:
                within.append(due)
            if left == 0:
                left, period = group, int(interval * rng.uniform(0.8, 1.2))
            due += period
            left -= 1
        if within and state in merged:
            within = [end]
        if within and state in standing:
            for first in range(0, len(within), 80):
                part = within[first : first + 80]
                samples.append((state, part[-1] - last, len(part)))
                last = part[-1]
        else:
            for at in within:
                samples.append((state, at - last, 1))
                last = at
        begin = end
    return samples


def covered(samples, truth, rows_alone=False):
    """Of each state whether its share lies in the interval, and how wide that is. `rows_alone`: as if a sample of many ticks were
    one observation."""
    weights = [weight for _, weight, _ in samples]
    whole = intervals.whole(weights, [1] * len(samples) if rows_alone else [ticks for _, _, ticks in samples])
    result = []
    for state, share in truth.items():
        _, low, high = whole.share(sum(weight for one, weight, _ in samples if one == state))
        result.append((low <= share <= high, high - low))
    return result


def truth_of(program):
    """The share of each state."""
    took = Counter()
    for state, length in program:
        took[state] += length
    return {state: ns / sum(took.values()) for state, ns in took.items()}


def independent(rng, n, heavy):
    """What the interval assumes: samples that know nothing of each other, with weights that vary (heavy: by a lot)."""
    states = rng.choices("abcd", (0.6, 0.3, 0.09, 0.01), k=n)
    return [(state, int(rng.expovariate(1) * MS) if heavy else MS, 1) for state in states]


def scenarios(seed, runs, whole_ns=1000 * MS):
    """Name -> (intervals that hold, intervals, mean width)."""
    rng = random.Random(seed)
    mixed, rare = {"a": 0.6, "b": 0.3, "c": 0.1}, {"a": 0.98, "b": 0.02}
    waits = {"work": 0.3, "wait": 0.5, "other": 0.2}
    assumed = dict(zip("abcd", (0.6, 0.3, 0.09, 0.01)))
    cases = {
        "independent samples": (lambda: (None, independent(rng, 1000, False)), False),
        "independent samples, weights exponential": (lambda: (None, independent(rng, 1000, True)), False),
        "functions in turn, 0.1 to 36 ms": (lambda: taken(turns(rng, whole_ns, mixed)), False),
        "functions in turn, 10 to 400 us": (lambda: taken(turns(rng, whole_ns, mixed, 0.02 * MS, 0.22 * MS)), False),
        "one of 2 % beside one of 98 %": (lambda: taken(turns(rng, whole_ns, rare, 0.1 * MS, 2 * MS)), False),
        "10 % of ticks lost": (lambda: taken(turns(rng, whole_ns, mixed), lost=0.1), False),
        "calls whose ticks are merged": (lambda: taken(turns(rng, whole_ns, waits), merged=("wait",)), False),
        "long phases": (lambda: taken(phases(rng, 10 * whole_ns)), False),
        "in step: a loop of 2 ms at 1 kHz": (lambda: taken(loop(rng, whole_ns)), False),
        "waits (wall), a tick an observation": (lambda: taken(standing(), standing=("wait",)), False),
        "waits (wall), a wait an observation": (lambda: taken(standing(), standing=("wait",)), True),
    }

    def standing():
        return turns(rng, whole_ns, waits, MS, 100 * MS)

    def taken(program, **how):
        return truth_of(program), sampled(rng, program, **how)

    result = {}
    for name, (case, rows_alone) in cases.items():
        found = []
        for _ in range(runs):
            truth, samples = case()
            found += covered(samples, truth or assumed, rows_alone)
        result[name] = (sum(held for held, _ in found), len(found), sum(width for _, width in found) / len(found))
    return result


def equal_programs(seed, diffs, functions=1000, samples=5000, runs=1, changed=0.0):
    """Two programs that are the same, `functions` of them with shares as 1/rank, `runs` a side: in how many comparisons any
    function is reported to differ, with all comparisons counted and (as it must not be done) each alone. With several runs, each
    run's shares differ from the program's by 10 %. With `changed` the third function has that share more in B, and only it
    counts."""
    rng = random.Random(seed)
    shares = [1 / rank for rank in range(1, functions + 1)]
    shares = [share / sum(shares) for share in shares]
    differing = {"counted": 0, "alone": 0}
    for _ in range(diffs):
        sides = []
        for side in range(2):
            sides.append([])
            for _ in range(runs):
                these = [share * (rng.lognormvariate(0, 0.1) if runs > 1 else 1) for share in shares]
                these[2] += changed * side
                sides[-1].append(Counter(rng.choices(range(functions), these, k=samples)))
        every = sum(sides[0] + sides[1], Counter())
        compared = [one for one, count in every.items() if count >= 0.005 * 2 * runs * samples]  # comparison.MIN_SHARE
        for way, level in (("counted", intervals.at_once(0.95, len(compared))), ("alone", 0.95)):
            seen = [2] if changed else compared
            differing[way] += any(_differs([[run[one] for run in side] for side in sides], samples, level) for one in seen)
    return differing


def _differs(counts, samples, level):
    whole = intervals.Whole(samples, samples, samples)
    if len(counts[0]) == 1:
        change = intervals.difference(*(whole.share(side[0], level) for side in counts))
    else:
        least = [sum(((e.high - e.low) / 3.92) ** 2 for e in map(whole.share, side)) / len(side) for side in counts]
        change = intervals.welch(*([count / samples for count in side] for side in counts), level, tuple(least))
    return not change.low <= 0 <= change.high
