"""What the wrapper of a call costs that does not wait."""

from pathlib import Path
from typing import Dict, List

from . import child, empty, figures
from .goals import Options, Row

SOURCE = Path(__file__).with_name("wrapped.c")
MOST_NS = 10


def wrapped(options: Options) -> List[Row]:
    """Calls that do not wait, with and without the wrapper of the clock `signal`."""
    library = empty.library(SOURCE)
    if library is None:
        return [Row("wrapped calls", "not measured: no C compiler", None)]
    command = [options.python.path, child.TARGETS / "wrapped.py", library, "1000" if options.quick else "4000"]
    runs = [child.ask(command) for _ in range(2 if options.quick else options.rounds or 7)]
    if not all(run["wrapped"] for run in runs):
        return [Row("wrapped calls", "not measured: there are no wrappers here", None)]
    rows = []
    for kind in runs[0]["more_ns"]:
        costs: List[Dict[str, float]] = [run["more_ns"][kind] for run in runs]
        figure = figures.median([cost["median"] for cost in costs])
        least = min(cost["least"] for cost in costs)
        text = f"{figure.text('{:.1f}')} ns; between the quickest blocks of a hundred {least:.1f} ns"
        goal = f"{kind}: its wrapper takes at most {MOST_NS} ns (median)"
        rows.append(Row(goal, text, figure.at_most(MOST_NS), {"runs": costs, "figure": figure.json()}))
    return rows
