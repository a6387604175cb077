"""Counts of the hottest functions' calls, against what the program itself counts while their events are armed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
from time import monotonic

import pytest

import spprof

MONITORS = sys.version_info >= (3, 12)
hot_only = pytest.mark.skipif(not MONITORS, reason="the hottest functions' calls are counted from 3.12 on")
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
LONGEST = 60  # seconds until something must have happened


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    assert not spprof.is_active()
    if MONITORS:
        assert all(sys.monitoring.get_tool(tool) != "spprof" for tool in range(6))
        sys.monitoring.use_tool_id(4, "test_hot")
        assert sys.monitoring.get_events(4) == 0
        assert not any(sys.monitoring.get_local_events(4, function.__code__) for function in (busy, called, count_calls))
        sys.monitoring.free_tool_id(4)


def busy(n):
    total = 0
    for i in range(n):
        total += i * i
    return total


def called():
    return busy(3000)


def is_armed(function):
    tool = next(tool for tool in (4, 3, 2) if sys.monitoring.get_tool(tool) == "spprof")
    return sys.monitoring.get_local_events(tool, function.__code__) != 0


def count_calls(number, function=busy):
    """Calls it until its events are armed, and then so often: how often before it was last seen to be unarmed, and in all."""
    n = before = 0
    until = monotonic() + LONGEST
    while not is_armed(function):
        before = n
        assert monotonic() < until
        function(3000)
        n += 1
    for _ in range(number):
        function(3000)
    return before, n + number


def hot_of(profile):
    return {each.function.name: each for each in profile.hot.functions}


@hot_only
def test_each_call_is_counted_while_events_are_armed():
    spprof.start(calls="hot")
    try:
        before, n = count_calls(500)
    finally:
        profile = spprof.stop()
    counted = hot_of(profile)["busy"]
    assert 500 <= counted.calls <= n - before
    assert counted.counted_ns > 0 and profile.calls is None
    if counted.samples:
        assert counted.estimate(counted.self_ns) == counted.calls
        assert counted.per_call_ns == counted.self_ns / counted.calls


@hot_only
def test_a_thread_arms_them_while_the_main_one_waits():
    found = []
    spprof.start(calls="hot")
    try:
        thread = threading.Thread(target=lambda: found.append(count_calls(100)))
        thread.start()
        thread.join()
    finally:
        profile = spprof.stop()
    ((before, n),) = found
    assert 100 <= hot_of(profile)["busy"].calls <= n - before


@hot_only
def test_calls_in_a_pause_are_not_counted():
    spprof.start(calls="hot")
    try:
        before, n = count_calls(100)
        spprof.pause()
        for _ in range(1000):
            called()
        spprof.resume()
        for _ in range(50):
            called()
    finally:
        profile = spprof.stop()
    assert 150 <= hot_of(profile)["busy"].calls <= n - before + 50


@hot_only
def test_a_flush_has_the_counts_so_far(tmp_path):
    path = tmp_path / "p.spprof"
    spprof.start(calls="hot", output_path=path)
    try:
        before, n = count_calls(100)
        spprof.flush()
        flushed = hot_of(spprof.Profile.load(path))["busy"].calls
        for _ in range(10):
            called()
    finally:
        profile = spprof.stop()
    assert 100 <= flushed <= n - before
    assert hot_of(profile)["busy"].calls == flushed + 10


@hot_only
def test_functions_that_die():
    """What is chosen is alive, or it is not touched."""
    spprof.start(calls="hot")
    try:
        until = monotonic() + 1.5
        number = 0
        while monotonic() < until or not is_armed(busy):
            assert monotonic() < until + LONGEST
            names = {}
            exec(f"def f{number}(n):\n    for i in range(n): n * n", names)
            names[f"f{number}"](20_000)
            busy(2000)
            number += 1
    finally:
        profile = spprof.stop()
    assert hot_of(profile)["busy"].calls > 0


@hot_only
@pytest.mark.statistical("a busy machine may call less often than may be counted")
def test_what_is_called_too_often_is_counted_now_and_then():
    def tiny():
        pass

    spprof.start(calls="hot")
    try:
        seen, calls, until = [], 0, monotonic() + 20
        while len(seen) < 4 and monotonic() < until:  # armed, not, armed, not
            if is_armed(tiny) != len(seen) % 2:
                seen.append(calls)
            for _ in range(10_000):
                tiny()
            calls += 10_000
    finally:
        profile = spprof.stop()
    assert len(seen) == 4
    assert hot_of(profile)["tiny"].calls < calls


@hot_only
@pytest.mark.statistical("a busy machine runs less of the first calls, which are counted before their number is known")
def test_all_together_are_counted_so_often_in_a_second():
    names = {}
    for i in range(8):
        exec(f"def tiny{i}():\n    pass", names)
    tiny = [names[f"tiny{i}"] for i in range(8)]
    spprof.start(calls="hot")
    try:
        began = monotonic()
        while monotonic() < began + 3:
            for each in tiny:
                for _ in range(10_000):
                    each()
        took = monotonic() - began
    finally:
        profile = spprof.stop()
    counted = sum(each.calls for each in profile.hot.functions)
    assert 100_000 < counted < 1_000_000 * took  # twice CALLS_A_SECOND


@hot_only
def test_beside_exact_times_and_without_a_free_id():
    spprof.start(calls="hot", time=f"{__name__}:called")
    try:
        count_calls(1)
        called()
    finally:
        profile = spprof.stop()
    assert [each.calls for each in profile.times.functions] == [1] and hot_of(profile)["busy"].calls > 0
    for tool in (2, 3, 4, 5):
        sys.monitoring.use_tool_id(tool, "test_hot")
    try:
        with pytest.raises(spprof.Unsupported, match="calls cannot be counted: the ids 2 to 5 of sys"):
            spprof.start(calls="hot")
    finally:
        for tool in (2, 3, 4, 5):
            sys.monitoring.free_tool_id(tool)


def test_without_samples_of_time_it_is_refused():
    with pytest.raises(spprof.BadOption, match="samples of time"):
        spprof.start(calls="hot", events=["page-faults"])


PROGRAM = """
import os, sys, time
def busy(n):
    total = 0
    for i in range(n):
        total += i * i
def work(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        busy(1000)
"""


def run(tmp_path, program, *options, code=0):
    path, source = tmp_path / "p.spprof", tmp_path / "program.py"
    source.write_text(PROGRAM + textwrap.dedent(program))
    command = [sys.executable, "-m", "spprof", "run", "--calls=hot", *options, "-o", str(path), str(source)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return path, done.stdout + done.stderr


ARMED = """
def is_armed():
    tool = next(tool for tool in (4, 3, 2) if sys.monitoring.get_tool(tool) == "spprof")
    return sys.monitoring.get_local_events(tool, busy.__code__) != 0
while not is_armed():
    work(0.01)
work(0.3)
"""


@hot_only
def test_a_program_and_its_reports(tmp_path):
    path, _ = run(tmp_path, ARMED, "-q")
    counted = hot_of(spprof.Profile.load(path))["busy"]

    def report(*options, code=0):
        command = [sys.executable, "-m", "spprof", "report", str(path), *options]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    rows = {row["name"]: row for row in json.loads(report("-f", "json"))["rows"]}
    found = rows["busy"]["hot_calls"]
    assert (found["counted"], found["counted_ns"]) == (counted.calls, counted.counted_ns) and "calls" not in rows["busy"]
    if found["estimate"] is not None:
        for text in (report(), report("--sort", "calls"), report("-f", "markdown").replace("\\", "")):
            assert f"~{found['estimate']:,}" in text and "~ calls: an estimate" in text
        assert found["per_call"]["low"] <= found["per_call"]["weight"] <= found["per_call"]["high"]
    assert "only the hottest functions were counted" in report("--calls", code=2)


@hot_only
@forks
def test_a_child_that_is_not_recorded_hears_of_nothing(tmp_path):
    program = ARMED + textwrap.dedent("""
    if os.fork() == 0:
        armed = any(sys.monitoring.get_tool(tool) == "spprof" for tool in range(6))
        sys.monitoring.use_tool_id(4, "child")
        armed |= sys.monitoring.get_local_events(4, busy.__code__) != 0
        work(0.01)
        os._exit(armed)
    assert os.wait()[1] == 0
    """)
    run(tmp_path, program, "-q")


@pytest.mark.skipif(MONITORS, reason="there is sys.monitoring")
def test_before_3_12_it_is_refused(tmp_path):
    with pytest.raises(spprof.Unsupported, match=r"3\.12"):
        spprof.start(calls="hot")
    assert "3.12" in run(tmp_path, "print(1)", code=2)[1]
