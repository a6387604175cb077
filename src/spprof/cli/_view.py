"""The live view of a process that is attached to."""

from __future__ import annotations

import os

from ..errors import BadOption


def check(pid: int) -> None:
    """Before anything is done to the process. Raises BadOption."""
    from ..live import view_class

    view_class()
    if not (os.isatty(0) and os.isatty(2)):
        raise BadOption(f"the live view needs a terminal; `spprof attach {pid} --duration 10` prints a summary")


def show(path: str, pid: int) -> None:
    """The profile, until `q`, Ctrl-C, or a signal that asks us to end: the process must be left then, too."""
    import signal

    from ..live import view_class
    from ..live.follow import Follower

    view = view_class()(Follower(path), lambda: "the process has ended · q leaves" if _has_ended(pid) else "")
    before = {number: signal.signal(number, lambda *_: view.exit()) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        view.run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _has_ended(pid: int) -> bool:
    try:
        os.readlink(f"/proc/{pid}/exe")
    except (FileNotFoundError, ProcessLookupError):  # also of one that nobody has waited for yet
        return True
    except OSError:
        pass
    return False
