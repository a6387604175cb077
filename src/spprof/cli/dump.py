"""`spprof dump`: what each thread does, or did last, from the file that its profile is written to."""

from __future__ import annotations

import argparse
import sys

from ..errors import BadOption
from ..files.profile import Profile
from ..report.last_stacks import last_stacks
from ..report.text import put, say
from ._arguments import add_full_paths, profile_path

HELP = "print the current or last stack of each thread"
EXAMPLES = """\
Reads the file that a running program writes, some 0.2 s behind it. The program does not notice. In wall mode threads that wait
are seen too; in CPU mode each thread shows where it last used the processor.

examples:
  spprof run --mode wall server.py         in one terminal
  spprof dump server.4711.spprof           in another one
  spprof dump server.4711.spprof --thread 'worker*'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `dump`."""
    parser.add_argument("file", metavar="FILE", type=profile_path, help="a .spprof file, of a program that runs or that ran")
    parser.add_argument("--thread", metavar="PATTERN", help="only threads of this name or system id (* and ? allowed)")
    add_full_paths(parser)


def main(options: argparse.Namespace) -> int:
    """Prints the stacks."""
    profile = Profile.load(options.file)
    if "source" in profile.header:
        raise BadOption(f"{options.file}: a file of another profiler does not say when its samples were taken")
    put(sys.stdout, "\n".join(last_stacks(profile, options.thread)) + "\n")
    if profile.warning:
        say(f"spprof: {options.file}: {profile.warning}")
    return 0
