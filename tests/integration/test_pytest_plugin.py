"""`pytest --spprof` in real runs of pytest, alone and with pytest-xdist."""

from __future__ import annotations

import re
import sys
from importlib import metadata

import pytest
from hosts import host

from spprof import Profile

pytest_plugins = ["pytester"]

PLUGIN = "spprof.integrations.pytest_plugin"
SUITE = """\
import time
import pytest

def burn(seconds):
    end = time.process_time() + seconds
    while (left := end - time.process_time()) > 0:
        until = time.monotonic() + left
        while time.monotonic() < until:
            pass

def test_sleeps():
    time.sleep(0.4)

@pytest.mark.parametrize("seconds", [0.5, 0.2], ids=["a long/one <&>", "x" * 300])
def test_burns(seconds):
    burn(seconds)

def test_fails():
    assert not "failed on purpose"

burn(0.1)  # while it is collected
"""
# The same, but each part goes on until it was sampled, if it is profiled: of so many ticks a thread of xdist's may have a half.
UNTIL_SAMPLED = """\
import os
import time
import pytest
import spprof

def until_seen():
    ticks = lambda: sum(spprof.stats()[key] for key in ("taken", "repeated"))
    wanted = spprof.is_active() and ticks() + 60
    while spprof.is_active() and ticks() < wanted:
        yield

def burn():
    for _ in until_seen():
        sum(range(5000))

def test_sleeps():
    for _ in until_seen():
        time.sleep(0.01)
        if "ON_CPU" in os.environ:
            break

@pytest.mark.parametrize("seconds", [0.5, 0.2], ids=["a long/one <&>", "x" * 300])
def test_burns(seconds):
    burn()

def test_fails():
    assert not "failed on purpose"

burn()  # while it is collected
"""
NAMES = ["test_fails", "test_sleeps", "test_burns[a long/one <&>]", "test_burns[" + "x" * 300 + "]"]


@pytest.fixture
def run(pytester, monkeypatch):
    """Only the plugins that are named: whether spprof's entry point is installed makes no difference."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(test_suite=UNTIL_SAMPLED)
    return lambda *arguments: pytester.runpytest_subprocess("-p", PLUGIN, *arguments, timeout=100)


@pytest.fixture
def run_here(run):
    """Where the hosts are; that it works at all is shown on every interpreter."""
    host("xdist")
    return run


def summary(result):
    """The section: test -> its lines, the slowest test first."""
    text = result.outlines[next(i for i, line in enumerate(result.outlines) if "slowest tests, by spprof" in line) + 1 :]
    tests, order = {}, []
    for line in text:
        if line.startswith("Lines:"):
            assert order == sorted(order, reverse=True)
            return tests
        found = re.match(r"([\d.]+) s  (.*)", line)
        if found:
            order.append(float(found.group(1)))
            lines = tests[found.group(2)] = []
        else:
            seconds, share, what = re.fullmatch(r" +([\d.]+) s +([\d.]+)%  (.*)", line).groups()
            lines.append((what, float(seconds), float(share)))
    raise AssertionError("the section has no end")


def functions(file):
    return {frame.name for stack in Profile.load(file).aggregate() for frame in stack}


def judged(result):
    """The tests of the section: all of them, with lines that add up to no more than the whole."""
    tests = summary(result)
    assert sorted(tests) == sorted(f"test_suite.py::{name}" for name in NAMES)
    for lines in tests.values():
        assert all(share >= 1 for *_, share in lines) and sum(share for *_, share in lines) < 100.5
    return tests


def test_the_session_as_one_profile(run, pytester):
    result = run("--spprof", ".")  # the path is no value of the option
    result.assert_outcomes(passed=3, failed=1)
    assert result.ret == 1
    judged(result)
    (file,) = (pytester.path / "spprof-profiles").iterdir()
    assert file.name == "session.spprof" and {"test_sleeps", "burn", "pytest_collection"} <= functions(file)
    profile = Profile.load(file)
    assert "1 files." in result.stdout.str() and profile.mode == "wall" and profile.end


def test_a_profile_of_each_test(run_here, pytester, monkeypatch):
    monkeypatch.setenv("ON_CPU", "1")
    result = run_here("--spprof=test", "--spprof-dir=out/deep", "--spprof-rate=500", "--spprof-mode=cpu")
    result.assert_outcomes(passed=3, failed=1)
    files = sorted((pytester.path / "out" / "deep").iterdir())
    assert len(files) == 4 and all(len(file.name) < 160 for file in files)
    profiles = [Profile.load(file) for file in files]
    assert {profile.interval_ns for profile in profiles} == {2_000_000}
    assert sorted("burn" in functions(file) for file in files) == [False, False, True, True]
    assert all(profile.mode == "cpu" and profile.end for profile in profiles)
    judged(result)


@pytest.mark.statistical(
    "one in 100,000 by chance: of 200 samples and more most are where the time went; a full machine may let other parts of a"
    " test last longer than it sleeps"
)
def test_the_section_shows_where_the_time_went(run_here, pytester):
    pytester.makepyfile(test_suite=SUITE)
    tests = summary(run_here("--spprof"))
    what, seconds, share = tests["test_suite.py::test_sleeps"][0]
    assert what == "test_sleeps (test_suite.py:12)" and 0.38 < seconds and share > 50
    what, seconds, share = tests["test_suite.py::test_burns[a long/one <&>]"][0]
    assert what in ("burn (test_suite.py:8)", "burn (test_suite.py:9)") and 0.1 < seconds
    tests = summary(run_here("--spprof=test", "--spprof-rate=500", "--spprof-mode=cpu"))
    what, seconds, share = tests["test_suite.py::test_burns[a long/one <&>]"][0]
    assert what.startswith("burn (test_suite.py:") and seconds <= 0.6 and share > 30
    tests = summary(run_here("-p", "xdist.plugin", "-n", "2", "--spprof"))
    assert tests["test_suite.py::test_sleeps"][0][0] == "test_sleeps (test_suite.py:12)"


@pytest.mark.parametrize(
    "option, count", [pytest.param("--spprof", 2, marks=pytest.mark.stress), ("--spprof=test", 4)], ids=["session", "test"]
)
def test_workers_of_xdist_write_each_their_own(run_here, pytester, option, count):
    result = run_here("-p", "xdist.plugin", "-n", "2", option)
    result.assert_outcomes(passed=3, failed=1)
    judged(result)
    files = list((pytester.path / "spprof-profiles").iterdir())
    assert len(files) == count and {file.name.split(".")[-2] for file in files} == {"gw0", "gw1"}
    assert sum("test_sleeps" in functions(file) for file in files) == 1


def test_xdist_without_workers(run_here, pytester):
    result = run_here("-p", "xdist.plugin", "-n", "0", "--spprof")
    assert [file.name for file in (pytester.path / "spprof-profiles").iterdir()] == ["session.spprof"]
    judged(result)


def test_long_names_of_any_letters(run_here, pytester):
    wide = "\u65e5\u672c\u8a9e" * 25
    test = f"def test_{wide}(): pass\nclass Test{wide}:\n    def test_{wide}(self): pass\n"
    parameter = '@pytest.mark.parametrize("text", ["a/b " * 90])\ndef test_text(text): pass\n'
    pytester.makepyfile(test_suite="import pytest\n" + test + parameter)
    result = run_here("--spprof=test", "--spprof-format=html")
    result.assert_outcomes(passed=3)
    assert "3 files." in result.stdout.str() and "cannot write" not in result.stdout.str()
    names = [file.name for file in (pytester.path / "spprof-profiles").iterdir()]
    assert len(names) == 3 and all(len(name.encode()) <= 140 and name.endswith(".html") for name in names)


def test_other_formats(run_here, pytester):
    run_here("--spprof=test", "--spprof-format=collapsed", "-k", "sleeps")
    (file,) = (pytester.path / "spprof-profiles").iterdir()
    assert file.suffix == ".collapsed" and re.search(r"^MainThread;.*;test_sleeps \(.*:18\) \d+$", file.read_text(), re.MULTILINE)


def test_unasked_it_does_nothing(run, pytester):
    pytester.makepyfile(test_suite="import sys\ndef test(): assert [m for m in sys.modules if m.startswith('spprof')] == " + repr(
        ["spprof", "spprof.integrations", PLUGIN]))  # fmt: skip
    result = run()
    result.assert_outcomes(passed=1)
    assert "spprof" not in result.stdout.str().replace("plugins: spprof", "")
    assert not (pytester.path / "spprof-profiles").exists()


@pytest.mark.parametrize(
    "option, words",
    [
        ("--spprof-rate=0", "rate=0.0 is out of range: 1 to 20000"),
        ("--spprof-format=png", "'png' does not exist: choose one of spprof"),
        ("--spprof-dir=test_suite.py", "File exists"),
        ("--spprof-event=faults", "no such event"),
    ],
)
def test_bad_options_end_the_run_at_once(run_here, option, words):
    result = run_here("--spprof", option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR and words in result.stderr.str()


def test_tests_that_use_spprof_themselves(run_here, pytester):
    pytester.makepyfile(test_suite="""
        import pytest, spprof
        def test_takes_one():
            with pytest.raises(spprof.AlreadyActive):
                spprof.start()
        def test_stops_ours():
            spprof.stop()
        def test_leaves_one():
            if not spprof.is_active():
                spprof.start()
        def test_after():
            pass
        """)  # fmt: skip
    result = run_here("--spprof=test")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["spprof: test_suite.py::test_stops_ours: no profile is being taken*"])
    assert "test_suite.py::test_after" in summary_names(result)
    result = run_here("--spprof", "-k", "stops_ours or takes_one")
    result.stdout.fnmatch_lines(["spprof: session: no profile is being taken*"])


def summary_names(result):
    return [line.split("  ")[1] for line in result.outlines if re.match(r"[\d.]+ s  test_", line)]


def test_under_spprof_run_it_is_refused(pytester, monkeypatch):
    host("xdist")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(test_suite=SUITE)
    command = ["-m", "spprof", "run", "-q", "-m", "pytest", "-p", PLUGIN, "--spprof"]
    result = pytester.run(sys.executable, *command, timeout=100)
    assert result.ret == pytest.ExitCode.USAGE_ERROR and "already being taken" in result.stderr.str()


def test_the_entry_point_is_installed():
    try:
        entries = metadata.distribution("spprof").entry_points
    except metadata.PackageNotFoundError:
        pytest.skip("spprof runs from its source here, it is not installed")
    assert [entry.value for entry in entries if (entry.group, entry.name) == ("pytest11", "spprof")] == [PLUGIN]


@pytest.mark.parametrize("installed", [True, False])
@pytest.mark.parametrize("how", ["-p", "PYTEST_PLUGINS", "-p spprof"])
def test_it_is_registered_once_however_it_is_named(pytester, monkeypatch, how, installed):
    if not installed:
        if how == "-p spprof":
            pytest.skip("that is the entry point's name")
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    if how == "PYTEST_PLUGINS":
        monkeypatch.setenv("PYTEST_PLUGINS", PLUGIN)
    pytester.makepyfile("def test_x(): pass")
    words = {"-p": ["-p", PLUGIN], "-p spprof": ["-p", "spprof"]}.get(how, [])
    done = pytester.runpytest_subprocess(*words, "--spprof")
    done.assert_outcomes(passed=1)
    assert [file.name for file in (pytester.path / "spprof-profiles").iterdir()] == ["session.spprof"]
