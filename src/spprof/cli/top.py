"""`spprof top`: what a process does that runs already, as it happens."""

from __future__ import annotations

import argparse
import os
import sys

from ..errors import Unsupported
from . import _view
from ._arguments import process
from ._processes import chosen
from ._recording import add_recording, recording_of

HELP = "show what a process does that runs already, as it happens"
EXAMPLES = """\
Attaches to the process as `spprof attach` does, shows the live view until `q` or Ctrl-C, and leaves the process as it was.
Keys: s, t sort by self or total time; l lines or functions; f, b only some threads or labels; p pause; z count from now on;
q quit. Nothing is kept: `spprof attach PID` writes a profile.
Needs the package textual: pip install 'spprof[tui]'

examples:
  spprof top 4711
  spprof top 4711 --mode wall --native     where does it wait?
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `top`."""
    parser.add_argument("pid", metavar="PID", type=process, help="the process, or a word of its command line")
    add_recording(parser)
    # Of `attach`: a profile in a file of ours, of which nothing is said.
    parser.set_defaults(duration=None, thread=None, merge_threads=False, format="spprof", force=False, quiet=True)
    parser.set_defaults(subprocesses=False, on_stall=None)


def main(options: argparse.Namespace) -> int:
    """Shows the process until the user has seen enough."""
    if sys.platform != "linux":
        raise Unsupported("spprof attaches to processes on Linux alone; `spprof run --live` shows a program from its start")
    pid = chosen(options.pid)
    _view.check(pid)
    import tempfile

    from ..launching.attach import Attach

    with tempfile.TemporaryDirectory(prefix="spprof-") as folder:
        options.output = os.path.join(folder, "top.spprof")
        return Attach(pid, recording_of(options), options, lambda path: _view.show(path, pid)).run()
