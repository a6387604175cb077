"""`spprof report`: every format on the small hand-made file of conftest, whose figures are worked out by hand."""

from __future__ import annotations

import hashlib
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
from spprof.cli import main
from spprof.model import intervals
from spprof.report import paths
from spprof.report.calltree import CallTree
from spprof.report.text import Paint, amount, fit, place, printable, put

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
    return [tuple(re.sub(r" \[\d samples?\]$", "", part) for part in row if part) for row in found]


def test_flat_has_error_bars(report, path):
    text = report("--limit", "15").split("By self time:")[1]
    assert rows_of(text) == [
        ("3.50 ms", "72.7%", "4.51 ms", "93.7%", "b (/app/%\\n.py:20)"),
        ("1.21 ms", "25.2%", "4.21 ms", "87.5%", "A.a (/app/x;y.py:10)"),
        ("0.10 ms", "2.1%", "1.31 ms", "27.2%", "<module> (/app/x;y.py:1)"),
        ("0.00 ms", "0.0%", "0.00 ms", "0.0%", "[no Python frames]"),
        ("0.00 ms", "0.0%", "3.00 ms", "62.4%", "[truncated]"),
    ]
    # The larger side of the Wilson interval of 3500 of 4811, as sure as what few samples it has.
    profile = Profile(path)
    squares = next(own for key, (own, _) in profile.function_squares().items() if key[1] == "b")
    low, high = profile.whole().share(3_500_000, squares=squares)[1:]
    assert f"72.7% ±{100 * (3500 / 4811 - low):.1f} " in text and 3500 / 4811 - low > high - 3500 / 4811
    assert re.search(r"b \(/app/%\\n\.py:20\) \[2 samples\]$", text, re.M)
    assert "17 expected = 7 taken + 6 repeated + 4 x." in report("-v")


@pytest.mark.parametrize(
    "file, text",
    [
        ("HERE/shop/price.py", "shop/price.py"),
        ("HERE/.venv/lib/python3.12/site-packages/fastapi/routing.py", "fastapi/routing.py"),
        ("/usr/lib/python3/dist-packages/yaml/loader.py", "yaml/loader.py"),
        ("/usr/local/lib/python3.13t/json/encoder.py", "json/encoder.py"),
        ("/Library/Frameworks/Python.framework/Versions/3.11/lib/python3.11/ast.py", "ast.py"),
        ("C:\\Users\\x\\Python312\\Lib\\json\\decoder.py", "json\\decoder.py"),
        ("C:\\venv\\Lib\\site-packages\\django\\http.py", "django\\http.py"),
        ("C:\\shop\\lib\\price.py", "C:\\shop\\lib\\price.py"),
        ("/srv/lib/price.py", "/srv/lib/price.py"),
        ("<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>"),
        ("", ""),
    ],
)
def test_paths_as_people_write_them(monkeypatch, file, text):
    monkeypatch.setattr(paths, "_full", False)
    file = file.replace("HERE", os.getcwd()) if os.sep == "/" or "HERE" not in file else file.replace("HERE/", "")
    assert paths.short(file) == text
    paths.show_full_paths()
    assert paths.short(file) == file


def test_lines_fit_unless_all_of_them_is_wanted(monkeypatch, tmp_path, report):
    monkeypatch.setattr(paths, "_full", False)
    writer = Writer()
    writer.sample([("f", "g" * 150, "/srv/a.py", 1, 2)], 6000, 1000)
    writer.flush()
    file = tmp_path / "long.spprof"
    file.write_bytes(writer.data)
    assert max(map(len, report(file=file).splitlines())) == 160
    assert "g" * 150 + " (/srv/a.py:1)" in report("--full-paths", file=file)


def test_a_tables_columns_have_one_unit():
    for weight, of, shown in (
        (12_345_678, 99_999_999, "12.35 ms"), (12_345_678, 100_000_000, "0.012 s"), (0, 1e9, "0.000 s"),
        (1_234_567_890, 200e9, "1.23 s"), (1_234_567_890, None, "1.23 s"), (12_345_678, None, "12.35 ms"),
    ):  # fmt: skip
        assert amount(weight, "nanoseconds", of) == shown
    assert amount(1234, "bytes", 5e9) == "1,234"


def test_by_line_file_and_thread(report):
    lines = {row[-1]: row[:-1] for row in rows_of(report("--by", "line", "--limit", "15"))}
    assert lines["A.a (/app/x;y.py:11)"] == ("1.20 ms", "24.9%", "4.21 ms", "87.5%")
    assert lines["A.a (/app/x;y.py:13)"] == ("0.01 ms", "0.2%", "0.01 ms", "0.2%")
    # Own time 1.21 + 0.10; all but the worker's 501 us: recursion through another file counts once.
    assert rows_of(report("--by", "file", "--limit", "15"))[:2] == [
        ("3.50 ms", "72.7%", "4.51 ms", "93.7%", "/app/%\\n.py"),
        ("1.31 ms", "27.2%", "4.31 ms", "89.6%", "/app/x;y.py"),
    ]
    assert rows_of(report("--by", "thread")) == [("4.31 ms", "89.6%", "Main (70)"), ("0.50 ms", "10.4%", "#wor;ker (71)")]
    assert rows_of(report("--by", "thread", "--thread", "71")) == [("0.50 ms", "100.0%", "#wor;ker (71)")]
    assert [row[-1] for row in rows_of(report("--by", "file", "--sort", "total", "--limit", "15"))][2] == "[truncated]"


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


def ticks(tmp_path, flags, clock):
    """A file of samples of 1 ms each, of `a` and `b` in turn."""
    writer = Writer(clock=clock)
    for at, flag in enumerate(flags):
        writer.sample([("ab"[at % 2], "ab"[at % 2], "/app/x.py", 1, 1)], 6000 + 1000 * at, 1000, flags=flag)
    writer.flush()
    file = tmp_path / "ticks.spprof"
    file.write_bytes(writer.data)
    return file


@pytest.fixture
def requests(tmp_path):
    """Two threads, two routes, one user; 1 ms without a label."""
    writer = Writer()
    frame = ("f", "f", "/app/x.py", 1, 1)
    for at, (weight, thread, labels) in enumerate([
        (4000, 0, {"route": "/cart/1", "user": "7"}), (2000, 1, {"route": "/cart/1"}), (3000, 0, {"route": "/cart/2[x]"}),
        (1000, 1, None), (500, 0, {"user": "7", "route": "/cart/1"}),
    ]):  # fmt: skip
        writer.sample([frame], 20000 + 10000 * at, weight, thread, label=labels and json.dumps(labels))
    writer.flush()
    writer.json(b"T", [{"id": 0, "tid": 70, "name": "Main"}, {"id": 1, "tid": 71, "name": "worker"}])
    writer.json(b"A", {"clock": "perf", "expected": 5, "taken": 5, "repeated": 0, "losses": {}})
    file = tmp_path / "requests.spprof"
    file.write_bytes(writer.data)
    return file


def test_by_labels(report, requests):
    def rows(*options):
        return [(row[0], row[-1]) for row in rows_of(report(*options, file=requests))]

    assert rows("--by", "label") == [
        ("4.50 ms", "route=/cart/1, user=7"),
        ("3.00 ms", "route=/cart/2[x]"),
        ("2.00 ms", "route=/cart/1"),
        ("1.00 ms", "[no label]"),
    ]
    assert rows("--by", "route") == [("6.50 ms", "route=/cart/1"), ("3.00 ms", "route=/cart/2[x]"), ("1.00 ms", "[no label]")]
    assert rows("--by", "user", "--thread", "worker") == [("3.00 ms", "[no label]")]
    assert rows("--by", "route", "--label", "user=?") == [("4.50 ms", "route=/cart/1")]
    assert rows("--by", "route", "--label", "route=/cart/2*") == [("3.00 ms", "route=/cart/2[x]")]
    assert rows("--by", "route", "--label", "route=*[x]") == [("3.00 ms", "route=/cart/2[x]")]
    assert rows("--by", "thread", "--label", "route=/cart/*") == [("7.50 ms", "Main (70)"), ("2.00 ms", "worker (71)")]
    fastjsonschema = pytest.importorskip("fastjsonschema")
    document = json.loads(report("--by", "route", "--format", "json", file=requests))
    assert [row["labels"] for row in document["rows"]] == [{"route": "/cart/1"}, {"route": "/cart/2[x]"}, {}]
    fastjsonschema.validate(json.loads((DOCS / "report.schema.json").read_text()), document)
    assert "| time | share | route |" in report("--by", "route", "--format", "markdown", file=requests)


@pytest.mark.parametrize(
    "options, words",
    [
        (["--by", "colour"], "choose function, line, file, thread, process, label, or a label: route, user"),
        (["--by", "route", "--native-only"], "no native frames"),
        (["--by", "label", "--python-only"], "all their time"),
        (["--label", "route=/x*"], "route is /cart/1, /cart/2"),
        (["--by", "route", "--format", "tree"], "--by function"),
    ],
)
def test_labels_that_are_not_there(requests, capsys, options, words):
    assert main(["report", str(requests), *options]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("lost, shown", [(0, False), (10, False), (11, True), (-1, True)])
def test_what_became_of_ticks_is_reported_if_it_matters(report, tmp_path, lost, shown):
    """More than 1 % lost, or a number that does not add up."""
    writer = Writer()
    writer.sample([("a", "a", "/app/x.py", 1, 1)], 6000, 1000)
    writer.flush()
    losses = {"overrun": max(lost, 0)}
    writer.json(
        b"A", {"clock": "perf", "expected": 1000, "taken": 1000 - max(lost, 0) - (lost < 0), "repeated": 0, "losses": losses}
    )
    file = tmp_path / "lost.spprof"
    file.write_bytes(writer.data)
    for options in ([], ["--format", "tree"]):
        said = report(*options, file=file)
        assert ("Lost: 1.1% " in said, "Ticks: " in said) == (lost > 0 and shown, lost < 0)
    assert "Ticks: 1,000 expected = " in report("-v", file=file)
    assert "Ticks: 1,000 expected = " in report("-v", "--format", "tree", file=file)


@pytest.mark.parametrize(
    "flags, clock, reported",
    [([32] * 1000, "timer", r"100\.0% .* kernel's own tick, .* no error bar \(±\?\)\. Use `--clock signal`"),
     ([0] * 1000, "timer", r"100\.0% .* kernel's own tick"),
     ([0] * 1000, "gil", r"100\.0% .* hand-overs of the GIL, .* The clock `suspend` has none"),
     ([0] * 900 + [2] * 100, "perf-user", r"10\.0% .* kernel's own tick, .* that much wider\. Use `--clock signal`"),
     ([0] * 900 + [32] * 100, "perf", r"10\.0% .* that much wider\. These threads had no better clock"),
     ([0] * 900 + [32] * 100, "signal", r"10\.0% .* the scheduler chose, .* that much wider\. The machine is busy"),
     ([0] * 995 + [32] * 5, "signal", None),
     ([0] * 995 + [32] * 5, "perf", r"0\.5% .* that much wider"),
     ([0] * 900 + [4] * 100, "perf", None)],
)  # fmt: skip
def test_why_intervals_are_wider(report, tmp_path, flags, clock, reported):
    text = report("-v", file=ticks(tmp_path, flags, clock))
    assert ("Not sampled at random: " in report(file=tmp_path / "ticks.spprof")) == bool(reported)
    line = re.search(r"^In step\? .*", text, re.M)
    assert re.match(f"In step\\? {reported}", line[0]) if reported else line is None
    text = text.split("By self time:")[1]
    rows = re.findall(r"^ +0\.500 s +50\.0% ±(\S+) +", text, re.M)
    unknown = sum(n in (2, 32) for n in flags) / 1000 if clock not in ("timer", "gil") else 0
    reach = intervals.share(500 + 1000 * unknown, 1000, 1000)[1] - 0.5
    assert rows == 2 * ["?" if clock in ("timer", "gil") else f"{100 * reach:.1f}"]


def test_json_of_unknown_time(report, tmp_path):
    document = json.loads(report("--format", "json", file=ticks(tmp_path, [0] * 900 + [2] * 100, "perf-user")))
    assert document["unknown_weight"] == 100_000_000
    low, high = intervals.share(400, 1000, 1000)[0], intervals.share(600, 1000, 1000)[1]
    assert (document["rows"][0]["self"]["low"], document["rows"][0]["self"]["high"]) == (low, high)
    document = json.loads(report("--format", "json", file=ticks(tmp_path, [0] * 100, "timer")))
    assert document["unknown_weight"] == document["weight"] == 100_000_000
    assert {(row["self"]["low"], row["self"]["high"]) for row in document["rows"]} == {(0, 1)}
    assert "±?" in report("--format", "markdown", file=tmp_path / "ticks.spprof")
    assert "±?" in report("--format", "tree", file=tmp_path / "ticks.spprof")


def test_system_calls_that_ticks_ended(report, tmp_path, path):
    def reported(**tick_stats):
        writer = Writer()
        writer.sample([("a", "a", "/app/x.py", 1, 1)], 6000, 1000)
        writer.flush()
        writer.json(b"A", {"clock": "signal", "expected": 1, "taken": 1, "repeated": 0, "losses": {}, **tick_stats})
        (tmp_path / "calls.spprof").write_bytes(writer.data)
        return re.findall(r"^S(?:ystem calls|ignals) .*", report("-v", file=tmp_path / "calls.spprof"), re.M)

    assert reported() == [] == reported(calls_interrupted=0)
    assert reported(calls_interrupted=1234) == ["System calls without the C library that a tick may have ended: 1,234."]
    assert reported(signals_not_ignored=2) == ["Signals that the program ignores, but that may have ended a system call: 2."]
    assert reported(confined=1) == ["System calls of ours that a filter (seccomp) refuses: samples near calls are less exact."]


def test_tree_against_functions():
    """Each function's total is what its outermost calls have; python_only leaves native calls out and keeps their time."""
    from test_model import native_profile

    profile = native_profile()
    calls = CallTree([profile], [lambda id: profile.frame(id).qualname], python_only=True)
    totals, path = {}, []
    for depth, call in calls.walk(lambda call: True):
        del path[depth:]
        if call.name not in path:
            totals[call.name] = totals.get(call.name, 0) + call.weights[0]
        path.append(call.name)
    assert totals == {row.qualname: row.total_weight for row in profile.functions(only="python")}
    assert calls.root.weights == [sum(profile.column("weight"))]


def test_trees_and_tables_have_one_interval_for_one_share(report, tmp_path):
    """Where samples are big, each row counts its own: also in the trees."""
    writer = Writer()
    outer = ("main", "main", "/app/shop.py", 1, 2)
    for at in range(300):
        writer.sample([outer], 6000 + 1000 * at, 1000)
    for at in range(8):
        writer.sample([outer, ("slow", "slow", "/app/shop.py", 9, 9)], 400_000 + 40_000 * at, 40_000)
    writer.flush()
    path = tmp_path / "big.spprof"
    path.write_bytes(writer.data)
    assert Profile.load(path).has_big_samples()
    options = (), ("-f", "tree"), ("--callers", "slow"), ("--callees", "main")
    found = [re.findall(r"51\.6% ±\S+", report(*each, file=path)) for each in options]
    assert all(found) and len({share for each in found for share in each}) == 1


def test_tree_fits_a_terminal(tmp_path):
    """In 60 columns, coloured; without colours with NO_COLOR; deep calls show their depth instead of a deeper indent."""
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
        assert document["weight"] == 4_811_000 and document["samples"] == 13
    document = json.loads(report("--format", "json"))
    profile = Profile(path)
    for row, reported in zip(profile.functions(), document["rows"]):
        assert (reported["name"], reported["qualname"], reported["file"], reported["line"]) == row[:4]
        for kind, figures in (("self", row[4:6]), ("total", row[6:8])):
            assert (reported[kind]["samples"], reported[kind]["weight"]) == figures
            assert (reported[kind]["low"], reported[kind]["high"]) == profile.confidence_interval(figures[1])
            assert reported[kind]["share"] == figures[1] / 4_811_000
    assert len(document["rows"]) == 5 and document["processes"][0]["tick_stats"]["losses"] == {"x": 4}
    assert document["more"] == 0
    two = json.loads(report("--format", "json", "--limit", "2"))
    assert (len(two["rows"]), two["more"]) == (2, 3)
    assert json.loads(report("--format", "json", "--limit", "all")) == document


def test_markdown(report):
    lines = report("--format", "markdown", "--limit", "3").splitlines()
    at = lines.index("| self | share | total | share | function |")
    row = r"\| 3\.50 ms \| 72\.7% ±\d+\.\d \| 4\.51 ms \| 93\.7% ±\d+\.\d \| `b \(/app/%\\n\.py:20\)` \[2 samples\] \|"
    assert re.fullmatch(row, lines[at + 2])
    assert "| `<module> (/app/x;y.py:1)` [2 samples] |" in lines[at + 4]
    assert lines[at + 6] == "2 more (`--limit`)"


def test_markdown_begins_with_the_tree_of_the_users_own_code(report):
    text = report("--format", "markdown")
    assert text.startswith("Your own code, and what it calls:\n\n```\n     total")
    assert "```" not in report("--format", "markdown", "--by", "line")


@pytest.mark.parametrize(
    "text, cell",
    [("a_b", "`a_b`"), ("a`b", "``a`b``"), ("`a", "`` `a ``"), ("a|b", r"`a\|b`"), ("<b>*_x_*[a](b)", "`<b>*_x_*[a](b)`")],
)
def test_names_are_code_in_markdown(text, cell):
    from spprof.report.export import code

    assert code(text) == cell


@pytest.mark.parametrize(
    "text, escaped",
    [
        (
            "in hot_function of a[1] & b: `--mode wall` shows it (-v).",
            "in hot_function of a[1] & b: `--mode wall` shows it (-v).",
        ),
        ("_x_ `", r"\_x\_ \`"),
        ("[a](b) <b> &lt; *a* |", r"\[a](b) \<b> \&lt; \*a\* \|"),
        ("> a", r"\> a"),
    ],
)
def test_text_is_escaped_where_it_would_mean_something(text, escaped):
    from spprof.report.export import escape

    assert escape(text) == escaped


def test_json_is_bounded(tmp_path, capsys):
    writer = Writer()
    for number in range(60):
        writer.sample([(f"f{number}", f"f{number}", "/a.py", 1, 1)], 6000 + number, 1)
    writer.flush()
    (tmp_path / "many.spprof").write_bytes(writer.data)
    assert main(["report", "--format", "json", str(tmp_path / "many.spprof")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (len(document["rows"]), document["more"]) == (50, 10)


def test_several_files_add_up(path, report, capsys):
    assert main(["report", str(path), str(path), "--format", "json"]) == 0
    twice, once = json.loads(capsys.readouterr().out), json.loads(report("--format", "json"))
    assert (twice["weight"], twice["samples"], len(twice["processes"])) == (2 * 4_811_000, 26, 2)
    assert twice["effective_samples"] == pytest.approx(2 * once["effective_samples"])
    assert [row["total"]["weight"] for row in twice["rows"]] == [2 * row["total"]["weight"] for row in once["rows"]]
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
            row[2:] = row[2] + sample.count, row[3] + sample.weight
        own = expected[sample.frames[-1].file or None]
        own[:2] = own[0] + sample.count, own[1] + sample.weight
    found = profile.figures(lambda id: profile.frame(id).file)
    assert {None if isinstance(key, tuple) else key: list(figures) for key, figures in found.items()} == expected


def test_callers_and_callees(report, path, capsys):
    """Stacks of test_model's test_aggregate. Of a recursion the outermost call counts."""

    def rows(*options):
        return [(row[0], row[-1]) for row in rows_of(report(*options, "--min-share", "0"))]

    # 3.00 ms below [truncated], 1.21 below <module>; b is called by A.a.
    assert rows("--callers", "a") == [
        ("4.21 ms", "A.a (/app/x;y.py:10)"), ("3.00 ms", "[truncated]"), ("1.21 ms", "<module> (/app/x;y.py:1)"),
    ]  # fmt: skip
    assert rows("--callees", "A.?") == [
        ("4.21 ms", "A.a (/app/x;y.py:10)"), ("4.01 ms", "b (/app/%\\n.py:20)"), ("1.01 ms", "A.a (/app/x;y.py:10)"),
    ]  # fmt: skip
    assert rows("--callers", "b", "--thread", "#wor*") == [("0.50 ms", "b (/app/%\\n.py:20)")]
    assert ("1.00 ms", "A.a (/app/x;y.py:11)") in rows("--callees", "b", "--by", "line")
    assert "a has 4.21 ms, 87.5% ±" in report("--callers", "a")
    assert main(["report", str(path), "--callers", "A.c"]) == 2
    assert "no function that was sampled is called 'A.c' (* and ? are allowed); there is A.a" in capsys.readouterr().err
    for more in (["--slowest"], ["-f", "json"], ["--by", "file"]):
        report("--callers", "a", *more, code=2)


@pytest.mark.parametrize("as_it_was", [True, False])
def test_lines_have_their_text_if_it_is_what_ran(monkeypatch, report, tmp_path, as_it_was):
    monkeypatch.setattr(paths, "_full", False)
    source = tmp_path / "shop.py"
    source.write_text("def f():\n    return 1 +\t2\n")
    writer = Writer()
    for at in range(20):
        writer.sample([("f", "f", str(source), 1, 2)], 6000 + 1000 * at, 1000)
    writer.flush()
    writer.block(b"F", hashlib.sha256(source.read_bytes()).hexdigest().encode() + b" " + str(source).encode())
    if not as_it_was:
        source.write_text("def f():\n    return 3\n")
    (tmp_path / "p.spprof").write_bytes(writer.data)
    text = report("--by", "line", "--full-paths", file=tmp_path / "p.spprof")
    assert ("shop.py:2)  return 1 +\\t2\n" in text, "return" in text) == (as_it_was, as_it_was)
