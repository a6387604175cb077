"""Cycles of the signal handler."""

from typing import List

from . import child, figures
from .goals import Options, Row
from .pythons import each


def handler(options: Options) -> List[Row]:
    """Cycles of the handler at 10 kHz with 25 frames, on each interpreter."""
    seconds, rounds = ("1", 2) if options.quick else (str(options.seconds or 3), options.rounds or 7)
    pythons = each(options.asked)
    runs: dict = {python.name: [] for python in pythons}
    for _ in range(rounds):
        for python in pythons:
            runs[python.name].append(child.ask([python.path, child.TARGETS / "handler.py", seconds]))
    rows = []
    for python in pythons:
        mine = runs[python.name]
        goal = f"{python.name}: handler with 25 frames at 10 kHz <= 800 cycles (median)"
        if mine[0]["median"] is None:
            rows.append(Row(goal, "not measured: no cycle counter", None))
            continue
        figure = figures.median([one["median"] for one in mine])
        tail = figures.median([one["p90"] for one in mine])
        text = f"{figure.text('{:.0f}')}; 90 % of runs below {tail.value:.0f}"
        rows.append(Row(goal, text, figure.at_most(800), {"runs": mine, "figure": figure.json()}))
    return rows
