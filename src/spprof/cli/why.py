"""`spprof why`: where the time went, in words."""

from __future__ import annotations

import argparse
import sys

from ..files.profile import Profile
from ..report.owners import patterns
from ..report.text import put
from ..report.why import Why
from . import _part
from ._arguments import OTHERS, add_full_paths, add_mine, newest, profile_path

HELP = "say in words where the time went"
EXAMPLES = """\
At most forty lines: the places in your own code that use most, each with its share and 95 % interval, file and line, and the
command that shows more. It says nothing that the samples are too few to show.

examples:
  spprof why                               of what was profiled last in this folder
  spprof why script.1234.spprof
  spprof why script.*.spprof               a program and its child processes as one
  spprof why p.spprof --mine pandas        as if pandas were your own code
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `why`."""
    kinds = f"a .spprof file, or another profiler's ({OTHERS}); several are added up (default: the newest of this folder)"
    parser.add_argument("files", metavar="FILE", nargs="*", type=profile_path, help=kinds)
    add_mine(parser)
    add_full_paths(parser)
    _part.add_arguments(parser)


def main(options: argparse.Namespace) -> int:
    """Prints the answer."""
    files = options.files or newest()
    profiles = _part.of_all([Profile.load(file) for file in files], options)
    why = Why(profiles, files, patterns(options.mine), _part.words(options), bool(options.waiting))
    put(sys.stdout, _part.title(profiles) + why.text())
    return 0
