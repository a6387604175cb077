"""Programs of thousands of threads: how long a start takes and holds them up, and what is known of threads of 2 ms."""

from typing import List

from . import child, figures
from .goals import Options, Row

START, BRIEF = child.TARGETS / "crowd_start.py", child.TARGETS / "brief.py"


def crowd_start(options: Options) -> List[Row]:
    """start() with 3,000 threads that wait, in both modes."""
    threads, rounds = (300, 1) if options.quick else (3000, options.rounds or 11)
    rows = []
    for mode in ("cpu", "wall"):
        runs = []
        for _ in range(rounds):
            runs.append(child.run([options.python.path, START, mode, str(threads)]).says)
            options.note(f"{mode}: {runs[-1]}")
        start = figures.median([run["start_ms"] for run in runs])
        gap, alone, taken = (figures.median([run[key] for run in runs]) for key in ("gap_ms", "alone_ms", "taken"))
        most = max(run["gap_ms"] for run in runs)
        rows += [
            Row(
                f"start() in {mode} mode with {threads:,} threads < 300 ms",
                f"{start.text('{:.0f}')} ms",
                None if options.quick else start.at_most(300),
                {"runs": runs},
            ),
            Row(
                f"the longest time that another thread does not run then ({mode} mode) < 5 ms",
                f"{gap.text('{:.1f}')} ms, at most {most:.1f}; before the start {alone.text('{:.1f}')} ms",
                None if options.quick else gap.at_most(5),
            ),
            Row(f"what the profiler takes of a processor while they wait ({mode} mode)", taken.text("{:.2f}"), None),
        ]
    return rows


def brief_threads(options: Options) -> List[Row]:
    """10,000 threads of 2 ms at 1 kHz: their time, and their names."""
    rounds = 1 if options.quick else options.rounds or 8
    threads = 500 if options.quick else 10_000 // rounds  # of a round
    rows = []
    for at_once in (1, 4):
        runs = []
        for _ in range(rounds):
            with child.folder() as folder:
                file = str(folder / "p.spprof")
                runs.append(child.run([options.python.path, BRIEF, str(threads), "2", str(at_once), file]).says)
            options.note(f"{at_once} at once: {runs[-1]}")
        share = figures.median([run["weight"] / run["own_ns"] for run in runs])
        with_losses = figures.median([(run["weight"] + run["lost_ns"]) / run["own_ns"] for run in runs])
        wrong = sum(run["wrong"] for run in runs)
        rows += [
            Row(
                f"{threads * rounds:,} threads of 2 ms, {at_once} at once, 1 kHz: "
                "their samples' time / their own clocks 0.98 .. 1.02",
                f"{share.text('{:.3f}')}; with what is counted as lost {with_losses.text('{:.3f}')}",
                None if options.quick else share.between(0.98, 1.02),
                {"runs": runs},
            ),
            Row(
                "their names are right",
                f"{wrong} of {sum(run['samples'] for run in runs):,} samples with another's name; "
                f"{sum(run['found'] for run in runs):,} of {threads * rounds:,} threads in the files",
                wrong == 0,
            ),
        ]
    return rows
