"""The Python API over the real core."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import threading
import time

import pytest
from work import burn

import spprof
from spprof import _core
from spprof.cli._parser import parse
from spprof.cli._recording import recording_of
from spprof.model.counters import COUNTERS
from spprof.readers import about
from spprof.recording.options import INTERVAL_MS, MAX_DEPTH, RATE_HZ, WORDS, Options
from spprof.report.summary import summary
from spprof.report.text import duration


def until_sampled(path, *threads):
    """Works until each of these threads was."""
    wanted, late = {thread.native_id for thread in threads}, time.monotonic() + 60
    seen = set()
    while not wanted <= seen and time.monotonic() < late:
        burn(0.02)
        spprof.flush()
        seen = {thread.tid for thread in spprof.Profile.load(path).threads if thread.samples}


@pytest.fixture(autouse=True)
def nothing_left_running():
    hook = threading.Thread._set_native_id
    yield
    if spprof.is_active():
        spprof.stop()  # so that no other test fails by it
        pytest.fail("left running")
    assert threading.Thread._set_native_id is hook


def names_of(profile):
    return {frame.name for sample in profile for frame in sample.frames}


def run(code, *args):
    return subprocess.run([sys.executable, *args, "-c", code], capture_output=True, text=True, timeout=60)


def test_start_and_stop(tmp_path):
    path = tmp_path / "p.spprof"
    spprof.start(0.5, output_path=path)
    assert spprof.is_active()
    burn(0.2, samples=51)
    profile = spprof.stop()
    assert profile.path == str(path) and "burn" in names_of(profile)
    assert profile.interval_ns == 500_000 and profile.mode == "cpu" and profile.header["pid"] == os.getpid()
    assert profile.stats == spprof.stats() and profile.end is not None and profile.warning is None
    assert sum(profile.column("count")) == profile.stats["taken"] + profile.stats["repeated"] > 50


def test_without_a_path_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    spprof.start()
    burn(samples=6)
    profile = spprof.stop()
    assert len(profile) > 5 and os.listdir(tmp_path) == []


def test_a_rate_is_an_interval():
    for start in (spprof.start, lambda rate: spprof.Profiler(rate=rate).start()):
        start(rate=250)
        assert spprof.stop().interval_ns == 4_000_000
    wrapped = spprof.profile(rate=20_000)(lambda: None)
    wrapped()
    assert wrapped.last_profile.interval_ns == 50_000


def test_options_are_checked_and_immutable():
    counted = {"calls": "c", "time": "m:f", "time_cpu": True, "lines": ["m:f", "n:*"], "exceptions": True, "imports": True,
               "specialization": True}  # fmt: skip
    options = Options(rate=500, mode="wall", clock="timer", max_depth=7, native="leaf", **counted)
    with pytest.raises(AttributeError):
        options.mode = "cpu"
    again = Options.of_text(options.to_text())
    assert repr(again) == repr(options) and again.interval_ns == 2_000_000 and again.native == "leaf"
    with pytest.raises(ValueError):
        Options.of_text("\t".join(options.words("timer")[:-1]))
    assert Options().interval_ns == Options(interval_ms=1).interval_ns == Options(rate=1000).interval_ns == 1_000_000
    for bad in ({"mode": "gpu"}, {"native": "yes"}, {"max_depth": 1.5}, {"interval_ms": 0.01}, {"lines": "f"}):
        with pytest.raises(spprof.BadOption):
            Options(**bad)


def test_what_starts_a_profile_imports_little():
    """In a fresh interpreter without site's imports: they would be there whatever we do."""
    code = """
import sys
import spprof
before = set(sys.modules)
profiler = spprof.Profiler(rate=100)
late = {"json", "inspect", "subprocess"}
assert not late & set(sys.modules), late & set(sys.modules)
profiler.start()
assert not {*late, "typing"} & (set(sys.modules) - before), sorted(sys.modules)
"""
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, env=with_package())
    assert done.returncode == 0, done.stderr


def with_package():
    """An environment in which spprof is found without `site`."""
    folder = os.path.dirname(os.path.dirname(spprof.__file__))
    return {**os.environ, "PYTHONPATH": folder}


def test_errors_change_nothing(tmp_path):
    for call in (spprof.stop, spprof.pause, spprof.resume):
        with pytest.raises(spprof.NotActive):
            call()
    for bad in (0, 0.049, 1001, -1, float("nan"), float("inf"), "1"):
        with pytest.raises(spprof.BadOption, match="interval_ms"):
            spprof.start(bad)
    for options in ({"mode": "gpu"}, {"clock": "sundial"}, {"max_depth": 0}, {"max_depth": 5000}, {"clock": "wall"}):
        with pytest.raises(spprof.BadOption):
            spprof.start(**options)
    for bad in (0, 0.99, 20001, -1, float("nan"), float("inf"), "1"):
        with pytest.raises(spprof.BadOption, match="rate="):
            spprof.start(rate=bad)
    for both in ({"interval_ms": 1, "rate": 1000}, {"interval_ms": 0.5, "rate": 100}):
        with pytest.raises(spprof.BadOption, match=r"both interval_ms=.* and rate="):
            spprof.start(**both)
        with pytest.raises(spprof.BadOption, match="both"), spprof.Profiler(**both):
            pass
        with pytest.raises(spprof.BadOption, match="both"):
            spprof.profile(**both)(lambda: None)()
    with pytest.raises(spprof.CannotWrite):
        spprof.start(output_path=tmp_path / "no" / "p.spprof")
    with pytest.raises(spprof.CannotWrite):
        spprof.start(output_path=tmp_path)
    assert not spprof.is_active() and os.listdir(tmp_path) == []


def test_starting_twice_keeps_the_first(tmp_path):
    spprof.start()
    try:
        with pytest.raises(spprof.AlreadyActive):
            spprof.start(output_path=tmp_path / "second.spprof")
        assert spprof.is_active() and os.listdir(tmp_path) == []
        burn(samples=6)
    finally:
        assert len(spprof.stop()) > 5


def test_pause_and_resume():
    spprof.start()
    spprof.pause()
    assert spprof.is_active()
    pause_me(0.2)
    spprof.resume()
    burn(0.2, samples=1)
    assert "pause_me" not in names_of(profile := spprof.stop()) and "burn" in names_of(profile)


def test_options_are_those_of_the_core():
    """One range for the API, the command line and the core; a rate is an interval."""
    assert (INTERVAL_MS.least * 1e6, INTERVAL_MS.most * 1e6) == _core.LIMITS["interval_ns"]
    assert (MAX_DEPTH.least, MAX_DEPTH.most) == _core.LIMITS["max_depth"]
    assert WORDS == _core.WORDS
    for rate, interval in (
        (RATE_HZ.default, INTERVAL_MS.default),
        (RATE_HZ.most, INTERVAL_MS.least),
        (RATE_HZ.least, INTERVAL_MS.most),
    ):
        assert rate * interval == 1000


def test_there_is_one_record_of_options():
    """`start`, `Profiler` and the command line have the parameters and defaults of `Options`, and the help its ranges."""

    def parameters(function):
        return {
            name: each.default
            for name, each in inspect.signature(function).parameters.items()
            if name not in ("self", "output_path", "on_stall")  # the core knows nothing of these
        }

    assert parameters(spprof.start) == parameters(spprof.Profiler) == parameters(Options)
    assert repr(recording_of(parse(["run", "x.py"]))) == repr(Options())
    for least, most in (
        (f"{INTERVAL_MS.least:g} (20 kHz)", f"{INTERVAL_MS.most:g} (1 Hz)"),
        (RATE_HZ.least, RATE_HZ.most),
        (MAX_DEPTH.least, MAX_DEPTH.most),
    ):
        assert f" {least} to {most}" in spprof.start.__doc__


def test_python_knows_each_counter_of_the_core():
    """`base/counters.h` and `model/counters.py` are the same list, and what a file may say is checked where it is read."""
    spprof.start(native=_core.NATIVE)
    stats = spprof.stop().stats
    assert stats.keys() <= about._STATS.keys()
    assert COUNTERS.keys() <= stats.keys()


def test_stats_say_what_time_was_paused():
    """Bounds that hold however busy the machine is; the summary's time on the CPU is that without the pauses."""
    spprof.start()
    before = time.monotonic_ns()
    spprof.pause()
    inside = time.monotonic_ns()
    burn(0.05)
    assert spprof.stats()["paused_ns"] >= 0.05e9  # so far
    inside = time.monotonic_ns() - inside
    spprof.resume()
    outside = time.monotonic_ns() - before
    profile = spprof.stop()
    stats = profile.stats
    assert inside <= stats["paused_ns"] <= min(outside, stats["wall_ns"])
    assert 0.04e9 <= stats["paused_cpu_ns"] <= stats["cpu_ns"]
    assert stats["first_thread_ready_ns"] <= stats["wall_ns"] - stats["paused_ns"] + 0.1e9  # that of a pause is not in it
    cpu, wall = (stats[whole] - stats[paused] for whole, paused in (("cpu_ns", "paused_cpu_ns"), ("wall_ns", "paused_ns")))
    assert f"On CPU: {duration(cpu)} {'of' if cpu <= wall else 'in'} {duration(wall)} elapsed" in summary([profile])


def test_pauses_too_short_to_be_seen():
    """The drain thread may look only when a pause is over; without lazy imports between, it nearly always does."""
    spprof.start(0.2)
    for _ in range(20):
        _core.pause()
        _core.resume()
        taken = spprof.stats()["taken"]
        burn(0.003, samples=1)  # waits for a minute at most
        assert spprof.stats()["taken"] > taken
    spprof.stop()


@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_flush_leaves_nothing_behind(mode, tmp_path):
    """A file is behind by up to 85 ms; each round here takes a few, so that most would find it behind without the flush."""
    over = threading.Event()
    sleeper = threading.Thread(target=over.wait)
    sleeper.start()
    spprof.start(0.1, mode, tmp_path / "p.spprof")
    try:
        while spprof.stats()["taken"] == 0:  # a CPU clock that goes in steps of 10 ms has none at first
            burn(0.003)
        for _ in range(20):
            burn(0.003)
            stats = spprof.stats()
            spprof.flush()
            taken = spprof.Profile.load(tmp_path / "p.spprof")
            assert len(taken) >= stats["taken"]
            assert sum(taken.column("count")) >= stats["taken"] + stats["repeated"]
            assert taken.stats["taken"] >= stats["taken"] and taken.end is None
        spprof.pause()
        spprof.flush()
    finally:
        over.set()
        sleeper.join()
        spprof.stop()
    with pytest.raises(spprof.NotActive):
        spprof.flush()


def test_flushes_at_once_and_while_it_stops(tmp_path):
    def flush():
        try:
            while True:
                spprof.flush()
        except spprof.NotActive:
            pass

    for _ in range(5):
        spprof.start(0.1, output_path=tmp_path / "p.spprof")
        threads = [threading.Thread(target=flush) for _ in range(4)]
        for thread in threads:
            thread.start()
        burn(0.05)
        assert spprof.stop().end["reason"] == "stop"
        for thread in threads:
            thread.join()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no limit of a file's size")
def test_flush_says_what_could_not_be_written(tmp_path):
    code = """
import os, resource, sys, time, spprof
spprof.start(0.1, output_path=sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (os.stat(sys.argv[1]).st_size, -1))
late = time.monotonic() + 50
try:
    while time.monotonic() < late:  # until there is something to write
        sum(i * i for i in range(10**5))
        spprof.flush()
except spprof.CannotWrite as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "p.spprof"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "the profile cannot be written: File too large\n"), done.stderr


def pause_me(seconds):
    burn(seconds)


def test_thread_names(tmp_path):
    path, over, done = tmp_path / "p.spprof", threading.Event(), threading.Event()

    def work(end):
        while not end.is_set():
            burn(0.01)

    early = threading.Thread(target=work, args=(over,), name="early")
    late = threading.Thread(target=work, args=(done,), name="late")
    early.start()
    spprof.start(output_path=path)
    late.start()
    try:
        until_sampled(path, early, late, threading.main_thread())
        done.set()
        late.join()
        early.name = "renamed"
        profile = spprof.stop()
    finally:
        done.set()
        over.set()
    early.join()
    assert {"renamed", "late", "MainThread"} <= {thread.name for thread in profile.threads if thread.samples}


def test_a_strangers_patch_is_kept():
    original = threading.Thread._set_native_id
    spprof.start()
    ours = threading.Thread._set_native_id

    def theirs(thread):
        ours(thread)

    threading.Thread._set_native_id = theirs
    try:
        spprof.stop()
        assert threading.Thread._set_native_id is theirs
        thread = threading.Thread(target=burn, args=(0,))
        thread.start()  # our wrapper, still reached through theirs, does no harm
        thread.join()
        assert thread.native_id
    finally:
        threading.Thread._set_native_id = original


def test_profiler_block():
    with spprof.Profiler(interval_ms=0.5) as profiler:
        burn(0.1, samples=1)
    assert "burn" in names_of(profiler.profile)
    with pytest.raises(KeyError), spprof.Profiler():
        raise KeyError
    with spprof.Profiler():
        spprof.stop()


@spprof.profile
def plain(n):
    """Doc."""
    burn(samples=1)
    return plain(n - 1) + 1 if n else 0


@spprof.profile(interval_ms=0.5)
async def coroutine():
    burn(samples=1)
    await asyncio.sleep(0)
    return 7


@spprof.profile()
def generator():
    burn(samples=1)
    got = yield 1
    try:
        yield got
    except KeyError:
        yield "caught"
    return "end"


@spprof.profile
async def async_generator():
    burn(samples=1)
    got = yield 1
    try:
        yield got
    except KeyError:
        yield "caught"


def test_decorated_function():
    assert plain(2) == 2 and plain.__doc__ == "Doc."
    assert "plain" in names_of(plain.last_profile)


def test_decorated_coroutine():
    assert inspect.iscoroutinefunction(coroutine)
    assert asyncio.run(coroutine()) == 7
    assert "coroutine" in names_of(coroutine.last_profile)


def test_decorated_generator():
    steps = generator()
    assert not spprof.is_active()
    assert (next(steps), spprof.is_active(), steps.send("x"), steps.throw(KeyError())) == (1, True, "x", "caught")
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == "end" and "generator" in names_of(generator.last_profile)
    steps = generator()
    next(steps)
    steps.close()


def test_decorated_async_generator():
    async def use():
        steps = async_generator()
        assert [await steps.__anext__(), await steps.asend("x"), await steps.athrow(KeyError())] == [1, "x", "caught"]
        assert [x async for x in steps] == []
        steps = async_generator()
        await steps.__anext__()
        await steps.aclose()

    asyncio.run(use())
    assert "async_generator" in names_of(async_generator.last_profile)


def test_decorator_refuses_unknown_options_at_once():
    with pytest.raises(TypeError):
        spprof.profile(pace=3)(plain)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no fork")
def test_forked_child_is_not_profiled_and_can_start_again():
    spprof.start()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            fresh = not spprof.is_active()
            spprof.start()
            burn(0.1, samples=21)
            code = 0 if fresh and len(spprof.stop()) > 20 else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    burn(samples=6)
    assert len(spprof.stop()) > 5


def test_exit_while_active(tmp_path):
    path = tmp_path / "p.spprof"
    done = run(f"import spprof; spprof.start(output_path={str(path)!r}); sum(range(9**7))")
    assert (done.returncode, done.stderr) == (0, "")
    assert spprof.Profile.load(path).end is not None


def test_the_header_holds_any_argument(monkeypatch):
    argv = ["x.py", '"\\\n\t', "é😀", "\udcff", ""]
    monkeypatch.setattr(sys, "argv", argv)
    spprof.start()
    assert spprof.stop().header["argv"] == argv


def test_import_is_light():
    code = "import sys; before = set(sys.modules); import spprof; print(*sorted(set(sys.modules) - before))"
    loaded = run(code).stdout.split()
    assert set(loaded) <= {"__future__", "spprof"}


def test_all_public_names_exist():
    assert all(getattr(spprof, name) is not None for name in spprof.__all__)
    with pytest.raises(AttributeError):
        spprof.nonsense  # noqa: B018
