"""Waits for the program, and reports how it ended. On POSIX the program takes the place of the process that the caller started:
it is what the caller signals, waits for and kills. The supervisor is a process beside it, an orphan in a session of its own, so
that nothing that is the program's reaches it: `Beside`. A program that ends by itself waits until the supervisor has written
and said all (csrc/module/beside.c). On Windows the program is a child: `Child`."""

from __future__ import annotations

import os
import sys
import time
from importlib import import_module

from ..files.writing import process_lives

TYPE_CHECKING = False  # `typing` is imported while the program starts
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

    Program = Union["Beside", "Child"]

signal: Any = import_module("_signal")  # `signal` takes longer to import than all this

_LINKS_FROM = 34  # as files are: csrc/os/files.h
_ENDS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name)]
_NONE, _FAILED = b"x", b"f"  # sent by a child that could not exec the program; by one that an exception ends
_STEP, _DAY, _EVER = 0.05, 86400, float("inf")  # seconds
_MOST = 1 << 16  # descriptors


class Interrupted(BaseException):
    """The program waited, or a signal came here, while its profile was being written; and it waits no more. Like a
    KeyboardInterrupt it is nobody's to catch on the way."""


def way_out(code: Optional[int]) -> str:
    """In words, for the profile. `code`: None: nobody knows."""
    if code is None:
        return "killed"
    if code >= 0:
        return "exit"
    from signal import Signals

    try:
        return Signals(-code).name
    except ValueError:
        return f"signal {-code}"


class Child:
    """The program as a child of this process. Raises OSError."""

    failed = False

    def __init__(self, command: List[str], environment: Dict[str, str]) -> None:
        import subprocess

        self._popen = subprocess.Popen(command, env=environment, close_fds=False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the program's
        self.pid = self._popen.pid

    def wait(self, seconds: Optional[float] = None) -> Optional[str]:
        """How it ended; None: it has not, after so many seconds."""
        import subprocess

        try:
            self.failed = self._popen.wait(seconds) != 0
        except subprocess.TimeoutExpired:
            return None
        return way_out(self._popen.returncode)

    def let_go(self, code: int) -> int:
        """All is written and said; `code`: what to end by if the program's own code is 0. Gives what to end by."""
        return self._popen.returncode or code


class Beside:
    """The program as the process of this number, beside this one. `failed`: an exception has ended it."""

    def __init__(self, pid: int, link: int) -> None:
        self.pid, self._link = pid, link
        self._over = self._waits = self._enough = self.failed = False
        self._poll = import_module("select").poll()
        self._poll.register(link, 1)  # POLLIN, as all of these that may be read
        try:
            self._death = os.pidfd_open(pid)  # may be read when it is gone
            self._poll.register(self._death, 1)
        except (AttributeError, OSError):  # of Linux 5.3; or it is gone
            self._death = -1

    def wait(self, seconds: float = _EVER) -> Optional[str]:
        """How it ended, or that it has done its work; None: neither, after so many seconds."""
        end = time.monotonic() + seconds
        while not self._over:
            left = max(0.0, end - time.monotonic())
            ready = {fd for fd, _ in self._poll.poll(min(left, _STEP if self._death < 0 else _DAY) * 1000)}
            said = b""
            if self._link in ready:  # and no more: it waits, or closed all that it found, or another program took its place
                try:
                    said = os.read(self._link, 1)
                except ConnectionResetError:  # closed, and nobody took the byte that makes it the program
                    pass
                self._poll.unregister(self._link)
            if said == _NONE:
                os._exit(0)
            self._waits, self.failed = said != b"", said == _FAILED
            self._over = self._waits or self._is_gone()
            if not self._over and not left:
                return None
        sys.unraisablehook = self._dropped
        for number in (*_ENDS, signal.SIGALRM):
            signal.signal(number, self._look)
        signal.setitimer(signal.ITIMER_REAL, _STEP, _STEP)  # a signal right before a call that waits does not interrupt it
        return "exit" if self._waits else way_out(_code(self.pid, self._death))

    def _is_gone(self) -> bool:
        if self._death < 0:
            return _stat(self.pid)[:1] == [b"Z"] or not process_lives(self.pid)
        return any(fd == self._death for fd, _ in self._poll.poll(0))

    def _look(self, number: int, frame: Any) -> None:
        """A signal that ends a program that only waits, or this process, ends the waiting."""
        self._enough = self._enough or number != signal.SIGALRM
        if self._over and (self._enough or (self._waits and self._is_gone())):
            self._over = False
            raise Interrupted

    def _dropped(self, unraisable: Any) -> None:
        """Python drops what is raised in a finalizer or in a callback of a weak reference, such as those of each import."""
        if isinstance(unraisable.exc_value, Interrupted):
            self._over = True
        else:
            sys.__unraisablehook__(unraisable)

    def let_go(self, code: int) -> int:
        """All is written and said; `code`: what the program is to end by if its own code is 0."""
        self._over = False
        if self._waits:
            try:
                os.write(self._link, bytes([code]))
            except OSError:  # it waits no more
                pass
        return code


def link() -> Tuple[int, int]:
    """The supervisor's end, and the program's, which are inherited, and in the way of none of the program's own."""
    import fcntl

    least = 3 if os.sysconf("SC_OPEN_MAX") in range(_LINKS_FROM + 2) else _LINKS_FROM
    ends = import_module("_socket").socketpair()
    own, other = (fcntl.fcntl(end, fcntl.F_DUPFD, least) for end in ends)
    os.write(own, b"1")  # for one process, which is the program then (csrc/os/posix/beside.c)
    for end in ends:
        end.close()
    return own, other


def in_place(
    command: List[str], environment: Dict[str, str], ends: Tuple[int, int], supervise: Callable[[Beside], int], keep: bool
) -> int:
    """The program takes this process's place; `supervise` is called in one beside it, which may `keep` the caller's descriptors.
    Raises OSError, and then the other process has ended and said nothing."""
    from .. import _core

    pid, (own, end) = os.getpid(), ends
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # from here on as the program is at its start
    old = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # its children's times are not the program's
    unseen = _core.fork_unseen()
    middle = os.fork() if unseen is None else unseen
    if middle == 0:
        try:
            os.setsid()
            if unseen is None and os.fork() != 0:
                os._exit(0)
            os.close(end)
            _leave(own, keep)
            supervise(Beside(pid, own))
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(0)
    try:
        os.waitpid(middle, 0)
    except ChildProcessError:  # as ever: nobody waits for it
        pass
    signal.signal(signal.SIGCHLD, old)
    os.close(own)
    try:
        # The interpreter learns from argv[0] where it is (sys.executable of a virtual environment).
        os.execve(command[0], command, environment)
    except OSError:
        os.write(end, _NONE)
        raise


def _leave(link: int, keep: bool) -> None:
    """The caller's signals, and its descriptors but stderr: a reader of a pipe sees its end when the program ends."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in _ENDS:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if not keep:
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1):
            os.dup2(null, fd)
        os.closerange(3, link)
        os.closerange(link + 1, _MOST)


def _stat(pid: int) -> List[bytes]:
    """What Linux says of a process, from its state on; [] if nobody says."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            return (file.read() or b"").rpartition(b")")[2].split()
    except OSError:
        return []


def _code(pid: int, death: int) -> Optional[int]:
    """The exit code of a process that is gone, or minus its signal: until its parent has asked, and from Linux 6.15 on."""
    status = _stat(pid)
    if status[:1] == [b"Z"]:
        return os.waitstatus_to_exitcode(int(status[-1]))
    info = bytearray(64)  # struct pidfd_info: what is asked and given, ..., the status
    info[:8] = (8).to_bytes(8, sys.byteorder)  # PIDFD_INFO_EXIT
    try:
        import fcntl

        fcntl.ioctl(death, 0xC040FF0B, info)  # PIDFD_GET_INFO
    except (OSError, ValueError):
        return None
    known = int.from_bytes(info[:8], sys.byteorder) & 8
    return os.waitstatus_to_exitcode(int.from_bytes(info[60:], sys.byteorder)) if known else None


def forks(variable: str, but: int) -> List[int]:
    """The processes that go on and were forked from the one with this SPPROF_RECORD, `but` that one: a copy of its
    memory has its environment, another program has its own. A daemon forks twice, so it looks until they stay. Linux only."""
    found: List[int] = []
    for _ in range(20):
        last, found = found, [pid for pid in _with_environment(os.fsencode(variable)) if pid != but]
        if found == last:
            break
        time.sleep(0.05)
    return found


def _with_environment(variable: bytes) -> Iterator[int]:
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        try:
            with open(f"/proc/{int(name)}/environ", "rb", buffering=0) as file:
                if variable in (file.read() or b"").split(b"\0"):
                    yield int(name)
        except (OSError, ValueError):  # others' processes, and what is none
            pass
