"""What `spprof dump PID` prints."""

from __future__ import annotations

from typing import Dict, Iterator, Optional, Set

from ..model.patterns import is_like
from ..report.text import place, shown
from .dump import Dump, Thread
from .tasks import READ_S, Tasks
from .tree import Tree


def lines_of(dump: Dump, command: str, pattern: Optional[str] = None, with_locals: bool = False) -> Iterator[str]:
    """`pattern`: only threads of this name or system id."""
    count, threads = len(dump.threads), {thread.tid: thread for thread in dump.threads}
    yield shown(f"{command}: process {dump.pid}, Python {dump.version}, {count} thread{'s' if count != 1 else ''}")
    yield from _deadlocks(dump, threads)  # first: they are the answer, and stacks of many threads are long
    wanted = [
        thread for thread in dump.threads if pattern is None or is_like(thread.name, pattern) or is_like(str(thread.tid), pattern)
    ]
    for thread in wanted:
        yield from _of_thread(thread, threads, with_locals)
    if not wanted:
        yield "\n" + shown(f"no thread has the name or id {pattern}")
    yield from _of_tasks(dump.tasks, threads, None if pattern is None else {thread.tid for thread in wanted})


def _deadlocks(dump: Dump, threads: Dict[int, Thread]) -> Iterator[str]:
    """Of all threads and tasks, whichever are wanted."""
    for cycle in dump.cycles:
        yield "\nDeadlock:"
        for tid in cycle:
            frame = threads[tid].frames[0] if threads[tid].frames else None
            where = f" at {place(frame.name, frame.file, frame.line)}" if frame else ""
            yield f"    {_title(threads[tid])} waits for {_title(threads[threads[tid].owner])}{where}"
    for loop in dump.tasks.loops:
        if loop.cycles:
            yield from Tree(loop).deadlocks()


def _of_tasks(tasks: Tasks, threads: Dict[int, Thread], wanted: Optional[Set[int]]) -> Iterator[str]:
    """`wanted`: only of loops that run in these threads; None: of all."""
    for loop in tasks.loops:
        if wanted is None or loop.tid in wanted:
            yield from Tree(loop).lines(_title(threads[loop.tid]) if loop.tid in threads else "")
    if tasks.left:
        yield f"\n({tasks.left:,} more tasks were not read: reading them ends after {READ_S:g} s)"
    if tasks.damaged:
        yield f"\n({tasks.damaged:,} tasks could not be read)"
    if tasks.refused:
        yield f"\n({tasks.refused})"


def _title(thread: Thread) -> str:
    return shown(f"{thread.name} ({thread.tid})")


def _of_thread(thread: Thread, threads: Dict[int, Thread], with_locals: bool) -> Iterator[str]:
    words = [thread.does]
    if thread.owner:
        words += [f"which {'it' if thread.owner == thread.tid else _title(threads[thread.owner])} has"]
    words += ["holds the GIL"] if thread.holds_gil else []
    words += [] if thread.known else ["not one of Python's"]
    yield f"\n{_title(thread)}: {shown(', '.join(words))}"
    for frame in thread.frames if thread.mixed is None else thread.mixed.frames:
        yield f"    {place(frame.name, frame.file, frame.line)}"
        for name, value in frame.variables or ():
            yield f"        {shown(f'{name} = {value}')}"
        if with_locals and frame.variables is None and not frame.native:
            yield "        (its variables were not read)"
    if thread.cut:
        yield f"    ({thread.cut})"
    if thread.mixed is not None and thread.mixed.cut:
        yield f"    ({thread.mixed.cut})"
    if not thread.sure:
        yield "    (it ran while it was read: the stack may be mixed of two)"
