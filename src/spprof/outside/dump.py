"""All threads of a process, now: where each is, and whether it runs, holds the GIL, or waits for what; and the tasks of asyncio.

A thread that does not run changes nothing, so it is not stopped: its state and its number of context switches before and after
say whether it ran meanwhile. One that runs is stopped for a moment."""

from __future__ import annotations

import time
from itertools import zip_longest
from typing import Dict, List, NamedTuple, Optional, Set, Tuple

from ..errors import Unsupported
from . import calls, imports, interpreter, locks, ptrace, stacks, values
from .core import CoreFile
from .interpreter import Interpreter, State
from .memory import Memory, Unreadable, fields
from .native import Mixed, Native, Stack, registers_of, stack_of
from .stopping import STOP_S, is_late, let_go, on_own_thread, stopped
from .target import Moment, Process, Target
from .tasks import READ_S, Tasks, said
from .tasks import Reader as TaskReader
from .unwinding import PROCESSORS

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
    mixed: Optional[Mixed] = None  # its frames with those of C; None: these were not asked for


class Dump(NamedTuple):
    """A process."""

    pid: int
    version: str
    threads: List[Thread]
    cycles: List[List[int]]  # threads of which each waits for the next, and the last for the first
    tasks: Tasks = Tasks([])


class _Seen(NamedTuple):
    """A thread, and what is needed to look at it again."""

    thread: Thread
    moment: Moment
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
    stack: Optional[Stack] = None  # of C


_NOTHING = _Look(stacks.Walk([], ""), False, [])


def dump(pid: int, may_stop: bool = True, with_locals: bool = False, with_tasks: bool = True, with_native: bool = False) -> Dump:
    """What its threads do. `may_stop`: one that runs is stopped for 1 ms of reading, at most five times (stopping.py).
    `with_locals`: and the values of variables. `with_tasks`: and the tasks, of which there may be many. `with_native`: and the
    frames of C. Raises SpprofError."""
    process = Process(pid)
    try:
        reader = _Reader(process, may_stop, with_locals, with_native)
        return on_own_thread(lambda: reader.dump(with_tasks))
    finally:
        process.close()


def dump_core(core: CoreFile, with_locals: bool = False, with_native: bool = False) -> Dump:
    """What the threads did when the core file was written. Raises SpprofError."""
    return _Reader(core, False, with_locals, with_native).dump(True)


class _Reader:
    def __init__(self, target: Target, may_stop: bool, with_locals: bool, with_native: bool) -> None:
        """Raises SpprofError."""
        memory = target.memory
        python = interpreter.of_maps(memory, target.maps)
        self.target, self.memory, self.python, self.may_stop = target, memory, python, may_stop
        self.is_alone = False  # whether there is one thread
        self.names = stacks.Names(memory, python)
        self.values = values.Values(memory, python) if with_locals else None
        self.native = _native(target, python) if with_native else None

    def dump(self, with_tasks: bool) -> Dump:
        tids = self.target.tids()
        self.is_alone = len(tids) == 1
        states = self._states(tids)
        seen = [one for one in (self._thread(tid, states.get(tid)) for tid in tids) if one is not None]
        waits = {one.thread.tid: one.lock for one in seen if one.lock}
        owners = {**self._owners(seen, set(waits.values())), **self._importers(seen)} if waits else {}
        threads = [one.thread._replace(owner=owners.get(one.lock, 0)) for one in seen]
        tasks = self._tasks(states) if with_tasks else Tasks([])
        return Dump(self.target.pid, self.python.full, threads, locks.cycles(waits, owners), tasks)

    def _tasks(self, states: Dict[int, State]) -> Tasks:
        """Those whose loop does not run are of one moment. Of others nobody knows: no thread is stopped for so long."""
        let_go()
        target = self.target
        reader = TaskReader(self.memory, said(self.memory, target.maps, target.root, self.python), self.names)
        begun = time.monotonic()
        for _ in range(_TASK_TRIES):
            before = {tid: target.moment(tid) for tid in states}
            found = reader.tasks(states, begun + READ_S)
            moved = {tid for tid, one in before.items() if one.runs or one != target.moment(tid)}
            ran = set() if target.is_still else moved
            # The same again would take as long.
            if not ran & {loop.tid for loop in found.loops} or time.monotonic() - begun > READ_S / 2:
                break
        return found._replace(loops=[loop._replace(sure=loop.tid not in ran) for loop in found.loops])

    def _owners(self, seen: List[_Seen], wanted: Set[int]) -> Dict[int, int]:
        """The threads that have these locks, of those that have not run since they were read."""
        owners: Dict[int, int] = {}
        for one in seen:
            self.memory.forget()
            found = locks.entered(self.memory, self.python, one.frames, wanted)
            if one.thread.sure and one.moment == self.target.moment(one.thread.tid):
                owners.update(dict.fromkeys(found, one.thread.tid))
        return owners

    def _importers(self, seen: List[_Seen]) -> Dict[int, int]:
        """As `_owners`, of import locks: by the locks that others wait for."""
        by_module = {
            module: one.thread.tid
            for one in seen
            if one.thread.sure and one.modules.entered and one.moment == self.target.moment(one.thread.tid)
            for module in one.modules.entered
        }
        waits = ((one.lock, by_module.get(one.modules.awaited)) for one in seen if one.lock)
        return {lock: tid for lock, tid in waits if tid is not None}

    def _states(self, tids: List[int]) -> Dict[int, State]:
        """By the ids of their threads."""
        numbers = {self.target.number(tid): tid for tid in tids}
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
        target, most = self.target, _NOTHING
        for _ in range(_TRIES):
            before = target.moment(tid)
            if not before.letter:
                return None
            call = target.call(tid)
            sure, runs = target.is_still, before.runs or (before.letter == "t" and is_late(tid))  # a late stop is our own
            if runs and self.may_stop:
                with stopped(tid) as sure:
                    until = time.monotonic() + STOP_S
                    look = self._look(state, until, self._stack(_stopped_registers(target, tid) if sure else None))
            else:
                look = self._look(state, None, self._stack(None if runs and not target.is_still else target.registers(tid)))
            sure = sure or (not runs and before == target.moment(tid))
            if look.walk.late and (len(look.walk.frames), len(look.variables)) <= (len(most.walk.frames), len(most.variables)):
                look = most
            elif sure and not look.walk.late:
                break
            most = look
        walk = look.walk
        waits = _Waits("runs", 0, "", False) if runs else self._waits(before.letter, call, state, walk.frames)
        does, lock = waits.does, waits.lock
        named = [self._named(raw, found) for raw, found in zip_longest(walk.frames, look.variables)]
        mixed = None
        if self.native is not None:
            mixed = self.native.mixed(look.stack, walk, named)
        stack = [(raw, frame) for raw, frame in zip(walk.frames, named) if frame is not None]
        frames = [frame for _, frame in stack]
        modules = imports.locks_of(self.memory, self.python, stack)
        if lock and modules.awaited:
            does = does.replace(f"the lock at {lock:#x}", f"the import lock of {modules.awaited}")
        cut = walk.cut or ("some frames cannot be read" if len(frames) < len(walk.frames) else "")
        of_python, end = state is not None, (waits.kind, waits.for_ever, before.switches, look.turns)
        thread = Thread(tid, target.name(tid), target.words(tid, does), look.holds_gil, frames, cut, of_python, sure, 0, *end)
        return _Seen(thread._replace(mixed=mixed), before, walk.frames, modules, lock)

    def _stack(self, registers: Optional[Dict[int, int]]) -> Optional[Stack]:
        if registers is None or self.native is None:
            return None
        try:
            return stack_of(self.memory, self.native.processor, registers)
        except Unreadable:
            return None

    def _look(self, state: Optional[State], until: Optional[float], stack: Optional[Stack]) -> _Look:
        self.memory.forget()
        if state is None:
            return _NOTHING._replace(stack=stack)
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
                        return _Look(walk._replace(late=True), holds, variables, turns, stack)
                    variables.append(found)
                except Unreadable:
                    variables.append(None)
        return _Look(walk, holds, variables, turns, stack)

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
            return _Waits(
                calls.in_words(call, self.memory, 0 if self.target.is_still else self.target.pid),
                0,
                call.kind or call.name,
                False,
            )
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


def _native(target: Target, python: Interpreter) -> Native:
    """Raises Unsupported."""
    if target.machine not in PROCESSORS:
        raise Unsupported("frames of C can be read on x86_64 and aarch64 alone")
    # Of what does not change; the other one forgets what it has read.
    memory = Memory(target.memory.file) if not target.is_still else target.memory
    return Native(memory, python, target.maps, PROCESSORS[target.machine], target.root)


def _stopped_registers(target: Target, tid: int) -> Optional[Dict[int, int]]:
    try:
        return registers_of(PROCESSORS[target.machine], ptrace.registers(tid)) if target.machine in PROCESSORS else None
    except (OSError, Unreadable):
        return None
