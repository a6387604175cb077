"""`spprof report --tasks`: where the time of tasks of asyncio went, and what held their event loops (docs/tasks.md)."""

from __future__ import annotations

from math import hypot
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..errors import BadOption
from ..model import held_loops
from ..model.blame import NOBODY
from ..model.data import ProfileData
from ..model.intervals import Estimate
from ..model.records import Frame
from ..model.tasks import names
from ..model.waits import TITLES, things
from .blame import UNKNOWN, named
from .document import document
from .tables import FEW
from .text import amount, fit, readable, shown

_LEAST = 24  # columns for a name, whatever the terminal
_REASONS = 4  # of a task
_WAITERS = 3  # of what held a loop, by name
_SAMPLES = "tasks"  # their type
RUNNING = "running"
_TITLES = {**TITLES, RUNNING: "running, or blocking its event loop"}


class Spent(NamedTuple):
    """The time that tasks of a name spent for one reason, and for one thing where it has a name. A sample of a waiting task is
    one of many that were drawn, and stands for all of them: few may have a great weight. `samples`: how many of one weight would
    say as much; `interval`: of the time, in ns."""

    reason: str
    on: str
    ns: int
    samples: float
    interval: Estimate


class TaskRow(NamedTuple):
    """The tasks of a name in a process: their time together, and where it went; the tasks that await them. The longest first."""

    task: str
    pid: Optional[int]
    ns: int
    spent: List[Spent]
    awaited_by: List[str]
    samples: float
    interval: Estimate

    @property
    def few(self) -> str:
        """` [3 samples]` of a row that rests on few; else nothing."""
        number = round(self.samples)
        return f" [{number} sample{'s' if number != 1 else ''}]" if number < FEW else ""


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


class _Sum:
    """The weights of some samples of one type, and their squares."""

    def __init__(self) -> None:
        self.ns, self.squares = 0, 0.0

    def add(self, weight: int, count: int) -> None:
        self.ns += weight
        self.squares += weight * weight / (count or 1)

    @property
    def samples(self) -> float:
        return self.ns**2 / self.squares if self.squares else 0.0


def _tasks_of(profile: ProfileData, waiting: ProfileData, time: Optional[ProfileData]) -> Iterator[TaskRow]:
    spent: Dict[str, Dict[Tuple[str, str], _Sum]] = {}
    awaited: Dict[str, Dict[str, None]] = {}
    if time is not None:
        names_of = names(time._columns())
        for task, *sample in zip(*map(time.column, ("task", "weight", "count"))):
            if task:
                spent.setdefault(names_of[task], {}).setdefault((RUNNING, ""), _Sum()).add(*sample)
    columns = waiting._columns()
    names_of, on_of, strings = names(columns), things(columns), columns["strings"]
    wanted = ("task", "reason", "waits_on", "awaited_by", "weight", "count")
    for task, reason, on, by, *sample in zip(*map(waiting.column, wanted)):
        why = (waiting.reasons[reason], on_of[on])
        spent.setdefault(names_of[task], {}).setdefault(why, _Sum()).add(*sample)
        if by:
            awaited.setdefault(names_of[task], {}).update(dict.fromkeys(strings[by - 1].split(", ")))
        if waiting.reasons[reason] == "task" and on_of[on]:  # that one may run, and never be seen to wait
            awaited.setdefault(on_of[on], {})[names_of[task]] = None
    for name, reasons in spent.items():
        parts = [
            Spent(*why, each.ns, each.samples, _interval(time if why[0] == RUNNING and time is not None else waiting, each))
            for why, each in reasons.items()
        ]
        parts.sort(key=lambda part: -part.ns)
        ran, waited = ([each for why, each in reasons.items() if (why[0] == RUNNING) == which] for which in (True, False))
        each_type = [(of, _together(sums)) for of, sums in ((time, ran), (waiting, waited)) if of is not None and sums]
        both = _together([each for _, each in each_type])
        ends = [_interval(of, each) for of, each in each_type]
        low, high = (hypot(*(end[side] - end.value for end in ends)) for side in (1, 2))
        interval = Estimate(both.ns, max(0.0, both.ns - low), both.ns + high)
        yield TaskRow(name, profile.header.get("pid"), both.ns, parts, list(awaited.get(name, ())), both.samples, interval)


def _together(sums: Sequence[_Sum]) -> _Sum:
    result = _Sum()
    result.ns, result.squares = sum(each.ns for each in sums), sum(each.squares for each in sums)
    return result


def _interval(profile: ProfileData, part: _Sum) -> Estimate:
    whole = profile.whole()
    return whole.share(part.ns, squares=part.squares).times(whole.weight)


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
    took = amount(sum(row.ns for row in rows), "nanoseconds")
    lines = [f"{len(rows):,} names of tasks, {took} of their time. Tasks of one name are added up; ± is the 95 % interval."]
    for row in rows[:limit]:
        process = f" (process {row.pid})" if len(profiles) > 1 else ""
        by = f", awaited by {', '.join(map(shown, row.awaited_by))}" if row.awaited_by else ""
        figures = _with_reach(row.ns, row.interval)
        title = f"{figures} {shown(row.task) or '[no name]'}{process}{by}"
        lines += ["", fit(title, max(_LEAST, width - len(row.few))) + row.few]
        for part in row.spent[:_REASONS]:
            figures = f"{_with_reach(part.ns, part.interval)} {part.ns / (row.ns or 1):6.1%}"
            what = _TITLES[part.reason] + (f": {shown(part.on)}" if part.on else "")
            lines.append(f"{figures}   {fit(what, max(_LEAST, width - len(figures) - 3))}")
        if len(row.spent) > _REASONS:
            rest = sum(part.ns for part in row.spent[_REASONS:])
            lines.append(f"{amount(rest, 'nanoseconds'):>10} {'':12}{'':6}   other reasons")
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


def _with_reach(ns: int, interval: Estimate) -> str:
    """`   4.06 s ±0.21 s   `: a time with its error bar."""
    return f"{amount(ns, 'nanoseconds'):>10} ±{amount(interval.reach, 'nanoseconds'):<10}"


def as_json(profiles: Sequence[ProfileData], limit: Optional[int]) -> str:
    """The same for programs."""
    rows, held = tasks(profiles)
    fields = {
        "rows": [
            {
                "task": row.task,
                "pid": row.pid,
                "ns": row.ns,
                "ns_interval": [row.interval.low, row.interval.high],
                "spent": [
                    {"reason": part.reason, "on": part.on, "ns": part.ns, "ns_interval": [part.interval.low, part.interval.high]}
                    for part in row.spent
                ],
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
