"""`spprof report --blame`: what threads held the GIL, or a lock, while others waited for it (docs/waits.md)."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

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
UNKNOWN = "unknown"
_NO_OWNER = "no owner: a condition, an event, a queue, a semaphore, or the end of a thread"


class Held(NamedTuple):
    """The time that others waited for what a thread held in a place. `thread` is '' and `tid` None of a thread that is not known,
    or if there is no owner; `stack` is empty if the place is not known. The waiters, and how long each waited: the longest
    first."""

    thread: str
    tid: Optional[int]
    pid: Optional[int]
    stack: Tuple[Frame, ...]
    ns: int
    share: intervals.Estimate
    waiters: List[Tuple[str, int]]
    has_owner: bool

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
            nobody = UNKNOWN if self.has_owner else _NO_OWNER
            return f"{nobody}, {process}" if process else nobody
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


def blame(profiles: Sequence[ProfileData], thread: Optional[str] = None, by_stack: bool = False, reason: int = GIL) -> Blame:
    """The holders of the GIL, or of locks, while threads that match a pattern waited for it, the one with the longest waits
    first. A row is a thread's function, or with `by_stack` a stack of it. Raises BadOption if a profile is not of wall time."""
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
        found += _of(profile, thread, by_stack, whole, reason)
    return Blame(whole, sorted(found, key=lambda row: (-row.ns, row.thread, row.where)))


def _of(profile: ProfileData, thread: Optional[str], by_stack: bool, whole: intervals.Whole, reason: int) -> Iterator[Held]:
    weights, counts, threads = profile.column("weight"), profile.column("count"), profile.column("thread")
    rows: Dict[Any, Dict[int, int]] = {}
    squares: Dict[Any, float] = {}
    stacks: Dict[Any, Tuple[int, int]] = {}
    for i, (holder, stack), ns in profile.charges(thread, reason):
        key = (holder, stack if by_stack else named(_stack(profile, stack)))
        stacks.setdefault(key, (holder, stack))
        waited = rows.setdefault(key, {})
        waited[threads[i]] = waited.get(threads[i], 0) + ns
        squares[key] = squares.get(key, 0.0) + ns * weights[i] / (counts[i] or 1)
    for key, waited in rows.items():
        holder, stack = stacks[key]
        known = holder not in (NOBODY, NO_OWNER)
        name, tid = (profile.origin.thread_name(holder), profile.origin.thread_tid(holder)) if known else ("", None)
        waiters = sorted(((profile.thread_name(id), each) for id, each in waited.items()), key=lambda each: -each[1])
        ns = sum(waited.values())
        share = whole.share(ns, squares=squares[key])
        pid = profile.header.get("pid")
        yield Held(name, tid, pid, _stack(profile, stack), ns, share, waiters, holder != NO_OWNER)


def _stack(profile: ProfileData, stack: int) -> Tuple[Frame, ...]:
    return () if stack == NOBODY else profile.stack(stack)


def text(profiles: Sequence[ProfileData], limit: int = 15, thread: Optional[str] = None, width: int = 160) -> str:
    """The tables."""
    profiles = list(map(readable, profiles))
    gil, locks = blame(profiles, thread), blame(profiles, thread, reason=LOCK)
    tables = [(gil, "the GIL. Its holders"), *([(locks, "locks. Their holders")] if locks.rows else [])]
    tables.sort(key=lambda each: -each[0].whole.weight)  # what cost most comes first
    return "\n".join("\n".join(_table(*each, limit, width, len(profiles))) + "\n" for each in tables)


def _table(found: Blame, what: str, limit: int, width: int, processes: int) -> Iterator[str]:
    if not found.rows:
        yield f"No thread waited for {what.split('.')[0]}."
        return
    yield f"{amount(found.whole.weight, 'nanoseconds')} waited for {what} meanwhile:"
    yield ""
    for row in found.rows[:limit]:
        figures = f"{amount(row.ns, 'nanoseconds', found.whole.weight):>10} {percent(row.share, found.whole.is_known)}"
        space = max(_LEAST, width - len(figures) - 2)
        yield f"{figures}  {fit(row.where if processes == 1 else row.where_in_process, space)}"
        waiters = ", ".join(f"{shown(name)} {amount(ns, 'nanoseconds')}" for name, ns in row.waiters[:_WAITERS])
        more = f", {len(row.waiters) - _WAITERS} more" if len(row.waiters) > _WAITERS else ""
        yield f"{'':{len(figures)}}    waited: {fit(waiters + more, max(_LEAST, space - 10))}"
    if len(found.rows) > limit:
        rest = sum(row.ns for row in found.rows[limit:])
        yield f"{amount(rest, 'nanoseconds', found.whole.weight):>10} {'':>12}  {len(found.rows) - limit} more (--limit)"


def as_json(profiles: Sequence[ProfileData], limit: Optional[int], thread: Optional[str] = None) -> str:
    """The same for programs, a row for each stack."""
    gil, locks = (blame(profiles, thread, by_stack=True, reason=reason) for reason in (GIL, LOCK))
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
