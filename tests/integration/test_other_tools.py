"""Coverage, pytest-cov, debuggers, line_profiler and a profiler in the same process: what they say is what they say alone, and
what spprof counts is what it counts alone."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

import spprof

MONITORS = sys.version_info >= (3, 12)
WAYS = {
    "calls": {"calls": True},
    "calls in C": {"calls": "c"},
    "lines": {"lines": "job:*"},
    "times": {"time": "job:*"},
    "exceptions": {"exceptions": True},
    "two kinds": {"calls": "c", "lines": "job:*"},
}
ABLE = [way for way in WAYS if MONITORS or way.startswith("calls")]

JOB = """\
def leaf(x):
    if x % 3:
        return x
    raise KeyError(x)

def numbers(n):
    for i in range(n):
        try:
            yield leaf(i)
        except KeyError:
            yield 0

def work():
    return sorted(numbers(30), key=abs) + [leaf(1) for _ in range(5)]
"""
# TOOL: a module with begin(), end() that returns what the tool found, in JSON. WHO: which of the two begins first.
PROGRAM = """\
import json, os, sys
import job, tool, spprof
options, first = json.loads(sys.argv[1]), sys.argv[2]

def counted(profile):
    kinds = {}
    if profile.calls is not None:
        kinds["missing"] = profile.calls.missing
        kinds["calls"] = sorted([f.name, *n] for f, n in profile.calls.functions().items() if f.file == job.__file__)
        kinds["c"] = sorted([c.function.qualname, c.calls] for c in profile.calls.rows
                            if c.function.native and c.caller and c.caller.file == job.__file__)
    if profile.line_counts is not None:
        kinds["lines"] = sorted([f.function.qualname, f.calls, sorted(f.lines.items())] for f in profile.line_counts.functions)
    if profile.times is not None:
        kinds["times"] = sorted([f.function.name, f.calls, f.raised] for f in profile.times.functions)
    if profile.exceptions is not None:
        kinds["exceptions"] = sorted([r.type, r.raised_by.name, r.number] for r in profile.exceptions.rows
                                     if r.raised_by.file == job.__file__)
    return kinds

def alone():
    spprof.start(**options)
    job.work()
    return counted(spprof.stop())

job.work()
tool.begin()
job.work()
theirs = tool.end()
ours = alone()
if first == "tool":
    tool.begin()
    spprof.start(**options)
    job.work()
    profile = spprof.stop()
    both = tool.end()
else:
    spprof.start(**options)
    tool.begin()
    job.work()
    both = tool.end()
    profile = spprof.stop()
print(json.dumps([theirs, both, ours, counted(profile), alone()]))
"""
COVERAGE = """\
import coverage, job
def begin():
    global measured
    measured = coverage.Coverage(data_file=None, include=[job.__file__], branch=True, config_file=False)
    measured.start()
def end():
    measured.stop()
    data = measured.get_data()
    return [sorted(data.lines(job.__file__)), sorted(data.arcs(job.__file__) or [])]
"""
TOOLS = {
    "coverage in C": COVERAGE,
    "coverage in Python": COVERAGE,
    "coverage by sys.monitoring": COVERAGE,
    "a trace function": """\
import sys, job
def trace(frame, event, argument):
    if frame.f_code.co_filename == job.__file__:
        seen.append([frame.f_code.co_name, event, frame.f_lineno])
    return trace
def begin():
    global seen
    seen = []
    sys.settrace(trace)
def end():
    sys.settrace(None)
    return seen
""",
    "cProfile": """\
import cProfile, job
def begin():
    global profile
    profile = cProfile.Profile(builtins=False)
    profile.enable()
def end():
    profile.disable()
    return sorted([e.code.co_name, e.callcount] for e in profile.getstats()
                  if not isinstance(e.code, str) and e.code.co_filename == job.__file__)
""",
    "line_profiler": """\
import job, line_profiler
def begin():
    global profiler
    profiler = line_profiler.LineProfiler(job.leaf, job.numbers)
    profiler.enable()
def end():
    profiler.disable()
    return sorted([key[2], line, hits] for key, rows in profiler.get_stats().timings.items() for line, hits, _ in rows)
""",
    "debugpy": """\
import debugpy
begun = False
def begin():
    global begun
    if not begun:
        debugpy.listen(("127.0.0.1", 0))
    begun = True
    debugpy.trace_this_thread(True)
def end():
    debugpy.trace_this_thread(False)
    return []
""",
}
CORES = {"coverage in C": "ctrace", "coverage in Python": "pytrace", "coverage by sys.monitoring": "sysmon"}


def has(tool):
    for name in ("coverage", "line_profiler", "debugpy"):
        if tool.startswith(name) and importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    if tool == "coverage in C" and importlib.util.find_spec("coverage.tracer") is None:
        pytest.skip("coverage has no part in C here")
    if tool == "coverage by sys.monitoring" and not MONITORS:
        pytest.skip("sys.monitoring is of 3.12")


@pytest.mark.parametrize("way", ABLE)
@pytest.mark.parametrize("first", ["tool", "spprof"])
@pytest.mark.parametrize("tool", TOOLS)
def test_both_are_right(tmp_path, tool, first, way):
    has(tool)
    for name, text in {"job": JOB, "tool": TOOLS[tool], "main": PROGRAM}.items():
        (tmp_path / f"{name}.py").write_text(text)
    command = [sys.executable, "main.py", json.dumps(WAYS[way]), first]
    environment = {**os.environ, "COVERAGE_CORE": CORES.get(tool, "")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    theirs, both, ours, beside, after = json.loads(done.stdout)
    assert both == theirs
    if tool == "cProfile" and way == "calls in C" and not MONITORS:  # a thread has one profile function
        assert "profile function" in beside["missing"]
        assert beside["calls"] == ours["calls"] == after["calls"]
    else:
        assert beside == ours == after
        assert ours.get("missing", "") == "" and ours.get("calls", ours.get("lines", ours.get("times", ours.get("exceptions"))))


def test_pytest_cov(tmp_path):
    if importlib.util.find_spec("pytest_cov") is None:
        pytest.skip("pytest_cov is not installed")
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "test_job.py").write_text("import job\ndef test_job():\n    assert len(job.work()) == 35\n")
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--cov=job", "--cov-branch", "test_job.py"]
    recorded = ["-m", "spprof", "run", "-q", "--calls", "-o", "p.spprof", *tests]
    found = []
    for number, words in enumerate((tests, recorded)):
        command = [sys.executable, *words, f"--cov-report=json:{number}.json"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        found.append(json.loads((tmp_path / f"{number}.json").read_text())["files"]["job.py"])
    assert found[0] == found[1] and found[0]["executed_lines"]
    functions = spprof.Profile.load(tmp_path / "p.spprof").calls.functions()
    assert {f.name: n for f, n in functions.items() if f.file == str(tmp_path / "job.py")}["leaf"] == (35, 0)
