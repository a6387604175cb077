"""Exact times of imports: what is read, and which modules nobody called."""

from __future__ import annotations

import io
import json

import pytest
from spprof_file import Writer

import spprof
from spprof import formats
from spprof.cli import main
from spprof.model.filtering import filtered
from spprof.model.imports import never_called
from spprof.report.import_times import import_times

# Two threads; b and c within a, d within c.
ROWS = [
    ("b", "/app/b.py", 7, 110, 20, 0), ("d", "/app/d.py", 7, 145, 30, 1), ("c", "/app/c.py", 7, 140, 50, 0),
    ("e", "", 8, 105, 500, 0),
    ("a", "/app/a.py", 7, 100, 100, 0), ("f", "/app/f.py", 7, 300, 1, 0),
]  # fmt: skip


def written(rows=ROWS, calls=(), header="yes"):
    writer = Writer(**({"imports": header} if header else {}), **({"calls": "python"} if calls else {}))
    writer.sample([("a", "a", "/app/a.py", 10, 12)], 6000, 1000)
    writer.flush()
    if rows is not None:
        writer.imports(*rows)
    if calls:
        writer.calls(*calls)
    return writer.data


def test_imports_are_nested_by_thread():
    found = spprof.Profile(written()).imports
    assert [(row.name, row.tid, row.total_ns, row.self_ns, row.parent) for row in found] == [
        ("a", 7, 100, 30, -1), ("e", 8, 500, 500, -1), ("b", 7, 20, 20, 0), ("c", 7, 50, 20, 0), ("d", 7, 30, 30, 3),
        ("f", 7, 1, 1, -1),
    ]  # fmt: skip
    assert [row.name for row in found if row.failed] == ["d"]
    assert (found[0].file, found[0].began_ns) == ("/app/a.py", 100)


def test_the_last_block_wins_and_one_that_makes_no_sense_is_not_read():
    writer = Writer(imports="yes")
    writer.imports(ROWS[0])
    writer.imports(ROWS[5])
    writer.block(b"I", b"\x01\x01\x01\x05")
    assert [row.name for row in spprof.Profile(writer.data).imports] == ["f"]


def test_without_times():
    assert spprof.Profile(written(None)).imports is None
    assert spprof.Profile(written(None, header="")).imports is None


def test_a_part_has_none():
    part = filtered(spprof.Profile(written()), start_ns=10_000_000)
    assert part.imports is None
    out = io.BytesIO()
    formats.write(part, out, "spprof", formats.Options())
    assert spprof.Profile(out.getvalue()).imports is None


def test_modules_that_no_other_file_called():
    def function(name, file):
        return (name, name, file, 1, 0)

    main, own = function("<module>", "/app/a.py"), function("helper", "/app/b.py")
    calls = [
        (function("<module>", "/app/b.py"), main, 1, 1, 0), (own, function("<module>", "/app/b.py"), 2, 9, 0),
        (function("used", "/app/c.py"), main, 3, 1, 0), (function("thread", "/app/f.py"), None, 0, 1, 0),
    ]  # fmt: skip
    profile = spprof.Profile(written(calls=calls))
    assert [row.name for row in never_called(profile.imports, profile.calls)] == ["a", "b"]  # d failed, e has no code in Python
    text = import_times([profile], io.StringIO(), 0)
    assert text.splitlines()[0].startswith("6 imports took")
    assert [line.split()[-1] for line in text.partition("may cost nothing:")[2].splitlines()[3:]] == ["a", "b"]


@pytest.mark.parametrize("least, names", [(0, "eacdbf"), (5, "eac"), (60, "e")])
def test_the_tree_leaves_out_what_is_short(least, names):
    text = import_times([spprof.Profile(written())], io.StringIO(), least)
    rows = text.partition("module\n")[2].partition("\n\n")[0].splitlines()
    assert [line.replace(" [failed]", "").split()[-1] for line in rows] == list(names)


STACKS = {"a": 30, "a;b": 20, "a;c": 20, "a;c;d [failed]": 30, "e": 500, "f": 1}  # what ROWS take without what they import


def converted(tmp_path, name, *options, data=None):
    path, out = tmp_path / "p.spprof", tmp_path / name
    path.write_bytes(written() if data is None else data)
    return main(["convert", str(path), "--imports", *options, "-o", str(out)]), out


def test_the_export_has_the_tree_and_its_times(tmp_path):
    status, out = converted(tmp_path, "p.collapsed", "--weight", "value", "--merge-threads")
    assert status == 0
    rows = (line.rpartition(" ") for line in out.read_text().splitlines())
    found = {";".join(each.partition(" (/app")[0] for each in stack.split(";")): int(number) for stack, _, number in rows}
    assert found == STACKS


def test_the_export_keeps_threads_and_files(tmp_path):
    status, out = converted(tmp_path, "p.speedscope.json")
    assert status == 0
    made = json.loads(out.read_text())
    assert sorted(sum(each["weights"]) for each in made["profiles"]) == [101, 500]
    assert {(each["name"], each.get("file")) for each in made["shared"]["frames"]} >= {("a", "/app/a.py"), ("e", None)}


@pytest.mark.parametrize("ending", [".svg", ".html", ".gecko.json", ".trace.json", ".callgrind", ".pstats", ".pb.gz", ".jsonl"])
def test_every_format_takes_imports(tmp_path, ending):
    status, out = converted(tmp_path, f"p{ending}")
    assert status == 0 and out.stat().st_size > 0


def test_a_part_of_the_imports(tmp_path):
    status, out = converted(tmp_path, "p.collapsed", "--weight", "value", "--merge-threads", "--focus", "c")
    assert status == 0
    assert sum(int(line.rpartition(" ")[2]) for line in out.read_text().splitlines()) == 50


def test_what_has_no_imports_is_refused(tmp_path, capsys):
    for name, data, says in [("p.svg", written(None, header=""), "spprof run --imports"), ("q.spprof", None, "is a copy")]:
        assert converted(tmp_path, name, data=data)[0] == 2
        assert says in capsys.readouterr().err
        assert not (tmp_path / name).exists()


def test_the_summary_and_why_say_what_imports_took(tmp_path, capsys):
    path = tmp_path / "p.spprof"
    path.write_bytes(written([(*row[:3], *(1_000_000 * time for time in row[3:5]), row[5]) for row in ROWS[-2:]]))
    for verb in "report", "why":
        assert main([verb, str(path)]) == 0
        said = "2 imports took 0.10 s (exact), of it a 0.10 s, f 1.00 ms: `spprof report --imports`.\n"
        assert capsys.readouterr().out.count(said) == 1
    path.write_bytes(written(None, header=""))
    for verb in "report", "why":
        assert main([verb, str(path)]) == 0
        assert "--imports" not in capsys.readouterr().out
