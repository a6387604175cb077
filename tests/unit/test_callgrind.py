"""Callgrind files, read by the real callgrind_annotate (of valgrind)."""

import re
import subprocess

import pytest
from conftest import LIBRARY, any_name, named, render, required
from spprof_file import Writer

from spprof import Profile

_ROW = re.compile(r"\s*([\d,]+|\.) (?:\([ \d.]+%\))?\s+([\d,]+|\.)\s*(?:\([ \d.]+%\))?\s+([<*>]?)\s*(\S.*?) \[(.*)\]$")


@pytest.fixture
def annotate(tmp_path):
    """Rows of the table of functions: (mark of the tree, title, object) -> first and second event, 0 for a dot."""
    tool = required("callgrind_annotate", "callgrind_annotate (package valgrind)")

    def run(profile, *arguments, **options):
        path = tmp_path / "p.callgrind"
        path.write_bytes(render(profile, "callgrind", **options))
        command = [tool, "--threshold=100", "--auto=no", *arguments, str(path)]
        done = subprocess.run(command, capture_output=True, timeout=60, cwd=tmp_path, check=True)
        assert done.stderr == b""
        rows = []
        for line in done.stdout.decode("utf-8", "replace").splitlines():
            match = _ROW.fullmatch(line)
            if match:
                numbers = [int(text.replace(",", "")) if text != "." else 0 for text in match.group(1, 2)]
                rows.append((match[3], match[4], match[5], *numbers))
        return rows, done.stdout.decode("utf-8", "replace")

    return run


MAIN, A, B = "/app/x;y.py:<module>", "/app/x;y.py:A.a", "/app/%\\n.py:b"


def test_own_costs(annotate, data):
    rows, text = annotate(Profile(data))
    assert "4,811,000 (100.0%) 13 (100.0%)  PROGRAM TOTALS" in text
    assert {row[1:] for row in rows} == {
        (B, "python", 3_500_000, 8),
        (A, "python", 1_210_000, 3),
        (MAIN, "python", 100_000, 1),
        ("???:[no Python frames]", "???", 1_000, 1),
        ("???:[truncated]", "???", 0, 0),
        ("???:[thread Main]", "???", 0, 0),
        ("???:[thread #wor;ker]", "???", 0, 0),
    }


def test_inclusive_costs_callers_and_callees(annotate, data):
    rows, _ = annotate(Profile(data), "--inclusive=yes", "--tree=both")
    at = rows.index(("*", A, "python", 4_210_000, 4))  # 0.2 + 1 + 3 + 0.01: recursion counts once
    assert set(rows[at - 2 : at]) == {
        ("<", f"{MAIN} (3x)", "python", 1_210_000, 3),
        ("<", "???:[truncated] (1x)", "???", 3_000_000, 1),
    }
    assert rows[at + 1] == (">", f"{B} (3x)", "python", 4_010_000, 3)
    whole = {row[1]: row[3:] for row in rows if row[0] == "*"}
    assert whole == {
        A: (4_210_000, 4),
        B: (4_510_000, 10),
        MAIN: (1_310_000, 4),
        "???:[truncated]": (3_000_000, 1),
        "???:[no Python frames]": (1_000, 1),
        "???:[thread Main]": (4_310_000, 5),
        "???:[thread #wor;ker]": (501_000, 8),
    }


def test_it_agrees_with_the_report(annotate):
    """Recursion of every kind: inclusive costs are the totals of `Profile.functions`."""
    writer = Writer()
    f, g, h = ((name, name, "/r.py", first, first + 1) for first, name in enumerate("fgh"))
    stacks = ([f, f, f], [f, g, f, h], [g, f, g], [h], [f, h, h, g, f], [g, h, f, g, h])
    for step, stack in enumerate(stacks):
        writer.sample(stack, 6000 + 100 * step, 3**step)
    writer.flush()
    profile = Profile(writer.data)
    rows, _ = annotate(profile, "--inclusive=yes")
    totals = {row[1].split(":")[1]: row[3:] for row in rows if "/r.py" in row[1]}
    assert totals == {row.qualname: (row.total_weight, row.total_samples) for row in profile.functions()}


def test_options(annotate, data):
    profile = Profile(data)
    rows, text = annotate(profile, "--inclusive=yes", weight="samples", merge_threads=True)
    assert "Events recorded:  samples ns" in text
    assert ("", "???:[all threads]", "???", 13, 4_811_000) in rows
    rows, _ = annotate(profile, thread="#*")
    assert {row[1] for row in rows} == {B, "???:[no Python frames]", "???:[thread #wor;ker]"}
    lines = render(profile, "callgrind", lines=False).decode().splitlines()
    assert "10 1210000 3" in lines and "11 1200000 2" not in lines
    assert "11 1200000 2" in render(profile, "callgrind").decode().splitlines()


def test_libraries_are_objects(annotate, native):
    rows, _ = annotate(native)
    assert ("", "???:deflate", LIBRARY, 3_000_000, 2) in rows


@any_name
def test_any_name(annotate, name):
    rows, text = annotate(named(name), "--inclusive=yes")
    assert "15,000 (100.0%) 2 (100.0%)  PROGRAM TOTALS" in text
    assert len(rows) == 3 and [row[3:] for row in rows].count((15_000, 2)) == 2  # the thread and its root


def test_functions_that_call_each_other(annotate):
    """`a` and `b` of one file, 6 deep: what is named for another file is only what is in one. (callgrind_annotate said 126 %.)"""
    writer = Writer()
    frames = [("a", "a", "x.py", 1, 2), ("b", "b", "x.py", 5, 6)]
    for depth in range(1, 7):
        calls = [frames[n % 2] for n in range(depth)]
        writer.sample([("m", "m", "x.py", 9, 9), *calls, ("spin", "spin", "y.py", 1, 1)], 6000 + depth, 1)
    writer.flush()
    rows, _ = annotate(Profile(writer.data), "--inclusive=yes")
    inclusive = {row[1]: row[4] for row in rows}
    assert inclusive == {"???:[thread Thread #0]": 6, "x.py:m": 6, "x.py:a": 6, "x.py:b": 5, "y.py:spin": 6}
    text = render(Profile(writer.data), "callgrind").decode()
    assert text.count("cfi=") == 3 and text.count("cob=") == 1  # into y.py by a and by b, and from the thread into x.py


def test_an_empty_profile(annotate):
    assert annotate(Profile(Writer().data))[0] == []
