"""`spprof convert`: a file in another format."""

from __future__ import annotations

import argparse
import sys

from .. import formats
from ..model import Profile
from . import part

HELP = "convert a profile for other programs"
EXAMPLES = """\
examples:
  spprof convert p.spprof -o p.speedscope.json
  spprof convert p.spprof -f collapsed -o - | flamegraph.pl > p.svg
  spprof convert p.spprof -f collapsed --weight ns --merge-threads -o p.collapsed
  spprof convert p.spprof --from 10 --to 20 -o p.speedscope.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `convert`."""
    titles = "; ".join(f"{name}: {format.title}" for name, format in formats.FORMATS.items())
    parser.add_argument("file", metavar="FILE", help="a .spprof file")
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help="file to write, - for stdout")
    parser.add_argument("-f", "--format", choices=tuple(formats.FORMATS), help=f"{titles} (default: what OUT ends with)")
    parser.add_argument("--weight", choices=("samples", "ns"), default="samples", help="what collapsed counts")
    parser.add_argument("--no-lines", action="store_true", help="do not tell the lines of a function apart")
    parser.add_argument("--merge-threads", action="store_true", help="all threads as one")
    parser.add_argument("--thread", metavar="PATTERN", help="only threads of this name (* and ? allowed)")
    part.add_arguments(parser)


def main(options: argparse.Namespace) -> int:
    """Converts."""
    profile = Profile.load(options.file)
    if profile.warning:
        sys.stderr.write(f"spprof: {options.file}: {profile.warning}\n")
    profile = part.of(profile, options)
    chosen = formats.Options(options.weight, not options.no_lines, options.merge_threads, options.thread)
    if options.output == "-":
        formats.write(profile, sys.stdout.buffer, options.format or "collapsed", chosen)
        sys.stdout.flush()
    else:
        formats.save(profile, options.output, options.format, chosen)
    return 0
