"""`spprof report`: the summary of a file, or of several processes' files together, on stdout."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import Sequence

from ..errors import BadOption
from ..files.profile import Profile
from ..model.data import ProfileData
from ..report.owners import patterns
from ..report.summary import own_code, summary
from ..report.tables import BY, table
from ..report.text import put, readable, width_of_table
from ..report.whose import owners_of
from . import _part
from ._arguments import OTHERS, add_full_paths, add_mine, count, newest, percentage, profile_path
from ._report_views import ROWS, view

HELP = "print the summary of a profile"
EXAMPLES = """\
examples:
  spprof report                            what was profiled last in this folder
  spprof report script.1234.spprof
  spprof report p.spprof --by line         also: file, thread
  spprof report p.spprof --format tree     what calls what; --min-share 5 for less of it
  spprof report p.spprof --callers parse   what calls it, up to the beginning; --callees parse: what it calls
  spprof report p.spprof --sort total --limit 40
  spprof report p.spprof --thread 'worker*'
  spprof report script.*.spprof            a program and its child processes as one; --by process: which used what
  spprof report cpu.pprof                  another profiler's file: pprof, speedscope, perf script, ...
  spprof report p.spprof --python-only     native functions' time to the Python functions that called them
  spprof report p.spprof --hide importlib --focus 'load*'
  spprof report p.spprof --label 'route=/cart*' --from 10 --to 20
  spprof report p.spprof --by route        the time of each value of a label; --by label: of each set of labels
  spprof report p.spprof --native-calls    native time by the Python line that called it
  spprof report p.spprof --sort calls      exact numbers of calls, of `spprof run --calls`; --calls: by calling line
  spprof report p.spprof --slowest         the slowest calls of `spprof run --time`, with stacks and labels
  spprof report p.spprof --lines           each line of the functions of `spprof run --lines`: how often, how long
  spprof report p.spprof --exceptions      exceptions by type and line, of `spprof run --exceptions`
  spprof report p.spprof --specialization  hot lines that CPython could not specialize, of `spprof run --specialization`
  spprof report p.spprof --gc              what triggered garbage collections, of `spprof run --event time --event gc`
  spprof report p.spprof --waits           what each thread waited for (run with --mode wall); --waiting io: only that
  spprof report p.spprof --waits --by route   what each value of a label waited for
  spprof report p.spprof --blame           which threads, and what in them, held the GIL or a lock that others waited for
  spprof report p.spprof --tail p99        what the slowest 1 % of requests do that the others do not
  spprof report p.spprof --imports         which modules took how long to import; exactly, of `spprof run --imports`
  spprof report p.spprof --format json --limit all | jq '.rows[0]'        --lines, --gc, ... too: docs/report.schema.json

A share is shown with its 95 % interval, as 42.1% ±1.3: what the number of samples allows to say (docs/intervals.md).
"""


_JSON_ROWS = 50  # some 30 kB
_ALL = 1 << 62


def _limit(text: str) -> int:
    return _ALL if text == "all" else count(text)


def _quantile(text: str) -> float:
    """`p99` as 0.99."""
    try:
        percent = float(text[1:]) if text[:1] == "p" else 0.0
    except ValueError:
        percent = 0.0
    if not 0 < percent < 100:
        raise argparse.ArgumentTypeError(f"{text!r}: give a percentile such as p99 or p99.9")
    return percent / 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `report`."""
    kinds = f"a .spprof file, or another profiler's ({OTHERS}); several are added up (default: the newest of this folder)"
    parser.add_argument("files", metavar="FILE", nargs="*", type=profile_path, help=kinds)
    parser.add_argument("-f", "--format", choices=("flat", "tree", "markdown", "json"), default="flat",
                        help="a table (default), the tree of calls, or the table for GitHub or for programs")  # fmt: skip
    parser.add_argument("--by", metavar="KIND", default="function",
                        help=f"what a row is: {', '.join(BY)}, or a label's key (default function)")  # fmt: skip
    parser.add_argument("--limit", type=_limit, metavar="N",
                        help="rows to print, or all (default 15; tree: see --min-share;"
                             f" json of the table: {_JSON_ROWS}, of others all)")  # fmt: skip
    parser.add_argument("--min-share", type=percentage, default=1.0, metavar="PERCENT",
                        help="calls or imports of less of all time are left out of the tree (default 1)")  # fmt: skip
    parser.add_argument("--thread", metavar="PATTERN", help="only threads of this name (* and ? allowed)")
    parser.add_argument("--sort", choices=("self", "total", "calls"), default="self",
                        help="order of the rows (default self); calls: their exact number, of a run with --calls")  # fmt: skip
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--python-only", dest="shown", action="store_const", const="python",
                       help="without native functions: their time counts for the Python functions that called them")  # fmt: skip
    shown.add_argument("--native-only", dest="shown", action="store_const", const="native", help="only native functions")
    shown.add_argument("--imports", dest="shown", action="store_const", const="imports",
                       help="a tree of the modules that were imported, with the time of each")  # fmt: skip
    shown.add_argument("--native-calls", dest="shown", action="store_const", const="native-calls",
                       help="native time by the Python line that called it")  # fmt: skip
    shown.add_argument("--calls", dest="shown", action="store_const", const="calls",
                       help="how often each line called what, of a run with --calls")  # fmt: skip
    shown.add_argument("--slowest", dest="shown", action="store_const", const="slowest",
                       help="the slowest calls of each timed function with their stacks, of a run with --time")  # fmt: skip
    shown.add_argument("--lines", dest="shown", action="store_const", const="lines",
                       help="executions, time and source of each line, and branches, of a run with --lines")  # fmt: skip
    shown.add_argument("--exceptions", dest="shown", action="store_const", const="exceptions",
                       help="which exceptions were raised and caught where, of a run with --exceptions")  # fmt: skip
    shown.add_argument("--specialization", dest="shown", action="store_const", const="specialization",
                       help="hot lines that CPython could not specialize, of a run with --specialization")  # fmt: skip
    shown.add_argument("--gc", dest="shown", action="store_const", const="gc",
                       help="which lines triggered garbage collections, of a run with --event gc")  # fmt: skip
    shown.add_argument("--waits", dest="shown", action="store_const", const="waits",
                       help="what each thread waited for, of a run with --mode wall; --by LABEL: each of its values")  # fmt: skip
    shown.add_argument("--blame", dest="shown", action="store_const", const="blame",
                       help="which threads held the GIL or a lock that others waited for, of a run with --mode wall")  # fmt: skip
    shown.add_argument("--tail", type=_quantile, metavar="p99",
                       help="what the slowest requests do that the others do not, of a run with --mode wall")  # fmt: skip
    shown.add_argument("--tasks", dest="shown", action="store_const", const="tasks",
                       help="where the time of asyncio's tasks went, of a run in wall mode with --event tasks")  # fmt: skip
    around = parser.add_mutually_exclusive_group()
    around.add_argument("--callers", metavar="NAME", help="what calls these functions, and what calls that (* and ? allowed)")
    around.add_argument("--callees", metavar="NAME", help="what these functions call, and what that calls")
    add_mine(parser)
    parser.add_argument("--sources", action="store_true",
                        help="with --lines: source text as it is now, also of files that may have changed")  # fmt: skip
    add_full_paths(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="what became of each tick, even if none was lost")
    _part.add_arguments(parser)


def main(options: argparse.Namespace) -> int:
    """Prints the report."""
    files = options.files or newest()
    profiles = _part.of_all([Profile.load(file) for file in files], options)
    title, end = "", ""
    if options.format in ("flat", "tree"):
        title, end = _part.title(profiles), f"  spprof open {' '.join(map(shlex.quote, files))}\n"
    put(sys.stdout, title + _text(profiles, options) + end)
    return 0


def _text(profiles: Sequence[ProfileData], options: argparse.Namespace) -> str:
    if options.callers is not None or options.callees is not None:
        return _around(profiles, options)
    of_its_own = view(profiles, options)
    if of_its_own is not None:
        return of_its_own
    if options.sort == "calls" and options.format == "tree":
        raise BadOption("a tree is of time: use --sort calls without --format tree")
    if options.format == "tree":
        if options.shown == "native" or options.by not in ("function", "line"):
            raise BadOption(
                "a tree is of functions or lines, all or Python's only: use --by function, --by line or --python-only"
            )
        from ..report.tree import tree

        return tree(
            profiles, sys.stdout, options.thread, options.by, options.shown == "python", options.min_share, options.verbose
        )
    if options.format == "flat":
        how = (options.limit, options.thread, options.sort, options.shown, options.by)
        return summary(profiles, *how, width_of_table(sys.stdout), options.verbose, patterns(options.mine), bool(options.waiting))
    from ..report import export

    if options.format == "markdown":
        profiles = list(map(readable, profiles))
    shown = table(profiles, options.by, options.thread, options.sort, options.shown)
    if options.format == "json":
        return export.as_json(shown, _JSON_ROWS if options.limit is None else options.limit)
    owners = owners_of(profiles, patterns(options.mine))
    own = own_code(shown, owners, width_of_table(sys.stdout))
    return export.as_markdown(shown, ROWS if options.limit is None else options.limit, own, owners.title)


def _around(profiles: Sequence[ProfileData], options: argparse.Namespace) -> str:
    """The text of --callers and --callees."""
    if options.format not in ("flat", "tree") or options.shown not in (None, "python") or options.by not in ("function", "line"):
        raise BadOption(
            "--callers and --callees are trees of functions: use them without --format, with --by line or --python-only"
        )
    from ..report.tree import around

    callers = options.callers is not None
    name = options.callers if callers else options.callees
    return around(profiles, sys.stdout, name, callers, options.thread, options.by, options.shown == "python", options.min_share)
