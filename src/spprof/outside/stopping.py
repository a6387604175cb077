"""Stops one thread of another process for a moment, by ptrace.

Only a thread that runs is stopped: it is then hardly ever in a call that a stop could interrupt, so it does not notice. If we
are killed meanwhile, the kernel lets it run.

A stop lasts until we have read, so nobody may take the processor from us meanwhile (rank.py)."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import Callable, Iterator, Optional, Set, TypeVar

from .ptrace import DETACH, INTERRUPT, SEIZE, WALL, ptrace, signal_of
from .rank import FirstInRank

STOP_S = 0.001  # reading ends after this; a thread is stopped for no longer than this, and what the machine's other work adds
_PATIENCE_S = 0.05  # for a thread to stop: it may be in the kernel
_LOOK_S = 20e-6  # between two looks. We sleep: on our processor it could not stop, and our turn would end while it is stopped
_ENDED = -1
_Result = TypeVar("_Result")
_late: Set[int] = set()  # threads that we have and that have not stopped yet


def _done(request: int, tid: int, data: int = 0) -> bool:
    try:
        ptrace(request, tid, 0, data)
    except OSError:
        return False
    return True


@contextmanager
def stopped(tid: int) -> Iterator[bool]:
    """Whether it is stopped; it is not if a debugger has it, if it has ended, or if it stays in the kernel."""
    let_go(but=tid)
    is_ours = tid in _late  # it was waited for already: where all processors have work it stops when it has its turn
    if not is_ours and not _done(SEIZE, tid):
        yield False
        return
    signal = None
    with FirstInRank():
        try:
            signal = _wait(tid) if is_ours or _done(INTERRUPT, tid) else None
            yield signal is not None and signal != _ENDED
        finally:
            if signal is None:
                signal = _wait(tid)
            _detach(tid, signal)


def on_own_thread(work: Callable[[], _Result]) -> _Result:
    """Stops belong to the thread that makes them: when it ends, the kernel lets go whatever has not stopped yet, so that nothing
    stays stopped while its caller goes on. No signal's handler runs there."""
    from concurrent.futures import ThreadPoolExecutor

    try:
        with ThreadPoolExecutor(1) as tracer:
            return tracer.submit(work).result()
    finally:
        _late.clear()


def is_late(tid: int) -> bool:
    return tid in _late


def let_go(but: int = 0) -> None:
    """Lets those go that have stopped too late. What is left when this thread ends is let go by the kernel."""
    for tid in _late - {but}:
        _detach(tid, _look(tid))


def _detach(tid: int, signal: Optional[int]) -> None:
    """Nobody can detach from a thread that runs: it has to stop first."""
    if signal is None:
        _late.add(tid)
        return
    _late.discard(tid)
    if signal != _ENDED:
        _done(DETACH, tid, signal)


def _wait(tid: int) -> Optional[int]:
    """As `_look`, for a while."""
    late = time.monotonic() + _PATIENCE_S
    while True:
        signal = _look(tid)
        if signal is not None or time.monotonic() > late:
            return signal
        time.sleep(_LOOK_S)


def _look(tid: int) -> Optional[int]:
    """The signal that it stopped for, which it must get: 0 for our own stop; or _ENDED. None: it has not stopped."""
    try:
        found, status = os.waitpid(tid, os.WNOHANG | WALL)
    except ChildProcessError:
        return _ENDED
    if not found:
        return None
    if not os.WIFSTOPPED(status):
        return _ENDED
    return signal_of(status)
