"""Where the main thread's time went, in a sentence (docs/waits.md)."""

from __future__ import annotations

import textwrap
from typing import Iterator, List, Optional, Sequence

from ..model.data import ProfileData
from ..model.waits import REASONS
from .blame import blame
from .text import duration, shown
from .waits import Waits, waits

_LEAST = 0.01  # of its time: what is less is not said
_MOST = 5  # reasons

WORDS = {
    "running": "running",
    "ready": "ready without a processor",
    "gil": "waiting for the GIL",
    "lock": "waiting for a lock",
    "io": "in input or output",
    "child": "waiting for a child process",
    "sleep": "asleep",
    "idle": "idle",
    "kernel": "in the kernel",
    "unknown": "waiting for what is unknown",
    "loop": "ready, while the event loop was busy",
    "task": "waiting for another task",
    "job": "waiting for a job of another thread",
    "future": "waiting for a future",
}


def in_words(profiles: Sequence[ProfileData], width: int) -> List[str]:
    """The sentence, wrapped: `Of 12.00 s of MainThread: 3.10 s running, ...`. Nothing for several processes, for other time than
    wall time, and where nobody knows why threads wait."""
    if len(profiles) != 1 or profiles[0].mode != "wall" or profiles[0].unit != "nanoseconds":
        return []
    main = next((each for each in waits(profiles) if each.what["tid"] and each.what["tid"] == each.what["pid"]), None)
    if main is None or {row.reason for row in main.rows} <= {"running", "unknown"}:
        return []
    name = shown(main.what["thread"])
    text = f"Of {duration(main.whole.weight)} of {name}: {', '.join(_parts(profiles[0], main))}."
    return ["", *textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)]


def _parts(profile: ProfileData, main: Waits) -> Iterator[str]:
    for row in main.rows[:_MOST]:
        if row.ns < _LEAST * main.whole.weight:
            return
        held = REASONS.index(row.reason) if row.reason in ("gil", "lock") else None
        more = f": {shown(row.on)}" if row.on else _holder(profile, main.what["tid"], held) if held is not None else None
        yield f"{duration(row.ns)} {WORDS[row.reason]}{more or ''}"


def _holder(profile: ProfileData, tid: int, reason: int) -> Optional[str]:
    """The place that a thread waited for longest, if it is known."""
    first = max(blame([profile], str(tid), "place", reason).rows, key=lambda row: row.ns, default=None)
    if first is None or first.tid is None:
        return None
    return f" ({duration(first.ns)} held by {first.where})"
