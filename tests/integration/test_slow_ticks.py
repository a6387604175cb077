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


def _slow_run(seconds):
    """The stats of so much CPU time at a depth whose ticks take longer than their interval. Each is accounted for."""
    try:
        clock = _core.choose_clock("perf")
    except OSError:
        clock = ""
    if clock != "perf":
        pytest.skip("the kernel's own tick sets the rate here")
    spprof.start(interval_ms=0.05, max_depth=4096, clock=clock, native=spprof.native_unwinding_available())
    try:
        _turns_at_depth(4000, seconds)
    finally:
        spprof.stop()
    stats = spprof.stats()
    assert stats["expected"] == stats["taken"] + stats["repeated"] + sum(stats["losses"].values())
    return stats


@perf
def test_ticks_that_take_long_are_accounted_for():
    _slow_run(0.2)


@perf
@pytest.mark.statistical("no odds by chance: a machine that walks 4,000 frames in less than 50 us would fail it each time")
def test_ticks_that_take_long_come_more_rarely_and_are_counted():
    assert _slow_run(1.0)["losses"]["slow_tick"] > 0
