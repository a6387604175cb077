"""Files that other profilers wrote here and now: py-spy's, and Go's own as `go tool pprof` understands them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from switches import switch

from spprof import Profile

TARGETS = Path(__file__).resolve().parent.parent / "targets"


def tool(name, why):
    """Where a program is; without it the test is skipped, or fails where SPPROF_REQUIRE_CONSUMERS=1 (`make test` in CI)."""
    beside = Path(sys.executable).parent / name
    path = str(beside) if beside.exists() else shutil.which(name)
    if not path and not switch("SPPROF_REQUIRE_CONSUMERS"):
        pytest.skip(f"{name} is needed: {why}")
    assert path, name
    return path


def py_spy(tmp_path, format, *options, seconds=(3,)):
    """What it wrote, of the first of these lengths in which it saw something."""
    program = tool("py-spy", "pip install '.[consumers]'")
    for length in seconds:
        out = tmp_path / "out"
        command = [program, "record", "-r", "100", "-f", format, "-o", str(out), *options, "--", sys.executable]
        subprocess.run([*command, str(TARGETS / "two_threads.py"), str(length)], check=True, timeout=100, capture_output=True)
        if out.stat().st_size > 1000 or (format == "raw" and out.stat().st_size):
            return out
    pytest.fail("py-spy saw nothing")


UNTIL_SEEN = (0.5, 3, 15)  # seconds
CHANCE = "one in 10,000 by chance: py-spy's 300 samples at a time of its own; a full machine may take the shares anywhere"


@pytest.mark.parametrize("options", [(), ("-t",)])
def test_py_spys_raw_file(tmp_path, options):
    file = py_spy(tmp_path, "raw", *options, seconds=UNTIL_SEEN)
    profile = Profile.load(file)
    leaves = Counter()
    for line in file.read_text().splitlines():
        stack, number = line.rsplit(" ", 1)
        leaf = stack.split(";")[-1]  # py-spy counts also moments without a frame, and does not always know a thread's name
        frame = leaf.endswith(")") and not re.match(r"thread \(\d+\)", leaf)
        leaves[leaf if frame else "[no Python frames] (:0)"] += int(number)
    told = {
        f"{row.qualname} ({row.file}:{row.line})": row.self_samples for row in profile.functions(by="line") if row.self_samples
    }
    assert told == dict(leaves)
    threads = {(thread.tid, thread.name) for thread in profile.threads}
    told = re.findall(r"^thread \((\d+)\)(?:: (\w+))?", file.read_text(), re.M)
    assert told if options else not told
    # py-spy does not always know a thread's name
    assert threads == ({(int(tid), name or f"Thread {tid}") for tid, name in told} or {(0, "all threads")})


@pytest.mark.statistical(CHANCE)
def test_shares_in_py_spys_raw_file(tmp_path):
    profile = Profile.load(py_spy(tmp_path, "raw"))
    # `site`, which py-spy sees when it is early, has a `main` too.
    figures = {row.qualname: row for row in profile.functions() if row.file.endswith("two_threads.py")}
    whole = sum(row.self_samples for row in profile.functions())
    assert figures["hot"].self_samples > 0.8 * whole
    assert figures["main"].total_samples + figures["worker"].total_samples > 0.9 * whole
    assert figures["through"].total_samples <= figures["worker"].total_samples


def test_py_spys_speedscope_file(tmp_path):
    file = py_spy(tmp_path, "speedscope", seconds=UNTIL_SEEN)
    profile = Profile.load(file)
    truth = {}
    for one in json.loads(file.read_text())["profiles"]:
        tid, name = re.fullmatch(r'Thread (\d+) "(.*)"', one["name"]).groups()
        truth[int(tid), name or f"Thread {tid}"] = (len(one["samples"]), round(sum(one["weights"]) * 1e9))
    told = {(thread.tid, thread.name): (thread.samples, thread.weight_ns) for thread in profile.threads}
    assert told == {key: (samples, pytest.approx(weight, abs=1000)) for key, (samples, weight) in truth.items()}


@pytest.mark.statistical(CHANCE)
def test_shares_in_py_spys_speedscope_file(tmp_path):
    profile = Profile.load(py_spy(tmp_path, "speedscope"))
    # By id: py-spy does not always know a thread's name.
    tables = {thread: {row.qualname: row for row in profile.functions(thread=str(thread.tid))} for thread in profile.threads}
    ((worker, figures),) = ((thread, figures) for thread, figures in tables.items() if "worker" in figures)
    assert 0.9 * worker.weight_ns <= figures["worker"].total_weight_ns <= worker.weight_ns
    assert 0.8 * worker.weight_ns < figures["hot"].self_weight_ns <= figures["through"].total_weight_ns


@pytest.mark.stress  # Go compiles its library first, which takes a minute where it never did
@pytest.mark.timeout(1500)
def test_gos_cpu_profile_as_go_tool_pprof_shows_it(tmp_path):
    go = tool("go", "it makes the file")
    file = tmp_path / "cpu.pprof"
    environment = {**os.environ, "GOFLAGS": "-p=1"}
    subprocess.run([go, "run", str(TARGETS / "profiled.go"), str(file)], check=True, timeout=1200, env=environment)
    command = [go, "tool", "pprof", "-top", "-nodecount=10000", "-nodefraction=0", "-unit=ns", str(file)]
    printed = subprocess.run(command, check=True, timeout=1200, stdout=subprocess.PIPE, text=True).stdout
    rows = re.findall(r"^ *(\d+)(?:ns)? +[\d.]+% +[\d.]+% +(\d+)(?:ns)? +[\d.]+% +(\S+)(?: \(inline\))?$", printed, re.M)
    truth = {name: (int(flat), int(total)) for flat, total, name in rows}
    profile = Profile.load(file)
    told = Counter(), Counter()
    for row in profile.functions():
        told[0][row.qualname] += row.self_weight_ns
        told[1][row.qualname] += row.total_weight_ns
    assert {name: (told[0][name], told[1][name]) for name in told[1]} == truth
    assert truth["main.hot"][1] > 0.9 * sum(flat for flat, _ in truth.values())
    assert 0 < truth["main.doubled"][1] < truth["main.main"][1]  # inlined, and so found
    assert (profile.unit, profile.mode, profile.interval_ns) == ("nanoseconds", "cpu", 10_000_000)
    assert any(frame.file.endswith("profiled.go") and frame.line for sample in profile for frame in sample.frames)
