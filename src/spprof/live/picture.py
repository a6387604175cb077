"""What the live view shows, as plain rows: computed here, drawn by view.py."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ..files.profile import Profile
from ..model.aggregation import key_of
from ..model.records import FunctionRow, Thread, native_name
from ..model.types import measured
from ..model.waits import REASONS, TITLES
from ..report.paths import short
from ..report.text import amount

LIMIT = 100  # rows of functions
_MOSTLY = 0.5  # of a function's own time
_LISTED = 3  # reasons of a thread
_LEAST = 0.01  # of its time


class Picture(NamedTuple):
    """One state of the view. Rows of `functions`: self, share, total, share, name; of `threads`: name, weight, share, samples,
    what they waited for."""

    title: str
    functions: List[Tuple[str, ...]]
    threads: List[Tuple[str, ...]]


def picture(
    profile: Profile, thread: Optional[str] = None, sort: str = "self", by: str = "function", labels: Mapping[str, str] = {}
) -> Picture:
    """A profile's functions (or lines) in the threads that match a pattern, by `self` or `total` weight, and all threads.
    `labels`: which the profile's samples carry; for the title."""
    rows = profile.functions(by=by, thread=thread)
    reasons = _reasons(profile, thread, by)
    if sort == "total":
        rows.sort(key=lambda row: (-row.total_weight, -row.self_weight, row.file, row.line, row.qualname))
    threads = sorted(profile.threads, key=lambda each: (-each.weight, each.id))
    whole = sum(each.weight for each in threads)
    matching = set(profile.match_threads(thread))
    samples = sum(each.samples for each in threads if each.id in matching)
    ns = sum(each.weight for each in threads if each.id in matching)
    argv = " ".join(map(str, profile.header.get("argv") or [f"process {profile.header.get('pid')}"]))
    unit = profile.unit
    timed = unit == "nanoseconds"
    kind = f" of {measured(profile.header)}" if timed else f" {unit}"
    where = f" in threads like {thread!r}" if thread else ""
    where += "".join(f" with {key}={value}" for key, value in labels.items())

    def figure(weight: int) -> str:
        return seconds(weight) if timed else amount(weight, unit)

    def function(row: FunctionRow) -> Tuple[str, ...]:
        name = f"{row.qualname} ({short(row.file)}:{row.line})" if row.line else native_name(row.qualname, row.file)
        own, total = row.self_weight, row.total_weight
        for reason, weight in reasons.get(row[:4], {}).items():
            name += f" · {reason}" if weight > _MOSTLY * own else ""
        return figure(own), share(own, ns), figure(total), share(total, ns), text(name)

    return Picture(
        text(f"{argv}: {figure(ns)}{kind}{where}, {samples:,} samples, by {sort} {'time' if timed else unit}"),
        [function(row) for row in rows[:LIMIT]],
        [
            (text(each.name), figure(each.weight), share(each.weight, whole), f"{each.samples:,}", text(_waited(profile, each)))
            for each in threads
        ],
    )


def _reasons(profile: Profile, thread: Optional[str], by: str) -> Dict[Tuple[Any, ...], Dict[str, int]]:
    """The first four fields of a row of `functions` -> each reason for which it waited itself, and how much."""
    found: Dict[Tuple[Any, ...], Dict[str, int]] = {}
    wanted = set(profile.match_threads(thread))
    frames = profile.tree.frames
    for (id, stack, reason, _, _), weight in profile._columns().get("waited", {}).items():
        if id in wanted:
            of = found.setdefault(key_of(profile._columns(), frames[stack] if stack else profile.no_frames, by), {})
            title = TITLES[REASONS[reason]]
            of[title] = of.get(title, 0) + weight
    return found


def _waited(profile: Profile, thread: Thread) -> str:
    """What a thread waited for, and the holder: `the GIL, held by worker 62.0%; sleep 20.1%`."""
    columns = profile._columns()
    found: Dict[str, int] = {}
    for (id, _, reason, what, holder), weight in columns.get("waited", {}).items():
        if id == thread.id:
            title = TITLES[REASONS[reason]] + (f": {columns['strings'][what - 1]}" if what else "")
            title += f", held by {profile.thread_name(holder - 1)}" if holder else ""
            found[title] = found.get(title, 0) + weight
    most = sorted(found.items(), key=lambda each: -each[1])[:_LISTED]
    return "; ".join(f"{title} {share(weight, thread.weight)}" for title, weight in most if weight > _LEAST * thread.weight)


def seconds(ns: int) -> str:
    """A duration."""
    return f"{ns / 1e9:.2f} s"


def share(part: int, whole: int) -> str:
    """A share in percent."""
    return f"{part / (whole or 1):.1%}"


def text(name: str) -> str:
    """A name without what would move the cursor or cannot be written."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in name)
