"""How long import, start and stop take."""

import tempfile
from pathlib import Path
from typing import List

from . import child, figures
from .goals import Options, Row

STOPPING = child.TARGETS / "stopping.py"


def startup(options: Options) -> List[Row]:
    """Import over a bare start, start(), and stop() with a million samples written as speedscope."""
    python = options.python.path
    # -c would put the directory of the bench on sys.path: `spprof` must be the installed one, and is, but be sure.
    variants = {
        "bare": lambda: child.run([python, "-c", "pass"]),
        "import": lambda: child.run([python, "-c", "import spprof"]),
        "used": lambda: child.run([python, "-c", "import spprof; spprof.start"]),
    }
    done = child.interleaved(variants, 5 if options.quick else 41, lambda text: None)
    rows = []
    for name, title, limit in (
        ("import", "`import spprof` over a bare start <= 15 ms", 15.0),
        ("used", "`import spprof; spprof.start` (which loads the core) over a bare start", None),
    ):
        figure = figures.median([(one[name].wall - one["bare"].wall) * 1e3 for one in done])
        met = None if limit is None else figure.at_most(limit)
        rows.append(Row(title, figure.text("{:.2f}") + " ms", met, {"figure": figure.json()}))

    with tempfile.TemporaryDirectory(dir=child.WORK) as folder:
        file = str(Path(folder) / "p.speedscope.json")
        starts = [child.run([python, STOPPING, "0", file]).says["start_ms"] for _ in range(5 if options.quick else 21)]
        figure = figures.median(starts)
        rows.append(Row("start() < 10 ms", figure.text("{:.2f}") + " ms", figure.at_most(10), {"figure": figure.json()}))
        samples = 50_000 if options.quick else 1_000_000
        ends = []
        for i in range(1 if options.quick else 3):
            ends.append(child.run([python, STOPPING, str(samples), file]).says)
            options.note(f"stop, run {i + 1}: {ends[-1]}")
    both = figures.median([(one["stop_ms"] + one["save_ms"]) / 1e3 for one in ends])
    alone = figures.median([one["stop_ms"] for one in ends])
    rows.append(
        Row(
            f"stop() after {samples:,} samples (20 kHz, one thread) and writing speedscope < 1 s",
            f"{both.text()} s; stop() alone {alone.value:.1f} ms",
            both.at_most(1) if not options.quick else None,
            {"runs": ends},
        )
    )
    return rows
