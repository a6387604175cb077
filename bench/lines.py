"""What exact executions of lines cost, in the function that is counted and in others; line_profiler in the same rounds."""

import subprocess
from pathlib import Path
from typing import Callable, Dict, List, Optional

from . import child, figures
from .goals import Options, Row
from .pythons import venv

TARGET = child.TARGETS / "lines.py"
TITLES = {
    ("price", "lines"): "the counted function: run --lines is below line_profiler",
    ("price", "after"): "the same after the stop: as before",
    ("other", "lines"): "a function that is not counted: as by samples alone",
}


def lines(options: Options) -> List[Row]:
    """Slowdown of a function whose lines are counted, of another beside it, and after the stop; line_profiler beside."""
    units, rounds = (2_000, options.rounds or 3) if options.quick else (20_000, options.rounds or 11)
    packages: Optional[Path] = None
    missing = ""
    try:
        packages = next(venv(options.python.path, "line_profiler", "line_profiler").parent.glob("lib/python*/site-packages"))
    except subprocess.CalledProcessError as error:
        missing = str(error.stderr).strip()[-200:]
    rows = [] if packages else [Row("line_profiler", f"skipped: {missing}", None)]
    for program in ("price", "other"):
        options.note(program)
        done = child.interleaved(_variants(options, program, str(units), packages), rounds, lambda text: None)
        rows += [_row(done, name, title) for (of, name), title in TITLES.items() if of == program]
    return rows


def _variants(options: Options, program: str, units: str, packages: Optional[Path]) -> Dict[str, Callable[[], child.Run]]:
    python = options.python.path

    def profiled(*how: str) -> child.Run:
        with child.folder() as folder:
            file = str(folder / "p.spprof")
            return child.run(options.python.spprof("run", "-q", *how, "-o", file, str(TARGET), program, units))

    found: Dict[str, Callable[[], child.Run]] = {
        "alone": lambda: child.run([python, str(TARGET), program, units]),
        "sampled": profiled,
        "lines": lambda: profiled("--lines", "__main__:price"),
        "after": lambda: child.run([python, str(TARGET), f"after {program}", units]),
    }
    if packages:
        beside = {"PYTHONPATH": str(packages)}
        found["line_profiler"] = lambda: child.run([python, str(TARGET), f"line_profiler {program}", units], beside)
    return found


def _row(rounds: List[Dict[str, child.Run]], name: str, title: str) -> Row:
    def ratio(one: str) -> figures.Figure:
        return figures.median([each[one].says["thread_cpu_ns"] / each["alone"].says["thread_cpu_ns"] for each in rounds])

    beside = [one for one in ("sampled", "line_profiler") if name != "after" and one in rounds[0]]
    each = {one: ratio(one) for one in (name, *beside)}
    text = ", ".join(f"{one} {figure.text()} x" for one, figure in each.items())
    met: Optional[bool] = None
    if name == "after":
        met = each[name].low <= 1
    elif "below" in title and "line_profiler" in each:
        met = each[name].value < each["line_profiler"].value
    elif "alone" in title:
        met = each[name].low <= each["sampled"].high
    return Row(title, text, met, {one: figure.json() for one, figure in each.items()})
