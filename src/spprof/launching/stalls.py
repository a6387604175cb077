"""`--on-stall S`: looks at processes that are profiled, from outside, and writes what stalls beside each one's profile. `Stalls`
does for `run`, `attach` and `start(on_stall=S)` (watching.py); `Waiting` is the supervisor's, which waits for the program
meanwhile."""

from __future__ import annotations

import time

from ..errors import SpprofError

TYPE_CHECKING = False  # `typing` is imported while the program starts
if TYPE_CHECKING:
    from typing import Dict, Optional

    from ..outside.stalls import Stall, Watch
    from . import supervisor
    from .outputs import Outputs

_EVER = float("inf")
_BEGINS_S = 5.0  # a command may start Python late, or another one in its place; what is not Python yet cannot be read
_CHILDREN_S = 1.0  # from one look for new child processes to the next


class Stalls:
    """Of processes, for stalls that last longer than a limit in seconds. `force`: replaces the files of an earlier run."""

    def __init__(self, limit_s: float, force: bool) -> None:
        from ..outside.stalls import step_of

        self.limit_s, self.force, self.step_s = limit_s, force, step_of(limit_s)
        self._began = time.monotonic()
        self._watched: Dict[int, _Watched] = {}

    def look(self, profiles: Dict[int, str]) -> None:
        """At the processes of these numbers; each with the path of its profile."""
        for pid in set(self._watched).difference(profiles):
            del self._watched[pid]  # the number may be another's next
        for pid, path in profiles.items():
            if pid not in self._watched:
                self._watched[pid] = _Watched(pid, path, self)
            self._watched[pid].look(time.monotonic() - self._began)


class _Watched:
    """One of them."""

    def __init__(self, pid: int, path: str, of: Stalls) -> None:
        from ..outside.stalls import Watch

        self._of, self._profile, self._path = of, path, ""
        self._watch: Optional[Watch] = Watch(pid, of.limit_s)
        self._read = time.monotonic()  # when it was read last

    def look(self, after_s: float) -> None:
        if self._watch is None:
            return
        now = time.monotonic()
        try:
            stall = self._watch.look(now)
            self._read = now
            if stall is not None:
                self._write(stall, self._watch.pid, after_s)
        except (SpprofError, OSError) as error:
            if now - self._read > _BEGINS_S:  # and it stays so, unless the program ends
                pid, self._watch = self._watch.pid, None
                if not has_gone(pid):
                    _say(f"spprof: --on-stall does not work here: {error}\n")

    def _write(self, stall: Stall, pid: int, after_s: float) -> None:
        from ..outside.rights import command_of
        from ..outside.stalls import text_of

        self._path = self._path or _begin(self._profile[: -len(".spprof")], self._of.force)
        text = text_of(stall, command_of(pid), after_s)
        with open(self._path, "a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        _say(f"spprof: {stall.why}: what each thread does is in {self._path}\n")


class Waiting:
    """Of a program of `spprof run`, and of its child processes that are recorded."""

    def __init__(self, program: supervisor.Program, limit_s: float, outputs: Outputs) -> None:
        self._program, self._outputs, self._stalls = program, outputs, Stalls(limit_s, outputs.force)
        self._children: Dict[int, str] = {}
        self._looked = -_EVER  # for child processes

    def wait(self, seconds: float = _EVER) -> Optional[str]:
        """As `Beside.wait`."""
        end = time.monotonic() + seconds
        while True:
            left = max(0.0, end - time.monotonic())
            step = self._stalls.step_s
            way_out = self._program.wait(min(left, step))
            if way_out is not None or left <= step:
                return way_out
            self._stalls.look({self._program.pid: self._outputs.stream, **self._of_children()})

    def _of_children(self) -> Dict[int, str]:
        """The profiles of those that live."""
        if self._outputs.stem and time.monotonic() - self._looked > _CHILDREN_S:
            from ..outside.proc import descendants

            self._children = self._outputs.of_children(set(descendants(self._program.pid)))
            self._looked = time.monotonic()
        return self._children


def has_gone(pid: int) -> bool:
    """Whether a process has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except OSError:
        return True


def _begin(stem: str, force: bool) -> str:
    """Begins the file of a run's stalls; its path. One that is there already is of another run, and is kept unless `force`."""
    number = 1
    while True:
        path = f"{stem}.stalls.txt" if number == 1 else f"{stem}.stalls.{number}.txt"
        try:
            open(path, "w" if force else "x").close()
            return path
        except FileExistsError:
            number += 1


def _say(text: str) -> None:
    from ..report.text import put_err

    put_err(text)
