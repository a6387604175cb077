"""A hundred threads."""

from typing import Any, Dict, List

from . import child, figures
from .goals import Options, Row

MANY = child.TARGETS / "many.py"


def _runs(options: Options, mode: str) -> List[Dict[str, Any]]:
    seconds, rounds = ("2", 1) if options.quick else ("10", min(options.rounds or 3, 5))
    runs = []
    for _ in range(rounds):
        runs.append(child.ask([options.python.path, MANY, mode, seconds]))
        options.note(", ".join(f"{key} {value}" for key, value in runs[-1].items() if key != "tick_stats"))
    return runs


def _gap(run: Dict[str, Any]) -> int:
    """Ticks that the tick stats do not explain."""
    tick_stats = run["tick_stats"]
    return tick_stats["expected"] - tick_stats["taken"] - tick_stats["repeated"] - sum(tick_stats["losses"].values())


def _lost(run: Dict[str, Any]) -> str:
    stats = run["tick_stats"]
    lost = ", ".join(f"{n:,} {reason}" for reason, n in stats["losses"].items() if n)
    return f"{stats['expected']:,} ticks = {stats['taken']:,} taken + {stats['repeated']:,} repeated + {lost or 'no loss'}"


def wall100(options: Options) -> List[Row]:
    """Wall mode, 1 kHz, 100 threads that sleep: is any woken, and what does the sampler use?"""
    runs = _runs(options, "wall")
    woken, wakings = max(run["woken"] for run in runs), max(run["wakings"] for run in runs)
    shares = [run["sampler_share"] for run in runs]
    rows = [
        Row(
            "wall mode, 100 sleepers at 1 kHz: no signal reaches a sleeper (voluntary_ctxt_switches unchanged)",
            f"{woken} of 100 woken, {wakings} switches in {runs[0]['seconds']:g} s",
            woken == 0,
            {"runs": runs},
        ),
        Row(
            "the stats of these ticks add up, no sleeper silent",
            f"{runs[0]['silent']} silent; {_lost(runs[0])}",
            all(_gap(run) == 0 and run["silent"] == 0 for run in runs),
        ),
    ]
    if None in shares:
        return [*rows, Row("the sampler uses < 5 % of a core", "not measured: no thread named spprof-sampler", None)]
    share = figures.median([100 * one for one in shares])
    rows.append(Row("the sampler uses < 5 % of a core", share.text("{:.2f}") + " %", share.at_most(5), {"figure": share.json()}))
    return rows


def cpu100(options: Options) -> List[Row]:
    """CPU mode, 1 kHz, 100 threads that compute: is any silent, do the tick stats add up?"""
    runs = _runs(options, "cpu")
    silent, gaps = max(run["silent"] for run in runs), [_gap(run) for run in runs]
    least, most = min(run["least_share"] for run in runs), max(run["most_share"] for run in runs)
    return [
        Row(
            "CPU mode, 100 threads at 1 kHz: no thread silent",
            f"{silent} silent; weight / own CPU clock of a thread {least:.3f} .. {most:.3f}; the thread that ran least had "
            f"{min(run['least_cpu_ms'] for run in runs):.0f} ms",
            silent == 0,
            {"runs": runs},
        ),
        Row(
            "every tick is taken, repeated or one titled loss",
            f"{max(map(abs, gaps))} unexplained; {_lost(runs[0])}",
            not any(gaps),
        ),
    ]
