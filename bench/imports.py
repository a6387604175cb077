"""What timing imports costs; `python -X importtime` in the same rounds."""

from typing import List

from . import child, figures
from .goals import Options, Row

TARGET = child.TARGETS / "imports.py"


def imports(options: Options) -> List[Row]:
    """Slowdown of a program's imports by `run --imports`, by samples alone and by -X importtime."""
    rounds = options.rounds or (3 if options.quick else 21)

    def profiled(*how: str) -> child.Run:
        with child.folder() as folder:
            return child.run(options.python.spprof("run", "-q", *how, "-o", str(folder / "p.spprof"), str(TARGET)))

    done = child.interleaved(
        {
            "alone": lambda: child.run([options.python.path, str(TARGET)]),
            "sampled": profiled,
            "imports": lambda: profiled("--imports"),
            "importtime": lambda: child.run([options.python.path, "-X", "importtime", str(TARGET)]),
        },
        rounds,
        lambda text: None,
    )
    ratios = {
        name: figures.median([one[name].says["thread_cpu_ns"] / one["alone"].says["thread_cpu_ns"] for one in done])
        for name in ("imports", "sampled", "importtime")
    }
    words = {"imports": "run --imports", "sampled": "samples alone", "importtime": "-X importtime"}
    text = ", ".join(f"{words[name]} {figure.text()} x" for name, figure in ratios.items())
    return [Row("the imports of a program", text, None, {name: figure.json() for name, figure in ratios.items()})]
