"""Instructions that were not specialized: what is read, and what the report makes of it."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path

import pytest
from spprof_file import Writer

import spprof
from spprof import formats
from spprof.cli import main
from spprof.errors import BadOption
from spprof.model.filtering import filtered
from spprof.model.specialization import together
from spprof.report.specialization import as_json, text

SOURCE = "def f(a, b):\n    return a.é + b.x\n"
F = ("f", "A.f", "/app/x.py", 1, 0)
# Function, line, end line, column, end column, name, missed, runs
ROWS = [(F, 2, 2, 11, 15, "LOAD_ATTR", 1, 7), (F, 2, 2, 11, 21, "BINARY_OP", 0, 8000), (F, 9, 9, -1, -1, "CALL", 0, 31)]


def written(file="/app/x.py", rows=ROWS, header="yes", **about):
    writer = Writer(**({"specialization": header} if header else {}))
    for i in range(100):
        writer.sample([("f", "A.f", file, 1, 2)], 6000 + 1000 * i, 1000)
    writer.flush()
    if rows is not None:
        writer.unspecialized(*(((*row[0][:2], file, *row[0][3:]), *row[1:]) for row in rows), **about)
    writer.json(b"E", {"stop_ns": 10**9, "reason": "stop"})
    return writer


def test_what_is_read():
    found = spprof.Profile(written(unread=3).data).unspecialized
    f = spprof.Function("f", "A.f", "/app/x.py", 1)
    assert found.instructions == [
        spprof.Instruction(f, 2, 2, 11, 15, "LOAD_ATTR", True, 7),
        spprof.Instruction(f, 2, 2, 11, 21, "BINARY_OP", False, 8000),
        spprof.Instruction(f, 9, 9, -1, -1, "CALL", False, 31),
    ]
    assert found.unread == 3
    both = together([found, found])
    assert (len(both.instructions), both.unread) == (6, 6)


def test_the_example_of_the_format():
    page = (Path(__file__).resolve().parents[2] / "docs" / "file-format.md").read_text(encoding="utf-8")
    lines = page.partition("## `Q`")[2].partition("An example")[2].split("```")[1].strip().splitlines()
    writer = Writer(specialization="yes")
    writer.block(b"Q", bytes.fromhex("".join(line[:27] for line in lines)))
    again = Writer(specialization="yes")
    again.unspecialized((("f", "f", "x.py", 1, 0), 2, 2, 11, 16, "BINARY_OP", 0, 8000))
    assert again.data == writer.data
    assert [one.runs for one in spprof.Profile(writer.data).unspecialized.instructions] == [8000]


def test_lines_of_the_most_time_come_first_with_their_text(tmp_path):
    source = tmp_path / "x.py"
    source.write_text(SOURCE, encoding="utf-8")
    writer = written(str(source))
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    writer.block(b"F", f"{digest} {source}".encode())
    lines = text([spprof.Profile(writer.data)], 15, 200).splitlines()
    assert lines[0] == "2 instructions were not specialized, in 1 lines with 0.10 s (100.0% ±3.7) of their own."
    assert [line[24:].split(" (")[0].split() for line in lines[3:]] == [
        ["7", "misses", "LOAD_ATTR", "A.f"],
        ["8,000+", "runs", "BINARY_OP", "A.f"],
    ]
    assert [line.rpartition(": ")[2] for line in lines[3:]] == ["a.é", "a.é + b.x"]


def test_limits_and_what_was_not_read():
    said = text([spprof.Profile(written(unread=2).data)], 1, 200)
    assert "... 1 more (--limit)" in said and "Not read: 2 functions" in said
    said = text([spprof.Profile(written(rows=[]).data)], 15, 200)
    assert said.startswith("0 instructions were not specialized, in 0 lines")


def test_json_has_all():
    document = json.loads(as_json([spprof.Profile(written().data)], None))
    assert [(one["name"], one["self"], one["missed"]) for one in document["instructions"]] == [
        ("LOAD_ATTR", 100_000_000, True),
        ("BINARY_OP", 100_000_000, False),
        ("CALL", 0, False),
    ]
    assert document["more"] == 0 and json.loads(as_json([spprof.Profile(written().data)], 1))["more"] == 2


def test_no_text_commands_the_terminal():
    rows = [(("f", "\x1b[2Jf", "/x.py", 1, 0), 2, 2, -1, -1, "\x1b[2JCALL", 0, 40)]
    writer = Writer(specialization="yes")
    writer.sample([("f", "\x1b[2Jf", "/x.py", 1, 2)], 6000, 1000)
    writer.flush()
    writer.unspecialized(*rows)
    assert "\x1b" not in text([spprof.Profile(writer.data)], 15, 200)


@pytest.mark.parametrize(
    ("header", "rows", "says"), [("", ROWS, "instructions were not read; take"), ("yes", None, "was killed")]
)
def test_why_there_are_none(header, rows, says, tmp_path, capsys):
    path = tmp_path / "p.spprof"
    path.write_bytes(written(rows=rows, header=header).data)
    assert spprof.Profile.load(path).unspecialized is None
    assert main(["report", str(path), "--specialization"]) == 2
    assert says in capsys.readouterr().err


def test_a_part_has_none():
    part = filtered(spprof.Profile(written().data), start_ns=10_000_000)
    with pytest.raises(BadOption, match="a part of a profile has none"):
        text([part], 15, 200)
    out = io.BytesIO()
    formats.write(part, out, "spprof", formats.Options())
    assert spprof.Profile(out.getvalue()).unspecialized is None


def test_a_block_that_makes_no_sense_is_not_read():
    writer = written()
    writer.block(b"Q", b"\x01\x01\x01\x05")
    assert len(spprof.Profile(writer.data).unspecialized.instructions) == 3


def test_it_is_a_table_of_its_own(tmp_path):
    path = tmp_path / "p.spprof"
    path.write_bytes(written().data)
    for more in (["--by", "line"], ["--thread", "x"], ["-f", "tree"]):
        assert main(["report", str(path), "--specialization", *more]) == 2
