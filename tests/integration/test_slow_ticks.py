"""A tick that takes longer than an interval leaves the program most of its time."""

import sys
import time

import pytest

import spprof
from spprof import _core

perf = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="ticks of other clocks are rare, or not the thread's own")


def _dig(depth, work):
    return work() if depth == 0 else _dig(depth - 1, work)


def _turns_at_depth(depth, seconds):
    """How often a loop turns in so much CPU time at that depth."""

    def work():
        turns, until = 0, time.thread_time() + seconds
        while time.thread_time() < until:
            for _ in range(100):
                turns += 1
        return turns

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + 1000)
    try:
        return _dig(depth, work)
    finally:
        sys.setrecursionlimit(limit)


@perf
def test_ticks_that_take_long_come_more_rarely_and_are_counted():
    try:
        clock = _core.choose_clock("auto")
    except OSError:
        clock = ""
    if clock != "perf":
        pytest.skip("the kernel's own tick sets the rate here")
    spprof.start(interval_ms=0.05, max_depth=4096, clock=clock, native=spprof.native_unwinding_available())
    try:
        _turns_at_depth(4000, 1.0)
    finally:
        spprof.stop()
    stats = spprof.stats()
    assert stats["expected"] == stats["taken"] + stats["repeated"] + sum(stats["losses"].values())
    assert stats["losses"]["slow_tick"] > 0
