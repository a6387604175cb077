"""What the exact time of a call costs, in nanoseconds a call."""

from typing import Callable, Dict, List

from . import child, figures
from .goals import Options, Row

TARGET = child.TARGETS / "times.py"
MOST_NS = 150
TITLES = {
    ("calls", "time"): f"a timed call takes less than {MOST_NS} ns longer",
    ("calls", "cpu"): "with --time-cpu",
    ("calls", "elsewhere"): "a call of a function that is not timed",
    ("calls", "after"): "a call after the stop",
    ("exceptions", "time"): "a timed call that raises",
    ("exceptions", "elsewhere"): "one that is not timed and raises",
    ("steps", "time"): "a step of a timed generator",
}
PATTERNS = {
    "time": ("--time", "__main__:*"),
    "cpu": ("--time", "__main__:*", "--time-cpu"),
    "elsewhere": ("--time", "__main__:other"),
}


def times(options: Options) -> List[Row]:
    """Nanoseconds of CPU time that a call takes longer by `run --time` than by samples alone, in interleaved rounds."""
    child.WORK.mkdir(parents=True, exist_ok=True)
    units, rounds = (100_000, options.rounds or 3) if options.quick else (1_000_000, options.rounds or 11)
    rows = []
    for program in ("calls", "exceptions", "steps"):
        options.note(program)
        done = child.interleaved(_variants(options, program, str(units)), rounds, lambda text: None)
        for (of, name), title in TITLES.items():
            if of == program:
                rows.append(_row(done, name, title, units))
    return rows


def _variants(options: Options, program: str, units: str) -> Dict[str, Callable[[], child.Run]]:
    python = options.python.path

    def profiled(*how: str) -> child.Run:
        with child.folder() as folder:
            file = str(folder / "p.spprof")
            return child.run(options.python.spprof("run", "-q", *how, "-o", file, str(TARGET), program, units))

    found: Dict[str, Callable[[], child.Run]] = {
        "alone": lambda: child.run([python, str(TARGET), program, units]),
        "sampled": profiled,
        "after": lambda: child.run([python, str(TARGET), f"after {program}", units]),
    }
    for name, how in PATTERNS.items():
        found[name] = lambda how=how: profiled(*how)  # type: ignore[misc]
    return {name: run for name, run in found.items() if name in ("alone", "sampled") or (program, name) in TITLES}


def _row(rounds: List[Dict[str, child.Run]], name: str, title: str, units: int) -> Row:
    base = "alone" if name == "after" else "sampled"
    ns = [(each[name].says["thread_cpu_ns"] - each[base].says["thread_cpu_ns"]) / units for each in rounds]
    alone = figures.median([each["alone"].says["thread_cpu_ns"] / units for each in rounds])
    figure = figures.median(ns)
    met = figure.at_most(MOST_NS) if "less than" in title else None
    return Row(title, f"{figure.text('{:.0f}')} ns beside {alone.value:.0f} ns alone", met, {"ns": figure.json()})
