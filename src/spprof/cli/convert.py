"""`spprof convert`: a file in another format."""

from __future__ import annotations

import argparse
import sys

from .. import formats
from ..errors import BadOption
from ..files.imported import imported
from ..files.output import save
from ..model.explained import explained
from . import _part
from ._arguments import OTHERS, add_sources, load, profile_path, say_of_sources

HELP = "convert a profile for other programs"
EXAMPLES = """\
examples:
  spprof convert p.spprof -o p.html        one page to look at in a browser
  spprof convert p.spprof -o p.speedscope.json
  spprof convert p.spprof -f collapsed -o - | flamegraph.pl > p.svg
  spprof convert py-spy.txt -o p.speedscope.json     another profiler's file: pprof, perf script, ...
  spprof convert p.spprof -f collapsed --weight value --merge-threads -o p.collapsed
  spprof convert app.*.spprof -o app.html  a program and its child processes as one
  spprof convert p.spprof --waits -o p.svg           what was waited for, as frames below those that waited
  spprof convert p.spprof --imports -o p.svg         exact times of imports as a flame graph
  spprof convert p.spprof --hide importlib --focus 'load*' -o p.svg
  spprof convert p.spprof --from 10 --to 20 -o p.speedscope.json
  spprof convert p.spprof -o p.pb.gz && go tool pprof -http=: p.pb.gz

formats:
""" + "".join(f"  {name:12}{format.extension:18}{format.title}\n" for name, format in formats.FORMATS.items())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `convert`."""
    kinds = f"a .spprof file, or another profiler's ({OTHERS}); several become one"
    parser.add_argument("files", metavar="FILE", nargs="+", type=profile_path, help=kinds)
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help="file to write, - for stdout")
    help_text = "one of those below (default: what OUT ends with)"
    parser.add_argument("-f", "--format", metavar="FORMAT", choices=tuple(formats.FORMATS), help=help_text)
    parser.add_argument("--weight", choices=("samples", "value"), help="what the numbers count (value: time, or the type's unit)")
    parser.add_argument("--no-lines", action="store_true", help="do not report the lines of a function apart")
    parser.add_argument("--merge-threads", action="store_true", help="all threads as one")
    add_sources(parser)
    parser.add_argument("--force", action="store_true", help="replace OUT even if it is no profile of this format")
    parser.add_argument("--thread", metavar="PATTERN", help="only threads of this name (* and ? allowed)")
    parser.add_argument("--waits", action="store_true",
                        help="below each leaf a frame with what the thread waited for, of a run with --mode wall")  # fmt: skip
    parser.add_argument("--imports", action="store_true",
                        help="instead of the samples the exact times of imports, of a run with --imports")  # fmt: skip
    _part.add_arguments(parser)


def main(options: argparse.Namespace) -> int:
    """Converts."""
    profiles = list(map(load, options.files))
    if options.imports:
        profiles = list(map(imported, profiles))
    profile = _part.together(_part.of_all(profiles, options), options.thread)
    thread = options.thread if len(options.files) == 1 else None
    is_copy = (options.format or formats.format_of(options.output)) == "spprof"
    if is_copy and (options.hide or options.show):
        raise BadOption("--hide and --show do not fit the format spprof: it is a copy of the file, with its whole stacks")
    if options.imports and is_copy:
        raise BadOption("--imports does not fit the format spprof: it is a copy of the file, which has the times of imports")
    if options.waits:
        if is_copy:
            raise BadOption("--waits does not fit the format spprof: it is a copy of the file, which has the reasons")
        profile = explained(profile)
    chosen = formats.Options(options.weight, not options.no_lines, options.merge_threads, thread, options.sources)
    say_of_sources(profile, options.format or formats.format_of(options.output), options.sources)
    if options.output == "-":
        formats.write(profile, sys.stdout.buffer, options.format or "collapsed", chosen)
        sys.stdout.flush()
    else:
        save(profile, options.output, options.format, chosen, options.force, options.files)
    return 0
