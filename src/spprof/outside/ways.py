"""Whether `spprof attach` can enter a process that does not listen."""

from __future__ import annotations

import os
import sys

from . import interpreter
from .layouts import LAYOUTS

TYPE_CHECKING = False  # the user of `attach` waits for the first sample
if TYPE_CHECKING:
    from typing import Tuple

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def own_version() -> str:
    """Of the interpreter that runs this, such as 3.13t."""
    return "{}.{}{}".format(*sys.version_info[:2], "t" if "t" in getattr(sys, "abiflags", "") else "")


def cores_of(version: str) -> Tuple[str, str]:
    """How the names of cores begin that are for Python `version`, such as 3.13t: a release build's and a debug build's. A folder
    or a process of that version may be of either."""
    core = f"_core.cpython-{version.replace('.', '')}"
    return f"{core}-", f"{core}d-"


def obstacle(pid: int, version: str) -> str:
    """Why this spprof cannot enter process `pid`, which runs Python `version`, such as 3.13t; '' if it can."""
    if version not in LAYOUTS:
        return f"this spprof does not know {version}"
    if version != own_version() and not any(name.startswith(cores_of(version)) for name in os.listdir(_PACKAGE)):
        return f"use the spprof of a Python {version}"
    if not interpreter.lets_in(version) and os.uname().machine != "x86_64":
        return f"{version} is entered on x86_64 alone"
    return ""
