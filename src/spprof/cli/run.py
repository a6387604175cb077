"""`spprof run`: profiles a program from its first line to its last thread and exit handler. The program is a process of its own,
in which there is only the recorder (launching/)."""

from __future__ import annotations

import os

from ..errors import SpprofError, Unsupported
from ._arguments import Mistake, positive
from ._recording import STALLS, add_recording, add_results, recording_of

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
  spprof run uvicorn app:app               a command, as a shell starts it: by its own interpreter
  spprof run ./venv/bin/python script.py   another interpreter; also --python ./venv/bin/python
  spprof run --mode wall server.py         where does it wait?
  spprof run --rate 10000 script.py        10,000 samples a second
  spprof run --native script.py            C, C++ and Rust functions too
  spprof run --event page-faults script.py      what touches new memory? With `--event time` too: both in one file
  spprof run --event list                  context switches, migrations, cycles, ...: what there is here
  spprof run --calls script.py             how often is each function called? Exact numbers beside the time
  spprof run --time 'shop.price:*' x.py    how long does each call of these functions take? Exact quantiles
  spprof run --lines 'shop.price:*' x.py   how often does each line of these functions run? Exact numbers, branches too
  spprof run --imports script.py           how long does each import take? Exact times as a tree
  spprof run --specialization script.py    which hot lines could CPython not specialize?
  spprof run --exceptions script.py        which exceptions are raised and caught where, how often?
  spprof run -o p.speedscope.json x.py     for https://speedscope.app
  spprof run --duration 30 server.py       only the first 30 seconds
  spprof run --delay 10 --duration 30 server.py      not the first 10 seconds, but the next 30
  spprof run --on-stall 5 server.py        what does each thread wait for, if it hangs?
  spprof run --live script.py              watch it; what it prints is shown by `o` and afterwards
  spprof run --subprocesses server.py      child processes too, each into NAME.PID.spprof
"""


def add_arguments(parser: Any) -> None:
    """Options of `run`. All that follows SCRIPT, COMMAND, MODULE or CODE is the program's."""
    parser.usage = "spprof run [OPTIONS] [-m MODULE | -c CODE | SCRIPT | COMMAND] ARGS..."
    add_recording(parser)
    parser.add_argument("--delay", type=positive, metavar="S", help="take no samples in the first S seconds")
    parser.add_argument("--duration", type=positive, metavar="S", help="stop profiling after S seconds; the program goes on")
    parser.add_argument("--subprocesses", action="store_true", help="profile child processes too, into files of their own")
    parser.add_argument("--python", metavar="PATH", help="run the program by this interpreter, not by spprof's own")
    parser.add_argument("--on-stall", type=positive, metavar="S", help=STALLS)
    parser.add_argument("--live", action="store_true", help="show the profile while the program runs (pip install 'spprof[tui]')")
    add_results(parser)
    # REMAINDER: from here on nothing is ours.
    what = parser.add_argument_group("the program", "all that follows -m MODULE, -c CODE, SCRIPT or COMMAND is its own")
    what.add_argument("-m", dest="module", nargs=REMAINDER, help=parser.hidden)
    what.add_argument("-c", dest="code", nargs=REMAINDER, help=parser.hidden)
    what.add_argument("script", nargs=REMAINDER, help=parser.hidden)


def main(options: argparse.Namespace) -> int:
    """Runs the program, and ends as it does."""
    if "list" in options.events:
        from ..recording.events import listed

        print(*listed(), sep="\n")
        return 0
    kind, command = _given(options)
    if options.output == "-":
        raise Mistake("stdout belongs to the program: give a file, then `spprof convert FILE -o -`")
    if options.live and os.name == "nt":
        raise SpprofError(
            "--live needs a pseudo-terminal, which Windows has not; run the program, then `spprof live FILE` beside it"
        )
    if options.on_stall:
        _check_stalls(options)
    recording = recording_of(options)
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


def _check_stalls(options: argparse.Namespace) -> None:
    import sys

    if sys.platform != "linux":
        raise Unsupported("--on-stall reads the program's memory from outside, which spprof does on Linux alone")
    if options.live:
        raise Mistake("--live shows what threads do: leave --on-stall out")


def _given(options: argparse.Namespace) -> Tuple[str, List[str]]:
    """Which kind of program, and its words."""
    for kind in ("module", "code", "script"):
        command: List[str] = getattr(options, kind) or []
        if command[:1] == ["--"]:
            command = command[1:]
        if command:
            return kind, command
    raise Mistake("what shall run? Give a SCRIPT or a COMMAND, -m MODULE, -c CODE, or - for a program from stdin")
