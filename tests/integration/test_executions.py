"""Exact executions of lines and branches, against a slow twin in Python that counts what sys.settrace reports.
It runs in a process of its own without spprof."""

from __future__ import annotations

import dis
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from test_counts import module_at, nothing_is_armed

import spprof

TARGET = Path(__file__).resolve().parent.parent / "targets" / "executions.py"
MONITORS = sys.version_info >= (3, 12)
counted_only = pytest.mark.skipif(not MONITORS, reason="lines are counted from 3.12 on")
program = module_at(TARGET) if MONITORS else None  # it has match statements


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    assert not spprof.is_active()
    if MONITORS:
        nothing_is_armed()
        for code in codes(program):
            assert all(sys.monitoring.get_local_events(tool, code) == 0 for tool in tools_in_use())


def tools_in_use():
    return [tool for tool in range(6) if sys.monitoring.get_tool(tool) is not None]


def codes(module):
    """All code objects of a module's functions."""
    found = [compile(TARGET.read_text(), str(TARGET), "exec")]
    for code in found:
        found += [each for each in code.co_consts if hasattr(each, "co_code")]
    return found[1:]


TWIN = """
import importlib.util, json, sys, threading
from collections import Counter
path, opcodes = sys.argv[1:]
spec = importlib.util.spec_from_file_location("executions", path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
executions, steps, ways, last, before = Counter(), Counter(), Counter(), {}, {}
def trace(frame, event, arg):
    code = frame.f_code
    if code.co_filename != path: return None
    if event == "line":
        executions[code.co_qualname, frame.f_lineno] += 1
        if frame in last: steps[code.co_qualname, last[frame], frame.f_lineno] += 1
        last[frame] = frame.f_lineno
    if event == "call": frame.f_trace_opcodes = opcodes == "yes"
    if event == "opcode":
        if frame in before: ways[code.co_qualname, before[frame], frame.f_lasti] += 1
        before[frame] = frame.f_lasti
    return trace
sys._getframe().f_trace_opcodes = opcodes == "yes"  # CPython looks for one that wants it when tracing begins
threading.settrace(trace)
sys.settrace(trace)
module.work()  # CPython 3.13 and later show no instruction of the first call of a function
for kept in (executions, steps, ways, last, before): kept.clear()
module.work()
sys.settrace(None)
print(json.dumps([sorted([*key, n] for key, n in counts.items()) for counts in (executions, steps, ways)]))
"""


def twin(opcodes=False):
    """Executions by function and line; steps of a frame from line to line and, if asked for, from instruction to instruction."""
    command = [sys.executable, "-c", TWIN, str(TARGET), "yes" if opcodes else ""]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    return [{tuple(row[:-1]): row[-1] for row in rows} for rows in json.loads(done.stdout)]


def counted(work, patterns="executions:*", **options):
    spprof.start(lines=patterns, **options)
    try:
        work()
    finally:
        profile = spprof.stop()
    assert profile.line_counts is not None and not profile.line_counts.missing
    return profile


def by_line(profile):
    """Executions, and those lines that never ran."""
    found = Counter()
    for one in profile.line_counts.functions:
        for line, count in one.lines.items():
            found[one.function.qualname, line] += count
    return found


def of(profile, qualname):
    (found,) = [one for one in profile.line_counts.functions if one.function.qualname == qualname]
    return found


@counted_only
def test_executions_are_those_of_a_slow_twin():
    executions = twin()[0]
    assert len(executions) > 80
    found = by_line(counted(program.work))
    assert {key: count for key, count in found.items() if count} == executions
    again = by_line(counted(lambda: (program.work(), program.work())))
    assert again == {key: 2 * count for key, count in found.items()}


@counted_only
def test_lines_that_never_ran_are_there():
    found = by_line(counted(program.work))
    text = TARGET.read_text().splitlines()
    raises = text.index("            raise KeyError") + 1
    assert found["with_statements", raises] == 0 and ("with_statements", raises) in found
    assert "never_called" not in {qualname for qualname, _ in found}
    assert ("loops", text.index("def loops(n):") + 1) not in found


@counted_only
def test_branches_are_those_of_a_twin_that_sees_each_instruction():
    """How often each of the instructions that come after a branch does."""
    taken = {}
    for (name, start, _), count in twin(opcodes=True)[2].items():
        taken.setdefault((name, start), []).append(count)
    named = {code.co_qualname: code for code in codes(program)}
    known = {
        (name, each.offset)
        for name, code in named.items()
        for each in dis.get_instructions(code)
        if each.opname.startswith(("POP_JUMP", "FOR_ITER"))
    }
    found = {
        (one.function.qualname, branch.offset): sorted(way.taken for way in branch.ways)
        for one in counted(program.work).line_counts.functions
        for branch in one.branches
    }
    assert len(found) > 30
    assert found == {where: sorted(counts) for where, counts in taken.items() if where in known}


@counted_only
def test_ways_lead_to_the_lines_that_come_next():
    """Where a line has one branch, whose ways lead to two other lines, each way is taken as often as the one line comes after the
    other."""
    steps = twin()[1]
    checked = 0
    for one in counted(program.work).line_counts.functions:
        numbers = Counter(branch.line for branch in one.branches)
        for branch in one.branches:
            others = {way.line for way in branch.ways} - {branch.line}
            if numbers[branch.line] > 1 or len(others) < 2:
                continue
            taken = [steps.get((one.function.qualname, branch.line, way.line), 0) for way in branch.ways]
            assert [way.taken for way in branch.ways] == taken, branch
            checked += 1
    assert checked >= 6


@counted_only
def test_branches_of_known_numbers():
    text = TARGET.read_text().splitlines()

    def number(line):
        return text.index(line) + 1

    def ways(name, line):
        return [[(way.line, way.taken) for way in branch.ways] for branch in of(profile, name).branches if branch.line == line]

    profile = counted(program.work)
    loop = number("        if i % 3 == 0 and i % 2:")
    assert ways("loops", loop - 1) == [[(loop, 10), (number("    k = 0"), 1)]]
    assert ways("loops", loop) == [[(loop, 4), (loop + 2, 6)], [(loop + 1, 2), (loop + 2, 2)]]
    assert ways("Counter.recursive", number("        if n == 0:")) == [
        [(number("            return 0"), 1), (number("        return self.recursive(n - 1) + 1"), 4)]
    ]
    wide = number("        if i % 2:")
    assert ways("wide", wide) == [[(wide + 1, 3), (number("            one_line(i)"), 4)]]
    assert ways("with_statements", number("            if a: continue")) in ([[(number("            if a: continue"), 3)]], [
        [(number("        with manager() as a, manager():"), 3)]])  # fmt: skip


@counted_only
def test_offsets_are_those_of_dis():
    for one in counted(program.work).line_counts.functions:
        code = next(code for code in codes(program) if code.co_qualname == one.function.qualname)
        known = {each.offset: each for each in dis.get_instructions(code)}
        for branch in one.branches:
            assert known[branch.offset].opname.startswith(("POP_JUMP", "FOR_ITER"))
            assert {way.offset for way in branch.ways} <= set(known) and len(branch.ways) in (1, 2)


@counted_only
def test_calls_are_counted_and_generators_once():
    profile = counted(program.work)
    assert of(profile, "Counter.recursive").calls == 5
    assert of(profile, "steps").calls == 2
    assert of(profile, "delegates").calls == 1


@counted_only
def test_threads(work=16):
    executions = twin()[0]

    def together():
        threads = [threading.Thread(target=program.work) for _ in range(work)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    found = by_line(counted(together))
    assert {key: count for key, count in found.items() if count} == {key: work * count for key, count in executions.items()}


@counted_only
def test_only_what_is_chosen_is_counted_and_armed():
    spprof.start(lines=["executions:Counter.*", "executions:loop?"])
    program.work()
    tools = tools_in_use()
    armed = {name for name in NAMES if any(sys.monitoring.get_local_events(tool, code_of(name)) for tool in tools)}
    profile = spprof.stop()
    names = {one.function.qualname for one in profile.line_counts.functions}
    assert names == {"Counter.__init__", "Counter.double", "Counter.recursive", "loops"}
    assert armed == {"loops"}


NAMES = ("loops", "steps", "matches", "one_line", "work")


def code_of(name):
    return getattr(program, name).__code__


@counted_only
def test_a_pause_counts_nothing():
    def work():
        program.one_line(1)
        spprof.pause()
        program.one_line(1)
        spprof.resume()
        program.one_line(1)

    one = of(counted(work), "one_line")
    assert list(one.lines.values()) == [2] and one.calls == 2


@counted_only
def test_beside_other_counts_and_a_tracer():
    found = by_line(counted(program.work))
    other = counted(program.work, calls=True, exceptions=False, time="executions:*")
    assert by_line(other) == found
    assert [one.calls for one in other.times.functions if one.function.qualname == "Counter.recursive"] == [5]
    seen = Counter()

    def trace(frame, event, arg):
        seen[event] += 1
        return trace

    def traced():
        sys.settrace(trace)
        program.work()
        sys.settrace(None)

    assert by_line(counted(traced)) == found and seen["line"] > 100


@counted_only
def test_the_body_of_a_module_and_a_class():
    source = "class A:\n    x = 1\nfor i in range(3):\n    A.x = i\n"

    def work():
        exec(compile(source, "body.py", "exec"), {"__name__": "body_m"})

    found = by_line(counted(work, "body_m:*"))
    assert found == {("<module>", 1): 1, ("<module>", 3): 4, ("<module>", 4): 3, ("A", 1): 1, ("A", 2): 1}


PROGRAM = """
import os, sys
def work(n):
    total = 0
    for i in range(n):
        if i % 4:
            total += i
    return total
work(1000)
if sys.argv[1:] == ["fork"]:
    pid = os.fork()
    work(10)
    if pid: os.waitpid(pid, 0)
"""


def run(tmp_path, *options, args=()):
    source, path = tmp_path / "program.py", tmp_path / "p.spprof"
    source.write_text(PROGRAM)
    command = [sys.executable, "-m", "spprof", "run", "-q", "-o", str(path), "--lines", "__main__:work", *options]
    done = subprocess.run([*command, str(source), *args], stderr=subprocess.PIPE, text=True, timeout=60)
    return done, path


@counted_only
def test_a_program_and_its_report(tmp_path):
    done, path = run(tmp_path)
    assert done.returncode == 0, done.stderr
    one = of(spprof.Profile.load(path), "work")
    assert one.lines == {4: 1, 5: 1001, 6: 1000, 7: 750, 8: 1}
    report = [sys.executable, "-m", "spprof", "report", str(path), "--lines"]
    text = subprocess.run(report, stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout
    rows = [line.split() for line in text.splitlines()]
    assert rows[0][0] == "work" and rows[0][-2:] == ["1", "calls"]
    assert ["|", "250", "to", "5,", "750", "to", "7"] in rows and ["|", "1,000", "to", "6,", "1", "to", "8"] in rows
    assert any(row[:2] == ["7", "750"] for row in rows)
    document = json.loads(subprocess.run([*report, "-f", "json"], stdout=subprocess.PIPE, timeout=60, check=True).stdout)
    assert [row["executions"] for row in document["functions"][0]["lines"]] == [1, 1001, 1000, 750, 1]


@counted_only
@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_child_counts_its_own(tmp_path):
    done, path = run(tmp_path, "--subprocesses", args=["fork"])
    assert done.returncode == 0, done.stderr
    files = sorted(tmp_path.glob("*.spprof"))
    assert len(files) == 2
    own = [of(spprof.Profile.load(file), "work").lines[4] for file in (path, *(each for each in files if each != path))]
    assert own == [2, 1]


@pytest.mark.skipif(MONITORS, reason="it is counted there")
def test_before_3_12_it_is_refused(tmp_path):
    with pytest.raises(spprof.Unsupported, match=r"lines can be counted from Python 3\.12 on"):
        spprof.start(lines="m:*")
    done, path = run(tmp_path)
    assert done.returncode != 0 and "3.12" in done.stderr and not path.exists()
