"""The current or last stack of each thread: what `spprof dump` prints."""

from __future__ import annotations

from typing import Dict, Iterator, List, NamedTuple, Optional

from ..model.data import ProfileData
from ..model.records import OFF_CPU
from ..model.waits import things
from .text import duration, place, readable, shown
from .words import WORDS

# In wall mode a living thread is in the file at least every 80 ms; one that was not for so long has ended, or hides.
_GONE_NS = 1_000_000_000
_BEHIND_NS = 200_000_000  # less is how far threads lie apart in the file


class _Last(NamedTuple):
    """The last samples of a thread that have one stack: its key, when the last was taken, the time off-CPU there; why, by the
    last of them, and the thread that held what it waits for, + 1 (0: nobody knows)."""

    thread: int
    key: int
    time_ns: int
    still_ns: int
    why: str
    held_by: int


def _lasts(profile: ProfileData) -> List[_Last]:
    """Of each thread that has samples."""
    threads, keys = profile.column("thread"), profile.stack_keys()
    times, weights, flags = (profile.column(name) for name in ("time_ns", "weight", "flags"))
    columns, reasons = profile._columns(), profile.column("reason")
    on = things(columns)
    found: Dict[int, _Last] = {}

    def why(i: int) -> str:
        reason, what = profile.reasons[reasons[i]], on[columns["waits_on"][i]]
        known = flags[i] & OFF_CPU and reason not in ("running", "unknown")
        return WORDS[reason] + (f": {what}" if what else "") if known else ""

    looked_for = set(threads)
    for i in range(len(threads) - 1, -1, -1):  # samples of a thread are in order of time
        thread, off_cpu = threads[i], flags[i] & OFF_CPU
        if thread not in looked_for:
            continue
        last = found.get(thread)
        if last is None:
            found[thread] = _Last(thread, keys[i], times[i], weights[i] if off_cpu else 0, why(i), columns["held_by"][i])
        elif off_cpu and keys[i] == last.key:
            found[thread] = last._replace(still_ns=last.still_ns + weights[i])
        if found[thread] is last or not off_cpu:
            looked_for.discard(thread)
            if not looked_for:
                break
    return [found[thread] for thread in sorted(found)]


def last_stacks(profile: ProfileData, pattern: Optional[str]) -> Iterator[str]:
    """The lines. `pattern`: only threads of this name or system id."""
    profile = readable(profile)
    header, lasts = profile.header, _lasts(profile)
    newest = max((last.time_ns for last in lasts), default=0)
    wanted = set(profile.match_threads(pattern))
    what = " ".join(map(str, header.get("argv") or [])) or "a program"
    state = "not ended" if profile.end is None else "ended"
    news = f"the last sample was taken at {(newest - int(header['start_ns'])) / 1e9:.2f} s" if lasts else "no samples yet"
    yield shown(f"{what}: process {header.get('pid', '?')}, {profile.mode} mode, {state}; {news}")
    waiters: Dict[int, List[str]] = {}
    for last in lasts:
        if last.held_by and newest - last.time_ns <= _GONE_NS:
            waiters.setdefault(last.held_by - 1, []).append(profile.thread_name(last.thread))
    gone = 0
    for last in lasts:
        if last.thread not in wanted:
            continue
        before = newest - last.time_ns
        if profile.mode == "wall" and before > _GONE_NS:
            gone += 1
            continue
        where = f"here for {duration(last.still_ns)}" if last.still_ns else "was running"
        ago = f", {duration(before)} before" if before >= _BEHIND_NS else ""
        why = f", {shown(last.why)}" if last.why else ""
        by = f", held by {_title(profile, last.held_by - 1)}" if last.held_by else ""
        yield f"\n{_title(profile, last.thread)}: {where}{ago}{why}{by}"
        if last.thread in waiters:
            yield f"    (it holds what others wait for: {shown(', '.join(waiters[last.thread]))})"
        for frame in reversed(profile.stack(last.key)):
            yield f"    {place(frame.qualname, frame.file, 0 if frame.native else frame.line)}"
    if gone:
        yield f"\n{gone} thread{'s' if gone > 1 else ''} more, not seen for the last second: ended, or waiting out of sight."


def _title(profile: ProfileData, thread: int) -> str:
    return f"{shown(profile.thread_name(thread))} ({profile.thread_tid(thread) or '?'})"
