"""Which events can be sampled here, and in plain words why others cannot."""

from __future__ import annotations

import errno
import os

from .. import _core

TYPE_CHECKING = False  # see __init__
if TYPE_CHECKING:
    from typing import Iterator, Optional

PARANOID = "/proc/sys/kernel/perf_event_paranoid"


def listed() -> Iterator[str]:
    """The lines of `--event list`."""
    for name, unit, period, what, user, number, refused in _core.list_events():
        yield f"{name:<23}{'no' if number else 'yes':<5}{what}; {unit}{f', a sample for {period:,} or more' if period else ''}"
        if number:
            yield f"{'':<28}{reason(number, refused)}"
        elif user:
            yield f"{'':<28}of the program's own code alone: {_paranoid()}, to count within the kernel too"


def reason(number: int, refused: str) -> str:
    """Why an event cannot be sampled: `refused` as the core has it, the call or what is missing."""
    reported = f"{refused}: {os.strerror(number)}"
    if refused.startswith("/"):
        return f"{reported}: tracepoints are those of this folder, which root may read, and users whom root permits"
    if number in (errno.ENOENT, errno.ENODEV):
        return f"{reported}: the kernel has no such counter of this machine; most virtual machines have none of the processor's"
    if number == errno.EACCES:
        return f"{reported}: {_paranoid()}"
    if number == errno.EPERM:
        return f"{reported}: a filter refuses the call, as containers have it, or the kernel demands CAP_PERFMON"
    return reported


def _paranoid() -> str:
    level = _level()
    known = f" (it is {level})" if level is not None else ""
    return f"needs root, CAP_PERFMON, or kernel.perf_event_paranoid at 1 or less{known}"


def _level() -> Optional[int]:
    try:
        with open(PARANOID, "rb") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None
