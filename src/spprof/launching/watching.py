"""The process beside one that called `start(on_stall=S)`: looks at it from outside, until its profile has ended. It is no child
of the program, in a session of its own, and has nothing of the program's but its stderr."""

from __future__ import annotations

import os
import select
import signal
import socket

from ..errors import SpprofError
from ..files.writing import begun, is_being_written
from .stalls import Stalls, has_gone


def main(pid: int, limit_s: float, path: str) -> None:
    """stdin is a socket of the program's (recording/beside.py): an empty line says that the program can be read, another one why
    not. A byte from there says that the profile has begun, its end that it has not."""
    if os.fork() != 0:
        os._exit(0)
    os.setsid()
    os.chdir("/")
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    link = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nothing, descriptor)
    os.closerange(nothing, nothing + 1)
    _close_others(link.fileno())
    with link:
        error = _why_not(pid)
        link.sendall(f"{error}\n".encode())
        if error or link.recv(1) == b"":
            return
    _watch(pid, limit_s, path)


def _close_others(link: int) -> None:
    """What the program would have given to any child."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in (0, 1, 2, link):
            os.closerange(int(name), int(name) + 1)


def _why_not(pid: int) -> str:
    from ..outside.dump import dump

    try:
        dump(pid, may_stop=False, with_tasks=False)
    except (SpprofError, OSError) as error:
        return str(error).replace("\n", " ") or type(error).__name__
    return ""


def _watch(pid: int, limit_s: float, path: str) -> None:
    header, stalls = begun(path), Stalls(limit_s, force=False)
    try:
        death = [os.pidfd_open(pid)]  # may be read when it is gone
    except (AttributeError, OSError):  # of Linux 5.3 and Python 3.9; or it is gone
        death = []
    while not select.select(death, [], [], stalls.step_s)[0] and not has_gone(pid):
        header = header or begun(path)
        if not is_being_written(path) or begun(path) != header:  # it has ended; another one has begun in its place
            return
        stalls.look({pid: path})
