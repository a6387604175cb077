"""How a profile is recorded, and what becomes of it: options that `run` and `attach` share."""

from __future__ import annotations

from .. import formats
from ..errors import BadOption
from ..recording.options import INTERVAL_MS, MAX_DEPTH, MODES, RATE_HZ, Options
from ._arguments import add_mine, count, number

TYPE_CHECKING = False  # `typing` and `argparse` are imported while the program starts, or not at all
if TYPE_CHECKING:
    import argparse
    from typing import Any


STALLS = (
    "if the program makes no progress for S seconds, write what each thread does, and what it waits for, as `spprof dump` prints "
    "it, beside the profile (Linux)"
)


def _rate(text: str) -> float:
    return number(text, f"{RATE_HZ.least} to {RATE_HZ.most:,} samples a second", RATE_HZ.least, RATE_HZ.most)


def _interval(text: str) -> float:
    return number(text, f"{INTERVAL_MS.least:g} to {INTERVAL_MS.most:,g} milliseconds", INTERVAL_MS.least, INTERVAL_MS.most)


def _depth(text: str) -> int:
    return int(number(text, f"{MAX_DEPTH.least} to {MAX_DEPTH.most:,} frames", MAX_DEPTH.least, MAX_DEPTH.most))


def add_recording(parser: Any) -> None:
    """Options of a recording, of `run` and `attach`."""
    parser.add_argument(
        "--mode", choices=MODES, default="cpu", help="cpu (default): time on the processor; wall: all time, also while it waits"
    )
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument(
        "--rate", type=_rate, default=RATE_HZ.default, metavar="HZ", help="samples a second of a thread (default %(default)s)"
    )
    pace.add_argument("--interval", type=_interval, metavar="MS", help="the same, as milliseconds between two samples")
    parser.add_argument(
        "--clock", default="auto", metavar="NAME", help="signal, perf, timer, ...: see docs/clocks.md (default: the best)"
    )
    parser.add_argument("--event", metavar="NAME", action="append", default=[], dest="events",
                        help="what is sampled: time (default), page-faults, ...; NAME=N: one for each N; list: all")  # fmt: skip
    parser.add_argument(
        "--calls", action="store_true", help="count each call of a Python function, exactly, by the line that calls"
    )
    parser.add_argument("--calls=c", dest="calls", action="store_const", const="c", help="functions in C that Python calls, too")
    parser.add_argument("--calls=hot", dest="calls", action="store_const", const="hot",
                        help="of the hottest functions only, in a part of the run, with next to no slowdown (3.12+)")  # fmt: skip
    parser.add_argument("--time", metavar="PATTERN", action="append", default=[],
                        help="time each call of these functions, exactly: MODULE:QUALNAME (* and ? allowed; 3.12+)")  # fmt: skip
    parser.add_argument("--time-cpu", action="store_true", help="the CPU time of each of these calls, too")
    parser.add_argument("--lines", metavar="PATTERN", action="append", default=[],
                        help="count executions of these functions' lines and branches, exactly: as --time (3.12+)")  # fmt: skip
    parser.add_argument("--exceptions", action="store_true",
                        help="count each exception, by its type and the lines that raised and caught it (3.12+)")  # fmt: skip
    parser.add_argument("--imports", action="store_true", help="time each import, exactly, as -X importtime does")
    parser.add_argument("--specialization", action="store_true",
                        help="see at the end which instructions CPython could not specialize (3.11+)")  # fmt: skip
    parser.add_argument(
        "--max-depth", type=_depth, default=MAX_DEPTH.default, metavar="N", help="frames kept of a stack (default %(default)s)"
    )
    parser.add_argument("--native", action="store_true", help="functions in C, C++ and Rust, too")
    for kind, text in (("leaf", "only those that the last Python function called"), ("full", "CPython's own functions too")):
        parser.add_argument(f"--native={kind}", dest="native", action="store_const", const=kind, help=text)


def add_results(parser: Any) -> None:
    """What becomes of it, likewise."""
    parser.add_argument("--thread", metavar="PATTERN", help="summarise and convert only threads of this name (* and ? allowed)")
    parser.add_argument("--merge-threads", action="store_true", help="write all threads as one")
    parser.add_argument("-o", "--output", metavar="FILE", help="file to write (default NAME.PID.spprof)")
    parser.add_argument("-f", "--format", choices=tuple(formats.FORMATS), metavar="FORMAT",
                        help=f"{', '.join(formats.FORMATS)} (default: what FILE ends with, else spprof)")  # fmt: skip
    parser.add_argument("--force", action="store_true", help="replace FILE even if it is no profile")
    parser.add_argument("--limit", type=count, metavar="N", help="functions in the summary's table (default: at most 15)")
    add_mine(parser)
    said = parser.add_mutually_exclusive_group()
    said.add_argument("-q", "--quiet", action="store_true", help="print no summary")
    said.add_argument("-v", "--verbose", action="store_true", help="say what became of each tick, even if none was lost")


def recording_of(options: argparse.Namespace) -> Options:
    """What `add_recording` gave. Raises BadOption, in the words of the command line."""
    try:
        return _recording_of(options)
    except BadOption as error:
        raise BadOption(_typed(str(error))) from None


def _typed(said: str) -> str:
    """Options of the API as one types them: `--time-cpu` of time_cpu=True, `--calls=hot` of calls='hot'."""
    import re

    def option(match: re.Match[str]) -> str:
        name, value = match[1].replace("_", "-"), match[2].strip("'")
        name = {"events": "event", "interval-ms": "interval"}.get(name, name)
        return f"--{name}" if value == "True" else f"--{name}{'=' if name in ('calls', 'native') else ' '}{value}"

    return re.sub(r"\b([a-z_]+)=('[^']*'|[\w.]+)", option, said)


def _recording_of(options: argparse.Namespace) -> Options:
    return Options(
        options.interval,
        options.mode,
        rate=options.rate if options.interval is None else None,
        clock=options.clock,
        max_depth=options.max_depth,
        native=options.native,
        events=options.events or ("time",),
        calls=options.calls,
        time=options.time,
        time_cpu=options.time_cpu,
        lines=options.lines,
        exceptions=options.exceptions,
        imports=options.imports,
        specialization=options.specialization,
    )
