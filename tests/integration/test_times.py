"""Exact times of calls, against what the program measures itself: within the call and around it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import sysconfig
import textwrap
import threading
from math import ceil
from time import monotonic_ns as now

import pytest

import spprof

MONITORS = sys.version_info >= (3, 12)
timed_only = pytest.mark.skipif(not MONITORS, reason="calls are timed from 3.12 on")
forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
PRECISION = 1 / 64  # of a histogram's bucket


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    assert not spprof.is_active()
    if MONITORS:
        monitoring = sys.monitoring
        for tool in (2, 3, 4, 5):
            if monitoring.get_tool(tool) is None:
                monitoring.use_tool_id(tool, "test_times")
                assert monitoring.get_events(tool) == 0
                for function in (measured, stepping, pausing, recursive, failing, leaf):
                    assert monitoring.get_local_events(tool, function.__code__) == 0
                monitoring.free_tool_id(tool)


class Truth:
    """What calls must have taken at the least and at the most, as they measure it."""

    def __init__(self):
        self.inner, self.outer = [], []

    def holds(self, histogram):
        inner, outer = sorted(self.inner), sorted(self.outer)
        assert histogram.n == len(inner) == len(outer)
        assert sum(inner) <= histogram.total_ns <= sum(outer)
        assert inner[-1] <= histogram.max_ns <= outer[-1]
        # Each time is between its own bounds, so the k-th of all is between the k-th bounds.
        for share in (0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0):
            k = max(1, ceil(share * len(inner))) - 1
            assert inner[k] * (1 - PRECISION) - 1 <= histogram.quantile(share) <= outer[k] * (1 + PRECISION) + 1


def measured(truth, ns):
    began = now()
    while now() - began < ns:
        pass
    truth.inner.append(now() - began)


def measure(truth, ns):
    began = now()
    measured(truth, ns)
    truth.outer.append(now() - began)


def leaf():
    pass


def failing(n):
    if n % 3 == 0:
        raise ValueError(n)
    leaf()


def recursive(n):
    return recursive(n - 1) + 1 if n else 0


def stepping(truth, steps, ns=20_000):
    running, first = 0, now()
    began = first
    for i in range(steps):
        while now() - began < ns:
            pass
        running += now() - began
        yield i
        began = now()
    last = now()
    truth.running.append(running + last - began)
    truth.inner.append(last - first)


async def pausing(n, running):
    began = now()
    spent = 0
    for _ in range(n):
        spent += now() - began
        await asyncio.sleep(0.001)
        began = now()
    running.append(spent + now() - began)


def timing(work, patterns, **options):
    """What was timed while `work` ran."""
    spprof.start(time=patterns, **options)
    try:
        work()
    finally:
        profile = spprof.stop()
    assert profile.times is not None
    return profile.times


def times_of(work, *patterns, **options):
    """The same, by name."""
    times = timing(work, patterns or f"{__name__}:*", **options)
    assert not times.missing
    return {timed.function.name: timed for timed in times.functions}


@timed_only
@pytest.mark.parametrize("cpu", [False, True])
def test_every_time_is_between_what_the_call_and_its_caller_measure(cpu):
    truth = Truth()

    def work():
        for i in range(3000):
            measure(truth, 40 * (i % 50) ** 2)

    found = times_of(work, f"{__name__}:measured", time_cpu=cpu)
    assert list(found) == ["measured"]
    timed = found["measured"]
    assert (timed.calls, timed.raised, timed.open, timed.running) == (3000, 0, 0, None)
    truth.holds(timed.wall)
    assert (timed.cpu is not None) == cpu
    assert not cpu or (timed.cpu.n == 3000 and timed.cpu.total_ns > 0)
    longest = sorted(zip(truth.inner, truth.outer), reverse=True)
    assert len(timed.slowest) == 8 and timed.slowest[0].wall_ns == timed.wall.max_ns
    for call in timed.slowest:
        assert call.wall_ns >= longest[7][0]  # eight took at least that
        assert [function.name for function, _ in call.stack[-3:]] == ["work", "measure", "measured"]
        assert call.stack[-2][1] == measure.__code__.co_firstlineno + 2
        assert call.thread_id == threading.get_native_id() and not call.raised and not call.cut


@timed_only
def test_generators_from_the_first_step_to_the_end_and_of_it_running():
    truth = Truth()
    truth.running, around = [], []

    def work():
        for steps in (1, 4, 9, 2):
            began, one, spent = now(), stepping(truth, steps), 0
            while True:
                step = now()
                if next(one, None) is None:
                    break
                spent += now() - step
                measured(Truth(), 30_000)
            around.append(spent + now() - step)
            truth.outer.append(now() - began)

    timed = times_of(work, f"{__name__}:stepping")["stepping"]
    assert (timed.calls, timed.open) == (4, 0)
    truth.holds(timed.wall)
    running = Truth()
    running.inner, running.outer = truth.running, around
    running.holds(timed.running)


@timed_only
def test_coroutines_of_which_many_wait_at_once():
    inner = []

    async def main():
        await asyncio.gather(*(pausing(5, inner) for _ in range(40)))

    began = now()
    timed = times_of(lambda: asyncio.run(main()), f"{__name__}:pausing")["pausing"]
    most = now() - began
    assert (timed.calls, timed.raised, timed.open) == (40, 0, 0)
    assert timed.wall.n == timed.running.n == 40
    assert 5_000_000 <= timed.wall.quantile(0) * (1 + PRECISION) and timed.wall.max_ns <= most  # five waits of 1 ms
    assert sum(inner) <= timed.running.total_ns <= most  # one thread ran them all
    assert timed.running.max_ns >= max(inner)


@timed_only
def test_exceptions_recursion_and_what_calls_what():
    def work():
        for n in range(30):
            try:
                failing(n)
            except ValueError:
                pass
        recursive(200)

    found = times_of(work, f"{__name__}:failing", f"{__name__}:rec*", f"{__name__}:leaf")
    assert {name: (one.calls, one.raised, one.open) for name, one in found.items()} == {
        "failing": (30, 10, 0), "recursive": (201, 0, 0), "leaf": (20, 0, 0),
    }  # fmt: skip
    assert found["leaf"].wall.total_ns <= found["failing"].wall.total_ns
    slowest = found["recursive"].slowest[0]
    assert (slowest.cut and len(slowest.stack) == 64) or len(slowest.stack) < 64
    assert any(call.raised for call in found["failing"].slowest) or found["failing"].calls > 8


def closes_are_reported():
    """Whether this Python has an event of a generator that is closed: 3.13.0 to 3.13.9 and 3.14.0 have none."""

    def one():
        yield

    reported, monitoring = [], sys.monitoring
    monitoring.use_tool_id(monitoring.PROFILER_ID, "test")
    try:
        monitoring.register_callback(monitoring.PROFILER_ID, monitoring.events.PY_UNWIND, lambda code, *_: reported.append(code))
        monitoring.set_events(monitoring.PROFILER_ID, monitoring.events.PY_UNWIND)
        closed = one()
        next(closed)
        closed.close()
    finally:
        monitoring.set_events(monitoring.PROFILER_ID, 0)
        monitoring.free_tool_id(monitoring.PROFILER_ID)
    return one.__code__ in reported


@timed_only
def test_every_way_in_which_a_generator_ends():
    def work():
        def one(n=3):
            for i in range(n):
                yield i + 1

        list(one())
        closed = one()
        next(closed)
        closed.close()
        thrown = one()
        next(thrown)
        with pytest.raises(KeyError):
            thrown.throw(KeyError)
        dropped = one()
        next(dropped)
        del dropped
        one().close()  # never begun
        empty = one(0)
        list(empty)

    reported = closes_are_reported()
    times = timing(work, f"{__name__}:*")
    (timed,) = (timed for timed in times.functions if timed.function.name == "one")
    assert (timed.calls, timed.raised, timed.open, times.lost) == ((5, 3, 0, 0) if reported else (3, 1, 1, 1))


@timed_only
def test_threads_and_a_generator_that_goes_from_one_to_the_other():
    truth = Truth()
    truth.running = []
    one = stepping(truth, 8, 1000)

    def many():
        for _ in range(500):
            leaf()
        recursive(50)

    def work():
        threads = [threading.Thread(target=many) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        for _ in range(9):
            thread = threading.Thread(target=next, args=(one, None))
            thread.start()
            thread.join()

    found = times_of(work)
    counts = {name: (found[name].calls, found[name].open) for name in ("leaf", "recursive", "many", "stepping")}
    assert counts == {"leaf": (4000, 0), "recursive": (408, 0), "many": (8, 0), "stepping": (1, 0)}


FIRST = """
def recursive(n):
    return recursive(n - 1) + 1 if n else 0
def many():
    barrier.wait()
    for _ in range(20):
        recursive(30)
"""


@timed_only
def test_the_first_call_of_several_threads_at_once():
    for _ in range(20):
        names = {"__name__": "first", "barrier": threading.Barrier(6)}
        exec(FIRST, names)

        def work(many=names["many"]):
            threads = [threading.Thread(target=many) for _ in range(6)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()

        (timed,) = times_of(work, "first:recursive").values()
        assert (timed.calls, timed.open) == (6 * 20 * 31, 0)


@timed_only
def test_a_stop_in_the_middle():
    one = stepping(Truth(), 3)

    def ends():
        leaf()
        next(one)
        return spprof.stop()

    def begins():
        spprof.start(time=f"{__name__}:*")
        leaf()

    begins()
    profile = ends()
    leaf()
    found = {timed.function.name: (timed.calls, timed.open) for timed in profile.times.functions}
    assert found == {"leaf": (2, 0), "ends": (0, 1), "stepping": (0, 1)}  # and `begins` had begun before


@timed_only
def test_pauses_and_flushes(tmp_path):
    path = tmp_path / "p.spprof"

    def ends_in_a_pause():
        spprof.pause()

    spprof.start(time=f"{__name__}:*", output_path=path)
    leaf()
    spprof.flush()
    flushed = {timed.function.name: timed.calls for timed in spprof.Profile.load(path).times.functions}
    ends_in_a_pause()
    leaf()
    spprof.resume()
    leaf()
    profile = spprof.stop()
    found = {timed.function.name: timed.calls for timed in profile.times.functions}
    assert flushed == {"leaf": 1} and found == {"leaf": 2, "ends_in_a_pause": 1}


@timed_only
def test_labels_of_the_slowest():
    def work():
        for route in ("/a", "/b"):
            with spprof.label(route=route):
                leaf()
        leaf()

    labels = [call.labels for call in times_of(work)["leaf"].slowest]
    assert sorted(map(str, labels)) == sorted(map(str, [{"route": "/a"}, {"route": "/b"}, {}]))


@timed_only
def test_patterns():
    class Shop:
        def price(self):
            return [item + 1 for item in (1, 2)]

        def total(self):
            return (lambda: self.price())()

    body = f"{__name__}:test_patterns.<locals>.Shop"
    work = Shop().total
    assert set(times_of(work, f"{body}.price")) == {"price"}
    assert set(times_of(work, f"{body}.*t*l")) == {"total"}
    assert set(times_of(work, "*:*.<lambda>")) == {"<lambda>"}
    assert set(times_of(work, f"{__name__}:?est_patterns.*.Shop.*")) >= {"price", "total", "<lambda>"}
    assert times_of(work, "elsewhere:*") == {}


@pytest.mark.parametrize("pattern", ["price", "a:b:c", ":b", "a:", "a:b,c:d", "a b:c", 5])
def test_what_is_no_pattern_is_refused(pattern):
    with pytest.raises(spprof.BadOption, match="MODULE:QUALNAME"):
        spprof.start(time=[pattern])
    with pytest.raises(spprof.BadOption, match="of which functions"):
        spprof.start(time_cpu=True)


@timed_only
def test_other_functions_are_heard_of_once():
    spprof.start(time=f"{__name__}:leaf")
    try:
        leaf()
        recursive(3)
        tool = next(tool for tool in (4, 3, 2) if sys.monitoring.get_tool(tool) == "spprof")
        assert sys.monitoring.get_local_events(tool, recursive.__code__) == 0
        assert sys.monitoring.get_local_events(tool, leaf.__code__) != 0
        sys.monitoring.restart_events()  # as coverage and debuggers do
        leaf()
        recursive(3)
    finally:
        profile = spprof.stop()
    assert [(timed.function.name, timed.calls) for timed in profile.times.functions] == [("leaf", 2)]


@timed_only
def test_beside_counts_of_calls_tracers_and_other_tools():
    lines, starts = [], []

    def tracer(frame, event, arg):
        lines.append(event)
        return tracer

    monitoring = sys.monitoring
    monitoring.use_tool_id(monitoring.COVERAGE_ID, "test_times")
    monitoring.register_callback(monitoring.COVERAGE_ID, monitoring.events.PY_START, lambda *event: starts.append(event))
    monitoring.set_events(monitoring.COVERAGE_ID, monitoring.events.PY_START)
    spprof.start(calls=True, time=f"{__name__}:*")
    try:
        sys.settrace(tracer)
        for _ in range(50):
            leaf()
        recursive(20)
        sys.settrace(None)
    finally:
        profile = spprof.stop()
        monitoring.set_events(monitoring.COVERAGE_ID, 0)
        monitoring.register_callback(monitoring.COVERAGE_ID, monitoring.events.PY_START, None)
        monitoring.free_tool_id(monitoring.COVERAGE_ID)
    times = {timed.function: timed.calls for timed in profile.times.functions}
    counts = {function: calls for function, (calls, _) in profile.calls.functions().items()}
    ours = {function: calls for function, calls in times.items() if function.name in ("leaf", "recursive")}
    assert sorted(ours.values()) == [21, 50] and all(counts[function] == calls for function, calls in ours.items())
    assert lines.count("call") >= 71 and len(starts) >= 71


@timed_only
@pytest.mark.parametrize("free, options", [((), {}), ((3,), {"calls": True})])
def test_without_a_free_id_it_is_refused(free, options):
    taken = [tool for tool in (2, 3, 4, 5) if tool not in free and sys.monitoring.get_tool(tool) is None]
    for tool in taken:
        sys.monitoring.use_tool_id(tool, "test_times")
    try:
        with pytest.raises(spprof.Unsupported, match="calls cannot be timed: the ids 2 to 5 of sys"):
            spprof.start(time="a:b", **options)
        assert not spprof.is_active() and [sys.monitoring.get_tool(tool) for tool in free] == [None] * len(free)
    finally:
        for tool in taken:
            sys.monitoring.free_tool_id(tool)


MARKED = """
import asyncio, functools
from spprof import timed

def twice(function):
    @functools.wraps(function)
    def wrapper():
        function()
        function()
    return wrapper

@timed
def plain():
    pass

def other():
    plain()

class Shop:
    @timed
    def price(self):
        pass

    @staticmethod
    @timed
    def still():
        pass

    @timed
    @classmethod
    def make(cls):
        pass

    @timed
    @property
    def name(self):
        pass

@timed
@twice
def wrapped():
    pass

@timed
def steps(n):
    yield from range(n)

@timed
async def waiting():
    await asyncio.sleep(0)

def work():
    for _ in range(3):
        other()
    Shop().price()
    Shop.still()
    Shop.make()
    Shop().name
    wrapped()
    list(steps(4))
    asyncio.run(waiting())
"""
EACH = {"plain": 3, "price": 1, "still": 1, "make": 1, "name": 1, "wrapped": 2, "steps": 1, "waiting": 1}


ALONE = """
import gc, sys, warnings
import spprof

def marked(program=PROGRAM):
    names = {"__name__": "marked"}
    exec(program, names)
    return names

def counted(profile):
    assert not profile.times.missing
    return {timed.function.name: timed.calls for timed in profile.times.functions}
"""


def alone(program):
    """In a process of its own: code objects that live for ever, as they do without the GIL, stay marked."""
    text = f"PROGRAM, EACH = {MARKED!r}, {EACH!r}\n" + ALONE + textwrap.dedent(program)
    done = subprocess.run([sys.executable, "-c", text], stderr=subprocess.PIPE, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


@timed_only
def test_marked_functions_are_timed_in_each_run():
    alone("""
    names = marked()
    for _ in range(2):
        spprof.start()
        names["work"]()
        profile = spprof.stop()
        assert counted(profile) == EACH
        running = {timed.function.name for timed in profile.times.functions if timed.running is not None}
        assert running == {"steps", "waiting"}
        assert all(sys.monitoring.get_tool(tool) is None for tool in range(6))
        sys.monitoring.use_tool_id(4, "alone")
        assert not any(
            sys.monitoring.get_local_events(4, names[name].__code__) for name in ("plain", "steps", "waiting", "other")
        )
        sys.monitoring.free_tool_id(4)
    spprof.start()
    names["other"]()
    assert counted(spprof.stop()) == {"plain": 1}
    """)


@timed_only
@pytest.mark.parametrize("patterns", [(), ("marked:other", "marked:plain")])
def test_functions_that_are_marked_in_a_run(patterns):
    alone(f"""
    spprof.start(time={patterns!r})
    spprof.pause()
    names = marked()
    names["work"]()
    spprof.resume()
    names["work"]()
    assert counted(spprof.stop()) == {{**EACH, **{dict.fromkeys(["other"][: len(patterns)], 3)!r}}}
    """)


@timed_only
def test_a_function_that_is_marked_after_it_was_none_of_the_chosen():
    alone("""
    names = marked("def late(): pass")
    spprof.start(time="elsewhere:*")
    names["late"]()
    assert spprof.timed(names["late"]) is names["late"]
    names["late"]()
    assert counted(spprof.stop()) == {"late": 1}
    """)


@timed_only
@pytest.mark.skipif(bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="without the GIL code objects may live for ever")
def test_marks_end_with_their_functions():
    alone("""
    names = marked()
    names.clear()
    gc.collect()
    spprof.start()
    assert spprof.stop().times is None
    """)


@timed_only
def test_without_a_free_id_marked_functions_are_not_timed():
    alone("""
    for tool in (2, 3, 4, 5):
        sys.monitoring.use_tool_id(tool, "alone")
    spprof.start()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        names = marked()
    (warning,) = said
    assert "not timed: calls cannot be timed: the ids 2 to 5 of sys" in str(warning.message)
    names["work"]()
    assert spprof.stop().times is None
    try:
        spprof.start()
        raise AssertionError("it was not refused")
    except spprof.Unsupported as error:
        assert "the ids 2 to 5 of sys" in str(error)
    """)


@pytest.mark.parametrize("what", [len, 5, list.append, object()])
def test_what_is_no_function_cannot_be_marked(what):
    with pytest.raises(spprof.BadOption, match="no function in Python"):
        spprof.timed(what)


@timed_only
@forks
def test_marked_functions_of_a_program_and_its_child(tmp_path):
    program = """
    import spprof
    leaf = spprof.timed(leaf)
    if os.fork() == 0:
        work(300)
        sys.exit()
    os.wait()
    work(10)
    """
    path, said = run(tmp_path, program, "--subprocesses", times=())
    assert said == "" and found(path) == {"leaf": (10, 0)}
    (child,) = [each for each in tmp_path.glob("*.spprof") if each != path]
    assert found(child) == {"leaf": (300, 0)}


@timed_only
def test_a_run_without_times_has_none():
    spprof.start()
    assert spprof.stop().times is None


PROGRAM = """
import os, sys
def leaf(): pass
def work(n):
    for _ in range(n):
        leaf()
"""


def run(tmp_path, program, *options, code=0, times=("--time", "__main__:*")):
    path, source = tmp_path / "p.spprof", tmp_path / "program.py"
    source.write_text(PROGRAM + textwrap.dedent(program))
    command = [sys.executable, "-m", "spprof", "run", "-q", *times, *options, "-o", str(path), str(source)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return path, done.stderr


def found(path):
    times = spprof.Profile.load(path).times
    assert times is not None and times.missing == ""
    return {timed.function.name: (timed.calls, timed.open) for timed in times.functions}


@timed_only
@pytest.mark.parametrize("end, code", [("", 0), ("os._exit(3)", 3), ("sys.exit(2)", 2)])
def test_a_program(tmp_path, end, code):
    path, said = run(tmp_path, f"work(700)\n{end}\n", code=code)
    assert said == "" and found(path) == {"work": (1, 0), "leaf": (700, 0)}


@timed_only
def test_a_program_that_ends_within_a_call(tmp_path):
    path, _ = run(tmp_path, "def ends(): leaf(); os._exit(0)\nends()\n", "--time-cpu")
    assert found(path) == {"ends": (0, 1), "leaf": (1, 0)}
    assert all(timed.cpu is not None for timed in spprof.Profile.load(path).times.functions)


@timed_only
@forks
def test_forked_children_have_times_of_their_own(tmp_path):
    program = """
    def forking():
        if os.fork() == 0:
            work(300)
            sys.exit()
        os.wait()
    work(10)
    forking()
    """
    path, _ = run(tmp_path, program, "--subprocesses")
    assert found(path) == {"work": (1, 0), "leaf": (10, 0), "forking": (1, 0)}
    (child,) = [each for each in tmp_path.glob("*.spprof") if each != path]
    assert found(child) == {"work": (1, 0), "leaf": (300, 0)}


@timed_only
@forks
def test_a_child_that_is_not_recorded_hears_of_nothing(tmp_path):
    program = """
    work(10)
    if os.fork() == 0:
        armed = any(sys.monitoring.get_tool(tool) == "spprof" for tool in range(6))
        work(300)
        os._exit(armed)
    assert os.wait()[1] == 0
    """
    assert found(run(tmp_path, program)[0])["leaf"] == (10, 0)


@pytest.mark.skipif(MONITORS, reason="there is sys.monitoring")
def test_before_3_12_it_is_refused(tmp_path):
    with pytest.raises(spprof.Unsupported, match=r"3\.12"):
        spprof.start(time="a:b")
    assert "3.12" in run(tmp_path, "print(1)", code=2)[1]


@pytest.mark.skipif(MONITORS, reason="there is sys.monitoring")
def test_before_3_12_marks_do_nothing_but_warn_with_a_profile(tmp_path):
    program = """
    import warnings
    import spprof
    warnings.simplefilter("always")
    with warnings.catch_warnings(record=True) as said:
        assert spprof.timed(leaf) is leaf
        work(1)
        assert not said
        for _ in range(2):
            spprof.start()
            work(1)
            assert spprof.stop().times is None
        assert ["not timed: before Python 3.12" in str(each.message) for each in said] == [True]
    """
    source = tmp_path / "program.py"
    source.write_text(PROGRAM + textwrap.dedent(program))
    subprocess.run([sys.executable, str(source)], check=True, timeout=120)


@pytest.mark.skipif(MONITORS, reason="there is sys.monitoring")
def test_before_3_12_the_warning_is_none_of_the_programs_calls_and_may_be_an_error(tmp_path):
    program = """
    import warnings
    import spprof
    spprof.timed(leaf)
    warnings.simplefilter("error")
    try:
        spprof.start(calls=True)
    except RuntimeWarning:
        assert not spprof.is_active()
    else:
        raise AssertionError("no warning")
    spprof.recording.timing._warned = False
    warnings.simplefilter("always")
    spprof.start(calls=True)
    work(1)
    assert not [f for f in spprof.stop().calls.functions() if f.file == warnings.__file__]
    """
    source = tmp_path / "program.py"
    source.write_text(PROGRAM + textwrap.dedent(program))
    done = subprocess.run([sys.executable, str(source)], stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "not timed: before Python 3.12" in done.stderr
