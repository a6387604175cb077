"""Whether a process stalls: what keeps it from going on is there at every look for a time. Programs that only wait for work do
not: a wait for a peer, a child, a time, or to be notified is no stall. These are:

- threads that wait for each other's locks, in a circle;
- a thread that keeps the GIL and gives no other its turn, while others wait for it;
- locks that nobody is left to release: all threads wait for ever for locks;
- an event loop whose thread waits for something else."""

from __future__ import annotations

import os
from typing import Dict, Hashable, Iterator, List, NamedTuple, Optional, Set

from .dump import Dump, Thread, dump
from .stacks import Frame

_LOOKS = 4  # in the time after which it is a stall
_LEAST_S, _MOST_S = 0.1, 0.5  # between two
_OURS = "spprof"  # the names of our threads in C begin so
_OURS_BEGIN = ("_as_ours", "listening.py")  # those in Python begin there
_TURNS_S = 0.1  # a thread that runs Python gives the GIL away twenty times in so much CPU time
_LOOP = ("run_forever", "base_events.py")
_NOTIFIED = ("wait", "join", "_wait_for_tstate_lock", "_shutdown")  # of threading.py: model/waits.py


class Stall(NamedTuple):
    """Why it is one, in words, and what all threads do."""

    why: str
    dump: Dump


class _Suspicion(NamedTuple):
    key: Hashable  # the same at every look as long as nobody moves
    why: str
    runs: int = 0  # a thread that runs and does not give the others their turn; 0: none
    begins: bool = True  # False: it is one only if it was one at the look before


def step_of(limit_s: float) -> float:
    """Seconds from one look to the next."""
    return min(max(limit_s / _LOOKS, _LEAST_S), _MOST_S)


class Watch:
    """Of a process, for what lasts longer than a limit in seconds."""

    def __init__(self, pid: int, limit_s: float) -> None:
        self.pid, self.limit_s = pid, limit_s
        self.step_s = step_of(limit_s)
        self._since: Dict[Hashable, float] = {}
        self._used: Dict[Hashable, float] = {}  # CPU time of the thread then
        self._said: Set[Hashable] = set()

    def look(self, now: float) -> Optional[Stall]:
        """A stall that is seen for the first time. `now`: a time of time.monotonic(). Raises SpprofError."""
        seen = suspicions(dump(self.pid, may_stop=False, with_tasks=False))
        found = {each.key: each for each in seen if each.begins or each.key in self._since}
        self._since = {key: self._since.get(key, now) for key in found}
        runs = {key: each.runs for key, each in found.items() if each.runs}
        self._used = {key: self._used.get(key) or self._used_by(tid) for key, tid in runs.items()}
        for key, each in found.items():
            if key in self._said or now - self._since[key] < self.limit_s:
                continue
            if each.runs and self._used_by(each.runs) - self._used[key] < _TURNS_S:
                continue
            self._said.add(key)
            return Stall(each.why, dump(self.pid))
        return None

    def _used_by(self, tid: int) -> float:
        try:
            with open(f"/proc/{self.pid}/task/{tid}/schedstat") as file:
                return int(file.read().split()[0]) / 1e9
        except (OSError, ValueError, IndexError):
            return 0.0


def suspicions(seen: Dump) -> Iterator[_Suspicion]:
    """What would be a stall if it lasted."""
    threads = [thread for thread in seen.threads if not _is_ours(thread)]
    names = {thread.tid: f"{thread.name} ({thread.tid})" for thread in threads}
    for cycle in seen.cycles:
        yield _Suspicion(("cycle", *sorted(cycle)), f"a deadlock of {len(cycle)} threads")
    waiting = [thread for thread in threads if thread.waits == "gil"]
    for thread in threads:
        if thread.holds_gil and thread.waits != "gil":
            # A thread that waits wakes now and then to ask, and may be seen then. While no other has its turn, it waits on.
            which = f"{len(waiting)} threads wait" if len(waiting) > 1 else "another thread waits"
            why = f"{names[thread.tid]} keeps the GIL, and {which} for it"
            yield _Suspicion(("gil", thread.tid, thread.turns), why, 0 if thread.waits else thread.tid, bool(waiting))
        if thread.sure and thread.waits not in ("", "gil", "epoll") and _holds_loop(thread.frames):
            why = f"the event loop of {names[thread.tid]} is held up: it {thread.does}"
            yield _Suspicion(("loop", thread.tid, thread.switches), why)
    known = [thread for thread in threads if thread.known]
    if known and all(thread.waits in ("lock", "queue") and thread.for_ever and thread.sure for thread in threads):
        asks = [thread for thread in known if thread.waits == "lock" and not _is_notified(thread.frames)]
        if asks and not seen.cycles:
            why = f"{names[asks[0].tid]} {asks[0].does}, and no thread is left to release it"
            yield _Suspicion(("lock", *((thread.tid, thread.switches) for thread in threads)), why)


def _is_ours(thread: Thread) -> bool:
    return thread.name.startswith(_OURS) or (bool(thread.frames) and _is(thread.frames[-1], *_OURS_BEGIN))


def _holds_loop(frames: List[Frame]) -> bool:
    """Whether an event loop of asyncio runs something, and does not wait itself."""
    inner = next((n for n, frame in enumerate(frames) if _is(frame, *_LOOP)), None)
    return inner is not None and not any(_is(frame, "select", "selectors.py") for frame in frames[:inner])


def _is_notified(frames: List[Frame]) -> bool:
    return bool(frames) and any(_is(frames[0], name, "threading.py") for name in _NOTIFIED)


def _is(frame: Frame, name: str, file: str) -> bool:
    return frame.name.rpartition(".")[2] == name and os.path.basename(frame.file) == file


def text_of(stall: Stall, command: str, after_s: float) -> str:
    """The text of the file."""
    from .text import lines_of

    head = f"After {after_s:.1f} s: {stall.why}."
    return "\n".join([head, "", *lines_of(stall.dump, command)]) + "\n\n"
