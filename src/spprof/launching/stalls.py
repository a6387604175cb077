"""`spprof run --on-stall S`: waits for the program as the supervisor does, and looks at it meanwhile."""

from __future__ import annotations

import time

from ..errors import SpprofError

TYPE_CHECKING = False  # `typing` is imported while the program starts
if TYPE_CHECKING:
    from typing import Optional

    from ..outside.stalls import Stall, Watch
    from . import supervisor
    from .outputs import Outputs

_EVER = float("inf")
_BEGINS_S = 5.0  # a command may start Python late, or another one in its place; what is not Python yet cannot be read


class Waiting:
    """Of a program, for stalls that last longer than a limit in seconds."""

    def __init__(self, program: supervisor.Program, limit_s: float, outputs: Outputs) -> None:
        from ..outside.stalls import Watch

        self._program, self._outputs = program, outputs
        self._watch: Optional[Watch] = Watch(program.pid, limit_s)
        self._began = self._read = time.monotonic()  # the latter: when it was read last
        self._path = ""

    def wait(self, seconds: float = _EVER) -> Optional[str]:
        """As `Beside.wait`."""
        end = time.monotonic() + seconds
        while True:
            left = max(0.0, end - time.monotonic())
            step = self._watch.step_s if self._watch is not None else _EVER
            way_out = self._program.wait(min(left, step))
            if way_out is not None or left <= step:
                return way_out
            self._look()

    def _look(self) -> None:
        assert self._watch is not None
        now = time.monotonic()
        try:
            stall = self._watch.look(now)
            self._read = now
            if stall is not None:
                self._write(stall, now - self._began)
        except (SpprofError, OSError) as error:
            if now - self._read > _BEGINS_S:  # and it stays so, unless the program ends
                self._watch = None
                if not self._program.wait(0):
                    _say(f"spprof: --on-stall does not work here: {error}\n")

    def _write(self, stall: Stall, after_s: float) -> None:
        from ..outside.rights import command_of
        from ..outside.stalls import text_of

        self._path = self._path or _begin(self._outputs.stream[: -len(".spprof")], self._outputs.force)
        text = text_of(stall, command_of(self._program.pid), after_s)
        with open(self._path, "a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        _say(f"spprof: {stall.why}: what each thread does is in {self._path}\n")


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
