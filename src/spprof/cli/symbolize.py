"""`spprof symbolize`: lines and inlined functions of native frames, added to a profile."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from ._arguments import profile_path

if TYPE_CHECKING:
    from ..files.symbolize import Library

HELP = "add source lines and inlined functions to the native frames of a profile"
EXAMPLES = """\
Reads the debug information of the libraries, on the machine where they are; the program is not needed any more.
Needs the package symbolic: pip install 'spprof[symbols]'

examples:
  spprof symbolize app.4711.spprof                       in place; report and convert show lines from then on
  spprof symbolize app.4711.spprof -o with-lines.spprof
  spprof symbolize app.4711.spprof --debug-dir ~/debug   also looks for ~/debug/.build-id/ab/cdef.debug
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `symbolize`."""
    parser.add_argument("file", metavar="FILE", type=profile_path, help="a .spprof file taken with --native")
    parser.add_argument("-o", "--output", metavar="OUT", help="file to write (default: FILE itself)")
    parser.add_argument("--force", action="store_true", help="replace OUT even if it is no profile")
    parser.add_argument("--debug-dir", metavar="DIR", action="append", default=[],
                        help="where to look for .build-id/, before /usr/lib/debug; may be given again")  # fmt: skip


def main(options: argparse.Namespace) -> int:
    """Symbolizes; 1 if there was no debug information at all."""
    from ..files.symbolize import DEBUG_DIRECTORIES, symbolize  # here: `spprof run` shares its process with the program
    from ..report.text import say as put_line

    def say(library: Library) -> None:
        problem = f": {library.problem}" if library.problem else ""
        put_line(f"{library.found:,} of {library.addresses:,} addresses of {library.path}{problem}")

    directories = (*map(os.path.expanduser, options.debug_dir), *DEBUG_DIRECTORIES)
    libraries = symbolize(options.file, options.output, directories, say, options.force)
    found = sum(library.found for library in libraries)
    if not found:
        put_line("spprof: no lines were found: the libraries have no debug information, or it is not installed.")
    return 0 if found else 1
