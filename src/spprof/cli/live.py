"""`spprof live`: the functions of a program while it runs, from the file that its profile is written to."""

from __future__ import annotations

import argparse
import os

from ..errors import BadOption

HELP = "show a profile while it is taken"
EXAMPLES = """\
Follows the file that a running program writes. Keys: s, t sort by self or total time; l lines or functions; f, b only some
threads or labels; p pause; z count from now on; q quit. The program does not notice.
Needs the package textual: pip install 'spprof[tui]'

examples:
  spprof live server.4711.spprof           of a program that runs under `spprof run`, or called spprof.start(output_path=...)
  spprof run --live script.py              the same, in one command
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `live`."""
    parser.add_argument("file", metavar="FILE", help="a .spprof file that is being written")
    parser.add_argument("--type", metavar="NAME", help="samples of this type, such as page-faults (default: the first)")


def main(options: argparse.Namespace) -> int:
    """Shows the file until `q`."""
    from ..live import view_class
    from ..live.follow import Follower

    view = view_class()
    if not (os.isatty(0) and os.isatty(2)):
        raise BadOption("the live view needs a terminal; `spprof report` prints the profile so far")
    follower = Follower(options.file, options.type)
    os.stat(options.file)  # nobody is about to write it
    follower.read()
    view(follower).run()
    return 0
