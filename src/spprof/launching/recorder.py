"""What a program's process is told, so that it records itself: in two environment variables, which it takes away again."""

from __future__ import annotations

import os
import re
import sys
from typing import Dict, List, Optional

from ..recording.options import Options

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup")
VARIABLE = "SPPROF_RECORD"


def environment(
    options: Options,
    native: str,
    clock: str,
    path: str,
    stem: str,
    delay: Optional[float],
    duration: Optional[float],
    is_module: bool,
) -> Dict[str, str]:
    r"""The environment of a program that records itself into `path` (or, if something is there, `path` with a number). With a
    `stem` its child processes do too, into STEM.PID.spprof. (\0 in a path: the process id.)"""
    from .. import __version__, _core

    times = [f"+{round(seconds * 1e9)}" if seconds else "0" for seconds in (delay, duration)]
    fields = [_core.proof, __version__, "0", "run", clock, options.mode, options.interval_ns, options.max_depth, native, *times]
    fields += ["m" if is_module else "", _told(path), _told(stem)]
    old = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": FOLDER + os.pathsep + old if old else FOLDER, VARIABLE: "\x1f".join(map(str, fields))}


def _told(path: str) -> str:
    """A path that has neither the separator nor the mark of a process id in it (csrc/module/record.c)."""
    return re.sub("[\x1d-\x1f]", lambda match: "\x1d" + chr(ord(match[0]) + 64), path).replace("\0", "\x1e")


def interpreter() -> List[str]:
    """This interpreter with the options that it was started with, and nothing of ours."""
    from .. import _core

    words = _core.arguments()
    own = words[1 : len(words) - len(sys.argv) + 1]
    if own and own[-1] == "spprof" and own[-2:-1] and own[-2].startswith("-") and own[-2].endswith("m"):
        module = own[-2]
        own = own[:-2] + ([module[:-1]] if len(module) > 2 else [])  # -m spprof, -Im spprof
    elif own and own[-1].startswith("-") and own[-1].endswith("mspprof"):
        module = own[-1][: -len("mspprof")]
        own = own[:-1] + ([module] if len(module) > 1 else [])
    else:
        own = own[:-1]  # the script `spprof`
    return [sys.executable, *own]
