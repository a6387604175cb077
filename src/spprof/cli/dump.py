"""`spprof dump`: what each thread does now, of a process; or did last, from the file that its profile is written to."""

from __future__ import annotations

import argparse
import sys

from ..errors import BadFile, BadOption, Unsupported
from ..report.text import put, say
from ._arguments import Mistake, add_full_paths, process_or_profile

HELP = "print the stack of each thread, of any Python process"
EXAMPLES = """\
Of a process: every thread's stack now, and whether it runs, holds the GIL, or waits for what; and the tasks of asyncio, each with
what it awaits. Nothing is run in the process and nothing needs to be installed there: its memory is read, so it works where the
program hangs, in C code too, or is stopped. CPython 3.9 to 3.15 on Linux. It needs the right to trace the process: the same user
and kernel.yama.ptrace_scope 0, or root. A thread that runs is stopped for 1 ms of reading, at most five times; if spprof is not
root's, on a full machine a stop lasts until spprof has the processor again, some 50 ms. One that waits is not touched.

Of a file: the last stacks in a profile that is being written, some 0.2 s behind, without any right. In wall mode threads that
wait are seen too; in CPU mode each thread shows where it last used the processor.

examples:
  spprof ps                                which process?
  spprof dump 4711
  spprof dump 4711 --thread 'worker*' --locals
  spprof dump 4711 --native                where in a library?
  spprof dump --core core.4711             a process that is no more
  spprof dump server.4711.spprof           of a program that runs under `spprof run`
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `dump`."""
    parser.add_argument("target", metavar="PID|FILE", type=process_or_profile, nargs="?", help="a process, or the .spprof file "
                        "of one")  # fmt: skip
    parser.add_argument("--core", metavar="FILE", help="a core file of a process, instead of a process")
    parser.add_argument("--native", action="store_true", help="of a process: the functions of C, too (not CPython's own)")
    parser.add_argument("--thread", metavar="PATTERN", help="only threads of this name or system id (* and ? allowed)")
    parser.add_argument("--nonblocking", action="store_true", help="of a process: stop no thread; the stack of one that runs may "
                        "be mixed of two moments, and is marked")  # fmt: skip
    parser.add_argument("--locals", action="store_true", help="of a process: the local variables of functions, too (they may be "
                        "secrets): short values; of others the type and the length")  # fmt: skip
    add_full_paths(parser)


def main(options: argparse.Namespace) -> int:
    """Prints the stacks."""
    if (options.core is None) == (options.target is None):
        raise Mistake("give a process, a .spprof file or --core FILE")
    if options.core is not None or isinstance(options.target, int):
        return _of_process(options)
    if options.nonblocking:
        raise Mistake("--nonblocking is for processes: a file is only read")
    if options.locals:
        raise Mistake("--locals is for processes: a file has no values")
    if options.native:
        raise Mistake("--native is for processes: a file has them if it was recorded with --native")
    from ..files.profile import Profile
    from ..report.last_stacks import last_stacks

    profile = Profile.load(options.target)
    if "source" in profile.header:
        raise BadOption(f"{options.target}: a file of another profiler does not say when its samples were taken")
    put(sys.stdout, "\n".join(last_stacks(profile, options.thread)) + "\n")
    if profile.warning:
        say(f"spprof: {options.target}: {profile.warning}")
    return 0


def _of_process(options: argparse.Namespace) -> int:
    if sys.platform != "linux":
        raise Unsupported("spprof reads other processes on Linux alone; `spprof dump FILE` reads a profile that is being written")
    from ..outside.core import CoreFile
    from ..outside.dump import dump, dump_core
    from ..outside.rights import command_of
    from ..outside.text import lines_of

    if options.core is not None:
        try:
            core = CoreFile(options.core)
        except OSError as error:
            raise BadFile(f"{options.core}: {error.strerror}") from None
        try:
            found, command = dump_core(core, options.locals, options.native), core.command
        finally:
            core.close()
    else:
        command = command_of(options.target)
        found = dump(options.target, not options.nonblocking, options.locals, with_native=options.native)
    put(sys.stdout, "\n".join(lines_of(found, command, options.thread, options.locals)) + "\n")
    return 0
