"""The bench: measures every target of docs/benchmarks.md and says goal beside measured.

  python3 -m bench                         everything (several hours; `--list` says what)
  python3 -m bench --quick                 everything, shortly: shows that it works, not how good it is
  python3 -m bench --plan                  everything, each as long as its figures need: ninety minutes on a quiet machine
  python3 -m bench --only cost10k,handler  some
  python3 -m bench --only impossible --python build/venvs/3.13t/bin/python --samples 200000
  python3 -m bench --only shares --clocks perf,timer --rates 1000 --programs "in step"
  python3 -m bench.report                  writes the results into docs/results.md

Interpreters: goals that need one take --python, goals for each interpreter take those that `tools/matrix --build-only` built.
"""

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Dict, Iterator, List, Optional

from . import (
    attach,
    calls,
    convert,
    cost,
    counts,
    crowds,
    exceptions,
    figures,
    handler,
    handover,
    hot,
    imports,
    impossible,
    intervals,
    lines,
    memory,
    native,
    peers,
    plan,
    shares,
    slowdown,
    startup,
    threads,
    ticks,
    times,
    work,
    wrapped,
)
from .goals import Options, Row, Subject
from .pythons import ROOT, choose

RESULTS = Path(__file__).resolve().parent / "results"
SUBJECTS: Dict[str, Subject] = {
    "cost10k": cost.cost10k,
    "cost1k": cost.cost1k,
    "handler": handler.handler,
    "startup": startup.startup,
    "native": native.native,
    "native1k": native.native1k,
    "tables": native.tables,
    "wall100": threads.wall100,
    "cpu100": threads.cpu100,
    "crowd_start": crowds.crowd_start,
    "brief_threads": crowds.brief_threads,
    "bytes": memory.bytes_a_sample,
    "convert": convert.convert,
    "peers": peers.peers,
    "peers_native": peers.peers_native,
    "intervals": intervals.intervals,
    "shares": shares.shares,
    "ticks": ticks.ticks,
    "work": work.work,
    "slowdown": slowdown.slowdown,
    "handover": handover.handover,
    "calls": calls.calls,
    "wrapped": wrapped.wrapped,
    "counts": counts.counts,
    "hot": hot.hot,
    "times": times.times,
    "lines": lines.lines,
    "imports": imports.imports,
    "exceptions": exceptions.exceptions,
    "attach": attach.attach,
    "impossible": impossible.impossible,
    "memory": memory.growth,
}


def machine() -> Dict[str, object]:
    """What the figures depend on."""
    model = ""
    try:
        with open("/proc/cpuinfo") as file:
            model = next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.processor()
    try:
        paranoid = Path("/proc/sys/kernel/perf_event_paranoid").read_text().strip()
    except OSError:
        paranoid = "none"
    return {
        "processor": model,
        "processors": os.cpu_count(),
        "kernel": platform.release(),
        "perf_event_paranoid": paranoid,
        "root": os.geteuid() == 0,
        "load_before": round(os.getloadavg()[0], 2),
    }


def commit() -> str:
    """The commit that is measured, with a + if files were changed since (results and docs aside, which a run changes)."""
    got = subprocess.run(["git", "describe", "--always"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    if not got:
        return "unknown"
    same = ["git", "diff", "--quiet", "HEAD", "--", ".", ":(exclude)bench/results", ":(exclude)docs"]
    return got + ("+" if subprocess.run(same, cwd=ROOT).returncode else "")


def table(rows: List[Row], command: str) -> str:
    """Goal, measured, command, as aligned text. open: the interval holds values that meet the goal, and such that do not."""
    mark = {True: "met", False: "MISSED", None: "", figures.OPEN: figures.OPEN}
    return "\n".join(f"  {mark[row.met]:6}  {row.goal}\n          {row.measured}\n          {command}" for row in rows)


def _asked(parser: argparse.ArgumentParser, given: argparse.Namespace) -> Iterator[str]:
    """The options that say how to measure, as they were given."""
    for name, value in vars(given).items():
        if name not in ("only", "list", "python", "tag") and value != parser.get_default(name):
            yield f"--{name.replace('_', '-')}" + ("" if value is True else f" {shlex.quote(str(value))}")


def _measure(name: str, options: Options, command: str, tag: str) -> Optional[List[Row]]:
    """Measures a subject, and keeps the results. None: it failed."""
    print(f"{name} ({SUBJECTS[name].__doc__}) Python {options.python.name}", flush=True)
    began, where = time.time(), machine()
    try:
        rows = SUBJECTS[name](options)
    except Exception as error:
        print(f"  FAILED  {type(error).__name__}: {error}", flush=True)
        return None
    result = {
        "name": name,
        "command": command,
        "when": time.strftime("%Y-%m-%d %H:%M", time.gmtime(began)),
        "seconds": round(time.time() - began),
        "python": options.python.name,
        "spprof": commit(),
        "machine": where,
        "quick": options.quick,
        "rows": [row._asdict() for row in rows],
    }
    (RESULTS / (f"{name}-{tag}.json" if tag else f"{name}.json")).write_text(json.dumps(result, indent=1) + "\n")
    print(table(rows, command), flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", metavar="NAME,...", help=", ".join(SUBJECTS))
    parser.add_argument("--plan", action="store_true", help="each subject with rounds of its own (bench/plan.py)")
    parser.add_argument("--list", action="store_true", help="say what each subject measures, and stop")
    parser.add_argument("--python", metavar="PATH", help="interpreter to measure; it must be able to import spprof")
    parser.add_argument("--quick", action="store_true", help="few short rounds")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds where programs are compared")
    parser.add_argument(
        "--samples", type=int, default=1_000_000, metavar="N", help="for `impossible`, and calls for `calls` (default 1000000)"
    )
    parser.add_argument("--rate", type=int, default=10_000, metavar="HZ", help="for `impossible` (default 10000)")
    parser.add_argument("--minutes", type=float, default=10, metavar="M", help="for `memory` (default 10)")
    parser.add_argument("--clocks", metavar="NAME,...", help="for subjects that compare clocks (default: all that are here)")
    parser.add_argument("--rates", default="1000,10000", metavar="HZ,...", help="for these (default 1000,10000)")
    parser.add_argument("--programs", default="", metavar="PATTERN", help="for `shares`, `ticks`: programs whose names have it")
    parser.add_argument("--modes", default="cpu", metavar="NAME,...", help="for `shares`: cpu, wall (default cpu)")
    parser.add_argument(
        "--seconds",
        type=float,
        metavar="N",
        help="of each run of `shares` and `ticks` (default 10), CPU seconds of `work` (default 3)",
    )
    parser.add_argument("--beside", default="0,2", metavar="N,...", help="for `work`: busy processes beside it (default 0,2)")
    parser.add_argument("--around", default="", metavar="COMMAND", help="before each program's: --around 'taskset -c 0'")
    parser.add_argument("--as-nobody", action="store_true", help="programs have no privilege (setpriv(1), as root)")
    parser.add_argument("--tag", metavar="NAME", help="keep the results beside those of other runs, under this name")
    parser.add_argument(
        "--peers", action="store_true", help="for `slowdown`, `handover` and `work`: other profilers in the same rounds"
    )
    given = parser.parse_args()
    if given.list:
        for name, subject in SUBJECTS.items():
            print(f"{name:11} {subject.__doc__}")
        return 0
    names = given.only.split(",") if given.only else list(SUBJECTS)
    unknown = [name for name in names if name not in SUBJECTS]
    if unknown:
        parser.error(f"no such subject: {', '.join(unknown)}; there are {', '.join(SUBJECTS)}")

    def note(text: str) -> None:
        print(f"    {text}", file=sys.stderr, flush=True)

    options = Options(
        choose(given.python), given.python, given.quick, given.rounds, given.samples, given.minutes, given.rate, note,
        tuple(given.clocks.split(",")) if given.clocks else (), tuple(map(int, given.rates.split(","))), given.programs,
        given.peers, given.seconds, tuple(shlex.split(given.around)), given.as_nobody,
        tuple(given.modes.split(",")), tuple(map(int, given.beside.split(","))),
    )  # fmt: skip
    asked = "".join(f" {word}" for word in _asked(parser, given))
    runs = [run for run in plan.runs() if run.subject in names] if given.plan else [plan.Run(name, {}) for name in names]
    RESULTS.mkdir(exist_ok=True)
    missed = not_shown = 0
    for run in runs:
        own = options._replace(**run.replaced)
        if run.python:
            own = own._replace(python=choose(run.python), asked=run.python)
        rows = _measure(run.subject, own, f"python3 -m bench --only {run.subject}{asked}", run.tag or given.tag or "")
        missed += rows is None or sum(row.met is False for row in rows)
        not_shown += sum(row.met == figures.OPEN for row in rows or ())
    print(
        (f"{missed} missed" if missed else "no goal missed")
        + (f", {not_shown} open: more rounds would tell" if not_shown else "")
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
