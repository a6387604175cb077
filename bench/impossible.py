"""Stacks that cannot exist, in programs whose call graph is fully known, on each interpreter."""

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, List

from . import chains, child
from .goals import Options, Row
from .pythons import Python, each

GRAPHS = child.TARGETS / "graphs.py"
PROGRAMS = ("chains", "recursion", "generators", "exceptions", "callbacks", "threads")


def _one(python: Python, program: str, cpu_seconds: float, rate: int) -> Dict[str, Any]:
    source = chains.write() if program == "chains" else GRAPHS
    words = [str(cpu_seconds)] if program == "chains" else [program, str(cpu_seconds)]
    with tempfile.TemporaryDirectory(dir=child.WORK) as folder:
        file = str(Path(folder) / "graph.spprof")
        child.run(python.spprof("run", "-q", "--rate", str(rate), "-o", file, str(source), *words))
        return child.ask([python.path, child.TARGETS / "edges.py", file, source])


def _interpreter(python: Python, samples: int, rate: int, at_once: int) -> Dict[str, Any]:
    # A fifth more than needed: some ticks fall outside the graph or are lost.
    cpu_seconds = 1.2 * samples / rate / len(PROGRAMS)
    with ThreadPoolExecutor(at_once) as pool:
        found = list(pool.map(lambda program: _one(python, program, cpu_seconds, rate), PROGRAMS))
    return dict(zip(PROGRAMS, found))


def impossible(options: Options) -> List[Row]:
    """At least 1,000,000 samples on each interpreter (`--samples`), at `--rate`."""
    samples = 60_000 if options.quick else options.samples
    child.WORK.mkdir(parents=True, exist_ok=True)
    chains.write()
    rows = []
    for python in each(options.asked):
        found = _interpreter(python, samples, options.rate, os.cpu_count() or 1)
        checked = sum(one["checked"] for one in found.values())
        wrong = sum(one["impossible"] for one in found.values())
        refused = sum(one["account"].get("validation_drops", 0) for one in found.values())
        expected = sum(one["account"]["expected"] for one in found.values())
        truncated = sum(one["truncated"] for one in found.values())
        outside = sum(one["outside"] + one["unchecked"] for one in found.values())
        examples = [example for one in found.values() for example in one["examples"]][:3]
        text = f"{wrong:,} of {checked:,} checked; "
        text += f"refused by validation {refused / max(1, expected):.3%}, truncated {truncated:,}, outside the graph {outside:,}"
        if examples:
            text += f"; for example {examples}"
        options.note(f"{python.name}: {text}")
        rows.append(
            Row(
                f"{python.name}: 0 impossible stacks in {samples:,} samples ({options.rate:,} Hz)",
                text,
                wrong == 0 and checked >= samples,
                found,
            )
        )
    return rows
