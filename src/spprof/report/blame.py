"""`spprof report --blame`: what threads held the GIL, or a lock, while others waited for it (docs/waits.md)."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from ..model import intervals
from ..model.blame import NO_OWNER, NOBODY
from ..model.data import ProfileData
from ..model.records import Frame
from ..model.waits import GIL, LOCK
from .document import document
from .tables import check
from .text import amount, fit, percent, place, readable, shown
from .waits import check_wall

_LEAST = 24  # columns for a name, whatever the terminal
_WAITERS = 3  # of a row, by name
_ROWS = 15
_LITTLE = 0.01  # of all that was waited: less, where the interval includes nothing, is no row
UNKNOWN = "unknown"
NO_OWNER_WORDS = "no owner: a condition, an event, a queue, a semaphore, or the end of a thread"


class Held(NamedTuple):
    """The time that others waited for what a thread held in a place, or so many `threads` that are added up. `thread` is '' and
    `tid` None of a thread that is not known, or if there is no owner; `stack` is empty if the place is not known. The waiters,
    and how long each waited: the longest first."""

    thread: str
    tid: Optional[int]
    pid: Optional[int]
    stack: Tuple[Frame, ...]
    ns: int
    share: intervals.Estimate
    waiters: List[Tuple[str, int]]
    has_owner: bool
    threads: int = 1

    @property
    def where(self) -> str:
        """`worker (6257) in parse (app.py:10)`."""
        return self._where("")

    @property
    def where_in_process(self) -> str:
        """`worker (6257, process 6250) in parse (app.py:10)`; of an unknown holder, `unknown, process 6250`."""
        return self._where(f"process {self.pid}")

    def _where(self, process: str) -> str:
        if self.tid is None:
            nobody = UNKNOWN if self.has_owner else NO_OWNER_WORDS
            return f"{nobody}, {process}" if process else nobody
        if self.threads > 1:
            return f"{self.threads} threads{f' ({process})' if process else ''} in {named(self.stack) or UNKNOWN}"
        ids = f"{self.tid}, {process}" if process else str(self.tid)
        return f"{shown(self.thread)} ({ids}) in {named(self.stack) or UNKNOWN}"


class Blame(NamedTuple):
    """All time that threads waited for one reason, in rows that add up to it."""

    whole: intervals.Whole
    rows: List[Held]


def named(stack: Sequence[Frame]) -> str:
    """Where a stack was: its leaf, with the line that it was at; of native code, where Python called it, too."""
    python = next((frame for frame in reversed(stack) if not frame.native), None)
    where = place(python.qualname, python.file, python.line) if python is not None else ""
    if not stack or not stack[-1].native:
        return where
    native = place(stack[-1].qualname, stack[-1].file, 0)
    return f"{native}, called in {where}" if where else native


def blame(profiles: Sequence[ProfileData], thread: Optional[str] = None, by: str = "thread", reason: int = GIL) -> Blame:
    """The holders of the GIL, or of locks, while threads that match a pattern waited for it, the one with the longest waits
    first; what has no owner comes last. A row is by 'thread' a function of one, by 'stack' a stack of one, by 'place' a function
    of all threads of a process. Raises BadOption if a profile is not of wall time."""
    check(profiles, thread, False)
    check_wall(profiles)
    wholes: List[intervals.Whole] = []
    found: List[Held] = []
    for profile in profiles:
        weights, counts, waiters = profile.column("weight"), profile.column("count"), set(profile.match_threads(thread))
        rows = enumerate(zip(profile.column("reason"), profile.column("thread")))
        of = [i for i, (each, id) in rows if each == reason and id in waiters]
        wholes.append(intervals.whole([weights[i] for i in of], [counts[i] for i in of]))
    whole = intervals.together(wholes)
    for profile in profiles:
        found += _of(profile, thread, by, whole, reason)
    return Blame(whole, sorted(found, key=lambda row: (not row.has_owner, -row.ns, row.thread, row.where)))


def _of(profile: ProfileData, thread: Optional[str], by: str, whole: intervals.Whole, reason: int) -> Iterator[Held]:
    weights, counts, threads = profile.column("weight"), profile.column("count"), profile.column("thread")
    rows: Dict[Any, Counter[int]] = {}
    squares: Dict[Any, float] = {}
    stacks: Dict[Any, Tuple[int, int]] = {}
    holders: Dict[Any, Set[int]] = {}
    for i, (holder, stack), ns in profile.charges(thread, reason):
        of = holder if by != "place" or holder in (NOBODY, NO_OWNER) else None
        key = (of, stack if by == "stack" else named(_stack(profile, stack)))
        stacks.setdefault(key, (holder, stack))
        holders.setdefault(key, set()).add(holder)
        rows.setdefault(key, Counter())[threads[i]] += ns
        squares[key] = squares.get(key, 0.0) + ns * weights[i] / (counts[i] or 1)
    for key, waited in rows.items():
        holder, stack = stacks[key]
        known = holder not in (NOBODY, NO_OWNER)
        name, tid = (profile.origin.thread_name(holder), profile.origin.thread_tid(holder)) if known else ("", None)
        waiters = sorted(((profile.thread_name(id), each) for id, each in waited.items()), key=lambda each: -each[1])
        ns = sum(waited.values())
        share = whole.share(ns, squares=squares[key])
        what = (name, tid, profile.header.get("pid"), _stack(profile, stack))
        yield Held(*what, ns, share, waiters, holder != NO_OWNER, len(holders[key]))


def _stack(profile: ProfileData, stack: int) -> Tuple[Frame, ...]:
    return () if stack == NOBODY else profile.stack(stack)


def text(profiles: Sequence[ProfileData], limit: Optional[int] = None, thread: Optional[str] = None, width: int = 160) -> str:
    """The tables. `limit`: rows, whatever they say (None: at most 15, as long as they say something)."""
    profiles = list(map(readable, profiles))
    gil, locks = (blame(profiles, thread, "place", reason) for reason in (GIL, LOCK))
    tables = [(gil, "the GIL. Its holders"), *([(locks, "locks. Their holders")] if locks.rows else [])]
    tables.sort(key=lambda each: -sum(row.ns for row in each[0].rows if row.has_owner))  # what cost most comes first
    return "\n".join("\n".join(_table(*each, limit, width, len(profiles))) + "\n" for each in tables)


def _table(found: Blame, what: str, limit: Optional[int], width: int, processes: int) -> Iterator[str]:
    if not found.rows:
        yield f"No thread waited for {what.split('.')[0]}."
        return
    rows = found.rows[:limit] if limit is not None else [row for row in found.rows if _says_something(found, row)][:_ROWS]
    yield f"{amount(found.whole.weight, 'nanoseconds')} waited for {what} meanwhile:"
    yield ""
    for row in rows:
        figures = f"{amount(row.ns, 'nanoseconds', found.whole.weight):>10} {percent(row.share, found.whole.is_known)}"
        space = max(_LEAST, width - len(figures) - 2)
        yield f"{figures}  {fit(row.where if processes == 1 else row.where_in_process, space)}"
        waiters = ", ".join(f"{shown(name)} {amount(ns, 'nanoseconds')}" for name, ns in row.waiters[:_WAITERS])
        more = f", {len(row.waiters) - _WAITERS} more" if len(row.waiters) > _WAITERS else ""
        yield f"{'':{len(figures)}}    waited: {fit(waiters + more, max(_LEAST, space - 10))}"
    if len(found.rows) > len(rows):
        rest = found.whole.weight - sum(row.ns for row in rows)
        yield f"{amount(rest, 'nanoseconds', found.whole.weight):>10} {'':>12}  {len(found.rows) - len(rows)} more (--limit)"


def _says_something(found: Blame, row: Held) -> bool:
    return row.share.value >= _LITTLE or (found.whole.is_known and row.share.is_more_than_nothing)


def as_json(profiles: Sequence[ProfileData], limit: Optional[int], thread: Optional[str] = None) -> str:
    """The same for programs, a row for each stack."""
    gil, locks = (blame(profiles, thread, "stack", reason) for reason in (GIL, LOCK))
    fields = {
        "waited_ns": gil.whole.weight,
        "rows": _rows(gil, limit),
        "more": len(gil.rows[limit:]) if limit is not None else 0,
        "lock_ns": locks.whole.weight,
        "lock_rows": [{**row, "has_owner": held.has_owner} for row, held in zip(_rows(locks, limit), locks.rows)],
        "lock_more": len(locks.rows[limit:]) if limit is not None else 0,
    }
    return document("blame", fields)


def _rows(found: Blame, limit: Optional[int]) -> List[Dict[str, Any]]:
    return [
        {
            "thread": row.thread,
            "tid": row.tid,
            "pid": row.pid,
            "stack": [str(frame) for frame in row.stack],
            "ns": row.ns,
            "share": row.share.value,
            "share_interval": [row.share.low, row.share.high],
            "waiters": [{"thread": name, "ns": ns} for name, ns in row.waiters],
        }
        for row in found.rows[:limit]
    ]
