"""Exact executions of lines and branches: what is read, and what the report makes of it."""

from __future__ import annotations

import hashlib
import io
import json

import pytest
from spprof_file import Writer

import spprof
from spprof import formats
from spprof.errors import BadOption
from spprof.model.filtering import filtered
from spprof.model.line_counts import Branch, Way, together
from spprof.report.line_counts import as_json, line_counts

SOURCE = "x = 1\n\ndef f(n):\n    for i in range(n):\n\tif i and x:\n            g(i)\n    return n\n"
WAYS = [(20, 24, 4, 5, 100), (20, 40, 4, 7, 1), (30, 32, 5, 5, 99), (30, 20, 5, 4, 1), (34, 36, 5, 6, 99)]


def written(file="/app/x.py", rows=None, header="m:*", **about):
    writer = Writer(**({"lines": header} if header else {}))
    f, g = ("f", "f", file, 3, 0), ("g", "A.g", file, 90, 0)
    for i in range(100):
        writer.sample([("f", "f", file, 3, 6), ("g", "A.g", file, 90, 91)], 6000 + 1000 * i, 1000)
    writer.flush()
    writer.line_counts(*(rows or [(g, 99, {91: 99}, []), (f, 1, {4: 101, 5: 100, 6: 99, 7: 1}, WAYS)]), **about)
    return writer


def test_what_is_read():
    g, f = spprof.Profile(written().data).line_counts.functions
    assert (g.function.qualname, g.calls, g.lines, g.branches) == ("A.g", 99, {91: 99}, [])
    assert (f.calls, f.lines) == (1, {4: 101, 5: 100, 6: 99, 7: 1})
    assert f.branches == [
        Branch(4, 20, [Way(5, 24, 100), Way(7, 40, 1)]),
        Branch(5, 30, [Way(4, 20, 1), Way(5, 32, 99)]),
        Branch(5, 34, [Way(6, 36, 99)]),
    ]


def test_processes_and_code_objects_of_one_function_are_added_up():
    counts = spprof.Profile(written(uncounted=1).data).line_counts
    again = together([counts, counts._replace(lost=2)])
    f = again.functions[1]
    assert (f.calls, f.lines[4], f.branches[0].ways[0]) == (2, 202, Way(5, 24, 200))
    assert again.missing == "2 functions for which there was no space; 2 branches that went a third way"
    row = (("f", "f", "/x.py", 3, 0), 1, {4: 1}, WAYS[:1])
    (one,) = spprof.Profile(written(rows=[row, row]).data).line_counts.functions
    assert (one.calls, one.lines, one.branches[0].ways) == (2, {4: 2}, [Way(5, 24, 200)])


def test_the_last_block_wins_and_one_that_makes_no_sense_is_not_read():
    writer = written()
    writer.line_counts((("f", "f", "/x.py", 3, 0), 7, {4: 1}, []))
    writer.block(b"B", b"\x01\x01\x01\x05")
    (one,) = spprof.Profile(writer.data).line_counts.functions
    assert one.calls == 7


@pytest.mark.parametrize("bad", [(5, 1, 1), (0, 1)])
def test_numbers_that_lead_nowhere_are_not_read(bad):
    writer = Writer(lines="m:*")
    columns = [[1], b"f", [0], [0], [0], [3], [0], [bad[0]], [1], [bad[-1]] if len(bad) == 3 else [], [4], [1], *[[]] * 6, [0, 0]]
    from spprof_file import column

    writer.block(b"B", b"".join(map(column, columns)))
    assert spprof.Profile(writer.data).line_counts is None


def test_without_counts():
    assert spprof.Profile(written(header="").data).line_counts is None
    with pytest.raises(BadOption, match="spprof run --lines"):
        line_counts([spprof.Profile(written(header="").data)], 15, 100)
    with pytest.raises(BadOption, match="not in the file"):
        line_counts([spprof.Profile(Writer(lines="m:*").data)], 15, 100)


def test_a_part_has_none():
    part = filtered(spprof.Profile(written().data), start_ns=10_000_000)
    assert part.line_counts is None
    out = io.BytesIO()
    formats.write(part, out, "spprof", formats.Options())
    assert spprof.Profile(out.getvalue()).line_counts is None
    with pytest.raises(BadOption, match="a part of a profile"):
        line_counts([part], 15, 100)


def test_the_listing_has_source_only_if_it_is_what_ran(tmp_path):
    path = tmp_path / "x.py"
    path.write_bytes(SOURCE.encode())  # as text, Windows would write other line ends
    writer = written(str(path))
    writer.block(b"F", hashlib.sha256(SOURCE.encode()).hexdigest().encode() + b" " + str(path).encode())
    profile = spprof.Profile(writer.data)
    f = line_counts([profile], 15, 200).split("\n\n")[1].splitlines()
    assert [" ".join(line.split()) for line in f] == [
        "line executions time source",
        "3 def f(n):",
        "4 101 for i in range(n):",
        "| 100 to 5, 1 to 7",
        "5 100 if i and x:",
        "| 1 to 4, 99 to 5",
        "| 99 to 6, never elsewhere",
        "6 99 0.100 s 100.0% ±3.7 g(i)",
        "7 1 return n",
    ]
    assert f[2].index("for") == f[3].index("|") and f[4].index("if") == f[2].index("for")  # a tab is four columns
    path.write_bytes(SOURCE.encode() + b"\n")
    text = line_counts([profile], 15, 200)
    assert "def f(n)" not in text and "it has changed since the program ran" in text
    assert "def f(n)" in line_counts([profile], 15, 200, sources=True)
    numbers = [line[:7].strip() for line in text.splitlines()]
    assert [number for number in numbers if number.isdigit()] == ["3", "4", "5", "6", "7", "90", "91"]


def test_text_of_a_file_commands_no_terminal():
    rows = [(("f", "f\x1b[2J", "/x\x1b.py", 3, 0), 1, {4: 1}, [])]
    assert "\x1b" not in line_counts([spprof.Profile(written(rows=rows).data)], 15, 100)


def test_limits_and_json():
    profile = spprof.Profile(written().data)
    assert "... 1 more functions (--limit)" in line_counts([profile], 1, 100)
    document = json.loads(as_json([profile], None))
    assert document["more"] == 0 and json.loads(as_json([profile], 1))["more"] == 1
    f = document["functions"][0]
    assert (document["kind"], f["qualname"], f["calls"]) == ("lines", "f", 1)
    line = next(row for row in f["lines"] if row["line"] == 6)
    assert (line["executions"], line["total"], line["share"]) == (99, 100_000_000, 1.0)
    assert f["branches"][0] == {
        "line": 4,
        "offset": 20,
        "ways": [{"line": 5, "offset": 24, "taken": 100}, {"line": 7, "offset": 40, "taken": 1}],
    }
