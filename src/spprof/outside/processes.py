"""The processes of this machine that run Python, and whether `spprof attach` could enter them."""

from __future__ import annotations

import os
import stat
from typing import List, NamedTuple

from ..errors import SpprofError
from ..listening import address
from . import interpreter
from .memory import Memory, Unreadable
from .rights import command_of, missing_right, opened, own_number, python_of
from .ways import obstacle


class Process(NamedTuple):
    """One that runs Python."""

    pid: int
    version: str
    attach: str  # 'listens', 'yes', or 'no: ' and why
    command: str


def processes() -> tuple[List[Process], int]:
    """Those that this user may look at, and the number of the others."""
    found, hidden = [], 0
    for name in os.listdir("/proc"):
        if not name.isdecimal() or int(name) == os.getpid():
            continue
        try:
            version = python_of(int(name))
        except PermissionError:
            hidden += 1
            continue
        except OSError:  # it has ended
            continue
        if version:
            try:
                found.append(_process(int(name), version))
            except OSError:
                continue
    return sorted(found), hidden


def _process(pid: int, version: str) -> Process:
    uid = os.stat(f"/proc/{pid}").st_uid
    refuses, full = False, version
    try:
        file = opened(pid)
        try:
            memory = Memory(file)
            python = interpreter.of_process(memory, pid)
            version, full = python.name, python.full + ("t" if python.name.endswith("t") else "")
            refuses = _refuses(memory, python)
        finally:
            os.close(file)
        right = ""
    except PermissionError:
        right = missing_right(uid)
    except SpprofError:
        right = ""
    return Process(pid, full, _attach(pid, uid, version, right, refuses), command_of(pid))


def _refuses(memory: Memory, python: interpreter.Interpreter) -> bool:
    """Whether its environment says to let nobody in, as from 3.14 on it would (PEP 768)."""
    place = python.at["interp_entered"]
    if place < 0:
        return False
    try:
        said = [memory.half(state.interpreter + place) for state in interpreter.states(memory, python)]
    except Unreadable:
        return False
    return bool(said) and 1 not in said


def _attach(pid: int, uid: int, version: str, right: str, refuses: bool) -> str:
    try:
        if stat.S_ISSOCK(os.stat(f"/proc/{pid}/root{address(own_number(pid, pid), uid)}").st_mode):
            return "listens"
    except OSError:
        pass
    if right:
        return f"no: {right}"
    why = obstacle(pid, version)
    if not why and refuses:
        why = "it was started with PYTHON_DISABLE_REMOTE_DEBUG"
    return f"no: {why}" if why else "yes"
