"""The tasks of an event loop as `spprof dump PID` prints them: each below those that await it.

A task that several await is printed below the first of them, and named by the others. Of tasks that do the same at the same
place, and await no other, the first is printed. So 100,000 of them are some lines."""

from __future__ import annotations

import os
from typing import Dict, Iterator, List, Set, Tuple

from ..report.text import place, shown
from .tasks import Loop, listed

_TITLES_MOST = 500  # of a loop
_FRAMES_MOST = 100  # of a task
_INDENTS_MOST = 12


class Tree:
    """What is printed of a loop."""

    def __init__(self, loop: Loop) -> None:
        self._loop, self._tasks = loop, loop.tasks
        self._titles = 0
        self._printed: Set[int] = set()
        self._parents: Dict[int, List[int]] = {}
        self._alike: Dict[Tuple[object, ...], List[int]] = {}
        for address, task in self._tasks.items():
            for child in task.awaits:
                self._parents.setdefault(child, []).append(address)
        for address, task in self._tasks.items():
            if not task.awaits:
                self._alike.setdefault(self._kind(address), []).append(address)

    def _kind(self, address: int) -> Tuple[object, ...]:
        """The same for tasks that are alike."""
        task = self._tasks[address]
        return (*self._parents.get(address, ()), task.does, *task.owners, *task.frames)

    def lines(self, thread: str) -> Iterator[str]:
        """`thread`: that in which the loop runs; '' if it runs in none."""
        count = len(self._tasks)
        where = f"the event loop of {thread}" if thread else "an event loop that does not run"
        yield f"\n{count:,} task{'s' if count != 1 else ''} of {where}"
        if not self._loop.sure:
            yield "(it ran while they were read: they may be of different moments)"
        roots = [address for address in self._tasks if address not in self._parents]
        for address in [*roots, *self._tasks]:  # tasks that await each other have no root
            if address not in self._printed and self._titles < _TITLES_MOST:
                yield ""
                yield from self._below(address)
        if len(self._printed) < count:
            yield f"\n({count - len(self._printed):,} more tasks are not printed)"

    def deadlocks(self) -> Iterator[str]:
        """Tasks of which each waits for the next, and the last for the first."""
        for cycle in self._loop.cycles:
            yield "\nDeadlock of tasks:"
            for address, following in zip(cycle, [*cycle[1:], cycle[0]]):
                yield f"    {self._name(address)} waits for {self._name(following)}{self._culprit(address)}"

    def _below(self, first: int) -> Iterator[str]:
        left = [(first, 0)]
        while left and self._titles < _TITLES_MOST:
            address, depth = left.pop()
            task, indent = self._tasks[address], "    " * min(depth, _INDENTS_MOST)
            self._titles += 1
            if address in self._printed:
                yield f"{indent}{self._name(address)} (above)"
                continue
            yield f"{indent}{self._title(address)}"
            yield from (f"{indent}    {place(one.name, one.file, one.line)}" for one in task.frames[:_FRAMES_MOST])
            cut = task.cut or (f"{len(task.frames) - _FRAMES_MOST:,} more frames" if len(task.frames) > _FRAMES_MOST else "")
            if cut:
                yield f"{indent}    ({cut})"
            alike = self._alike[self._kind(address)] if not task.awaits else [address]
            self._printed.update(alike)
            if len(alike) > 1:
                yield f"{indent}    (and {len(alike) - 1:,} more like it: {shown(self._names(alike[1:]))})"
            left += [(child, depth + 1) for child in self._children(address)]

    def _children(self, address: int) -> List[int]:
        """The last one first; of those that are alike the first alone."""
        found: Dict[Tuple[object, ...], int] = {}
        for child in self._tasks[address].awaits:
            found.setdefault((child,) if self._tasks[child].awaits else self._kind(child), child)
        return list(found.values())[::-1]

    def _title(self, address: int) -> str:
        task, parents = self._tasks[address], self._parents.get(address, [])
        words = [task.does]
        words += [f"which {self._names(task.owners)} has"] if task.owners else []
        words += [f"awaited by {self._names(parents)}"] if len(parents) > 1 else []
        return f"{self._name(address)}: {shown(', '.join(words))}"

    def _names(self, addresses: List[int]) -> str:
        return listed([self._tasks[one].name for one in addresses])

    def _name(self, address: int) -> str:
        return shown(self._tasks[address].name)

    def _culprit(self, address: int) -> str:
        """Where it waits in code of the program's own."""
        frames = self._tasks[address].frames
        own = [one for one in frames if os.path.basename(os.path.dirname(one.file)) != "asyncio"]
        return "".join(f" at {place(one.name, one.file, one.line)}" for one in (own or frames)[:1])
