"""The profile that is being taken, and where it is written to. The core keeps it from `spprof.start` to `spprof.stop`."""

from __future__ import annotations

import os

from .. import _core

TYPE_CHECKING = False  # see __init__
if TYPE_CHECKING:
    from typing import Optional

    from .threadnames import ThreadNames


class Session:
    """The profile being taken: where it is written and who names the threads."""

    def __init__(self, output: _core.Output, path: Optional[str], names: ThreadNames, native: bool) -> None:
        self.output = output
        self.path = path
        self.names = names
        self.native = native


def is_written_to(path: str) -> bool:
    """Whether a profile is being taken and goes to this file."""
    current = _core.session()
    return current is not None and current.path == os.path.abspath(path)


def back_sigterm(text: str) -> None:
    """Python calls its handlers when the main thread comes back from C code, which may be never. If that of SIGTERM has not ended
    the profile two seconds after the signal, the core does, writes `text` to stderr, and the process dies of the signal."""
    _core.back_sigterm(os.fsencode(text))
