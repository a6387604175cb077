"""Files that other profilers wrote here and now: py-spy's, cProfile's as pstats shows it, node's, perf's as `perf report` shows
it, and Go's own as `go tool pprof` understands them."""

from __future__ import annotations

import json
import os
import pstats
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
    reported = {
        f"{row.qualname} ({row.file}:{row.line})": row.self_samples for row in profile.functions(by="line") if row.self_samples
    }
    assert reported == dict(leaves)
    threads = {(thread.tid, thread.name) for thread in profile.threads}
    reported = re.findall(r"^thread \((\d+)\)(?:: (\w+))?", file.read_text(), re.M)
    assert reported if options else not reported
    # py-spy does not always know a thread's name
    assert threads == ({(int(tid), name or f"Thread {tid}") for tid, name in reported} or {(0, "all threads")})


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
    reported = {(thread.tid, thread.name): (thread.samples, thread.weight) for thread in profile.threads}
    assert reported == {key: (samples, pytest.approx(weight, abs=1000)) for key, (samples, weight) in truth.items()}


@pytest.mark.statistical(CHANCE)
def test_shares_in_py_spys_speedscope_file(tmp_path):
    profile = Profile.load(py_spy(tmp_path, "speedscope"))
    # By id: py-spy does not always know a thread's name.
    tables = {thread: {row.qualname: row for row in profile.functions(thread=str(thread.tid))} for thread in profile.threads}
    ((worker, figures),) = ((thread, figures) for thread, figures in tables.items() if "worker" in figures)
    assert 0.9 * worker.weight <= figures["worker"].total_weight <= worker.weight
    assert 0.8 * worker.weight < figures["hot"].self_weight <= figures["through"].total_weight


def test_py_spys_trace(tmp_path):
    """What it wrote, played by hand: events are in order of time, and each ends what began last."""
    file = py_spy(tmp_path, "chrometrace", seconds=UNTIL_SEEN)
    events = json.loads(file.read_text())
    own, open_calls, last = Counter(), {}, {}
    for event in events:
        if event["ph"] not in "BE":
            continue
        tid = event["tid"]
        stack = open_calls.setdefault(tid, [])
        if stack:
            own[stack[-1]] += event["ts"] - last[tid]
        last[tid] = event["ts"]
        stack.append(event["name"]) if event["ph"] == "B" else stack.pop()
    reported = Counter()
    for row in Profile.load(file).functions():
        reported[row.qualname] += row.self_weight
    assert {name: ns for name, ns in reported.items() if ns} == {name: 1000 * us for name, us in own.items() if us}


def test_cprofiles_file(tmp_path):
    # Of one thread: with two, cProfile itself hangs on 3.13t, 12 times of 30.
    file, program = tmp_path / "c.prof", tmp_path / "x.py"
    program.write_text(
        "def hot(n):\n    return sum(map(abs, range(n)))\n\ndef outer():\n    return [hot(9_000) for _ in range(99)]\n\nouter()\n"
    )
    command = [sys.executable, "-m", "cProfile", "-o", str(file), str(program)]
    subprocess.run(command, check=True, timeout=100, stdout=subprocess.PIPE)
    truth, calls = Counter(), Counter()
    for (_, _, name), (_, n, own, _, _) in pstats.Stats(str(file)).stats.items():
        truth[name] += round(own * 1e9)
        calls[name] += n
    profile = Profile.load(file)
    reported, counts = Counter(), Counter()
    for row in profile.functions():
        reported[row.qualname] += row.self_weight
        counts[row.qualname] += row.self_samples
    assert reported == truth and counts == calls and "no stacks" in profile.warning


NODE = """
function hot(n) { let s = 0; for (let i = 0; i < n; i++) s += Math.sqrt(i); return s }
function outer() { return hot(1e6) }
const end = Date.now() + 200; let t = 0
while (Date.now() < end) t += outer()
"""


def test_nodes_cpu_profile(tmp_path):
    node = shutil.which("node")
    if not node:
        pytest.skip("node is needed")
    (tmp_path / "t.js").write_text(NODE)
    subprocess.run([node, "--cpu-prof", "--cpu-prof-name=n.cpuprofile", "t.js"], cwd=tmp_path, check=True, timeout=100)
    file = tmp_path / "n.cpuprofile"
    document = json.loads(file.read_text())
    names = {one["id"]: one["callFrame"]["functionName"] or "(anonymous)" for one in document["nodes"]}
    deltas = document["timeDeltas"]
    lasts = [*deltas[1:], document["endTime"] - document["startTime"] - sum(deltas)]
    if min(deltas) < 0:
        pytest.skip("V8's clock went back, and this test does not sort")
    truth = Counter()
    for sample, us in zip(document["samples"], lasts):
        truth[names[sample]] += 1000 * max(0, us)
    reported = Counter()
    for row in Profile.load(file).functions():
        reported[row.qualname] += row.self_weight
    assert {name: ns for name, ns in reported.items() if ns} == {name: ns for name, ns in truth.items() if ns}
    hot = next(sample for sample in Profile.load(file) if sample.frames[-1].name == "hot")
    assert [(frame.name, frame.line) for frame in hot.frames[-2:]] == [("outer", 3), ("hot", 2)]


@pytest.mark.parametrize("stacks", [[], ["-g"]], ids=["leaves", "stacks"])
def test_perfs_text_as_perf_report_shows_it(tmp_path, stacks):
    perf = shutil.which("perf")
    command = [perf or "perf", "record", "-q", "-F", "500", "-e", "cpu-clock:u", *stacks, "-o", "p.data", sys.executable]
    command += [str(TARGETS / "two_threads.py"), "0.3"]
    if not perf or subprocess.run(command, cwd=tmp_path, timeout=100, capture_output=True).returncode:
        pytest.skip("perf that may record is needed")

    def said(*words):
        given = [perf, *words, "-i", "p.data"]
        return subprocess.run(given, cwd=tmp_path, check=True, timeout=300, capture_output=True, text=True).stdout

    (tmp_path / "p.txt").write_text(said("script"))
    truth = Counter()
    for line in said("report", "--stdio", "--no-children", "-g", "none", "-F", "period,sym", "-t", ";").splitlines():
        if line.strip() and not line.startswith("#"):
            period, symbol = line.split(";", 1)
            name = symbol.strip()[4:]
            truth["[unknown]" if name.startswith("0x") else name] += int(period)
    reported = Counter()
    profile = Profile.load(tmp_path / "p.txt")
    for row in profile.functions():
        reported[row.qualname] += row.self_weight
    assert truth and {name: ns for name, ns in reported.items() if ns} == dict(truth)
    assert (profile.unit, profile.mode) == ("nanoseconds", "cpu")


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
    reported = Counter(), Counter()
    for row in profile.functions():
        reported[0][row.qualname] += row.self_weight
        reported[1][row.qualname] += row.total_weight
    assert {name: (reported[0][name], reported[1][name]) for name in reported[1]} == truth
    assert truth["main.hot"][1] > 0.9 * sum(flat for flat, _ in truth.values())
    assert 0 < truth["main.doubled"][1] < truth["main.main"][1]  # inlined, and so found
    assert (profile.unit, profile.mode, profile.interval_ns) == ("nanoseconds", "cpu", 10_000_000)
    assert any(frame.file.endswith("profiled.go") and frame.line for sample in profile for frame in sample.frames)
