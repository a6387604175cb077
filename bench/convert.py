"""What it takes to convert a large profile to each format: time and memory of a process of its own, from import to last byte."""

import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List

from spprof.formats import FORMATS

from . import child, figures
from .goals import Options, Row
from .pythons import matrix

UNPARSING, CONVERTING = child.TARGETS / "unparsing.py", child.TARGETS / "converting.py"
SECONDS, MEGABYTES = 3.0, 300
MILLION = 1_000_000
# What `profiling.sampling replay` has of our formats, by its names.
TACHYON = {"pstats": "pstats", "gecko": "gecko", "collapsed": "collapsed", "jsonl": "jsonl", "html": "flamegraph"}


def convert(options: Options) -> List[Row]:
    """1,000,000 samples of a program of four threads, converted to each format: under 3 s and under 300 MB."""
    child.WORK.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=child.WORK) as folder:
        file, out = Path(folder) / "p.spprof", Path(folder) / "out"
        _record(options, file, 3)
        if not options.quick:
            # How many ticks are lost depends on the machine: a short run says for how long a million samples take.
            few = child.run([options.python.path, CONVERTING, file, "spprof", out]).says["samples"]
            _record(options, file, 3 * MILLION / few * 1.1)
        rounds = 1 if options.quick else options.rounds or 5
        rows = []
        for name, format in FORMATS.items():
            if format.needs and not options.python.has(format.needs):
                rows.append(Row(_goal(name), f"not measured: no {format.needs} here", None))
                continue
            says = [child.run([options.python.path, CONVERTING, file, name, out]).says for _ in range(rounds)]
            options.note(f"{name}: {says[-1]}")
            rows.append(_row(name, says, options.quick))
        return rows + _replayed(options, Path(folder))


def _record(options: Options, file: Path, seconds: float) -> None:
    """Of so many seconds of CPU time, at 20 kHz."""
    child.run(options.python.spprof("run", "-q", "--rate", "20000", "-o", str(file), str(UNPARSING), f"{seconds:.0f}"))


def _goal(name: str) -> str:
    return f"{name}: under {SECONDS:g} s and under {MEGABYTES} MB"


def _row(name: str, says: List[Dict[str, Any]], quick: bool) -> Row:
    took = figures.median([one["seconds"] for one in says])
    rss, facts = max(one["rss"] for one in says) / 2**20, says[0]
    cpu = figures.median([one["cpu_seconds"] for one in says]).value
    about = f"{facts['samples']:,} samples, {facts['stacks']:,} stacks, {facts['bytes']:,} B"
    measured = f"{took.text('{:.2f}')} s ({cpu:.2f} s of CPU time), {rss:.0f} MB; {about}"
    met = None if quick else took.at_most(SECONDS) if rss < MEGABYTES and facts["samples"] >= MILLION else False
    return Row(
        _goal(name),
        measured,
        None if quick else met,
        {"runs": says, "figure": took.json()},
    )


def _replayed(options: Options, folder: Path) -> List[Row]:
    """The same program under CPython 3.15's own profiler, and its file converted by it."""
    newest = matrix(["3.15"]).get("3.15")
    if not newest:
        return [Row("profiling.sampling replay", "not measured: no Python 3.15 (tools/matrix)", None)]
    file = folder / "p.bin"
    tool = [newest, "-m", "profiling.sampling"]
    try:  # each tick of it gives a sample of every thread
        child.run([*tool, "run", "-a", "-r", "10khz", "--binary", "-o", str(file), str(UNPARSING), "1" if options.quick else "7"])
    except child.Failed as error:
        return [Row("profiling.sampling replay", f"not measured: {str(error)[-200:]}", None)]
    return [_replay([*tool, "replay", f"--{name}", "-o", str(folder / "out"), str(file)], name) for name in TACHYON.values()]


def _replay(command: List[str], name: str) -> Row:
    goal = f"profiling.sampling replay --{name} (CPython 3.15)"
    with tempfile.TemporaryFile() as said:
        began = time.monotonic()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        took = time.monotonic() - began
        said.seek(0)
        text = said.read().decode(errors="replace")
    if process.returncode != 0:
        return Row(goal, f"failed: {text[-200:]}", None)
    samples = next((line.strip() for line in text.splitlines() if "amples" in line), "").partition(" from ")[0]  # no path
    return Row(goal, f"{took:.2f} s, {usage.ru_maxrss // 1024} MB; {samples}", None)
