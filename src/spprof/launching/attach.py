"""`spprof attach`: a profile of a process that runs already, until Ctrl-C. The process takes it (listening.py) and
writes it to a file that is opened here; how it is reached is in connecting.py."""

from __future__ import annotations

import os
import select
import time

from .. import formats
from ..errors import BadOption, SpprofError
from ..files.writing import finish, is_being_written
from ..outside.proc import descendants
from ..outside.rights import python_of
from ..recording.serving import PROFILE, request
from . import commands, outputs, program, stalls
from .connecting import ANSWER_S, PATIENCE_S, Interrupted, Way, answer
from .run import Run, say

TYPE_CHECKING = False  # the user of `attach` waits for the first sample
if TYPE_CHECKING:
    import argparse
    from _socket import socket
    from typing import Callable, Dict, Iterator, List, Optional

    from ..recording.options import Options

_LOOK_S = 0.2  # from one look for new child processes to the next


class Attachment:
    """The profile of one process, in a new file at `path`. Raises SpprofError, OSError."""

    def __init__(self, way: Way, recording: Options, path: str) -> None:
        self.way, self.recording, self.path = way, recording, path
        self.connection: Optional[socket] = None

    def begin(self) -> bool:
        """False: we were interrupted before."""
        connection = self.connection = self.way.connect()
        if connection is None:
            return False
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            begun = self._ask(connection, file)
        except BaseException:
            os.unlink(self.path)
            raise
        finally:
            os.close(file)
        if not begun:
            os.unlink(self.path)
        return begun

    def _ask(self, connection: socket, file: int) -> bool:
        """False: we were interrupted."""
        reported = self.way.ask(connection, request(PROFILE, self.recording.to_text()), file)
        if reported is None and self.way.is_interrupted():
            return False
        if reported is None:
            raise SpprofError(f"process {self.way.pid} did not answer: it has ended, or is stopped")
        if reported:
            raise SpprofError(f"process {self.way.pid}: {reported}")
        return True

    def end(self) -> bool:
        """Until the profile is complete, or nobody writes it any more. Whether the process has gone."""
        connection = self.connection
        assert connection is not None
        try:
            connection.settimeout(ANSWER_S)
            connection.sendall(b"\n")
            reported = answer(connection)
        except OSError:
            reported = None
        if reported:
            say(f"spprof: process {self.way.pid}: {reported}\n")
        if reported is None and not is_being_written(self.path):
            finish(self.path, "killed")
        return reported is None

    def clear(self) -> None:
        """Nothing of it is left."""
        if self.connection is not None:
            self.connection.close()
        self.way.clear()


class Attach(Run):
    """A profile of process `pid`; `recording`: how; `options`: those of `spprof attach`; `show`: shows the file that is being
    written, until its user has seen enough. Raises SpprofError."""

    def __init__(
        self, pid: int, recording: Options, options: argparse.Namespace, show: Optional[Callable[[str], object]] = None
    ) -> None:
        self.show = show
        options.delay = None  # of `run`
        self.pid, self.recording, self.options = pid, recording, options
        self.lost = False
        if options.subprocesses and show is not None:
            raise BadOption("--live shows one process: without --subprocesses, or without --live")
        self._interrupted = Interrupted()
        if options.on_stall and show is not None:
            raise BadOption("--live shows what threads do: leave --on-stall out")
        self._stalls = stalls.Stalls(options.on_stall, options.force) if options.on_stall else None
        self._below: Dict[int, Optional[Attachment]] = {}  # None: it cannot be attached to
        patience = None if options.duration is None else max(PATIENCE_S, options.duration)
        way = Way(pid, self._interrupted, patience)
        self.conversion = formats.Options(merge_threads=options.merge_threads, thread=options.thread, sources=True)
        self.outputs = outputs.Outputs(options.output, options.format, _name(pid), options.subprocesses, options.force)
        if self.outputs.format != "spprof":
            formats.check(self.outputs.format, self.conversion)
        self.outputs.started(pid)
        self._first = Attachment(way, recording, self.outputs.stream)

    def run(self) -> int:
        """Until Ctrl-C, --duration, or the end of the process."""
        with self._interrupted:
            try:
                return self._record()
            finally:
                for one in self._attached():
                    one.clear()

    def _attached(self) -> List[Attachment]:
        return [self._first, *(one for one in self._below.values() if one is not None)]

    def _record(self) -> int:
        if not self._first.begin():
            say("spprof: nothing was recorded\n")
            return 130
        self._wait()
        gone, *_ = [one.end() for one in self._attached()]
        self._finish("exit" if gone else None, False)
        return 4 if self.lost else 0

    def _wait(self) -> None:
        """As long as the user wants, and the process lives."""
        until = "" if self.options.duration else "; Ctrl-C ends it"
        if not self.options.quiet:
            say(f"spprof: process {self.pid} is being profiled{until}\n")
        if self.show is not None:
            self.show(self.outputs.stream)
            return
        assert self._first.connection is not None
        ends = [self._first.connection.fileno(), self._interrupted.fileno()]  # the process says nothing before it ends
        late = None if self.options.duration is None else time.monotonic() + self.options.duration
        while True:
            left = None if late is None else max(0.0, late - time.monotonic())
            if self.outputs.stem:
                self._look_for_children()
            if self._stalls is not None:
                self._stalls.look({one.way.pid: one.path for one in self._attached()})
            step = min((seconds for seconds in (left, *self._steps()) if seconds is not None), default=None)
            if select.select(ends, [], [], step)[0] or left == 0:
                return

    def _steps(self) -> Iterator[float]:
        """Seconds after which there is something to look at."""
        if self.outputs.stem:
            yield _LOOK_S
        if self._stalls is not None:
            yield self._stalls.step_s

    def _look_for_children(self) -> None:
        for pid in descendants(self.pid):
            if pid in self._below or not _runs_python(pid):
                continue
            try:
                self._below[pid] = None
                one = Attachment(Way(pid, self._interrupted, PATIENCE_S), self.recording, self._path_of(pid))
                self._below[pid] = one
                if not one.begin():
                    del self._below[pid]
                    one.clear()
                    return
            except (SpprofError, OSError) as error:
                failed, self._below[pid] = self._below[pid], None
                if failed is not None:
                    failed.clear()
                if os.path.isdir(f"/proc/{pid}"):
                    say(f"spprof: without process {pid}: {error}\n")

    def _path_of(self, pid: int) -> str:
        """For a child's file."""
        path, number = f"{self.outputs.stem}.{pid}.spprof", 2
        while os.path.lexists(path):
            path, number = f"{self.outputs.stem}.{pid}.{number}.spprof", number + 1
        return path

    def _say_what_goes_on(self) -> None:
        pass

    def _say_where(self, why: str) -> None:
        left = [one.path for one in self._attached() if os.path.exists(one.path)]
        if left:
            say(f"spprof: the profile is in {self._files(left)}\n")

    def _put(self, ended: bool) -> None:
        first, *children = [one.path for one in self._attached()]
        self._put_all([first], children)


def _name(pid: int) -> str:
    """What the program is called, for its files."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = [os.fsdecode(word) for word in file.read().split(b"\0")[:-1]]
    except OSError:
        words = []
    return program.name(*commands.target(words)) if words else str(pid)


def _runs_python(pid: int) -> bool:
    try:
        return bool(python_of(pid))
    except OSError:  # it has ended, or is another user's
        return False
