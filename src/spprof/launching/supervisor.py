"""A program as a child of this process, which stands in its place for whoever started it: passes on signals that are sent here,
stops when it stops, and ends as it ended. What comes from the terminal the program gets itself, in the same process group."""

from __future__ import annotations

import os
import sys
from importlib import import_module

TYPE_CHECKING = False  # `typing` is imported while the program starts
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional

signal: Any = import_module("_signal")  # `signal` takes longer to import than all this

# Faults of our own, and what the system does not let us wait for.
_OURS = ("SIGKILL", "SIGSTOP", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS", "SIGPIPE", "SIGXFSZ",
         "SIGTTIN", "SIGTTOU", "SIGPROF", "SIGVTALRM", "SIGXCPU")  # fmt: skip
_OF_TERMINALS = ("SIGINT", "SIGQUIT", "SIGTSTP", "SIGWINCH", "SIGCONT", "SIGHUP")
_AGAIN_S = 0.001


def _numbers(names: Any) -> set[int]:
    return {getattr(signal, name) for name in names if hasattr(signal, name)}


def _start(command: List[str], environment: Dict[str, str], mask: Any) -> int:
    """As os.posix_spawn, by which glibc leaves two signals of its own ignored."""
    reading, writing = os.pipe()  # closed by the exec
    pid = os.fork()
    if pid == 0:
        try:
            if callable(signal.getsignal(signal.SIGINT)):
                signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            # argv[0] tells the interpreter where it is (sys.executable of a virtual environment).
            os.execve(command[0], command, environment)
        except OSError as error:
            os.write(writing, b"%d" % (error.errno or 0))
        finally:
            os._exit(127)
    os.close(writing)
    failed = os.read(reading, 16)
    os.close(reading)
    if failed:
        os.waitpid(pid, 0)
        raise OSError(int(failed), os.strerror(int(failed)), command[0])
    return pid


class Interrupted(BaseException):
    """A signal came when the program had ended, while its profile was being written. Like a KeyboardInterrupt it is nobody's to
    catch on the way."""

    def __init__(self, number: int) -> None:
        self.number = number


class Program:
    """Started by the constructor, which may raise OSError."""

    def __init__(self, command: List[str], environment: Dict[str, str]) -> None:
        self._signals = signal.valid_signals() - _numbers(_OURS) if hasattr(os, "fork") else set()
        self._popen: Any = None
        self._told = False
        if not self._signals:
            import subprocess

            self._popen = subprocess.Popen(command, env=environment, close_fds=False)
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the program's
            self.pid: int = self._popen.pid
            return
        # From here on signals wait until they are asked for; the program gets what we were given.
        self.pid = _start(command, environment, signal.pthread_sigmask(signal.SIG_BLOCK, self._signals))
        if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:  # inherited by the program, but we want its status
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)

    def wait(self) -> int:
        """Its exit code, or minus the signal that ended it."""
        if self._popen is not None:
            return int(self._popen.wait())
        while True:
            code = self._reap()
            if code is not None:
                return code
            self._pass_on()

    def _pass_on(self) -> None:
        wait = getattr(signal, "sigwaitinfo", None)
        if wait is not None:
            info = wait(self._signals)
            number, sent = info.si_signo, info.si_code <= 0  # by a process, not by the kernel for a terminal
        else:  # macOS does not tell who sent it
            number = signal.sigwait(self._signals)
            sent = number not in _numbers(_OF_TERMINALS)
        if sent and number != signal.SIGCHLD:
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                pass

    def _reap(self) -> Optional[int]:
        """Also others' children: as the first process of a container we get them all."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return 1  # somebody else had it
            if pid == 0:
                return None
            if pid != self.pid:
                continue
            if not os.WIFSTOPPED(status):
                return os.waitstatus_to_exitcode(status)
            if os.WSTOPSIG(status) != signal.SIGSTOP:  # by the terminal: the shell sees us stop
                os.kill(os.getpid(), signal.SIGSTOP)

    def over(self) -> None:
        """It has ended. The first signal from now on raises Interrupted, here too. Those that came before do nothing, nor do
        those that come after it, while we say where the profile is, or after `told`."""
        if self._popen is not None:
            return
        wanted = _numbers(("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"))
        came: List[int] = []  # the first is what ends us

        def interrupt(number: int, frame: Any) -> None:
            if not self._told:
                self._told = True
                came.append(number)
                raise Interrupted(came[0])

        def again(number: int, frame: Any) -> None:
            if came:
                interrupt(came[0], frame)

        def dropped(unraisable: Any) -> None:
            """Python drops what is raised in a finalizer or in a callback of a weak reference, such as those of each import."""
            if not isinstance(unraisable.exc_value, Interrupted):
                sys.__unraisablehook__(unraisable)
                return
            self._told = False
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)  # not here, where it would be dropped again

        sys.unraisablehook = dropped
        while signal.sigpending() & self._signals:
            signal.sigwait(self._signals)
        for number in wanted:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, interrupt)
        signal.signal(signal.SIGALRM, again)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {*wanted, signal.SIGALRM})

    def told(self) -> None:
        """All is written and said."""
        self._told = True


def forks(told: str) -> List[int]:
    """The processes that go on and were forked from the one that was told this (SPPROF_RECORD): a copy of its memory has its
    environment, another program has its own. A daemon forks twice, so what is found is looked for until it stays. Linux only."""
    import time

    found: List[int] = []
    for _ in range(20):
        last, found = found, list(_with_environment(os.fsencode(told)))
        if found == last:
            break
        time.sleep(0.05)
    return found


def _with_environment(told: bytes) -> Iterator[int]:
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        try:
            with open(f"/proc/{int(name)}/environ", "rb", buffering=0) as file:
                if told in (file.read() or b"").split(b"\0"):
                    yield int(name)
        except (OSError, ValueError):  # others' processes, and what is none
            pass


def end(code: int) -> int:
    """As the program ended: what this process is to give as its exit code, unless it dies of a signal here."""
    if code >= 0 or not hasattr(os, "fork"):
        return code
    number = -code
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (AttributeError, OSError, ValueError):
        pass
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))  # no second core file
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number  # as a shell calls it
