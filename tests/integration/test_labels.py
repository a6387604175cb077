"""Labels: each function of the target runs under labels that its source names, so every sample of it must carry just those."""

import subprocess
import sys
import textwrap

import pytest
from judging import until_seen
from ran import TARGETS

TRUTH = {
    "red": {"task": "red"},
    "blue": {"task": "blue", "ünïcode": '"\\\n\udcff'},
    "plain": {},
    "threaded": {"a": "outer", "b": "1"},
    "deep": {"a": "inner", "b": "1", "c": "None"},
    "napping": {"a": "outer", "b": "1"},
    "stepped": {"generator": "driver"},
}


def labelled(profile):
    """How many samples each function has: each under the labels of its context, and no others."""
    seen = dict.fromkeys(TRUTH, 0)
    for sample in profile:
        for frame in sample.frames:
            if frame.name in TRUTH:
                assert sample.labels == TRUTH[frame.name], f"impossible: {sample}"
                seen[frame.name] += sample.count
    return seen


@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_a_sample_has_the_labels_of_its_context(run_once, run_python, tmp_path, mode):
    to_see = set(TRUTH) - ({"napping"} if mode == "cpu" else set())  # it sleeps
    found = set()
    ran = run_once("labels", mode)
    for _ in until_seen(found, to_see):
        assert ran.json["current"] == {}
        found |= {name for name, n in labelled(ran.profile).items() if n}
        if to_see - found:
            ran = run_python(TARGETS / "labels.py", tmp_path / "out.spprof", mode)


@pytest.mark.statistical("no odds by chance: a tenth of the ticks is asked for; a machine so full that it takes less fails it")
@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_each_context_has_its_share_of_samples(run_once, mode):
    ran = run_once("labels", mode)
    seen = labelled(ran.profile)
    if mode == "cpu":
        assert seen.pop("napping") < 50, "of 1,000 ticks: it slept"
    least = 100 if ran.profile.clock != "timer" else 20  # of ten times the work
    assert all(n > least for n in seen.values()), seen


def request_numbers(ran, timed):
    """The requests that were sampled. `timed`: while they ran."""
    seen = set()
    for sample in ran.profile:
        if "request" in sample.labels:
            number = int(sample.labels["request"])
            began, ended = ran.json["spans"][number]
            # The file's times are microseconds.
            within = began // 1000 - 1 <= sample.timestamp_ns // 1000 <= ended // 1000 + 1
            assert within or not timed, f"impossible: {sample}, {began} to {ended}"
            seen.add(number)
        else:
            assert all(frame.name != "handle" for frame in sample.frames), f"impossible: {sample}"
    return seen


@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_labels_of_requests_that_are_gone(run_once, mode):
    """In wall mode the sampler notes the time, then the thread that waits for a processor: it may have been put off between."""
    request_numbers(run_once("labels", mode), timed=mode == "cpu")


@pytest.mark.statistical(
    "none by chance: half of the requests are asked for; a full machine gives `signal` no processor at times"
)
@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_most_requests_are_sampled_while_they_run(run_once, mode):
    ran = run_once("labels", mode)
    # Of 300; of 3,000 with `timer`, which are shorter than a tick.
    assert len(request_numbers(ran, timed=True)) > (150 if ran.profile.clock != "timer" else 10)


def test_garbage_collections_are_markers(run_once):
    ran = run_once("labels", "cpu")
    truth = ran.json["collections"]
    assert [generation for _, _, generation, _ in truth] == [2, 0, 1, 2]
    threads = {thread.id: thread.tid for thread in ran.profile.threads}
    # The program collects no more by itself then: the last are these.
    markers = [marker for marker in ran.profile.markers if marker.time_ns <= truth[-1][1]][-len(truth) :]
    assert len(markers) == len(truth)
    for marker, (began, ended, generation, collected) in zip(markers, truth):
        assert marker.name == "gc" and threads[marker.thread] == ran.json["tid"]
        assert marker.data == {"generation": generation, "collected": collected, "uncollectable": 0}
        # Its own callback came before the other, at the beginning as at the end.
        assert marker.time_ns <= began and began <= marker.time_ns + marker.duration_ns <= ended
    assert ran.json["hooked"] == [True, False]


def test_what_labels_refuse_to_do(run_python, tmp_path):
    text = """
        import gc, sys, time, warnings
        import spprof
        with spprof.label(a=1):                        # no profile is being taken: nothing happens
            assert spprof.current_labels() == {"a": "1"}
        again = spprof.label(b=2)
        with again, again:
            assert spprof.current_labels() == {"b": "2"}
        assert spprof.current_labels() == {}
        spprof.start(output_path="out.spprof")
        gc.callbacks.clear()                           # the program's right
        with spprof.label(c="x" * 100000):
            late = time.monotonic() + 60
            while spprof.stats()["taken"] < 20 and time.monotonic() < late: sum(range(1000))
        assert max(len(s.labels.get("c", "")) for s in spprof.stop()) == 100000
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        code = '''if True:
            import warnings
            import spprof
            with warnings.catch_warnings(record=True) as reported:
                warnings.simplefilter("always")
                with spprof.label(a=1):
                    assert spprof.current_labels() == {}
            assert ["labels belong" in str(one.message) for one in reported] == [True], reported
        '''
        id = interpreters.create()
        assert interpreters.run_string(id, code) is None
    """
    ran = run_python("-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(text), cwd=tmp_path)
    assert ran.out == ""


def test_blocks_that_are_left_elsewhere_and_first_uses_at_once(run_python, tmp_path):
    text = """
        import asyncio, contextvars, threading, spprof
        async def numbers():
            with spprof.label(a=1):
                yield 1
        async def main():
            async for _ in numbers():
                break
        async def both():
            asyncio.get_running_loop().slow_callback_duration = 60  # else a full machine has it say so
            await main()                               # its loop closes the generator in a task of its own
            assert spprof.current_labels() == {"a": "1"}
        barrier = threading.Barrier(16)
        seen = []
        def first():
            barrier.wait()
            with spprof.label(thread="x"):
                seen.append(spprof.current_labels())
        threads = [threading.Thread(target=first) for _ in range(16)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert seen == [{"thread": "x"}] * 16, seen
        asyncio.run(both())
        def steps():
            with spprof.label(b=2):
                yield
        generator = steps()
        contextvars.copy_context().run(next, generator)
        generator.close()
        assert spprof.current_labels() == {}
    """
    assert run_python("-X", "dev", "-c", textwrap.dedent(text), cwd=tmp_path).err == ""


@pytest.mark.parametrize("seconds", [0.3, pytest.param(5, marks=pytest.mark.stress)])
@pytest.mark.parametrize("races", ["sets that die", "code that dies"])
def test_what_dies_while_a_run_begins_and_ends(run_python, tmp_path, races, seconds):
    text = """
        import sys, threading, time, spprof
        ends = time.monotonic() + float(sys.argv[2])
        def sets():
            while time.monotonic() < ends:
                with spprof.label(n=1):
                    pass
        def code():
            while time.monotonic() < ends:
                exec("def f(): return 1\\nf()", {})
        threads = [threading.Thread(target=sets if sys.argv[1] == "sets that die" else code) for _ in range(3)]
        for thread in threads: thread.start()
        while time.monotonic() < ends:
            spprof.start(0.2)
            sum(range(1000))
            spprof.stop()
        for thread in threads: thread.join()
    """
    assert run_python("-c", textwrap.dedent(text), races, seconds, cwd=tmp_path).err == ""


def test_labels_after_a_fork():
    text = """
        import os, time, spprof
        spprof.start()
        with spprof.label(a=1):
            pid = os.fork()
            if pid == 0:
                with spprof.label(b=2), spprof.Profiler(interval_ms=0.1) as profiler:
                    late = time.monotonic() + 60
                    while spprof.stats()["taken"] < 20 and time.monotonic() < late: sum(range(100000))
                sets = {tuple(sorted(s.labels.items())) for s in profiler.profile if s.frames[-1].name == "<module>"}
                os._exit(0 if (("a", "1"), ("b", "2")) in sets else 3)
            status = os.waitpid(pid, 0)[1]
        spprof.stop()
        assert status == 0, f"exit {os.waitstatus_to_exitcode(status)}"
    """
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(text)], stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
