"""coverage.py simulated RUNS | real RUNS MODE: how often the 95 % intervals of spprof hold the truth, as JSON.

Real: many short profiles at 1 kHz of functions that time themselves. The truth of a run is the thread's CPU clock (wall mode: the
monotonic clock) read at every call and return; the truth of the program is the mean of all runs."""

import json
import random
import sys
import time

import simulated

import spprof
from spprof.model import intervals
from spprof.report.comparison import Comparison

NAMES = {"cpu": ("six", "three", "one", "little"), "wall": ("six", "three", "nap")}
draw = random.Random(11).randrange  # turns of changing length are in step with no clock
took = {}


def timed(now, function, n):
    begin = now()
    function(n)
    spent = now() - begin
    took[function.__name__] += spent


def work(units):
    for _ in range(units):
        sum(range(1000))


def six(n):
    work(6 * n)


def three(n):
    work(3 * n)


def one(n):
    work(n)


def little(n):
    work(max(1, n // 8))


def nap(n):
    time.sleep(n / 20000)


def run(mode, seconds):
    """Profile, and what each function took."""
    now = time.thread_time_ns if mode == "cpu" else time.monotonic_ns
    took.update(dict.fromkeys(NAMES[mode], 0))
    spprof.start(1.0, mode)
    end = now() + int(seconds * 1e9)
    while now() < end:
        n = draw(3, 30)
        for name in NAMES[mode]:
            timed(now, globals()[name], n)
    return spprof.stop(), dict(took)


def measured(profile, names):
    """Share of each function among them, and the whole that it is of."""
    weights, ticks, sums = [], [], dict.fromkeys(names, 0)
    for sample in profile:
        for name in {frame.name for frame in sample.frames} & set(names):
            sums[name] += sample.weight
            weights.append(sample.weight)
            ticks.append(sample.count)
    return sums, intervals.whole(weights, ticks)


def real(runs, mode):
    names = NAMES[mode]
    run(mode, 0.3)  # the first one finds new code
    profiles, tables, truths = [], [], []
    for _ in range(runs):
        profile, truth = run(mode, 0.6)
        profiles.append(profile)
        tables.append(measured(profile, names))
        truths.append([truth[name] / sum(truth.values()) for name in names])
    mean = [sum(each) / runs for each in zip(*truths)]
    held = {"own": 0, "program": 0, "three": 0, "pairs": 0, "triples": 0}
    width = 0.0
    shares = []
    for (sums, whole), truth in zip(tables, truths):
        shares.append([])
        for name, own, program in zip(names, truth, mean):
            value, low, high = whole.share(sums[name])
            shares[-1].append(value)
            held["own"] += low <= own <= high
            held["program"] += low <= program <= high
            width += (high - low) / runs / len(names)
    groups = [shares[i : i + 3] for i in range(0, runs - 2, 3)]
    for group in groups:
        for values, program in zip(zip(*group), mean):
            _, low, high = intervals.mean(values)
            held["three"] += low <= program <= high
    # Equal programs, beside each other as they came.
    pairs = list(zip(profiles[::2], profiles[1::2]))
    triples = [(profiles[i : i + 3], profiles[i + 3 : i + 6]) for i in range(0, runs - 5, 6)]
    held["pairs"] = sum(marked([a], [b]) for a, b in pairs)
    held["triples"] = sum(marked(a, b) for a, b in triples)
    number = runs * len(names)
    of = {"own": number, "program": number, "three": len(groups) * len(names), "pairs": len(pairs), "triples": len(triples)}
    spread = [sum((truth[i] - mean[i]) ** 2 for truth in truths) / (runs - 1) for i in range(len(names))]
    return {
        "held": held, "of": of, "width": width, "samples": sum(whole.samples for _, whole in tables) / runs,
        "spread": dict(zip(names, (variance**0.5 for variance in spread))), "mean": dict(zip(names, mean)),
    }  # fmt: skip


def marked(a, b):
    """Whether anything is reported to differ, of shares of self time."""
    return any(change.significant for _, change in Comparison(a, b).changes())


def simulate(runs):
    differing = {}
    for name, how in (
        ("one run each", {}),
        ("3 runs each", {"runs": 3}),
        ("5 runs each", {"runs": 5}),
        ("one run each, +3 points", {"changed": 0.03}),
        ("3 runs each, +3 points", {"runs": 3, "changed": 0.03}),
        ("5 runs each, +3 points", {"runs": 5, "changed": 0.03}),
    ):
        differing[name] = simulated.equal_programs(2, runs, **how)
    return {"scenarios": simulated.scenarios(1, 4 * runs), "diffs": differing, "of": runs}


if sys.argv[1] == "simulated":
    print(json.dumps(simulate(int(sys.argv[2]))))
else:
    print(json.dumps(real(int(sys.argv[2]), sys.argv[3])))
