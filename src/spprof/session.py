"""The profile that is being taken, and where it is written to. Only `spprof.start` and `spprof.stop` (api.py) set `current`."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # see __init__
if TYPE_CHECKING:
    from typing import Optional

    from .threadnames import ThreadNames


class Session:
    """The profile being taken: where it is written and who names the threads."""

    def __init__(self, fd: int, path: Optional[str], names: ThreadNames, native: bool) -> None:
        self.fd = fd
        self.is_file = os.fstat(fd)
        self.path = path
        self.names = names
        self.native = native

    def is_open(self) -> bool:
        """Whether the descriptor is still that of the profile: a program may close all that it finds, as daemons do."""
        try:
            return os.path.samestat(os.fstat(self.fd), self.is_file)
        except OSError:
            return False

    def is_at_path(self) -> bool:
        try:
            return self.path is not None and os.path.samestat(os.stat(self.path), self.is_file)
        except OSError:
            return False

    def close(self) -> None:
        if self.is_open():
            os.close(self.fd)


current: Optional[Session] = None


def is_written_to(path: str) -> bool:
    """Whether a profile is being taken and goes to this file."""
    return current is not None and current.path == os.path.abspath(path)


def process_lives(pid: int) -> bool:
    """Whether there is such a process, as far as the system tells; on Windows, where to ask would end it, False."""
    if os.name == "nt":
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True
