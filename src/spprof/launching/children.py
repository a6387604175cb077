"""`spprof run --subprocesses`: child processes profile themselves, each into a file of its own, from their first line on.

A forked child starts in the hook that CPython runs in it. A new program finds `startup/sitecustomize.py` first in PYTHONPATH;
what it is to do stands in an environment variable. No process watches another."""

from __future__ import annotations

import glob
import os
import sys
from typing import List, Optional

from ..errors import SpprofError
from ..recording import api, forks
from ..recording.options import Options

VARIABLE = "SPPROF_CHILDREN"
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup")


def follow(stem: str, options: Options) -> None:
    """In the program that is profiled: its children will be too, into STEM.PID.spprof."""
    os.environ[VARIABLE] = "|".join([str(os.getpid()), options.to_text(), stem])
    old = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = FOLDER + os.pathsep + old if old else FOLDER
    forks.in_child(_forked)


def found(stem: str) -> List[str]:
    """The files that children have written so far."""
    own = f"{stem}.{os.getpid()}.spprof"
    return sorted(path for path in glob.glob(f"{glob.escape(stem)}.*.spprof") if path != own)


def join() -> None:
    """In a new program that a profiled one started."""
    _begin()
    forks.in_child(_forked)  # after those of the first start, which forget the parent's profile


def _begin() -> None:
    # What goes wrong is said, and the child goes on.
    given = os.environ.get(VARIABLE, "").split("|", 2)
    if len(given) < 3 or api.is_active():
        return
    _, options, stem = given
    path = _free(stem)
    try:
        api.begin(Options.of_text(options), path)
    except (SpprofError, OSError, ValueError) as error:
        sys.stderr.write(f"spprof: process {os.getpid()} is not profiled: {error}\n")


def _free(stem: str) -> str:
    """A process that replaces its program by another keeps its id: the second file gets a number."""
    path, number = f"{stem}.{os.getpid()}.spprof", 2
    while os.path.exists(path):
        path, number = f"{stem}.{os.getpid()}.{number}.spprof", number + 1
    return path


def _forked() -> None:
    # subprocess with a preexec_fn: another program takes this one's place at once, and no audit event says so.
    if sys._getframe(1).f_code.co_name == "_execute_child":
        return
    _begin()
    # Children of multiprocessing leave by os._exit, after the finalizers that were registered when they began.
    util = sys.modules.get("multiprocessing.util")
    if util is not None and api.is_active():
        util.register_after_fork(api.stop, lambda _: util.Finalize(None, _end, exitpriority=-1000))


def _end() -> None:
    if api.is_active():
        api.stop()


def stem_of(output: Optional[str], name: str) -> str:
    """What the files of all processes begin with."""
    if output is None:
        return os.path.abspath(name)
    return os.path.abspath(output[: -len(".spprof")] if output.endswith(".spprof") else output)
