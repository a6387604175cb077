"""`start(on_stall=S)`: a process beside this one that looks at it from outside (launching/watching.py). A thread of this one
could not: what stalls may keep the GIL."""

from __future__ import annotations

import os
import sys

from ..errors import BadOption, Unsupported

TYPE_CHECKING = False  # see __init__
if TYPE_CHECKING:
    from typing import Any, Optional

# -I and -S: the program's environment and modules cannot be in its way.
_CODE = "import sys; sys.path.insert(0, sys.argv[1]); from spprof.launching.watching import main; "
_CODE += "main(int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])"


class Beside:
    """Begins it, and waits until it has read this process once. `path`: of the profile. Raises BadOption, Unsupported."""

    def __init__(self, limit_s: float, path: Optional[str]) -> None:
        if not isinstance(limit_s, (int, float)) or not 0 < limit_s < float("inf"):
            raise BadOption(f"on_stall={limit_s!r}: give a number of seconds")
        if sys.platform != "linux":
            raise Unsupported("on_stall reads the program's memory from outside, which spprof does on Linux alone")
        if path is None:
            raise BadOption("on_stall: what stalls is written beside the profile: give an output_path")
        if not sys.executable:
            raise Unsupported("on_stall starts a process by sys.executable, which is not known here")
        import _socket

        self._link: Any
        self._link, other = _socket.socketpair()
        try:
            self._begin(other.fileno(), limit_s, path)
            other.close()
            said = self._line()
        except BaseException as error:
            self.leave()
            if isinstance(error, OSError):
                raise Unsupported(f"on_stall: no process can be started: {error.strerror or error}") from error
            raise
        finally:
            other.close()
        if said != b"\n":
            self.leave()
            why = said.decode("utf-8", "replace").strip() or f"the process of {sys.executable} ended"
            raise Unsupported(f"on_stall does not work here: {why}")

    def _begin(self, link: int, limit_s: float, path: str) -> None:
        """Raises OSError."""
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        words = [sys.executable, "-I", "-S", "-c", _CODE, root, str(os.getpid()), repr(float(limit_s)), path]
        actions = [(os.POSIX_SPAWN_DUP2, link, 0), (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
        first = os.posix_spawn(sys.executable, words, os.environ, file_actions=actions, setsigmask=[])
        try:
            os.waitpid(first, 0)  # it ends as soon as it has forked
        except ChildProcessError:  # another thread waits for whichever ends, or nobody for any
            pass

    def _line(self) -> bytes:
        said = b""
        while not said.endswith(b"\n"):
            more = self._link.recv(4096)
            if not more:
                break
            said += more
        return said

    def go(self) -> None:
        """The profile has begun."""
        import _socket

        try:
            self._link.send(b"g", _socket.MSG_NOSIGNAL)
        except OSError:  # it was killed
            pass

    def leave(self) -> None:
        """If the profile has not begun, it ends."""
        self._link.close()
