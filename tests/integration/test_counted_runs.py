"""`spprof run --calls`: however a program ends, goes on or multiplies, what it called until then is counted."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

import spprof
from spprof.report.comparison import Comparison
from spprof.report.splitting import split

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")


def run(tmp_path, program, *options, code=0, env=None):
    path = tmp_path / "p.spprof"
    source = tmp_path / "program.py"
    source.write_text(WORK + textwrap.dedent(program))
    command = [sys.executable, "-m", "spprof", "run", "-q", "--calls", *options, "-o", str(path), str(source)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, env={**os.environ, **(env or {})}
    )
    assert done.returncode == code, done.stderr
    assert "spprof:" not in done.stderr
    return path


def counts(path):
    """Calls of the program's own functions by name."""
    calls = spprof.Profile.load(path).calls
    assert calls is not None and calls.missing == ""
    return {f.name: n for f, (n, _) in calls.functions().items() if f.file.endswith("program.py")}


WORK = """
import os, sys, threading, time
def leaf(): pass
def work(n):
    for _ in range(n):
        leaf()
"""


def test_from_the_first_line_to_the_last_handler(tmp_path):
    program = """
    import atexit
    atexit.register(leaf)
    work(1000)
    thread = threading.Thread(target=work, args=(500,))
    thread.start()
    """
    assert counts(run(tmp_path, program)) == {"<module>": 1, "work": 2, "leaf": 1501}


@pytest.mark.parametrize("end, code", [
    ("os._exit(3)", 3), ("sys.exit(2)", 2), ("os.kill(os.getpid(), 15); time.sleep(60)", -15),
    ("threading.Thread(target=time.sleep, args=(60,), daemon=True).start()", 0),
])  # fmt: skip
def test_every_way_out(tmp_path, end, code):
    found = counts(run(tmp_path, f"work(700)\n{end}\n", code=code))
    assert (found["work"], found["leaf"]) == (1, 700)


def test_duration_ends_the_counts(tmp_path):
    program = """
    work(700)
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        time.sleep(0.01)
    work(1)
    """
    assert counts(run(tmp_path, program, "--duration", "0.7"))["leaf"] == 700


def test_delay_is_not_counted(tmp_path):
    program = """
    work(7)
    time.sleep(1.5)
    work(1000)
    """
    assert counts(run(tmp_path, program, "--delay", "0.7"))["leaf"] == 1000


@forks
def test_forked_children_have_counts_of_their_own(tmp_path):
    program = """
    work(10)
    if os.fork() == 0:
        work(300)
        sys.exit()
    os.wait()
    work(1)
    """
    path = run(tmp_path, program, "--subprocesses")
    assert counts(path)["leaf"] == 11
    (child,) = [each for each in tmp_path.glob("*.spprof") if each != path]
    assert counts(child)["leaf"] == 300


@forks
def test_a_child_that_is_not_recorded_hears_of_nothing(tmp_path):
    program = """
    work(10)
    if os.fork() == 0:
        armed = sys.getprofile() is not None
        if sys.version_info >= (3, 12):
            armed = any(sys.monitoring.get_tool(tool) == "spprof" for tool in range(6))
        work(300)
        os._exit(armed)
    assert os.wait()[1] == 0
    """
    assert counts(run(tmp_path, program))["leaf"] == 10


@forks
def test_a_program_that_replaces_itself(tmp_path):
    program = """
    if len(sys.argv) == 1:
        work(10)
        os.execv(sys.executable, [sys.executable, __file__, "again"])
    work(20)
    """
    path = run(tmp_path, program)
    found = sorted(counts(each)["leaf"] for each in tmp_path.glob("*.spprof"))
    assert found == [10, 20] and path.exists()


def test_functions_in_c_and_native_frames(tmp_path):
    path = run(tmp_path, "[len('a') for _ in range(90)]\n", "--calls=c", "--native")
    calls = spprof.Profile.load(path).calls
    assert {f.qualname: n for f, n in calls.functions().items() if f.native}["builtins.len"] >= (90, 0)
    assert spprof.Profile.load(path).header["calls"] == "c"


def test_flushed_counts_are_in_the_file(tmp_path):
    path = tmp_path / "p.spprof"

    def leaf():
        pass

    spprof.start(calls=True, output_path=path)
    for _ in range(55):
        leaf()
    spprof.flush()
    flushed = spprof.Profile.load(path).calls
    leaf()
    profile = spprof.stop()
    for calls, n in ((flushed, 55), (profile.calls, 56)):
        assert {f.name: both for f, both in calls.functions().items()}["leaf"] == (n, 0)


def test_a_run_without_calls_has_none(tmp_path):
    path = tmp_path / "p.spprof"
    done = subprocess.run([sys.executable, "-m", "spprof", "run", "-q", "-o", str(path), "-c", "pass"])
    assert done.returncode == 0 and spprof.Profile.load(path).calls is None


@pytest.mark.statistical("an interval of 95 % misses 1 time in 20")
def test_a_regression_is_split_as_the_program_itself_measures_it(tmp_path):
    """Called 3.1 times as often, and each call does 1.4 times the work, whose time the program takes with its own clock."""
    program = """
    def parse(n):
        for _ in range(n):
            pass
    def load(n):
        for _ in range(n):
            pass
    calls, size = map(int, os.environ["WORK"].split())
    load(10_000_000)
    spent = 0
    for _ in range(calls):
        before = time.thread_time_ns()
        parse(size)
        spent += time.thread_time_ns() - before
    with open(os.environ["TOLD"], "w") as file:
        file.write(str(spent / calls))
    """
    paths, reported = [], []
    for side, (calls, size) in enumerate(((1000, 10_000), (3100, 14_000))):
        folder = tmp_path / str(side)
        folder.mkdir()
        truth = folder / "reported"
        paths.append(run(folder, program, env={"WORK": f"{calls} {size}", "TOLD": str(truth)}))
        reported.append(float(truth.read_text()))
    # One program: the second run's copy is elsewhere, which an aligner sees through.
    comparison = Comparison(*([spprof.Profile.load(path)] for path in paths))
    (row,) = [row for row in comparison.rows if row.function.qualname == "parse"]
    parse = split(comparison, row, "own", 1)
    assert (parse.calls.a.value, parse.calls.b.value, parse.calls.ratio.value) == (1000, 3100, 3.1)
    _, low, high = parse.per_call.ratio
    assert low <= reported[1] / reported[0] <= high < 2 * low
