"""Shares of programs that know the truth (targets/turns.py), by clock and rate: is each within its 99 % binomial interval?"""

import functools
import itertools
import json
import re
import statistics
from math import copysign, exp, floor, lgamma, log, sqrt
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Tuple

from . import child, figures
from .goals import Options, Row
from .intervals import within
from .pythons import ROOT, as_nobody

TURNS, LEAVES = child.TARGETS / "turns.py", child.TARGETS / "leaves.py"
CLOCKS = ("perf-trap", "perf", "perf-user", "timer", "signal")
WITHOUT_PERF = ("timer", "signal")  # and to these the kernel refuses perf events
HIDDEN_MOST = {"a": 0.2, "r": 0.05}  # they fall into `a` and `b` alike, but all of them would be missing in the rest
How = Tuple[str, int, str]  # clock, rate, mode
Z99 = statistics.NormalDist().inv_cdf(0.995)


class Case(NamedTuple):
    """One share of one thread of one run: `a` of `a` and `b`, or the rest of all. So many fair samples would show between `low`
    and `high` in 99 % of cases; the `doubt` that the program has of its own truth is in it. `held`: whether spprof's own
    interval, so widened, holds the truth."""

    program: str
    share: str
    truth: float
    seen: float
    samples: int
    low: float
    high: float
    doubt: float
    held: bool
    judged: bool  # not if the thread was kept from the processor so often and so shortly that it cannot measure its own time

    @property
    def inside(self) -> bool:
        return self.samples > 0 and self.low <= self.seen <= self.high

    @property
    def bias(self) -> float:
        """In points, beyond the doubt."""
        off = self.seen - self.truth
        return copysign(100 * max(0.0, abs(off) - self.doubt), off) if self.samples else float("nan")


def prefix(options: Options) -> List[str]:
    """What each program is run under: `--around`, and with `--as-nobody` setpriv(1)."""
    return [*options.around, *(as_nobody(options.python.path) if options.as_nobody else ())]


def command(options: Options, clock: str, rate: int, file: Path, *program: str, mode: str = "cpu") -> List[str]:
    """`spprof run` of a program. Only clocks that need perf events get them: the kernel refuses them to the others."""
    how = ("--mode", mode, "--clock", clock, "--rate", str(rate), "-f", "spprof", "-o", str(file))
    run = options.python.spprof("run", "-q", *how, *program)
    refused = [options.python.path, str(ROOT / "tests/refused.py"), "perf_event_open"] if clock in WITHOUT_PERF else []
    return [*prefix(options), *refused, *run]


def plain(options: Options, *program: str) -> List[str]:
    """The same without a profiler."""
    return [*prefix(options), options.python.path, *program]


def able(options: Options) -> Tuple[List[str], List[Row]]:
    """The clocks that were asked for and exist here, and a row for each that cannot."""
    found, missing = [], []
    with child.folder() as folder:
        for clock in options.clocks or CLOCKS:
            tried = child.run(command(options, clock, 1000, folder / "p.spprof", "-c", "pass"), may_fail=True)
            if tried.status == 0:
                found.append(clock)
            else:
                why = (tried.stderr.strip().splitlines() or ["?"])[-1]
                missing.append(Row(f"clock {clock}{options.where}", f"not here: {why}", None))
    if not found:
        raise child.Failed("; ".join(f"{row.goal}: {row.measured}" for row in missing))
    return found, missing


def names(options: Options, pattern: str = "") -> List[str]:
    """Of the programs those that were asked for, or whose names have the pattern."""
    known: List[str] = list(child.ask([options.python.path, TURNS, "list"]))
    return [name for name in known if re.search(options.programs or pattern, name)]


def measure(options: Options, name: str, clock: str, rate: int, seconds: float, mode: str = "cpu") -> List[Dict[str, Any]]:
    """One run of a program: of each of its threads what it says itself, with `seen`: what the profile says."""
    with child.folder() as folder:
        file = folder / "out.spprof"
        run = child.run(command(options, clock, rate, file, str(TURNS), name, str(seconds), str(rate), mode, mode=mode))
        given = child.ask([options.python.path, LEAVES, file, json.dumps(run.says["threads"])])
    if given["clock"] != clock or given["warning"]:
        raise child.Failed(f"{name}: clock {given['clock']} for {clock}, {given['warning']}")
    return [{**one, "seen": given["threads"][str(one["tid"])], "tick_stats": given["tick_stats"]} for one in run.says["threads"]]


def alone(options: Options, name: str, rate: int, seconds: float) -> List[Dict[str, Any]]:
    """What a program says of itself where nobody looks; `rate` is that of programs in step with ours."""
    run = child.run(plain(options, str(TURNS), name, str(min(2, seconds)), str(rate)))
    threads: List[Dict[str, Any]] = run.says["threads"]
    return threads


def limits(truth: float, samples: int) -> Tuple[float, float]:
    """The shares that fair samples of this number show in 99 % of cases."""
    if not samples or not 0 < truth < 1:
        return truth, truth
    mean, deviation = samples * truth, sqrt(samples * truth * (1 - truth))
    if deviation > 7:
        return (mean - Z99 * deviation) / samples, (mean + Z99 * deviation) / samples
    low, below, ways = None, 0.0, lgamma(samples + 1)
    k = max(0, floor(mean - 12 * deviation - 12))
    while True:
        odds = ways - lgamma(k + 1) - lgamma(samples - k + 1) + k * log(truth) + (samples - k) * log(1 - truth)
        below += exp(odds)
        if low is None and below > 0.005:
            low = k
        if below >= 0.995 or k >= samples:
            return (low or 0) / samples, k / samples
        k += 1


def cases(name: str, threads: List[Dict[str, Any]], unwatched: Callable[[], List[Dict[str, Any]]]) -> Iterator[Case]:
    """What is to be judged of a run.

    What a profiler adds to a call or a nap is CPU time of the thread, but no tick can fall into much of it: perf events stop
    while the kernel switches them. So the truth of the rest is between what it is with the profiler and what it is without, which
    `unwatched` finds out."""
    for i, one in enumerate(threads):
        which = f" of thread {i + 1}" if len(threads) > 1 else ""
        turns, unseen = one["a_ns"] + one["b_ns"], _unseen(one)
        hidden = hidden_share(one)
        yield _case(name, f"a{which}", (one["a_ns"] + unseen / 2) / (turns + unseen), one["seen"]["a"], 0.0, hidden)
        if one["between"]:
            without = unwatched()[0]
            rest, before, hidden = _rest(one), _rest(without), max(hidden, hidden_share(without))
            middle = (rest + before) / 2
            doubt = abs(rest - middle) + unseen / one["cpu_ns"] + hidden
            yield _case(name, "rest", middle, one["seen"]["rest"], doubt, hidden)


def _unseen(one: Dict[str, Any]) -> float:
    """Of the call and the return of its turns half is in them."""
    return float(one["turns"] * one["overhead_ns"] / 2)


def hidden_share(one: Dict[str, Any]) -> float:
    """Short stays off the processor, which look like work, as a part of its CPU time. There were so many, each no longer than
    GAP_NS of turns.py. A thread that reads its CPU clock has none."""
    if one["by_cpu"]:
        return 0.0
    return float(min(100_000 * one["switches"], max(0, one["waited_ns"] - one["away_ns"])) / one["cpu_ns"])


def _rest(one: Dict[str, Any]) -> float:
    """Share of a thread's CPU time that is not in `a` or `b`."""
    return float(max(0.0, 1 - (one["a_ns"] + one["b_ns"] + _unseen(one)) / one["cpu_ns"]))


def wall_cases(name: str, threads: List[Dict[str, Any]]) -> Iterator[Case]:
    """The same for wall mode, where a nap takes what the program says, profiled or not. Nobody can look at a thread that waits
    for a processor, and that time goes to its next sample: so long its truth is in doubt."""
    for i, one in enumerate(threads):
        which = f" of thread {i + 1}" if len(threads) > 1 else ""
        turns, whole, unseen = one["a_ns"] + one["b_ns"], one["ended_ns"] - one["began_ns"], _unseen(one)
        a, rest = ({**one["seen"][key], "samples": round(one["seen"][key]["effective"])} for key in ("a", "rest"))
        waited = one["waited_ns"] / (turns + unseen)
        yield _case(name, f"a{which}", (one["a_ns"] + unseen / 2) / (turns + unseen), a, waited, waited)
        if one["between"]:
            waited = one["waited_ns"] / whole
            yield _case(name, "rest", max(0.0, 1 - (turns + unseen) / whole), rest, waited + unseen / whole, waited)


def _case(name: str, share: str, truth: float, seen: Dict[str, Any], doubt: float, hidden: float) -> Case:
    low, high = limits(truth, seen["samples"])
    held = seen["interval"][0] - doubt <= truth <= seen["interval"][1] + doubt
    return Case(
        name, share, truth, seen["seen"], seen["samples"], low - doubt, high + doubt, doubt, held, hidden <= HIDDEN_MOST[share[0]]
    )


def line(case: Case) -> str:
    """A case as a line of the table that is printed while the bench runs."""
    verdict = "not judged, the machine is busy" if not case.judged else "inside" if case.inside else "OUTSIDE"
    return (
        f"{case.program:62} {case.share:14} truth {case.truth:.4f} +- {case.doubt:.4f} seen {case.seen:.4f}"
        f" {case.samples:7,} samples  {verdict:7} {case.bias:+6.2f} points"
    )


def shares(options: Options) -> List[Row]:
    """Shares of some 50 programs that know the truth, by clock (perf refused to those that do not need it), rate and mode."""
    child.WORK.mkdir(parents=True, exist_ok=True)
    seconds, rounds = options.seconds or (2.0 if options.quick else 10.0), options.rounds or 1
    clocks, missing = able(options)
    done: Dict[How, List[Case]] = {how: [] for how in itertools.product(clocks, options.rates, options.modes)}
    broken: Dict[How, List[str]] = {how: [] for how in done}
    for name in names(options):
        unwatched = {
            rate: functools.lru_cache(None)(functools.partial(alone, options, name, rate, seconds)) for rate in options.rates
        }
        for _ in range(rounds):
            for how in done:
                clock, rate, mode = how
                try:
                    run = measure(options, name, clock, rate, seconds, mode)
                    found = list(wall_cases(name, run) if mode == "wall" else cases(name, run, unwatched[rate]))
                except child.Failed as error:
                    broken[how].append(name)
                    options.note(str(error))
                    continue
                for case in found:
                    options.note(f"{clock:9} {rate:6} {mode:4} {line(case)}")
                done[how] += found
    rows = [row for how, found in done.items() for row in _rows(_title(options, *how), found)]
    rows += [
        Row(f"{_title(options, *how)}: every program runs to its end", ", ".join(b), False) for how, b in broken.items() if b
    ]
    return rows + missing


def _title(options: Options, clock: str, rate: int, mode: str) -> str:
    return f"{clock}, {rate:,} Hz{', wall mode' if mode == 'wall' else ''}{options.where}"


def _rows(title: str, all_cases: List[Case]) -> Iterator[Row]:
    found = [case for case in all_cases if case.judged]
    of, busy = len(found), len(all_cases) - len(found)
    if busy:
        yield Row(
            f"{title}: cases that can be judged", f"{of} of {len(all_cases)}; for the others the machine was too busy", None
        )
    if not found:
        return
    inside = sum(case.inside for case in found)
    outside = sorted({f"{case.program} ({case.share})" for case in found if not case.inside})
    share = figures.proportion(inside, of)
    yield Row(
        f"{title}: shares within their 99 % binomial interval in >= 97 % of cases",
        share.text() + (f"; not: {'; '.join(outside)}" if outside else ""),
        share.at_least(0.97),
        {"cases": [case._asdict() for case in found]},
    )
    # Of all rounds and threads of a program together. Of few samples a point is chance.
    pooled = []
    together: Dict[Tuple[str, str], List[Case]] = {}
    for case in found:
        together.setdefault((case.program, case.share.partition(" of ")[0]), []).append(case)
    for key, all in together.items():
        if some := [case for case in all if case.samples]:
            bias = sum(case.bias for case in some) / len(some)
            reach = 100 * sqrt(sum((case.high - case.low) ** 2 for case in some)) / 2 / len(some)
            pooled.append((abs(bias), abs(bias) > reach, bias, key))
    sure = [one for one in pooled if one[1]]
    worst = max(pooled, default=(0.0, False, 0.0, ("none", "")))
    given = f"largest {worst[2]:+.2f} points ({worst[3][0]}, {worst[3][1]}{'' if worst[1] else ', which may be chance'})"
    beyond = sum(one[0] > 1 for one in sure)
    yield Row(
        f"{title}: no bias above 1 point", f"{given}; above 1 point and not by chance: {beyond} of {len(pooled)}", not beyond
    )
    held = sum(case.held for case in found)
    yield Row(
        f"{title}: spprof's own 95 % intervals hold the truth in at least 95 % of cases",
        f"{held / of:.3f} ({held} of {of})",
        within(held, of),
    )
