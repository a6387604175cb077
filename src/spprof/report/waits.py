"""`spprof report --waits`: what each thread waited for (docs/waits.md)."""

from __future__ import annotations

import json
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from .. import __version__
from ..errors import BadOption
from ..model.data import ProfileData
from ..model.intervals import Estimate, Whole
from ..model.unicode import cleaned
from ..model.waits import TITLES, things
from .tables import check, heading
from .text import amount, fit, percent, readable, shown

_LEAST = 24  # columns for a name, whatever the terminal


class Wait(NamedTuple):
    """The time that a thread spent for one reason, and for one thing where it has a name ('': it has none)."""

    reason: str
    on: str
    samples: int
    ns: int
    share: Estimate  # of the thread's time


class Waits(NamedTuple):
    """A thread, and where its time went: the rows add up to its time. The longest first."""

    thread: str
    tid: int
    pid: Optional[int]
    whole: Whole
    rows: List[Wait]


def waits(profiles: Sequence[ProfileData], thread: Optional[str] = None) -> List[Waits]:
    """Of each thread, the one with the most time first. Raises BadOption if a profile is not of wall time."""
    check(profiles, thread, False)
    check_wall(profiles)
    found = [each for profile in profiles for each in _of(profile, thread)]
    return sorted(found, key=lambda one: (-one.whole.weight, one.thread, one.tid))


def check_wall(profiles: Sequence[ProfileData]) -> None:
    """Raises BadOption if a profile is not of wall time."""
    if any(profile.mode != "wall" for profile in profiles):
        raise BadOption("threads that wait were not sampled; take a profile with `spprof run --mode wall`")


def _of(profile: ProfileData, thread: Optional[str]) -> Iterator[Waits]:
    names, matching = things(profile._columns()), set(profile.match_threads(thread))
    figures: Dict[int, Dict[Tuple[int, int], List[float]]] = {}
    columns = ("thread", "reason", "waits_on", "count", "weight")
    for id, reason, on, count, weight in zip(*map(profile.column, columns)):
        if id in matching:
            known = figures.setdefault(id, {}).setdefault((reason, on), [0, 0, 0.0])
            known[0] += count
            known[1] += weight
            known[2] += weight * weight / (count or 1)
    for id, of_thread in figures.items():
        whole = profile.whole_of([id])
        rows = [
            Wait(profile.reasons[reason], names[on], int(samples), int(ns), whole.share(ns, squares=squares))
            for (reason, on), (samples, ns, squares) in of_thread.items()
        ]
        rows.sort(key=lambda row: (-row.ns, row.reason, row.on))
        yield Waits(profile.thread_name(id), profile.thread_tid(id), profile.header.get("pid"), whole, rows)


def text(profiles: Sequence[ProfileData], limit: int = 15, thread: Optional[str] = None, width: int = 160) -> str:
    """The table: a block for each thread."""
    profiles = list(map(readable, profiles))
    found = waits(profiles, thread)
    lines = [heading(profiles, thread, profiles[0].whole(thread)) if len(profiles) == 1 else f"{len(profiles)} processes."]
    for one in found:
        process = f", process {one.pid}" if len(profiles) > 1 else ""
        lines += ["", f"{amount(one.whole.weight, 'nanoseconds'):>10}  {shown(one.thread)} ({one.tid}{process})"]
        for row in one.rows[:limit]:
            figures = f"{amount(row.ns, 'nanoseconds'):>10} {percent(row.share, one.whole.is_known)}"
            what = TITLES[row.reason] + (f": {shown(row.on)}" if row.on else "")
            lines.append(f"{figures}  {fit(what, max(_LEAST, width - len(figures) - 2))}")
        if len(one.rows) > limit:
            rest = sum(row.ns for row in one.rows[limit:])
            lines.append(f"{amount(rest, 'nanoseconds'):>10} {'':>12}  {len(one.rows) - limit} more (--limit)")
    reasons = {row.reason for one in found for row in one.rows}
    if "unknown" in reasons and reasons <= {"running", "unknown"}:
        lines += ["", "Why threads waited is unknown: this system does not say it, or may not (docs/waits.md)."]
    return "\n".join(lines) + "\n"


def as_json(profiles: Sequence[ProfileData], limit: Optional[int], thread: Optional[str] = None) -> str:
    """The same for programs."""
    found = waits(profiles, thread)
    rows = [
        {
            "thread": one.thread,
            "tid": one.tid,
            "pid": one.pid,
            "reason": row.reason,
            "on": row.on,
            "samples": row.samples,
            "ns": row.ns,
            "share": row.share.value,
            "share_interval": [row.share.low, row.share.high],
        }
        for one in found
        for row in one.rows[:limit]
    ]
    more = sum(len(one.rows) for one in found) - len(rows)
    return json.dumps(cleaned({"spprof": __version__, "kind": "waits", "rows": rows, "more": more}), indent=1) + "\n"
