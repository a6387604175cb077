"""Samples taken of those that CPU clocks promise, and sums of weights beside these clocks, by clock and rate."""

import re
from collections import Counter
from math import sqrt
from typing import Any, Dict, Iterator, List, Tuple

from . import child, figures, shares
from .goals import Options, Row

KINDS = (
    ("a busy thread", 0.99, ["turns 0.7+0.3 ms"]),
    ("eight threads on two processors", 0.97, ["eight threads without the GIL, 2.8+1.2 ms, drawn"]),
    (
        "threads that nap",
        0.95,
        [
            "turns 70+30 us, sleep 50 us",
            "turns 20+180 us, sleep 200 us",
            "turns 0.7+0.3 ms, sleep 1 ms",
            "turns 7+3 ms, sleep 10 ms",
        ],
    ),
)
Threads = List[Dict[str, Any]]


def ticks(options: Options) -> List[Row]:
    """Samples taken of those expected, and CPU seconds, of busy threads and such that nap, by clock and rate."""
    child.WORK.mkdir(parents=True, exist_ok=True)
    seconds, rounds = options.seconds or (2.0 if options.quick else 10.0), options.rounds or (1 if options.quick else 6)
    clocks, missing = shares.able(options)
    kinds = [(kind, goal, [name for name in names if re.search(options.programs, name)]) for kind, goal, names in KINDS]
    kinds = [one for one in kinds if one[2]]
    hows = [(clock, rate) for clock in clocks for rate in options.rates]
    done: Dict[Tuple[str, int, str], List[Threads]] = {}
    for i in range(rounds):
        for _, _, names in kinds:
            for name in names:
                for clock, rate in hows if i % 2 == 0 else hows[::-1]:
                    run = shares.measure(options, name, clock, rate, seconds)
                    done.setdefault((clock, rate, name), []).append(run)
                    output = f"{_taken(run, rate):.4f} of the samples, most of a thread {_most(run, rate):.4f}, {_lost([run])}"
                    options.note(f"{clock:9} {rate:6} {name:50} {output}")
    rows = []
    for clock, rate in hows:
        for kind, goal, names in kinds:
            title = f"{clock}, {rate:,} Hz{options.where}, {kind}"
            rows += _rows(title, rate, goal, {name: done[clock, rate, name] for name in names})
    return rows + missing


def _taken(run: Threads, rate: int) -> float:
    """Of those that the threads' clocks promise. More than these of one thread are no replacement for those of another."""
    expected = [one["cpu_ns"] * 1e-9 * rate for one in run]
    return sum(min(one["seen"]["samples"], n) for one, n in zip(run, expected)) / sum(expected)


def _most(run: Threads, rate: int) -> float:
    """The most samples of a thread for one that its clock promises."""
    return max(float(one["seen"]["samples"] / (one["cpu_ns"] * 1e-9 * rate)) for one in run)


def _weights(one: Dict[str, Any]) -> float:
    """CPU time of a thread as the profile has it, of what its clock says."""
    return float(sum(one["seen"]["weights_ns"].values()) / one["cpu_ns"])


def _lost(runs: List[Threads]) -> str:
    """The losses of the tick stats, as shares of the ticks expected."""
    expected = sum(run[0]["tick_stats"]["expected"] for run in runs)
    losses: Counter = Counter()
    for run in runs:
        losses.update(run[0]["tick_stats"]["losses"])
    output = [f"{reason} {n / expected:.2%}" for reason, n in losses.most_common(3) if n]
    return "lost: " + (", ".join(output) or "none")


def _rows(title: str, rate: int, goal: float, runs: Dict[str, List[Threads]]) -> Iterator[Row]:
    for name, some in runs.items():
        taken, most = figures.median([_taken(run, rate) for run in some]), max(_most(run, rate) for run in some)
        yield Row(
            f"{title} ({name}): samples / expected >= {goal}",
            f"{taken.text('{:.4f}')}; most of a thread {most:.4f}; {_lost(some)}",
            taken.at_least(goal),
            {"figure": taken.json(), "runs": some},
        )
    each = [_weights(one) for some in runs.values() for run in some for one in run]
    whole = figures.median(each)
    worst = max(each, key=lambda one: abs(one - 1))
    yield Row(
        f"{title}: CPU seconds of each thread (sum of weights) within 1 % of time.thread_time",
        f"{whole.text('{:.4f}')} of it, the worst thread of a run {worst:.4f}",
        abs(worst - 1) <= 0.01,
    )
    for function in ("a", "b"):
        name, some = next(iter(runs.items()))
        ratios = [_of_function(run, function) for run in some]
        chance = 2.58 * sqrt(sum(one[1] ** 2 for one in ratios)) / len(ratios)
        mean = sum(one[0] for one in ratios) / len(ratios)
        busy = any(shares.hidden_share(run[0]) > 0.005 for run in some)  # it cannot measure its own time to 1 %
        yield Row(
            f"{title} ({name}): CPU seconds of {function} within 1 %, or what is chance",
            f"{mean:.4f} of its own, chance makes +-{chance:.4f}" + ("; not judged, the machine is busy" if busy else ""),
            None if busy else abs(mean - 1) <= max(0.01, chance),
        )


def _of_function(run: Threads, function: str) -> Tuple[float, float]:
    """CPU time of a function as the profile has it of what it says itself, and the deviation that is chance."""
    truth = sum(one[f"{function}_ns"] for one in run)
    share, samples = truth / sum(one["cpu_ns"] for one in run), sum(one["seen"]["samples"] for one in run)
    weight = sum(one["seen"]["weights_ns"][function] for one in run)
    return weight / truth, sqrt((1 - share) / share / max(1, samples))
