"""All threads of a process, now: where each is, and whether it runs, holds the GIL, or waits for what; and the tasks of asyncio.

A thread that does not run changes nothing, so it is not stopped: its state and its number of context switches before and after
say whether it ran meanwhile. One that runs is stopped for a moment."""

from __future__ import annotations

import os
import time
from itertools import zip_longest
from typing import Dict, List, NamedTuple, Optional, Set, Tuple

from ..errors import SpprofError, Unsupported
from . import calls, imports, interpreter, locks, stacks, values
from .interpreter import Interpreter, State
from .memory import Memory, Unreadable, fields
from .rights import missing_right, opened, own_number
from .stopping import STOP_S, is_late, let_go, on_own_thread, stopped
from .tasks import READ_S, Tasks, said
from .tasks import Reader as TaskReader

_TRIES = 5  # for a thread that wakes each time that it is read, and where we do not get the processor while it is stopped
_TASK_TRIES = 3  # for tasks whose loop runs meanwhile
_PTHREAD_BYTES = 2048  # of a pthread, where the C library keeps the thread's id


class Thread(NamedTuple):
    """A thread of the process."""

    tid: int
    name: str
    does: str  # in words
    holds_gil: bool
    frames: List[stacks.Frame]  # the leaf first; none if Python does not know the thread
    cut: str  # why there are no more frames
    known: bool  # to Python
    sure: bool  # it did not run while it was read
    owner: int  # the thread that has the lock that it waits for; 0: unknown
    waits: str  # for what: gil, lock, queue, else the kind of its call (calls.py); '': it runs, or nobody knows
    for_ever: bool  # it waits for a lock or a queue without an end of its own
    switches: Tuple[str, ...]  # how often it let go of the processor: the same if it has not run
    turns: int = 0  # how often the GIL that it holds has gone from one thread to another


class Dump(NamedTuple):
    """A process."""

    pid: int
    version: str
    threads: List[Thread]
    cycles: List[List[int]]  # threads of which each waits for the next, and the last for the first
    tasks: Tasks = Tasks([])


class _Moment(NamedTuple):
    """The same before and after: the thread did not run in between."""

    letter: str  # as in proc(5); '' if it has ended
    switches: Tuple[str, ...]


class _Seen(NamedTuple):
    """A thread, and what is needed to look at it again."""

    thread: Thread
    folder: str
    moment: _Moment
    frames: List[stacks.Raw]
    modules: imports.Locks  # import locks
    lock: int  # that it waits for


class _Waits(NamedTuple):
    """What a thread waits for: in words, and which lock; `waits` and `for_ever` of Thread."""

    does: str
    lock: int
    kind: str
    for_ever: bool


class _Look(NamedTuple):
    """What was read of a thread in one go."""

    walk: stacks.Walk
    holds_gil: bool
    variables: List[Optional[List[Tuple[int, str]]]]  # of the first frames; None: they cannot be read
    turns: int = 0  # of Thread


_NOTHING = _Look(stacks.Walk([], ""), False, [])


def dump(pid: int, may_stop: bool = True, with_locals: bool = False, with_tasks: bool = True) -> Dump:
    """What its threads do. `may_stop`: one that runs is stopped for 1 ms of reading, at most five times (stopping.py).
    `with_locals`: and the values of variables. `with_tasks`: and the tasks, of which there may be many. Raises SpprofError."""
    file = _opened(pid)
    try:
        memory = Memory(file)
        reader = _Reader(pid, memory, interpreter.of_process(memory, pid), may_stop, with_locals)
        return on_own_thread(lambda: reader.dump(with_tasks))
    finally:
        os.close(file)


def _opened(pid: int) -> int:
    """Its memory. Raises SpprofError."""
    try:
        try:
            return opened(pid)
        except PermissionError:
            uid = os.stat(f"/proc/{pid}").st_uid
    except (FileNotFoundError, ProcessLookupError):
        raise SpprofError(f"there is no process {pid}") from None
    raise Unsupported(f"this user may not read process {pid}: {missing_right(uid)}")


class _Reader:
    def __init__(self, pid: int, memory: Memory, python: Interpreter, may_stop: bool, with_locals: bool) -> None:
        self.pid, self.memory, self.python, self.may_stop = pid, memory, python, may_stop
        self.is_alone = False  # whether there is one thread
        self.names = stacks.Names(memory, python)
        self.values = values.Values(memory, python) if with_locals else None

    def dump(self, with_tasks: bool) -> Dump:
        try:
            tids = sorted(int(name) for name in os.listdir(f"/proc/{self.pid}/task"))
        except OSError:
            raise SpprofError(f"process {self.pid} has ended") from None
        self.is_alone = len(tids) == 1
        states = self._states(tids)
        seen = [one for one in (self._thread(tid, states.get(tid)) for tid in tids) if one is not None]
        waits = {one.thread.tid: one.lock for one in seen if one.lock}
        owners = {**self._owners(seen, set(waits.values())), **_importers(seen)} if waits else {}
        threads = [one.thread._replace(owner=owners.get(one.lock, 0)) for one in seen]
        tasks = self._tasks(states) if with_tasks else Tasks([])
        return Dump(self.pid, self.python.full, threads, locks.cycles(waits, owners), tasks)

    def _tasks(self, states: Dict[int, State]) -> Tasks:
        """Those whose loop does not run are of one moment. Of others nobody knows: no thread is stopped for so long."""
        let_go()
        reader = TaskReader(self.memory, said(self.memory, self.pid, self.python), self.names)
        begun = time.monotonic()
        for _ in range(_TASK_TRIES):
            before = {tid: _moment(f"/proc/{self.pid}/task/{tid}") for tid in states}
            found = reader.tasks(states)
            ran = {tid for tid, one in before.items() if one.letter == "R" or one != _moment(f"/proc/{self.pid}/task/{tid}")}
            if not ran & {loop.tid for loop in found.loops} or time.monotonic() - begun > READ_S / 2:
                break
        return found._replace(loops=[loop._replace(sure=loop.tid not in ran) for loop in found.loops])

    def _owners(self, seen: List[_Seen], wanted: Set[int]) -> Dict[int, int]:
        """The threads that have these locks, of those that have not run since they were read."""
        owners: Dict[int, int] = {}
        for one in seen:
            self.memory.forget()
            found = locks.entered(self.memory, self.python, one.frames, wanted)
            if one.thread.sure and one.moment == _moment(one.folder):
                owners.update(dict.fromkeys(found, one.thread.tid))
        return owners

    def _states(self, tids: List[int]) -> Dict[int, State]:
        """By the ids of their threads."""
        numbers = {own_number(self.pid, tid): tid for tid in tids}
        at, found = self.python.at, list(interpreter.states(self.memory, self.python))
        by_tid: Dict[int, State] = {}
        place = -1 if at["ts_native_id"] >= 0 else self._place_of_tid(found, numbers)
        for state in found:
            try:
                if at["ts_native_id"] >= 0:
                    number = self.memory.half(state.address + at["ts_native_id"])
                else:
                    number = self.memory.half(self.memory.word(state.address + at["ts_thread_id"]) + place)
            except Unreadable:
                continue
            if number in numbers:
                by_tid.setdefault(numbers[number], state)
        return by_tid

    def _place_of_tid(self, found: List[State], numbers: Dict[int, int]) -> int:
        """Where a pthread has the thread's id, which before 3.11 Python does not keep: the place at which most threads have
        different ones of this process."""
        seen: Dict[int, Set[int]] = {}
        for state in found:
            try:
                data = self.memory.read(self.memory.word(state.address + self.python.at["ts_thread_id"]), _PTHREAD_BYTES)
            except Unreadable:
                continue
            for place, number in enumerate(fields(f"<{_PTHREAD_BYTES // 4}i", data)):
                if number in numbers:
                    seen.setdefault(4 * place, set()).add(number)
        return max(seen, key=lambda place: (len(seen[place]), -place), default=0)

    def _thread(self, tid: int, state: Optional[State]) -> Optional[_Seen]:
        """None: it has ended."""
        let_go()  # of those before it, which would else stay stopped while we read ones that wait
        folder = f"/proc/{self.pid}/task/{tid}"
        most = _NOTHING
        for _ in range(_TRIES):
            before = _moment(folder)
            if not before.letter:
                return None
            call = calls.call_of(folder)
            sure, runs = False, before.letter == "R" or (before.letter == "t" and is_late(tid))  # a late stop is our own
            if runs and self.may_stop:
                with stopped(tid) as sure:
                    look = self._look(state, time.monotonic() + STOP_S)
            else:
                look = self._look(state, None)
            sure = sure or (not runs and before == _moment(folder))
            if look.walk.late and (len(look.walk.frames), len(look.variables)) <= (len(most.walk.frames), len(most.variables)):
                look = most
            elif sure and not look.walk.late:
                break
            most = look
        walk = look.walk
        waits = _Waits("runs", 0, "", False) if runs else self._waits(before.letter, call, state, walk.frames)
        does, lock = waits.does, waits.lock
        named = [self._named(raw, found) for raw, found in zip_longest(walk.frames, look.variables)]
        stack = [(raw, frame) for raw, frame in zip(walk.frames, named) if frame is not None]
        frames = [frame for _, frame in stack]
        modules = imports.locks_of(self.memory, self.python, stack)
        if lock and modules.awaited:
            does = does.replace(f"the lock at {lock:#x}", f"the import lock of {modules.awaited}")
        cut = walk.cut or ("some frames cannot be read" if len(frames) < len(walk.frames) else "")
        of_python, end = state is not None, (waits.kind, waits.for_ever, before.switches, look.turns)
        thread = Thread(tid, _name(folder), does, look.holds_gil, frames, cut, of_python, sure, 0, *end)
        return _Seen(thread, folder, before, walk.frames, modules, lock)

    def _look(self, state: Optional[State], until: Optional[float]) -> _Look:
        self.memory.forget()
        if state is None:
            return _NOTHING
        walk = stacks.walk(self.memory, self.python, state.address, until)
        try:
            holds = interpreter.holds(self.memory, self.python, state)
            turns = interpreter.turns(self.memory, self.python, state) if holds else 0
        except Unreadable:
            holds, turns = False, 0
        variables: List[Optional[List[Tuple[int, str]]]] = []
        if self.values is not None and not walk.late:
            for frame in walk.frames:
                try:
                    found = self.values.of_frame(frame, until)
                    if found is None:
                        return _Look(walk._replace(late=True), holds, variables, turns)
                    variables.append(found)
                except Unreadable:
                    variables.append(None)
        return _Look(walk, holds, variables, turns)

    def _named(self, raw: stacks.Raw, variables: Optional[List[Tuple[int, str]]]) -> Optional[stacks.Frame]:
        frame = self.names.frame(raw)
        if frame is None or variables is None or self.values is None:
            return frame
        try:
            return frame._replace(variables=self.values.named(raw, variables))
        except Unreadable:
            return frame

    def _waits(self, letter: str, call: Optional[calls.Call], state: Optional[State], frames: List[stacks.Raw]) -> _Waits:
        if letter in "Tt":
            return _Waits("is stopped by a signal" if letter == "T" else "is stopped by a debugger", 0, "", False)
        if call is None:
            return _Waits("waits for a disk" if letter == "D" else "waits", 0, "", False)
        if call.kind != "futex":
            return _Waits(calls.in_words(call, self.memory, self.pid), 0, call.kind or call.name, False)
        address = call.arguments[0]
        if state is not None and state.gil and 0 <= address - state.gil < self.python.at["gil_size"]:
            return _Waits("waits for the GIL", 0, "gil", False)
        for_ever = locks.is_for_ever(call)
        queue = locks.queue_of(self.memory, self.python, call, frames[0]) if frames else 0
        if queue:
            return _Waits(f"waits for the SimpleQueue at {queue:#x}", 0, "queue", for_ever)
        lock = locks.waited_for(self.memory, call)
        nobody = ", and no other thread is there to release it" if self.is_alone and for_ever else ""
        return _Waits(f"waits for the lock at {lock:#x}{nobody}", lock, "lock", for_ever)


def _importers(seen: List[_Seen]) -> Dict[int, int]:
    """The threads that have the import locks which others wait for, of those that have not run since they were read: by the locks
    that these wait for."""
    by_module = {
        module: one.thread.tid
        for one in seen
        if one.thread.sure and one.modules.entered and one.moment == _moment(one.folder)
        for module in one.modules.entered
    }
    waits = ((one.lock, by_module.get(one.modules.awaited)) for one in seen if one.lock)
    return {lock: tid for lock, tid in waits if tid is not None}


def _moment(folder: str) -> _Moment:
    letter, switches = "", []
    try:
        with open(f"{folder}/status", errors="replace") as file:
            for line in file:
                if line.startswith("State:"):
                    letter = line.split()[1]
                elif "ctxt_switches" in line:
                    switches.append(line.split()[1])
    except (OSError, IndexError):
        return _Moment("", ())
    return _Moment("" if letter in "ZX" else letter, tuple(switches))


def _name(folder: str) -> str:
    try:
        with open(f"{folder}/comm", errors="replace") as file:
            return file.read().rstrip("\n")
    except OSError:
        return "?"
