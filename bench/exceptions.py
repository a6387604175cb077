"""What counting exceptions costs: a raise and its catch, alone and counted, in the same rounds."""

from typing import List

from . import child, figures
from .goals import Options, Row

TARGET = child.TARGETS / "exceptions.py"
PROGRAMS = ("same frame", "3 frames", "30 frames", "hasattr", "no exceptions")


def exceptions(options: Options) -> List[Row]:
    """Time of a raise and its catch, unprofiled and with `run --exceptions`; and of code that raises nothing."""
    child.WORK.mkdir(parents=True, exist_ok=True)
    units, rounds = (20_000, options.rounds or 3) if options.quick else (200_000, options.rounds or 11)
    rows = []
    for program in PROGRAMS:
        options.note(program)
        rows.append(_row(options, program, units // (30 if program == "30 frames" else 1), rounds))
    return rows


def _row(options: Options, program: str, units: int, rounds: int) -> Row:
    words = [str(TARGET), program, str(units)]

    def counted(*how: str) -> child.Run:
        with child.folder() as folder:
            return child.run(options.python.spprof("run", "-q", *how, "-o", str(folder / "p.spprof"), *words))

    done = child.interleaved(
        {
            "alone": lambda: child.run([options.python.path, *words]),
            "sampled": counted,
            "exceptions": lambda: counted("--exceptions"),
        },
        rounds,
        lambda text: None,
    )
    kinds = ("alone", "sampled", "exceptions")
    each = {kind: figures.median([one[kind].says["thread_cpu_ns"] / units for one in done]) for kind in kinds}
    text = ", ".join(f"{name} {figure.value:.0f} ns" for name, figure in each.items())
    return Row(f"a raise and its catch: {program}", text, None, {name: figure.json() for name, figure in each.items()})
