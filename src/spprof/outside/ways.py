"""Whether `spprof attach` can enter a process that does not listen."""

from __future__ import annotations

import os
import platform
import sys

from . import interpreter
from .layouts import LAYOUTS


def obstacle(pid: int, version: str) -> str:
    """Why this spprof cannot enter process `pid`, which runs Python `version`, such as 3.13t; '' if it can. Raises OSError."""
    own = "{}.{}{}".format(*sys.version_info[:2], "t" if "t" in getattr(sys, "abiflags", "") else "")
    if version not in LAYOUTS:
        return f"this spprof does not know {version}"
    if version != own:
        return f"use the spprof of a Python {version}"
    if not interpreter.lets_in(version) and platform.machine() != "x86_64":
        return f"{version} is entered on x86_64 alone"
    if not os.path.samestat(os.stat(f"/proc/{pid}/root/"), os.stat("/")):
        return "it is in another container: run spprof in that one"
    return ""
