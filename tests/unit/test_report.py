"""`spprof report`: every format on the small hand-made file of conftest, whose figures are worked out by hand."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from spprof_file import Writer

from spprof import BadOption, Profile
from spprof.calltree import call_tree
from spprof.cli import main
from spprof.cli.text import Paint, fit, place, printable, put

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture
def report(path, capsys):
    def run(*options, file=path, code=0):
        assert main(["report", str(file), *options]) == code
        return capsys.readouterr().out

    return run


def rows_of(text):
    """Lines of figures: (first time, its share, last time, its share, name)."""
    found = re.findall(r"^ *([\d.]+ m?s) +([\d.]+%) ±[\d.]+ +(?:([\d.]+ m?s) +([\d.]+%) ±[\d.]+ +)?(\S.*)$", text, re.M)
    return [tuple(part for part in row if part) for row in found]


def test_flat_has_error_bars(report, path):
    text = report()
    assert rows_of(text) == [
        ("3.50 ms", "72.7%", "4.51 ms", "93.7%", "b (/app/%\\n.py:20)"),
        ("1.21 ms", "25.2%", "4.21 ms", "87.5%", "A.a (/app/x;y.py:10)"),
        ("0.10 ms", "2.1%", "1.31 ms", "27.2%", "<module> (/app/x;y.py:1)"),
        ("0.00 ms", "0.0%", "0.00 ms", "0.0%", "[no Python frames]"),
        ("0.00 ms", "0.0%", "3.00 ms", "62.4%", "[truncated]"),
    ]
    # The larger side of the Wilson interval of 3500 of 4811 with 2.3 effective samples.
    low, high = Profile(path).interval(3_500_000)
    assert f"72.7% ±{100 * (3500 / 4811 - low):.1f} " in text and 3500 / 4811 - low > high - 3500 / 4811
    assert "17 expected = 7 taken + 6 repeated + 4 x." in text


def test_by_line_file_and_thread(report):
    lines = {row[-1]: row[:-1] for row in rows_of(report("--by", "line"))}
    assert lines["A.a (/app/x;y.py:11)"] == ("1.20 ms", "24.9%", "4.21 ms", "87.5%")
    assert lines["A.a (/app/x;y.py:13)"] == ("0.01 ms", "0.2%", "0.01 ms", "0.2%")
    # Own time 1.21 + 0.10; all but the worker's 501 us: recursion through another file counts once.
    assert rows_of(report("--by", "file"))[:2] == [
        ("3.50 ms", "72.7%", "4.51 ms", "93.7%", "/app/%\\n.py"),
        ("1.31 ms", "27.2%", "4.31 ms", "89.6%", "/app/x;y.py"),
    ]
    assert rows_of(report("--by", "thread")) == [("4.31 ms", "89.6%", "Main (70)"), ("0.50 ms", "10.4%", "#wor;ker (71)")]
    assert rows_of(report("--by", "thread", "--thread", "71")) == [("0.50 ms", "100.0%", "#wor;ker (71)")]
    assert [row[-1] for row in rows_of(report("--by", "file", "--sort", "total"))][2] == "[truncated]"


TREE = """\
   3.00 ms  62.4%  [truncated]
   3.00 ms  62.4%    A.a (/app/x;y.py:10)
   3.00 ms  62.4%      b (/app/%\\n.py:20)
   1.31 ms  27.2%  <module> (/app/x;y.py:1)
   1.21 ms  25.2%    A.a (/app/x;y.py:10)
   1.01 ms  21.0%      b (/app/%\\n.py:20)
   1.01 ms  21.0%        A.a (/app/x;y.py:10)
   0.50 ms  10.4%  b (/app/%\\n.py:20)
   0.00 ms   0.0%  [no Python frames]
"""


def test_tree(report):
    """Stacks of test_model's test_aggregate, added up by hand."""
    assert TREE in re.sub(r" ±\d\d\.\d", "", report("--format", "tree", "--min-share", "0"))
    pruned = report("--format", "tree", "--min-share", "22")
    assert [row[-1] for row in rows_of(pruned)] == [
        "[truncated]", "A.a (/app/x;y.py:10)", "b (/app/%\\n.py:20)", "<module> (/app/x;y.py:1)", "A.a (/app/x;y.py:10)",
    ]  # fmt: skip
    lines = [row[-1] for row in rows_of(report("--format", "tree", "--min-share", "0", "--by", "line"))]
    assert lines.count("A.a (/app/x;y.py:13)") == 1 and "<module> (/app/x;y.py:3)" in lines


def test_tree_against_functions():
    """Each function's total is what its outermost calls have; python_only leaves native calls out and keeps their time."""
    from test_model import native_profile

    profile = native_profile()
    root = call_tree([profile], [lambda id: profile.frame(id).qualname], python_only=True)
    totals = {}
    todo = [(call, frozenset()) for call in root.calls.values()]
    while todo:
        call, above = todo.pop()
        name = call.name if isinstance(call.name, str) else call.name[1]
        if name not in above:
            totals[name] = totals.get(name, 0) + call.weights[0]
        todo += [(each, above | {name}) for each in call.calls.values()]
    assert totals == {row.qualname: row.total_weight_ns for row in profile.functions(only="python")}
    assert root.weights == [sum(profile.column("weight_ns"))]


def test_tree_fits_a_terminal(tmp_path):
    """In 60 columns, coloured; without colours with NO_COLOR; deep calls show their depth instead of more room."""
    pty = pytest.importorskip("pty")
    writer = Writer()
    stack = [(f"function_{n}", f"function_{n}", "/app/" + "long/" * 10 + "name.py", 1, 2) for n in range(40)]
    for at in range(10):
        writer.sample(stack, 6000 + at, 1000)
    writer.flush()
    (tmp_path / "deep.spprof").write_bytes(writer.data)
    for colours in (True, False):
        ours, theirs = pty.openpty()
        env = {**os.environ, "COLUMNS": "60", "TERM": "xterm", "PYTHONIOENCODING": "utf-8", "NO_COLOR": "" if colours else "1"}
        command = [sys.executable, "-m", "spprof", "report", "--format", "tree", "deep.spprof"]
        process = subprocess.Popen(command, cwd=tmp_path, stdout=theirs, stderr=subprocess.PIPE, env=env)
        os.close(theirs)
        seen = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end was closed
                break
            if not part:
                break
            seen += part
        os.close(ours)
        assert process.wait(60) == 0
        process.stderr.close()
        assert (b"\x1b[31m" in seen) == colours
        text = re.sub(r"\x1b\[\d+m", "", seen.decode())
        calls = [line.rstrip() for line in text.splitlines() if " ±" in line]
        assert len(calls) == 40 and max(map(len, calls)) == 60 and "[39] func" in calls[-1] and ".py:1)" in calls[0]


def test_json_is_as_described(report, path):
    fastjsonschema = pytest.importorskip("fastjsonschema")
    check = fastjsonschema.compile(json.loads((DOCS / "report.schema.json").read_text()))
    for by in ("function", "line", "file", "thread"):
        document = check(json.loads(report("--format", "json", "--by", by)))
        assert document["weight_ns"] == 4_811_000 and document["samples"] == 13
    document = json.loads(report("--format", "json"))
    profile = Profile(path)
    for row, told in zip(profile.functions(), document["rows"]):
        assert (told["name"], told["qualname"], told["file"], told["line"]) == row[:4]
        for kind, figures in (("self", row[4:6]), ("total", row[6:8])):
            assert (told[kind]["samples"], told[kind]["weight_ns"]) == figures
            assert (told[kind]["low"], told[kind]["high"]) == profile.interval(figures[1])
            assert told[kind]["share"] == figures[1] / 4_811_000
    assert len(document["rows"]) == 5 and document["processes"][0]["account"]["losses"] == {"x": 4}
    assert len(json.loads(report("--format", "json", "--limit", "2"))["rows"]) == 2


def test_markdown(report):
    lines = report("--format", "markdown", "--limit", "3").splitlines()
    at = lines.index("| self | share | total | share | function |")
    row = r"\| 3\.50 ms \| 72\.7% ±\d+\.\d \| 4\.51 ms \| 93\.7% ±\d+\.\d \| b \(/app/%\\\\n\.py:20\) \|"
    assert re.fullmatch(row, lines[at + 2])
    assert lines[at + 4].endswith(r"| \<module\> (/app/x;y.py:1) |")
    assert lines[at + 6] == "2 more (`--limit`)"


def test_several_files_add_up(path, report, capsys):
    assert main(["report", str(path), str(path), "--format", "json"]) == 0
    twice, once = json.loads(capsys.readouterr().out), json.loads(report("--format", "json"))
    assert (twice["weight_ns"], twice["samples"], len(twice["processes"])) == (2 * 4_811_000, 26, 2)
    assert twice["effective_samples"] == pytest.approx(2 * once["effective_samples"])
    assert [row["total"]["weight_ns"] for row in twice["rows"]] == [2 * row["total"]["weight_ns"] for row in once["rows"]]
    assert main(["report", str(path), str(path), "--format", "tree", "--min-share", "0"]) == 0
    assert [row[0] for row in rows_of(capsys.readouterr().out)][:4] == ["6.00 ms", "6.00 ms", "6.00 ms", "2.62 ms"]


def test_empty_and_wrong(tmp_path, report, path):
    writer = Writer()
    (tmp_path / "empty.spprof").write_bytes(writer.data)
    for options in ([], ["--by", "file"], ["--format", "tree"], ["--by", "thread"]):
        assert "No samples were taken." in report(*options, file=tmp_path / "empty.spprof")
    assert json.loads(report("--format", "json", file=tmp_path / "empty.spprof"))["rows"] == []
    report("--format", "tree", "--by", "file", code=2)
    report("--format", "tree", "--thread", "nobody", code=2)
    report("--format", "json", "--native-only", code=2)
    report("--by", "thread", "--python-only", code=2)
    report("--format", "markdown", "--native-calls", code=2)
    report("--by", "line", "--native-calls", code=2)
    with pytest.raises(SystemExit):
        main(["report", str(path), "--min-share", "101"])
    with pytest.raises(BadOption):
        Profile(path).functions(by="file")


def test_names_cannot_command_the_terminal():
    assert printable("a\x1b[31m\n\ud800é") == "a\\x1b[31m\\n\\ud800é"
    assert len(place("f" * 10000, "/x.py", 1)) == 300 and place("f" * 10000, "/x.py", 1).endswith("/x.py:1)")
    assert fit("abcdefghij", 8) == "abc...ij" and fit("abc", 8) == "abc" and fit("abcdefghij", 3) == "..."

    class Old(io.StringIO):
        encoding = "ascii"

    out = Old()
    put(out, "1.0% ±0.5 é\ud800")
    assert out.getvalue() == "1.0% +-0.5 \\xe9\\ud800"
    assert not Paint(out).on


def test_figures_of_files_against_a_slow_count():
    from test_model import native_profile

    profile = native_profile()
    expected = {}
    for sample in profile:
        files = {frame.file for frame in sample.frames if frame.file} or {None}
        for file in files:
            row = expected.setdefault(file, [0, 0, 0, 0])
            row[2:] = row[2] + sample.count, row[3] + sample.weight_ns
        own = expected[sample.frames[-1].file or None]
        own[:2] = own[0] + sample.count, own[1] + sample.weight_ns
    found = profile.figures(lambda id: profile.frame(id).file)
    assert {None if isinstance(key, tuple) else key: list(figures) for key, figures in found.items()} == expected
