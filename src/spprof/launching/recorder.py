"""What makes a program's process record itself: two environment variables, which it removes again."""

from __future__ import annotations

import os
import sys

from ..recording.options import Options

TYPE_CHECKING = False  # `typing` is imported while the program starts
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Sequence

    from .outputs import Outputs

_HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(_HERE, "startup")
VARIABLE = "SPPROF_RECORD"
PRELOADED = os.path.join(_HERE, "enter.so")  # of csrc/enter, on Linux


def environment(
    options: Options,
    clock: str,
    window: Sequence[Optional[float]],
    is_module: bool,
    closed: bool,
    outputs: Outputs,
    link: int,
) -> Dict[str, str]:
    """The environment of a program that records itself. `window`: seconds until it begins, and for which it does. `closed`: its
    interpreter has to be entered in another way. `link`: of the supervisor, -1: it is the parent."""
    from .. import __version__

    times = [f"+{round(seconds * 1e9)}" if seconds else "0" for seconds in window]
    fields = [__version__, 0, link, "run", *options.words(clock), *times]
    fields += ["m" if is_module else "", outputs.run, _escaped(outputs.stream), _escaped(outputs.stem)]
    variables = {**os.environ, VARIABLE: "\x1f".join(map(str, fields))}
    for name, own in (("PYTHONPATH", FOLDER), ("LD_PRELOAD", PRELOADED if closed and can_preload() else "")):
        if own:
            variables[name] = f"{own}{os.pathsep}{variables[name]}" if variables.get(name) else own
    return variables


def is_closed() -> bool:
    """Whether this interpreter, with the options that it was started with, does not look for a sitecustomize on PYTHONPATH."""
    return bool(sys.flags.isolated or sys.flags.ignore_environment or sys.flags.no_site)


def can_preload() -> bool:
    """Whether the system can: the loader takes these characters for the end of a path."""
    return os.path.exists(PRELOADED) and not any(sign in PRELOADED for sign in " :")


def _escaped(path: str) -> str:
    """A path that has neither the separator nor the mark of a process id in it (csrc/module/record.c)."""
    return path.translate({0x1D: "\x1d]", 0x1E: "\x1d^", 0x1F: "\x1d_"}).replace("\0", "\x1e")


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
