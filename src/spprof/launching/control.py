"""`spprof ctl`: what is to become of a profile that another process takes. It is reached as by `spprof attach`, and does that
itself (recording/serving.py)."""

from __future__ import annotations

import os
from typing import Optional

from ..errors import BadFile, SpprofError
from ..files.writing import begun, is_being_written
from ..recording.serving import request
from .connecting import ANSWER_S, Interrupted, Way


def process_of(path: str) -> int:
    """The process that writes a profile. Raises SpprofError, OSError."""
    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    pid = begun(path).get("pid")
    if not isinstance(pid, int):
        raise BadFile(f"{path}: not a .spprof file")
    if not is_being_written(path) and not _has_open(pid, path):
        raise SpprofError(f"{path}: no process writes it any more")
    return pid


def _has_open(pid: int, path: str) -> bool:
    """Whether a process has the file open: one that `spprof attach` gave to it is not locked."""
    folder = f"/proc/{pid}/fd"
    try:
        return any(_is(path, f"{folder}/{number}") for number in os.listdir(folder))
    except OSError:  # it is gone, or another user's
        return False


def _is(path: str, descriptor: str) -> bool:
    try:
        return os.path.samefile(path, descriptor)
    except OSError:  # it was just closed
        return False


def control(pid: int, what: str, path: Optional[str]) -> bool:
    """Has process `pid` do it to the profile at `path` (None: whichever it takes). False: Ctrl-C. Raises SpprofError."""
    with Interrupted() as interrupted:
        way = Way(pid, interrupted)
        try:
            connection = way.connect()
            if connection is None:
                return False
            try:
                connection.settimeout(ANSWER_S)
                reported = way.ask(connection, request(what, "" if path is None else os.path.abspath(path)))
                if reported is None and way.is_interrupted():
                    return False
            finally:
                connection.close()
        finally:
            way.clear()
    if reported is None:
        raise SpprofError(f"process {pid} did not answer: it has ended, or is stopped")
    if reported:
        raise SpprofError(f"process {pid}: {reported}")
    return True
