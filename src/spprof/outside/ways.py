"""Whether `spprof attach` can enter a process that does not listen."""

from __future__ import annotations

import os
import sys

from . import interpreter
from .layouts import LAYOUTS

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def own_version() -> str:
    """Of the interpreter that runs this, such as 3.13t."""
    return "{}.{}{}".format(*sys.version_info[:2], "t" if "t" in getattr(sys, "abiflags", "") else "")


def obstacle(pid: int, version: str) -> str:
    """Why this spprof cannot enter process `pid`, which runs Python `version`, such as 3.13t; '' if it can."""
    if version not in LAYOUTS:
        return f"this spprof does not know {version}"
    core = f"_core.cpython-{version.replace('.', '')}"
    if version != own_version() and not any(name.startswith(f"{core}-") for name in os.listdir(_PACKAGE)):
        return f"use the spprof of a Python {version}"
    if not interpreter.lets_in(version) and os.uname().machine != "x86_64":
        return f"{version} is entered on x86_64 alone"
    return ""
