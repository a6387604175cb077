"""What exact counts of calls cost, on programs that call a lot; cProfile in the same rounds."""

from math import exp, log
from typing import Callable, Dict, List

from . import child, figures
from .goals import Options, Row

TARGET = child.TARGETS / "counts.py"
PROGRAMS = ("recursion", "methods", "unparsing", "tokens", "encoding", "fractions")
MOST = 1.5  # times the program alone, geometric mean
Rounds = List[Dict[str, child.Run]]


def counts(options: Options) -> List[Row]:
    """Slowdown of programs that call a lot, by `run --calls`, `--calls=c`, sampling alone and cProfile; and after the stop."""
    child.WORK.mkdir(parents=True, exist_ok=True)
    seconds, rounds = (0.2, options.rounds or 3) if options.quick else (options.seconds or 1.0, options.rounds or 11)
    done: Dict[str, Rounds] = {}
    for program in PROGRAMS:
        options.note(program)
        done[program] = child.interleaved(_variants(options, program, seconds), rounds, lambda text: None)
    titles = {"calls": f"run --calls <= {MOST} x", "c": "run --calls=c", "sampled": "run, samples alone", "cProfile": "cProfile"}
    rows = [_row(done, name, title) for name, title in titles.items()]
    most = max((_ratio(done[program], "calls", "cProfile") for program in PROGRAMS), key=lambda figure: figure.value)
    rows.append(Row("run --calls is never above cProfile", f"at most {most.text('{:.2f}')} of it", most.at_most(1)))
    after = _mean(done, "after")
    rows.append(Row("after the stop <= 1.01 x", f"{after.text()} x", after.at_most(1.01), {"figure": after.json()}))
    return rows


def _variants(options: Options, program: str, seconds: float) -> Dict[str, Callable[[], child.Run]]:
    python = options.python.path
    units = str(_units(python, program, seconds))

    def profiled(*how: str) -> child.Run:
        with child.folder() as folder:
            file = str(folder / "p.spprof")
            return child.run(options.python.spprof("run", "-q", *how, "-o", file, str(TARGET), program, units))

    def cprofile() -> child.Run:
        with child.folder() as folder:
            return child.run([python, "-m", "cProfile", "-o", str(folder / "p.pstats"), str(TARGET), program, units])

    return {
        "alone": lambda: child.run([python, str(TARGET), program, units]),
        "calls": lambda: profiled("--calls"),
        "c": lambda: profiled("--calls=c"),
        "sampled": profiled,
        "cProfile": cprofile,
        "after": lambda: child.run([python, str(TARGET), f"after {program}", units]),
    }


def _units(python: str, program: str, seconds: float) -> int:
    trial = 10
    while True:
        took = float(child.run([python, str(TARGET), program, str(trial)]).says["thread_cpu_ns"]) / 1e9
        if took >= 0.1:
            return max(1, int(trial * seconds / took))
        trial *= 4


def _ratio(rounds: Rounds, name: str, of: str = "alone") -> figures.Figure:
    return figures.median([each[name].says["thread_cpu_ns"] / each[of].says["thread_cpu_ns"] for each in rounds])


def _mean(done: Dict[str, Rounds], name: str) -> figures.Figure:
    """The geometric mean over the programs of each round."""
    means = [
        exp(sum(log(one[name].says["thread_cpu_ns"] / one["alone"].says["thread_cpu_ns"]) for one in at) / len(at))
        for at in zip(*done.values())
    ]
    return figures.median(means)


def _row(done: Dict[str, Rounds], name: str, title: str) -> Row:
    mean, each = _mean(done, name), {program: _ratio(rounds, name) for program, rounds in done.items()}
    met = mean.at_most(MOST) if name == "calls" else None
    words = ", ".join(f"{program} {figure.value:.2f}" for program, figure in each.items())
    raw = {"mean": mean.json(), "programs": {program: figure.json() for program, figure in each.items()}}
    return Row(title, f"{mean.text()} x in the geometric mean: {words}", met, raw)
