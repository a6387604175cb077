"""The rows that `spprof report` shows: functions, lines, files or threads, of one profile or of several processes' together."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from .. import intervals
from ..errors import BadOption
from ..intervals import Whole
from ..model import Profile
from .text import amount, place, short, shown, time_kind

BY = ("function", "line", "file", "thread")


class Row(NamedTuple):
    """`what` identifies it for machines, `text` for people. A thread has no self time: it is its total."""

    what: Dict[str, Any]
    text: str
    self_samples: int
    self_weight_ns: int
    total_samples: int
    total_weight_ns: int


class Table(NamedTuple):
    """Rows in order, and all that shares are shares of. `by`: what a row is; `sort`: 'self' or 'total'; `only`: see
    `Profile.functions`."""

    profiles: Sequence[Profile]
    thread: Optional[str]
    by: str
    sort: str
    only: Optional[str]
    whole: Whole
    rows: List[Row]

    @property
    def unit(self) -> str:
        """What weights count: see `Profile.unit`."""
        return self.profiles[0].unit

    def heading(self) -> str:
        """`8.31 s of CPU time, 8,310 samples. By self time:`"""
        native = sum(row.self_weight_ns for row in self.rows) if self.only == "native" else None
        kind = "time" if self.unit == "nanoseconds" else self.unit
        what = (
            "thread" if self.by == "thread" else f"{self.sort} {kind}" + (f" of each {self.by}" if self.by != "function" else "")
        )
        return f"{heading(self.profiles, self.thread, self.whole, native)} By {what}:"


def table(
    profiles: Sequence[Profile],
    by: str = "function",
    thread: Optional[str] = None,
    sort: str = "self",
    only: Optional[str] = None,
) -> Table:
    """Adds up the profiles. Raises BadOption if no thread matches the pattern, or if native functions are asked for and the
    profiles have none."""
    check(profiles, thread, only == "native")
    if by == "thread" and only is not None:
        raise BadOption("threads are listed with all their time: leave out --python-only and --native-only")
    sums: Dict[Tuple[Any, ...], List[int]] = {}
    for profile in profiles:
        for key, figures in _figures(profile, by, thread, only):
            known = sums.setdefault(key, [0, 0, 0, 0])
            known[:] = map(int.__add__, known, figures)
    foreign = "source" in profiles[0].header
    ordered = sorted(sums.items(), key=lambda item: _order(sort, item))
    whole = intervals.together(profile.whole(thread) for profile in profiles)
    return Table(profiles, thread, by, sort, only, whole, [Row(*_named(by, key, foreign), *figures) for key, figures in ordered])


def _order(sort: str, item: Tuple[Tuple[Any, ...], List[int]]) -> Tuple[Any, ...]:
    key, figures = item
    own, total = -figures[1], -figures[3]
    return (total, own, key[2:], key) if sort == "total" else (own, total, key[2:], key)


def _figures(
    profile: Profile, by: str, thread: Optional[str], only: Optional[str]
) -> Iterable[Tuple[Tuple[Any, ...], Sequence[int]]]:
    if by in ("function", "line"):
        return [(row[:4], row[4:]) for row in profile.functions(by, thread, only)]
    if by == "file":
        found = profile.figures(lambda id: profile.frame(id).source or profile.frame(id).file, thread, only)
        return [((key[1], ) if isinstance(key, tuple) else (key, ), figures) for key, figures in found.items()]  # fmt: skip
    pid = profile.header.get("pid")
    matching = set(profile.match_threads(thread))
    threads = [each for each in profile.threads if each.id in matching]
    return [((each.name, each.tid, pid, each.id), (each.samples, each.weight_ns) * 2) for each in threads]


def _named(by: str, key: Tuple[Any, ...], foreign: bool) -> Tuple[Dict[str, Any], str]:
    if by == "file":
        return {"file": key[0]}, shown(short(key[0])) or "[unknown]"
    if by == "thread":
        return {"thread": key[0], "tid": key[1], "pid": key[2]}, f"{shown(key[0])} ({key[1]})"
    if foreign and key[2] and not key[3]:  # most profilers do not tell where a function begins
        text = shown(f"{key[1]} ({short(key[2])})")
    else:
        text = place(*key[1:])
    return dict(zip(("name", "qualname", "file", "line"), key)), text


def check(profiles: Sequence[Profile], thread: Optional[str], native: bool) -> None:
    """Whether there is what is asked for, and can be added up."""
    units = sorted({profile.unit for profile in profiles})
    if len(units) > 1:
        raise BadOption(f"the files count {' and '.join(units)}, which cannot be added up")
    if native and not any(profile.header.get("native") for profile in profiles):
        raise BadOption("the profile has no native frames; take one with `spprof run --native`")
    if thread is not None and not any(profile.match_threads(thread) for profile in profiles):
        names = ", ".join(sorted({each.name for profile in profiles for each in profile.threads})) or "none at all"
        raise BadOption(f"no thread matches {thread!r}; the profile has: {names}")


def heading(profiles: Sequence[Profile], thread: Optional[str], whole: Whole, native_ns: Optional[int] = None) -> str:
    """How much time of what kind, in how many samples."""
    where = f" in threads like {thread!r}" if thread else ""
    where += f" of {len(profiles)} processes" if len(profiles) > 1 else ""
    unit = profiles[0].unit
    part = (
        "" if native_ns is None else f" {amount(native_ns, unit)} ({native_ns / (whole.weight_ns or 1):.1%}) in native functions."
    )
    if unit != "nanoseconds":
        return f"{whole.weight_ns:,} {unit}{where}.{part}"
    return f"{amount(whole.weight_ns, unit)} of {time_kind(profiles)}{where}, {whole.ticks:,} samples.{part}"
