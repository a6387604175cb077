"""Stacks that cannot exist, in programs whose call graph is fully known, on each interpreter."""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List

from . import chains, child, shares
from .goals import Options, Row
from .pythons import each

GRAPHS = child.TARGETS / "graphs.py"
PROGRAMS = ("chains", "recursion", "generators", "exceptions", "callbacks", "threads")
ROUNDS_MOST = 5


def _one(options: Options, program: str, cpu_seconds: float, clock: str) -> Dict[str, Any]:
    source = chains.write() if program == "chains" else GRAPHS
    words = [str(cpu_seconds)] if program == "chains" else [program, str(cpu_seconds)]
    with child.folder() as folder:
        file = folder / "graph.spprof"
        child.run(shares.command(options, clock, options.rate, file, str(source), *words))
        found = child.ask([options.python.path, child.TARGETS / "edges.py", file, source])
    if clock not in ("auto", found["clock"]):
        raise child.Failed(f"{program}: clock {found['clock']} for {clock}")
    return found


def _interpreter(options: Options, samples: int, clock: str, at_once: int) -> List[Dict[str, Any]]:
    """Rounds of all programs until enough samples are checked: some fall outside the graph or are lost, with some clocks many."""
    rounds: List[Dict[str, Any]] = []
    while len(rounds) < ROUNDS_MOST and _sum(rounds, "checked") < samples:
        left = samples - _sum(rounds, "checked")
        cpu_seconds = 1.2 * 2 ** len(rounds) * left / options.rate / len(PROGRAMS)
        with ThreadPoolExecutor(at_once) as pool:
            found = list(pool.map(lambda program, seconds=cpu_seconds: _one(options, program, seconds, clock), PROGRAMS))
        rounds.append(dict(zip(PROGRAMS, found)))
    return rounds


def _sum(rounds: List[Dict[str, Any]], what: str) -> int:
    return sum(one[what] for found in rounds for one in found.values())


def impossible(options: Options) -> List[Row]:
    """At least 1,000,000 samples on each interpreter (`--samples`), at `--rate`, by the best clock or each of `--clocks`."""
    samples = 60_000 if options.quick else options.samples
    child.WORK.mkdir(parents=True, exist_ok=True)
    chains.write()
    clocks, rows = shares.able(options) if options.clocks else (["auto"], [])
    for python in each(options.asked):
        for clock in clocks:
            found = _interpreter(options._replace(python=python), samples, clock, os.cpu_count() or 1)
            rows.append(_row(options, python.name, samples, found))
            options.note(f"{rows[-1].goal}: {rows[-1].measured}")
    return rows


def _row(options: Options, python: str, samples: int, rounds: List[Dict[str, Any]]) -> Row:
    every = [one for found in rounds for one in found.values()]
    checked, wrong, truncated = (_sum(rounds, what) for what in ("checked", "impossible", "truncated"))
    outside = _sum(rounds, "outside") + _sum(rounds, "unchecked")
    refused = sum(one["tick_stats"].get("validation_drops", 0) for one in every)
    expected = sum(one["tick_stats"]["expected"] for one in every)
    examples = [example for one in every for example in one["examples"]][:3]
    text = f"{wrong:,} of {checked:,} checked; "
    text += f"refused by validation {refused / max(1, expected):.3%}, truncated {truncated:,}, outside the graph {outside:,}"
    if examples:
        text += f"; for example {examples}"
    clock = " and ".join(sorted({one["clock"] for one in every}))
    goal = f"{python}, {clock}{options.where}: 0 impossible stacks in {samples:,} samples ({options.rate:,} Hz)"
    return Row(goal, text, wrong == 0 and checked >= samples, {"rounds": rounds})
