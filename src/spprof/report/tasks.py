"""`spprof report --tasks`: where the time of tasks of asyncio went, and what held their event loops (docs/tasks.md)."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..errors import BadOption
from ..model import held_loops
from ..model.blame import NOBODY
from ..model.data import ProfileData
from ..model.records import Frame
from ..model.tasks import names
from ..model.waits import TITLES, things
from .blame import UNKNOWN, named
from .document import document
from .text import amount, fit, readable, shown

_LEAST = 24  # columns for a name, whatever the terminal
_REASONS = 4  # of a task
_WAITERS = 3  # of what held a loop, by name
_SAMPLES = "tasks"  # their type
RUNNING = "running"
_TITLES = {**TITLES, RUNNING: "running, or blocking its event loop"}


class Spent(NamedTuple):
    """The time that tasks of a name spent for one reason, and for one thing where it has a name."""

    reason: str
    on: str
    ns: int


class TaskRow(NamedTuple):
    """The tasks of a name in a process: their time together, and where it went; the tasks that await them. The longest first."""

    task: str
    pid: Optional[int]
    ns: int
    spent: List[Spent]
    awaited_by: List[str]


class LoopRow(NamedTuple):
    """What held an event loop while tasks were ready: the task ('': the loop itself ran), and its stack, which is empty if it is
    not known. The waiters, and how long each waited."""

    thread: str
    tid: int
    pid: Optional[int]
    task: str
    stack: Tuple[Frame, ...]
    ns: int
    waiters: List[Tuple[str, int]]

    @property
    def where(self) -> str:
        """`task hogs in hogs (app.py:10)`."""
        held_by = f"task {shown(self.task)}" if self.task else "the event loop"
        return f"{held_by} in {named(self.stack)}" if self.stack else UNKNOWN


def _of_type(profile: ProfileData, name: str) -> Optional[ProfileData]:
    return profile.of(name) if name in [each.name for each in profile.sample_types] else None


def tasks(profiles: Sequence[ProfileData]) -> Tuple[List[TaskRow], List[LoopRow]]:
    """Of the tasks of each name, and what held their loops; that with the most time first. Raises BadOption if waiting tasks were
    not sampled."""
    rows: List[TaskRow] = []
    held: List[LoopRow] = []
    for profile in profiles:
        waiting = _of_type(profile, _SAMPLES)
        if waiting is None:
            how = "`spprof run --mode wall --event time --event tasks`"
            raise BadOption(f"waiting tasks were not sampled; take a profile with {how}")
        time = _of_type(profile, "time")
        rows += _tasks_of(profile, waiting, time)
        held += _held_of(profile, waiting)
    return sorted(rows, key=lambda row: (-row.ns, row.task)), sorted(held, key=lambda row: (-row.ns, row.where))


def _tasks_of(profile: ProfileData, waiting: ProfileData, time: Optional[ProfileData]) -> Iterator[TaskRow]:
    spent: Dict[str, Dict[Tuple[str, str], int]] = {}
    awaited: Dict[str, Dict[str, None]] = {}
    if time is not None:
        names_of = names(time._columns())
        for task, weight in zip(time.column("task"), time.column("weight")):
            if task:
                of = spent.setdefault(names_of[task], {})
                of[RUNNING, ""] = of.get((RUNNING, ""), 0) + weight
    columns = waiting._columns()
    names_of, on_of, strings = names(columns), things(columns), columns["strings"]
    wanted = ("task", "reason", "waits_on", "weight", "awaited_by")
    for task, reason, on, weight, by in zip(*map(waiting.column, wanted)):
        of, why = spent.setdefault(names_of[task], {}), (waiting.reasons[reason], on_of[on])
        of[why] = of.get(why, 0) + weight
        if by:
            awaited.setdefault(names_of[task], {}).update(dict.fromkeys(strings[by - 1].split(", ")))
    for name, reasons in spent.items():
        parts = sorted((Spent(*why, ns) for why, ns in reasons.items()), key=lambda part: -part.ns)
        yield TaskRow(name, profile.header.get("pid"), sum(reasons.values()), parts, list(awaited.get(name, ())))


def _held_of(profile: ProfileData, waiting: ProfileData) -> Iterator[LoopRow]:
    columns = waiting._columns()
    names_of = names(columns)
    found: Dict[held_loops.Hold, Dict[str, int]] = {}
    did = profile.in_whole("time") if _of_type(profile.origin, "time") is not None else None
    tasks_of_time = {0: "", **(names(did) if did is not None else {})}
    for i, hold, ns in held_loops.holds(columns, waiting.column("reason"), did, profile.interval_ns):
        of = found.setdefault(hold, {})
        name = names_of[columns["task"][i]]
        of[name] = of.get(name, 0) + ns
    merged: Dict[Any, Tuple[held_loops.Hold, Dict[str, int]]] = {}
    for hold, waiters in found.items():  # stacks that differ only above the place are one row
        stack = () if hold.stack == NOBODY else profile.stack(hold.stack)
        _, together = merged.setdefault((hold.thread, hold.task, named(stack)), (hold, {}))
        for name, ns in waiters.items():
            together[name] = together.get(name, 0) + ns
    for hold, waiters in merged.values():
        stack = () if hold.stack == NOBODY else profile.stack(hold.stack)
        thread = profile.origin.thread_name(hold.thread), profile.origin.thread_tid(hold.thread)
        ordered = sorted(waiters.items(), key=lambda each: (-each[1], each[0]))
        yield LoopRow(*thread, profile.header.get("pid"), tasks_of_time[hold.task], stack, sum(waiters.values()), ordered)


def text(profiles: Sequence[ProfileData], limit: int = 15, width: int = 160) -> str:
    """The table: a block for the tasks of each name, and what held loops."""
    rows, held = tasks(list(map(readable, profiles)))
    lines = [f"{len(rows):,} names of tasks, {amount(sum(row.ns for row in rows), 'nanoseconds')} of their time."]
    for row in rows[:limit]:
        process = f" (process {row.pid})" if len(profiles) > 1 else ""
        by = f", awaited by {', '.join(map(shown, row.awaited_by))}" if row.awaited_by else ""
        title = f"{amount(row.ns, 'nanoseconds'):>10}  {shown(row.task) or '[no name]'}{process}{by}"
        lines += ["", fit(title, max(_LEAST, width))]
        for part in row.spent[:_REASONS]:
            figures = f"{amount(part.ns, 'nanoseconds'):>10} {part.ns / (row.ns or 1):6.1%}"
            what = _TITLES[part.reason] + (f": {shown(part.on)}" if part.on else "")
            lines.append(f"{figures}   {fit(what, max(_LEAST, width - len(figures) - 3))}")
        if len(row.spent) > _REASONS:
            lines.append(f"{amount(sum(part.ns for part in row.spent[_REASONS:]), 'nanoseconds'):>10} {'':6}   other reasons")
    if len(rows) > limit:
        lines += ["", f"{amount(sum(row.ns for row in rows[limit:]), 'nanoseconds'):>10}  {len(rows) - limit} more (--limit)"]
    if held:
        whole = sum(row.ns for row in held)
        lines += ["", f"{amount(whole, 'nanoseconds')} tasks were ready, but their event loop was busy. It ran meanwhile:", ""]
    for loop in held[:limit]:
        lines.append(f"{amount(loop.ns, 'nanoseconds'):>10}  {fit(loop.where, max(_LEAST, width - 12))}")
        waiters = ", ".join(f"{shown(name)} {amount(ns, 'nanoseconds')}" for name, ns in loop.waiters[:_WAITERS])
        more = f", {len(loop.waiters) - _WAITERS} more" if len(loop.waiters) > _WAITERS else ""
        lines.append(f"{'':14}ready: {fit(waiters + more, max(_LEAST, width - 21))}")
    return "\n".join(lines) + "\n"


def as_json(profiles: Sequence[ProfileData], limit: Optional[int]) -> str:
    """The same for programs."""
    rows, held = tasks(profiles)
    fields = {
        "rows": [
            {
                "task": row.task,
                "pid": row.pid,
                "ns": row.ns,
                "spent": [part._asdict() for part in row.spent],
                "awaited_by": row.awaited_by,
            }
            for row in rows[:limit]
        ],
        "more": len(rows) - len(rows[:limit]),
        "held": [
            {
                "thread": loop.thread,
                "tid": loop.tid,
                "pid": loop.pid,
                "task": loop.task,
                "stack": [str(frame) for frame in loop.stack],
                "ns": loop.ns,
                "waiters": [{"task": name, "ns": ns} for name, ns in loop.waiters],
            }
            for loop in held[:limit]
        ],
    }
    return document("tasks", fields)
