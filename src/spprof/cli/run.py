"""`spprof run`: profiles a program from its first line to its last thread and exit handler. The program is a process of its own,
in which there is only the recorder (launching/)."""

from __future__ import annotations

import os

from .. import formats
from ..errors import SpprofError
from ..recording.options import DEEPEST, FASTEST_HZ, FASTEST_MS, MODES, SLOWEST_HZ, SLOWEST_MS, Options
from ._arguments import Mistake, count, number, positive

TYPE_CHECKING = False  # `typing` and `argparse` are imported while the program starts, or not at all
if TYPE_CHECKING:
    import argparse
    from typing import Any, List, Tuple

REMAINDER = "..."  # of argparse

HELP = "run a program and profile it"
EXAMPLES = """\
examples:
  spprof run script.py --its-own-option
  spprof run -m pytest tests/              as python -m
  spprof run -c "import this"              as python -c
  spprof run - < script.py                 as python -
  spprof run --mode wall server.py         where does it wait?
  spprof run --rate 10000 script.py        10,000 samples a second
  spprof run --native script.py            C, C++ and Rust functions too
  spprof run --event page-faults script.py      who touches new memory? With `--event time` too: both in one file
  spprof run --calls script.py             how often is each function called? Exact numbers beside the time
  spprof run -o p.speedscope.json x.py     for https://speedscope.app
  spprof run --duration 30 server.py       only the first 30 seconds
  spprof run --delay 10 --duration 30 server.py      not the first 10 seconds, but the next 30
  spprof run --live script.py              watch it; what it prints is shown by `o` and afterwards
  spprof run --subprocesses server.py      child processes too, each into NAME.PID.spprof
"""


def _rate(text: str) -> float:
    return number(text, f"{SLOWEST_HZ} to {FASTEST_HZ:,} samples a second", SLOWEST_HZ, FASTEST_HZ)


def _interval(text: str) -> float:
    return number(text, f"{FASTEST_MS:g} to {SLOWEST_MS:,g} milliseconds", FASTEST_MS, SLOWEST_MS)


def _depth(text: str) -> int:
    return int(number(text, f"1 to {DEEPEST:,} frames", 1, DEEPEST))


def add_arguments(parser: Any) -> None:
    """Options of `run`. All that follows SCRIPT, MODULE or CODE is the program's."""
    parser.add_argument("--mode", choices=MODES, default="cpu", help="time on the processor (default) or all time")
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument("--rate", type=_rate, default=1000, metavar="HZ", help="samples a second of a thread (default 1000)")
    pace.add_argument("--interval", type=_interval, metavar="MS", help="the same, as milliseconds between two samples")
    parser.add_argument(
        "--clock", default="auto", metavar="NAME", help="signal, perf, perf-user, perf-trap or timer (default: the best)"
    )
    parser.add_argument("--event", metavar="NAME", action="append", default=[], dest="events",
                        help="what is sampled: time (default), page-faults, page-faults=N (each N); again: both")  # fmt: skip
    parser.add_argument(
        "--calls", action="store_true", help="count each call of a Python function, exactly, by the line that calls"
    )
    parser.add_argument("--calls=c", dest="calls", action="store_const", const="c", help="functions in C that Python calls, too")
    parser.add_argument("--delay", type=positive, metavar="S", help="take no samples in the first S seconds")
    parser.add_argument("--duration", type=positive, metavar="S", help="stop profiling after S seconds; the program goes on")
    parser.add_argument("--subprocesses", action="store_true", help="profile child processes too, into files of their own")
    parser.add_argument("--live", action="store_true", help="show the profile while the program runs (pip install 'spprof[tui]')")
    parser.add_argument("--thread", metavar="PATTERN", help="summarise and convert only threads of this name (* and ? allowed)")
    parser.add_argument("--merge-threads", action="store_true", help="convert all threads as one")
    parser.add_argument("--max-depth", type=_depth, default=512, metavar="N", help="frames kept of a stack (default 512)")
    parser.add_argument("--native", action="store_true", help="native frames too, between and below the Python frames")
    for kind, text in (("leaf", "only those below the last Python frame"), ("full", "CPython's own functions too")):
        parser.add_argument(f"--native={kind}", dest="native", action="store_const", const=kind, help=text)
    parser.add_argument("-o", "--output", metavar="FILE", help="file to write (default NAME.PID.spprof)")
    parser.add_argument("-f", "--format", choices=tuple(formats.FORMATS), help="default: what FILE ends with, else spprof")
    parser.add_argument("--force", action="store_true", help="replace FILE even if it is no profile")
    parser.add_argument("--limit", type=count, default=15, metavar="N", help="functions in the summary (default 15)")
    said = parser.add_mutually_exclusive_group()
    said.add_argument("-q", "--quiet", action="store_true", help="print no summary")
    said.add_argument("-v", "--verbose", action="store_true", help="say what became of each tick, even if none was lost")
    # REMAINDER: from here on nothing is ours.
    what = parser.add_argument_group("the program", "[-m MODULE | -c CODE | SCRIPT] ARGS...")
    what.add_argument("-m", dest="module", nargs=REMAINDER, help=parser.hidden)
    what.add_argument("-c", dest="code", nargs=REMAINDER, help=parser.hidden)
    what.add_argument("script", nargs=REMAINDER, help=parser.hidden)


def main(options: argparse.Namespace) -> int:
    """Runs the program, and ends as it does."""
    kind, command = _given(options)
    if options.output == "-":
        raise Mistake("stdout belongs to the program: give a file, then `spprof convert FILE -o -`")
    if options.live and os.name == "nt":
        raise SpprofError(
            "--live needs a pseudo-terminal, which Windows has not; run the program, then `spprof live FILE` beside it"
        )
    if options.live and options.events and "time" not in options.events:
        raise Mistake("--live shows time alone: give --event time, too")
    rate = options.rate if options.interval is None else None
    recording = Options(
        options.interval,
        options.mode,
        rate=rate,
        clock=options.clock,
        max_depth=options.max_depth,
        native=options.native,
        events=options.events or ("time",),
        calls=options.calls,
    )
    from ..launching import program
    from ..launching.run import Run, say

    try:
        run = Run(kind, command, recording, options)
    except program.NoModule as error:
        say(f"{error}\n")
        return 1
    if not options.live:
        return run.run()
    from ..live import program as live

    return live.end(run.watch(live.run))


def _given(options: argparse.Namespace) -> Tuple[str, List[str]]:
    """Which kind of program, and its words."""
    for kind in ("module", "code", "script"):
        command: List[str] = getattr(options, kind) or []
        if command[:1] == ["--"]:
            command = command[1:]
        if command:
            return kind, command
    raise Mistake("what shall run? Give a SCRIPT, -m MODULE, -c CODE, or - for a program from stdin")
