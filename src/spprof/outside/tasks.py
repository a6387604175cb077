"""The tasks of asyncio, of all event loops of a process: where each is in its coroutines, what it awaits, and which tasks these
are.

Where the tasks are: from 3.14 on in a list of each thread and one of the interpreter, before in sets of `asyncio.tasks`. What
awaits what: a task's `_fut_waiter` is the future that it waits for, which may be a task. And what a task calls when it is done
(gather, wait, shield, wait_for, TaskGroup) holds a future that another task waits for, or is a method of an object in which one
waits.

If a task cannot be read, the others are. Reading ends after some time, with what there is by then."""

from __future__ import annotations

import os
import time
from typing import Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from ..errors import Unsupported
from . import coroutines, locks, stacks
from .elf import Symbols, section
from .interpreter import Interpreter, State
from .memory import Memory, Unreadable, fields
from .objects import MASK, Objects
from .proc import Maps
from .stacks import Frame, Names, Raw, str_of
from .values import Values

READ_S = 2.0  # for all tasks of a process
TASKS_MOST = 200_000  # that are counted
_SETS = ("_all_tasks", "_scheduled_tasks", "_eager_tasks")  # in asyncio.tasks: up to 3.11; 3.12 and 3.13
_SECTION = ".AsyncioDebug"
_SAID = {"interp_tasks": 64, "ts_loop": 80, "ts_tasks": 96}  # in that section, a Py_AsyncioModuleDebugOffsets
_OFFSET_MOST = 1 << 20
_CALLBACKS_MOST = 16  # of a task that are looked at
_HELD_MOST = 8  # futures in one of them
_REACHED_MOST = 64  # callbacks, with those of the futures that these hold
_NAME_MOST = 128  # characters
_ALL, _LOCK = "all", "lock"


class Task(NamedTuple):
    """A task that is not done."""

    name: str
    does: str  # in words
    frames: List[Frame]  # the innermost first; none while it runs: they are on its thread's stack
    cut: str  # why there are no more frames
    awaits: List[int]  # tasks, by address
    owners: List[int]  # tasks that have the lock that it waits for


class Loop(NamedTuple):
    """An event loop that has tasks."""

    tid: int  # the thread in which it runs; 0: in none
    tasks: Dict[int, Task]  # by address
    cycles: List[List[int]]  # tasks of which each waits for the next, and the last for the first
    sure: bool = True  # its thread did not run while they were read


class Tasks(NamedTuple):
    """Those of a process."""

    loops: List[Loop]
    left: int = 0  # how many were not read, since there was no more time
    damaged: int = 0  # how many could not be read
    refused: str = ""  # why none, or not all, were looked for


class _Seen(NamedTuple):
    """What was read of a task."""

    loop: int
    name: str
    chain: coroutines.Chain
    waiter: int  # the future that it waits for; 0: none
    callbacks: List[int]


class _Wait(NamedTuple):
    """Of a task whose innermost frames are asyncio's own."""

    function: str  # of the innermost frame
    objects: List[int]  # whose methods these frames are, the innermost first


def said(memory: Memory, maps: Maps, root: str, python: Interpreter) -> Interpreter:
    """The layout with what the module `_asyncio` of a process says itself, from 3.14 on. `root`: what leads to its files."""
    if python.at["ts_tasks"] < 0:
        return python
    try:
        own = maps.interpreter()
        for path, start in maps.objects().items():
            if path == own or os.path.basename(path).startswith("_asyncio."):
                place = section(f"{root}{path}", _SECTION)
                if place:
                    data = memory.read(Symbols(memory, start).bias + place, max(_SAID.values()) + 8)
                    found = {key: fields("<Q", data[at:])[0] for key, at in _SAID.items()}
                    if max(found.values()) < _OFFSET_MOST:
                        return python._replace(at={**python.at, **found})
    except (OSError, Unreadable, Unsupported):
        pass
    return python


class Reader:
    """Reads the tasks of a process."""

    def __init__(self, memory: Memory, python: Interpreter, names: Names) -> None:
        self._memory, self._python, self._at, self._names = memory, python, python.at, names
        self._objects = Objects(memory, python)
        self._values = Values(memory, python)
        self._seen: Dict[int, _Seen] = {}
        self._future = 0  # the type
        self._left = self._damaged = 0
        self._refused = ""

    def tasks(self, threads: Dict[int, State], until: float) -> Tasks:
        """`threads`: those of Python's, by their system ids. `until`: a time of time.monotonic()."""
        self._objects.forget()
        self._seen.clear()
        self._left, self._damaged, self._refused = 0, 0, ""
        for interpreter in {state.interpreter: None for state in threads.values()}:
            kind = self._kind(interpreter)
            states = [state for state in threads.values() if state.interpreter == interpreter]
            for addresses in self._addresses(interpreter, states) if kind else ():
                self._read(kind, addresses, until)
        running = {loop: tid for tid, state in threads.items() for loop in [self._loop(state)] if loop}
        by_loop: Dict[int, Dict[int, _Seen]] = {}
        for address, one in sorted(self._seen.items(), key=lambda item: _order(item[1].name)):
            by_loop.setdefault(one.loop, {})[address] = one
        loops = [self._of_loop(running.get(loop, 0), tasks, threads) for loop, tasks in by_loop.items()]
        return Tasks(loops, self._left, self._damaged, self._refused)

    def _read(self, kind: int, addresses: Iterator[int], until: float) -> None:
        known: Set[int] = set()
        try:
            for address in addresses:
                if address in known or len(known) >= TASKS_MOST:
                    break
                known.add(address)
                if time.monotonic() > until:
                    self._left += 1
                else:
                    self._take(kind, address)
        except Unreadable:
            self._refused = "its lists of tasks cannot be read to their ends"

    def _take(self, kind: int, address: int) -> None:
        try:
            one = self._task(address) if self._objects.is_a(address, kind) else None
        except Unreadable:
            self._damaged += 1
            return
        if one is not None:
            self._seen[address] = one

    # ---- where they are

    def _kind(self, interpreter: int) -> int:
        """The type _asyncio.Task; 0: the program has not imported asyncio, or its tasks are not of a known layout."""
        try:
            kind = self._in_module(interpreter, "_asyncio", "Task")
            size = self._memory.word(kind + self._at["type_basicsize"]) if kind else 0
            self._future = self._memory.word(kind + self._at["type_base"]) if kind else 0
        except Unreadable:
            self._refused = "whether it has tasks cannot be read"
            return 0
        if kind and size != self._at["task_size"]:
            self._refused = f"its tasks have {size} bytes, and this spprof knows those of {self._at['task_size']}"
            return 0
        return kind

    def _in_module(self, interpreter: int, module: str, name: str) -> int:
        modules = self._memory.word(interpreter + self._at["interp_modules"])
        found = self._objects.in_dict(modules, module) if modules else 0
        if not found or self._objects.kind(found) != "module":
            return 0
        return self._objects.in_dict(self._memory.word(found + self._at["ob_size"]), name)

    def _addresses(self, interpreter: int, states: List[State]) -> Iterator[Iterator[int]]:
        at = self._at
        if at["ts_tasks"] >= 0:
            for head in [interpreter + at["interp_tasks"], *(state.address + at["ts_tasks"] for state in states)]:
                yield self._listed(head)
        else:
            for name in _SETS:
                yield self._in_set(interpreter, name)

    def _in_set(self, interpreter: int, name: str) -> Iterator[int]:
        """A set of asyncio.tasks, which may be a WeakSet."""
        found = self._in_module(interpreter, "asyncio.tasks", name)
        if found and self._objects.kind(found) == "WeakSet":
            data = self._objects.attribute(found, "data")
            for reference in self._objects.in_set(data) if data else ():
                yield self._memory.word(reference + self._at["ob_size"])
        elif found:
            yield from self._objects.in_set(found)

    def _listed(self, head: int) -> Iterator[int]:
        """Of a list whose last element leads back to its head."""
        node, last = fields("<QQ", self._memory.read(head, 16))
        if self._memory.word(node + 8) != head or self._memory.word(last) != head:
            raise Unreadable("no list of tasks")
        while node != head:
            yield node - self._at["task_name"] - 16
            node = self._memory.word(node)

    def _loop(self, state: State) -> int:
        """The event loop that runs in a thread; 0: none."""
        at = self._at
        try:
            if at["ts_loop"] >= 0:
                return self._memory.word(state.address + at["ts_loop"])
            dictionary = self._memory.word(state.address + at["ts_dict"])
            held = self._objects.in_dict(dictionary, "__asyncio_running_event_loop__") if dictionary else 0
            return self._memory.word(held + at["loop_holder"]) if held and at["loop_holder"] >= 0 else held
        except Unreadable:
            return 0

    # ---- what they are

    def _task(self, address: int) -> Optional[_Seen]:
        """None: it is done. A future begins with its loop, a callback, its context and a list of more. Before a task's name are
        the future that it waits for and its coroutine."""
        at = self._at
        data = self._memory.read(address, at["task_size"])
        (loop,) = fields("<Q", data[at["ob_size"] :])
        waiter, coroutine, name = fields("<3Q", data[at["task_name"] - 16 :])
        if not coroutine:
            return None
        chain = coroutines.chain(self._objects, coroutine)
        if chain.state == coroutines.ENDED:
            return None
        return _Seen(loop, self._name(name), chain, waiter, self._callbacks(address))

    def _callbacks(self, future: int) -> List[int]:
        callback, _, more = fields("<3Q", self._memory.read(future + self._at["ob_size"] + 8, 24))
        found = [callback] if callback else []
        if more and self._objects.kind(more) == "list":
            pairs = self._objects.in_list(more, _CALLBACKS_MOST)
            found += [self._memory.word(pair + self._at["tuple_items"]) for pair in pairs]
        return found

    def _name(self, address: int) -> str:
        try:
            if self._objects.kind(address) == "int":  # from 3.12 on, of those that were given no name
                return f"Task-{self._values.text(address)}"
            return str_of(self._memory, self._python, address, _NAME_MOST)
        except Unreadable:
            return "?"

    def _held(self, callback: int) -> List[int]:
        """What may be a future, or an object that waits, in a callback."""
        objects, memory, at = self._objects, self._memory, self._at
        try:
            kind = objects.kind(callback)
            if kind == "method":
                return [memory.word(callback + at["cfunction_self"])]
            if kind == "function":
                closure = memory.word(callback + at["function_closure"])
                cells = objects.in_tuple(closure, _HELD_MOST) if closure else ()
                return [memory.word(cell + at["cell_value"]) for cell in cells]
            if kind == "functools.partial":
                return list(objects.in_tuple(memory.word(callback + at["cfunction_self"]), _HELD_MOST))
        except Unreadable:
            pass
        return []

    # ---- what they wait for

    def _of_loop(self, tid: int, seen: Dict[int, _Seen], threads: Dict[int, State]) -> Loop:
        frames = {address: self._frames(one.chain.frames) for address, one in seen.items()}
        waits = {address: self._wait(one, frames[address]) for address, one in seen.items()}
        awaits = self._awaits(seen, waits)
        owners = self._owners(seen, waits, threads.get(tid))
        tasks, needs = {}, {}
        for address, one in seen.items():
            does, kind = self._does(one, waits[address], awaits[address], seen)
            owned = owners.get(waits[address].objects[0], []) if kind == _LOCK else []
            innermost_first = [frame for _, frame in reversed(frames[address])]
            tasks[address] = Task(one.name, does, innermost_first, one.chain.cut, awaits[address], owned)
            needs[address] = owned or (awaits[address] if kind == _ALL else [])
        return Loop(tid, tasks, cycles(needs))

    def _awaits(self, seen: Dict[int, _Seen], waits: Dict[int, _Wait]) -> Dict[int, List[int]]:
        """The tasks that each awaits."""
        waiting: Dict[int, List[int]] = {}  # tasks, by the future or the objects that they wait for
        for address, one in seen.items():
            for awaited in {one.waiter, *waits[address].objects} - {0}:
                waiting.setdefault(awaited, []).append(address)
        found: Dict[int, Dict[int, None]] = {  # in order, and each once
            address: {one.waiter: None} if one.waiter in seen else {} for address, one in seen.items()
        }
        for address, one in seen.items():
            for held in self._reached(one.callbacks, seen, waiting):
                for parent in waiting.get(held, ()):
                    found[parent][address] = None
        return {address: list(awaited) for address, awaited in found.items()}

    def _reached(self, callbacks: List[int], seen: Dict[int, _Seen], waiting: Dict[int, List[int]]) -> Set[int]:
        """What callbacks hold, and what the futures among that call in turn: a `gather` may be in another one. Not tasks: that a
        callback has one says nothing of what that waits for."""
        found: Set[int] = set()
        left = list(callbacks)
        for callback in left:
            for held in self._held(callback):
                if held in found or held in seen or len(left) > _REACHED_MOST:
                    continue
                found.add(held)
                if held not in waiting:
                    left += self._callbacks_of(held)
        return found

    def _callbacks_of(self, future: int) -> List[int]:
        """[]: it is no future."""
        try:
            return self._callbacks(future) if self._objects.is_a(future, self._future) else []
        except Unreadable:
            return []

    def _frames(self, raws: List[Raw]) -> List[Tuple[Raw, Frame]]:
        found = ((raw, self._names.frame(raw)) for raw in raws)
        return [(raw, frame) for raw, frame in found if frame is not None]

    def _wait(self, one: _Seen, frames: List[Tuple[Raw, Frame]]) -> _Wait:
        function, found = "", []
        for raw, frame in reversed(frames):
            if os.path.basename(os.path.dirname(frame.file)) != "asyncio":
                break
            function = function or frame.name
            try:
                first = self._memory.word(raw.address + self._at["frame_size"]) & MASK
                if first and first != one.loop and self._values.named(raw, [(0, "")]) == (("self", ""),):
                    found.append(first)
            except Unreadable:
                break
        return _Wait(function, found)

    def _does(self, one: _Seen, wait: _Wait, awaits: List[int], seen: Dict[int, _Seen]) -> Tuple[str, str]:
        """In words; and whether it needs _ALL of the tasks that it awaits, or a _LOCK."""
        if one.chain.state == coroutines.RUNS:
            return "runs", ""
        if one.chain.state == coroutines.BEGINS:
            return "has not begun", ""
        try:
            if not one.waiter or self._is_done(one.waiter):
                return "is ready to run", ""
            kind = self._objects.kind(one.waiter)
            owner = self._objects.kind(wait.objects[0]) if wait.objects else ""
            if awaits:
                needs_all = one.waiter in seen or kind == "_GatheringFuture" or owner == "TaskGroup"
                return f"awaits {listed([seen[address].name for address in awaits])}", _ALL if needs_all else ""
            if wait.function == "sleep":
                return "sleeps", ""
            if owner:
                return f"waits for the {owner} at {wait.objects[0]:#x}", _LOCK if owner == "Lock" else ""
            return f"awaits a {kind.rpartition('.')[2]}", ""
        except Unreadable:
            return "awaits what cannot be read", ""

    def _is_done(self, future: int) -> bool:
        """Its callbacks are taken when they are scheduled; that of the task which waits was one."""
        return not self._callbacks(future)

    def _owners(self, seen: Dict[int, _Seen], waits: Dict[int, _Wait], thread: Optional[State]) -> Dict[int, List[int]]:
        """The tasks in a block `async with` of an object that is waited for, by the objects."""
        wanted = {wait.objects[0] for wait in waits.values() if wait.objects}
        found: Dict[int, List[int]] = {}
        for address, one in seen.items() if wanted else ():
            if any(self._is_condition(one) for one in waits[address].objects):
                continue  # which has released its lock
            if one.chain.state == coroutines.RUNS:
                frames = stacks.walk(self._memory, self._python, thread.address).frames if thread is not None else []
            else:
                frames = [coroutines.resumed(self._python, raw) for raw in one.chain.frames]
            for held in wanted & {held for raw in frames for held in self._kept(raw)}:
                found.setdefault(held, []).append(address)
        return found

    def _kept(self, frame: Raw) -> List[int]:
        """What a frame keeps for the ends of its blocks, and the objects of which these are methods."""
        found: List[int] = []
        try:
            for value in locks.kept(self._memory, self._python, frame):
                found += [value, self._self_of(value)]
        except Unreadable:
            pass
        return found

    def _is_condition(self, address: int) -> bool:
        try:
            return self._objects.kind(address) == "Condition"
        except Unreadable:
            return False

    def _self_of(self, method: int) -> int:
        try:
            return self._memory.word(method + self._at["cfunction_self"])
        except Unreadable:
            return 0


def _order(name: str) -> Tuple[str, int, str]:
    """Task-2 comes before Task-10."""
    letters = name.rstrip("0123456789")
    number = name[len(letters) :]
    return letters, int(number) if number.isascii() and number else 0, number


def listed(names: List[str]) -> str:
    """All of four names, the first three of more."""
    more = f" and {len(names) - 3:,} more tasks" if len(names) > 4 else ""
    return ", ".join(names[: 3 if more else 4]) + more


def cycles(needs: Dict[int, List[int]]) -> List[List[int]]:
    """What waits for itself through others. `needs`: what each waits for, all of it."""
    found: List[List[int]] = []
    done: Set[int] = set()
    for first in needs:
        path: Dict[int, Iterator[int]] = {}
        here: Optional[int] = first if first not in done else None
        while here is not None:
            if here not in path:
                path[here] = iter(needs.get(here, ()))
            following = next((one for one in path[here] if one not in done), None)
            if following is None:
                done.add(here)
                path.popitem()
                here = next(reversed(path), None)
            elif following in path:
                places = list(path)
                found.append(places[places.index(following) :])
            else:
                here = following
    return found
