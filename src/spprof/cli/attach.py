"""`spprof attach`: profiles a process that runs already."""

from __future__ import annotations

import sys

from ..errors import Unsupported
from ._arguments import positive, process
from ._processes import chosen
from ._recording import STALLS, add_recording, add_results, recording_of

TYPE_CHECKING = False  # the user waits for the first sample
if TYPE_CHECKING:
    import argparse
    from typing import Any

HELP = "profile a process that runs already"
EXAMPLES = """\
Samples the process until Ctrl-C, prints the summary that `run` prints, and leaves the process as it was. It works
  - with CPython 3.14 and later, and on x86_64 with 3.9 to 3.13, if this spprof has a core for the same version, by the right
    to trace the process (the same user and kernel.yama.ptrace_scope 0, or root). The main thread must come to a line of Python,
    or before 3.14 wait in a call of CPython's own;
  - with every version, without any right, if the program called spprof.listen() or was started with SPPROF_LISTEN=1.

examples:
  spprof attach 4711
  spprof attach 4711 --duration 30 --rate 100 -o slow.html
  spprof attach 4711 --mode wall --native
  spprof attach 4711 --subprocesses        a server and its workers
  spprof attach 4711 --on-stall 5          what does each thread wait for, if it hangs?
  spprof attach gunicorn                   the process whose command line has the word; of several it asks which
"""


def add_arguments(parser: Any) -> None:
    """Options of `attach`."""
    parser.add_argument("pid", metavar="PID", type=process, help="the process, or a word of its command line")
    add_recording(parser)
    parser.add_argument("--duration", type=positive, metavar="S", help="end after S seconds")
    parser.add_argument("--subprocesses", action="store_true", help="its child processes too, also those of later")
    parser.add_argument("--on-stall", type=positive, metavar="S", help=STALLS)
    parser.add_argument("--live", action="store_true", help="show the profile until `q` (pip install 'spprof[tui]')")
    add_results(parser)


def main(options: argparse.Namespace) -> int:
    """Profiles the process."""
    if sys.platform != "linux":
        raise Unsupported("spprof attaches to processes on Linux alone; `spprof run` profiles a program from its start")
    from ..launching.attach import Attach

    pid, show = chosen(options.pid), None
    if options.live:
        from . import _view

        _view.check(pid)
        show = lambda path: _view.show(path, pid)  # noqa: E731
    return Attach(pid, recording_of(options), options, show).run()
