"""`spprof ps`: the processes that run Python."""

from __future__ import annotations

import argparse
import os
import sys

from ..errors import Unsupported
from ..report.text import put
from ._processes import show

HELP = "list processes that run Python"
EXAMPLES = """\
For each its number, its version of Python, whether `spprof attach` can enter it, and its command line:
  listens  it called spprof.listen(), or was started with SPPROF_LISTEN=1: this spprof can attach to it
  yes      this spprof can enter it, when its main thread comes to a line of Python (before 3.14 also while it waits in a call of
           CPython's own)
  no       and why. A program that calls spprof.listen() can be attached to on every version; `spprof dump PID` needs no way in,
           only the right to read the process

examples:
  spprof ps
  spprof dump 4711                         what does it do, or wait for?
  spprof attach 4711                       profile it
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None."""


def main(options: argparse.Namespace) -> int:
    """Prints them."""
    if sys.platform != "linux":
        raise Unsupported("spprof looks at other processes on Linux alone")
    from ..outside.processes import processes

    found, hidden = processes()
    show(found, sys.stdout)
    if hidden:
        whose = "process of another user" if hidden == 1 else "processes of other users"
        why = "root sees them" if os.geteuid() else "the capability SYS_PTRACE is missing"
        put(sys.stdout, f"{hidden} {whose} could not be looked at: {why}\n")
    return 0
