"""`spprof run --live`: the program is a process of its own, this one shows it.

What the program writes to the terminal goes to a pseudo-terminal instead (so it still sees one), from there to a file, and to the
real terminal when the view was left. Where its output or input is no terminal, it is left alone."""

from __future__ import annotations

import fcntl
import os
import pty
import resource
import signal
import subprocess
import sys
import tempfile
import termios
import threading
from types import FrameType
from typing import Callable, Dict, List, Optional

from ..errors import BadOption
from . import view_class
from .follow import Follower

_PIECE = 1 << 16


class _Output:
    """What the program writes to its terminal: kept while the view has the screen, passed on afterwards."""

    def __init__(self, tty: int) -> None:
        self.tty = tty
        self.program_end, self.end = -1, -1
        self.kept = tempfile.TemporaryFile()
        self.lock = threading.Lock()
        self.passing = False
        self.read_at = 0
        self.reader = threading.Thread(target=self._read, daemon=True)

    def open(self) -> int:
        """The end that is the program's."""
        if self.end < 0:
            self.end, self.program_end = pty.openpty()
            size = fcntl.ioctl(self.tty, termios.TIOCGWINSZ, bytes(8))
            fcntl.ioctl(self.program_end, termios.TIOCSWINSZ, size)
        return self.program_end

    def begin(self) -> None:
        """The program has it now."""
        if self.end >= 0:
            os.close(self.program_end)
            self.reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self.end, _PIECE)
            except OSError:  # EIO: nobody has the other end any more
                return
            if not data:
                return
            with self.lock:
                _write(self.tty if self.passing else self.kept.fileno(), data)

    def news(self) -> str:
        """What came since the last call."""
        data = os.pread(self.kept.fileno(), 1 << 20, self.read_at)
        self.read_at += len(data)
        return data.decode("utf-8", "replace").replace("\r\n", "\n")

    def pass_on(self) -> None:
        """The terminal is the program's again: shows what was kept, then all that comes."""
        with self.lock:
            at = 0
            while True:
                data = os.pread(self.kept.fileno(), _PIECE, at)
                if not data:
                    break
                at += len(data)
                _write(self.tty, data)
            self.passing = True

    def finish(self) -> None:
        """The program has ended: nothing more comes, unless children of it live on."""
        if self.end >= 0:
            self.reader.join(1)


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


def run(command: List[str], environment: Dict[str, str], stream_of: Callable[[int], str]) -> int:
    """Runs a program that records itself, and shows the file that it writes, `stream_of(pid)`. Gives its exit code, or minus its
    signal.

    Raises BadOption without Textual or a terminal."""
    view_of = view_class()
    try:
        tty = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        raise BadOption("--live needs a terminal; run the program without it, and `spprof live FILE` from one") from None
    output = _Output(tty)
    # Keys are the view's. (A program that asks is not for the live view.)
    stdin = subprocess.DEVNULL if os.isatty(0) else None
    stdout, stderr = (output.open() if os.isatty(fd) else None for fd in (1, 2))
    program = subprocess.Popen(command, env=environment, stdin=stdin, stdout=stdout, stderr=stderr)
    output.begin()
    for fd in (0, 2):  # what Textual uses
        os.dup2(tty, fd)

    def status() -> str:
        code = program.poll()
        how = "" if code is None else f"signal {-code}" if code < 0 else f"exit code {code}"
        return how and f"the program has ended: {how} · q leaves"

    def pass_signal(number: int, frame: Optional[FrameType]) -> None:
        program.send_signal(number)
        view.exit()

    view = view_of(Follower(stream_of(program.pid)), status, output.news, lambda: program.send_signal(signal.SIGINT))
    signal.signal(signal.SIGTERM, pass_signal)
    view.run()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from now on Ctrl-C reaches the program from the terminal
    output.pass_on()
    code = program.wait()
    output.finish()
    return code


def end(code: int) -> int:
    """As the program ended: what this process is to give as its exit code, unless it dies of a signal here."""
    if code >= 0:
        return code
    number = -code
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (AttributeError, OSError, ValueError):
        pass
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))  # no second core file
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number  # as a shell calls it
