"""`spprof ctl`: pauses, resumes or stops a profile while it is taken."""

from __future__ import annotations

import argparse
import sys

from ..errors import SpprofError, Unsupported
from ..report.text import put, say
from ._arguments import process_or_profile

HELP = "pause, resume or stop a profile while it is taken"
EXAMPLES = """\
The program goes on. A paused one costs nothing, and times are those that were sampled; `stop` completes the file of `spprof run`.
A process is reached as by `spprof attach`: by the right to trace it, or without any if it was started with SPPROF_LISTEN=1.

examples:
  spprof run --delay 86400 server.py       begins paused; then, from another terminal:
  spprof ctl server.4711.spprof resume
  spprof ctl server.4711.spprof pause
  spprof ctl server.4711.spprof stop       then: spprof report server.4711.spprof
  spprof ctl 4711 pause                    by the process that is profiled
  spprof ctl app.*.spprof resume           a program and its child processes
"""
_DONE = {"pause": "paused", "resume": "resumed", "stop": "stopped"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `ctl`."""
    parser.add_argument("targets", metavar="PID|FILE", nargs="+", type=process_or_profile,
                        help="a process that is profiled, or the .spprof file that it writes")  # fmt: skip
    parser.add_argument("what", metavar="pause|resume|stop", choices=tuple(_DONE), help="what is to become of the profile")


def main(options: argparse.Namespace) -> int:
    """Does it, of each; 2 if that failed for any."""
    if sys.platform != "linux":
        raise Unsupported("spprof reaches other processes on Linux alone; a program can call spprof.pause() and spprof.resume()")
    from ..launching.control import control, process_of

    code = 0
    for target in options.targets:
        path = None if isinstance(target, int) else target
        try:
            pid = target if path is None else process_of(path)
            if not control(pid, options.what, path):
                return 130
            put(sys.stdout, f"process {pid}: {_DONE[options.what]}\n")
        except (SpprofError, OSError) as error:
            why = f"{path or f'process {target}'}: {error.strerror or error}" if isinstance(error, OSError) else error
            say(f"spprof: {why}")
            code = 2
    return code
