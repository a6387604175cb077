"""Exact counts of exceptions: what is read, and what the report makes of it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from spprof_file import Writer

import spprof
from spprof import formats
from spprof.cli import main
from spprof.model.filtering import filtered
from spprof.readers.spprof import blocks
from spprof.report.exceptions import exceptions

F, G = ("f", "A.f", "/app/x.py", 10, 0), ("g", "g", "/app/x.py", 20, 0)
ROWS = [
    ("ValueError", F, 12, G, 25, 1, 1000, 2000, 4_000_000), ("ValueError", F, 12, G, 26, 0, 7, 7, 7000),
    ("KeyError", G, 22, None, 0, 2, 1, 2, 900),
]  # fmt: skip


def written(rows=ROWS, header="yes", **about):
    writer = Writer(**({"exceptions": header} if header else {}))
    writer.sample([(*F[:4], 12)], 6000, 1000)
    writer.flush()
    if rows is not None:
        writer.exceptions(*rows, **about)
    writer.json(b"E", {"stop_ns": 10**9, "reason": "stop"})
    return writer.data


def test_rows_are_read():
    found = spprof.Profile(written()).exceptions
    f, g = spprof.Function("f", "A.f", "/app/x.py", 10), spprof.Function("g", "g", "/app/x.py", 20)
    assert found.rows == [
        spprof.Raised("ValueError", f, 12, g, 25, "handler", 1000, 2000, 4_000_000),
        spprof.Raised("ValueError", f, 12, g, 26, "c", 7, 7, 7000),
        spprof.Raised("KeyError", g, 22, None, 0, "left", 1, 2, 900),
    ]
    assert found.missing == ""


def test_the_example_of_the_format():
    page = (Path(__file__).resolve().parents[2] / "docs" / "file-format.md").read_text(encoding="utf-8")
    lines = page.rpartition("An example: line 8 of `f`")[2].split("```")[1].strip().splitlines()
    writer = Writer(exceptions="yes")
    writer.block(b"K", bytes.fromhex("".join(line[:27] for line in lines)))
    again = Writer(exceptions="yes")
    f, g = ("f", "f", "x.py", 7, 0), ("g", "g", "x.py", 1, 0)
    again.exceptions(("E", f, 8, g, 3, 1, 5, 5, 9))
    assert again.data == writer.data
    assert [row.number for row in spprof.Profile(writer.data).exceptions.rows] == [5]


def test_rows_of_one_line_are_one():
    (row,) = spprof.Profile(written([ROWS[0], ROWS[0]])).exceptions.rows
    assert (row.number, row.frames, row.ns) == (2000, 4000, 8_000_000)


def test_the_last_block_wins():
    writer = Writer(exceptions="yes")
    writer.exceptions(ROWS[0])
    writer.exceptions(ROWS[2])
    assert [row.type for row in spprof.Profile(writer.data).exceptions.rows] == ["KeyError"]


@pytest.mark.parametrize("payload", [b"", b"\x01\x01\x01\x05", b"\x00\x00" * 17])
def test_a_block_that_makes_no_sense_is_not_read(payload):
    writer = Writer(exceptions="yes")
    writer.exceptions(ROWS[2])
    writer.block(b"K", payload)
    assert [row.type for row in spprof.Profile(writer.data).exceptions.rows] == ["KeyError"]


def test_the_table():
    text = exceptions([spprof.Profile(written())])
    assert text.startswith("1,008 exceptions were counted, 4.01 ms on their way from raise to catch.\n")
    rows = [" ".join(line.split()) for line in text.replace("/app/", "").splitlines()[3:]]
    assert rows == [
        "1,000 4.00 ms 4.00 us 2,000 ValueError: A.f (x.py:12) > g (x.py:25)",
        "7 0.01 ms 1.00 us 7 ValueError: A.f (x.py:12) > g (x.py:26) [in C]",
        "1 0.00 ms 0.90 us 2 KeyError: g (x.py:22) > [left the thread]",
    ]


def test_several_processes_are_added_up_and_what_is_missing_is_said():
    text = exceptions([spprof.Profile(written()), spprof.Profile(written(uncounted=3, forgotten=1))], limit=1)
    assert "2,016 exceptions" in text and "        2,000" in text and "... 2 more (--limit)" in text
    assert "Not counted: 3 exceptions of types or lines for which there was no space; exceptions that were raised again" in text


def test_report_as_json(tmp_path, capsys):
    path = tmp_path / "p.spprof"
    path.write_bytes(written())
    assert main(["report", str(path), "--exceptions", "-f", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["number"], document["ns"]) == ("exceptions", 1008, 4_007_900)
    assert document["rows"][0] == {
        "type": "ValueError",
        "raised": {"qualname": "A.f", "file": "/app/x.py", "line": 12},
        "caught": {"qualname": "g", "file": "/app/x.py", "line": 25},
        "how": "handler",
        "number": 1000,
        "calls_ended": 2000,
        "ns": 4_000_000,
    }
    assert document["rows"][2]["caught"] is None and document["more"] == 0
    assert main(["report", str(path), "--exceptions", "-f", "json", "--limit", "1"]) == 0
    limited = json.loads(capsys.readouterr().out)
    assert limited["rows"] == document["rows"][:1] and limited["more"] == len(document["rows"]) - 1
    assert main(["report", str(path), "--exceptions"]) == 0
    assert "exceptions were counted" in capsys.readouterr().out
    for more in (["--by", "line"], ["-f", "tree"], ["--thread", "x"]):
        assert main(["report", str(path), "--exceptions", *more]) != 0


def test_without_counts():
    for profile, why in (
        (spprof.Profile(written(None)), "not in the file"),
        (spprof.Profile(written(None, "")), "run --exceptions"),
    ):
        assert profile.exceptions is None
        with pytest.raises(spprof.BadOption, match=why):
            exceptions([profile])


def test_a_part_has_no_counts():
    part = filtered(spprof.Profile(written()), start_ns=10_000_000)
    assert part.exceptions is None
    with pytest.raises(spprof.BadOption, match="a part of a profile has none"):
        exceptions([part])
    out = io.BytesIO()
    formats.write(part, out, "spprof", formats.Options())
    assert spprof.Profile(out.getvalue()).exceptions is None
    assert list(blocks(out.getvalue(), b"K")) == []
