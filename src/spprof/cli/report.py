"""`spprof report`: the summary of a file, or of several processes' files together, on stdout."""

from __future__ import annotations

import argparse
import sys

from ..model import Profile
from . import part
from .summary import summary

HELP = "print the summary of a profile"
EXAMPLES = """\
examples:
  spprof report script.1234.spprof
  spprof report p.spprof --sort total --limit 40
  spprof report p.spprof --thread 'worker*'
  spprof report script.*.spprof            a program and its child processes as one
  spprof report p.spprof --python-only     native functions' time to the Python functions that called them
  spprof report p.spprof --label route=/cart --from 10 --to 20
  spprof report p.spprof --native-calls    native time by the Python line that called it
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `report`."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="a .spprof file; several are added up")
    parser.add_argument("--limit", type=int, default=15, metavar="N", help="functions to print (default 15)")
    parser.add_argument("--thread", metavar="PATTERN", help="only threads of this name (* and ? allowed)")
    parser.add_argument("--sort", choices=("self", "total"), default="self", help="order of the functions (default self)")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--python-only", dest="shown", action="store_const", const="python",
                       help="without native functions: their time counts for the Python functions that called them")  # fmt: skip
    shown.add_argument("--native-only", dest="shown", action="store_const", const="native", help="only native functions")
    shown.add_argument("--native-calls", dest="shown", action="store_const", const="calls",
                       help="native time by the Python line that called it")  # fmt: skip
    part.add_arguments(parser)


def main(options: argparse.Namespace) -> int:
    """Prints the summary."""
    profiles = [part.of(Profile.load(file), options) for file in options.files]
    sys.stdout.write(part.title(options) + summary(profiles, options.limit, options.thread, options.sort, options.shown))
    return 0
