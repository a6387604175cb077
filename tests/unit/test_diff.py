"""`spprof diff` on hand-made profiles: what is aligned, what is marked, what is refused, and what CI gets."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from spprof_file import Writer

from spprof import BadOption, Profile
from spprof.cli import main
from spprof.model import intervals
from spprof.model.unicode import clean
from spprof.report import paths
from spprof.report.comparison import Comparison

DOCS = Path(__file__).resolve().parents[2] / "docs"


def function(qualname, file="/app/x.py", first=10, line=11):
    return (qualname.rpartition(".")[2], qualname, file, first, line)


def native(name, file):
    return (name, name, file, 64, 70, 0, -1, -1, 1)


def written(stacks, weight_us=1000, **header):
    """A profile in which each stack was sampled so many times."""
    writer = Writer(**{"python": "3.12.1", **header})
    at = 5000
    for stack, times in stacks:
        for _ in range(times):
            at += weight_us
            writer.sample(stack, at, weight_us)
    writer.flush()
    writer.json(b"E", {"stop_ns": 1, "reason": "stop"})
    return writer.data


def profile(stacks, weight_us=1000, **header):
    return Profile(written(stacks, weight_us, **header))


MAIN = function("main", first=1, line=2)


def simple(parse, load, **more):
    return profile([([MAIN, function("parse")], parse), ([MAIN, function("load")], load)], **more)


def changes(comparison, kind="own", measure="share"):
    return {row.function.qualname: change for row, change in comparison.changes(kind, measure)}


def test_figures_by_hand():
    """600 of 1000 ms beside 300 of 1500 ms, intervals by Wilson's and Newcombe's formulas; main is all of both."""
    comparison = Comparison([simple(600, 400)], [simple(300, 1200)])
    a, b, difference, significant = changes(comparison)["parse"]
    assert a == pytest.approx((0.6, 0.569309, 0.629925), abs=1e-6) and b == pytest.approx((0.2, 0.180535, 0.220997), abs=1e-6)
    low = -0.4 - ((0.2 - 0.180535) ** 2 + (0.629925 - 0.6) ** 2) ** 0.5
    high = -0.4 + ((0.220997 - 0.2) ** 2 + (0.6 - 0.569309) ** 2) ** 0.5
    assert difference == pytest.approx((-0.4, low, high), abs=1e-6) and significant
    assert changes(comparison)["load"].difference.value == pytest.approx(0.4)
    assert not changes(comparison, "total")["main"].significant
    seconds = changes(comparison, measure="time")["parse"]
    assert (seconds.a.value, seconds.b.value) == pytest.approx((0.6, 0.3)) and seconds.significant is None
    total = comparison.total()
    assert (total.a.value, total.b.value, total.difference.value, total.significant) == (1.0, 1.5, 0.5, None)


def test_a_change_within_chance_is_not_marked():
    """52 points beside 48 of 1000: 4 points may be chance (interval about 4.4); of 10,000 they are not."""
    assert not changes(Comparison([simple(520, 480)], [simple(480, 520)]))["parse"].significant
    assert changes(Comparison([simple(5200, 4800)], [simple(4800, 5200)]))["parse"].significant


def test_the_more_are_compared_the_more_is_asked():
    """One function grows from 100 to 145 of 2000: more than chance alone, not so among 80 that could have grown by chance."""

    def many(grown, others):
        stacks = [([function(f"f{n}")], (2000 - grown) // others) for n in range(others)]
        return profile([*stacks, ([function("grown")], grown)])

    assert changes(Comparison([many(100, 1)], [many(145, 1)]))["grown"].significant
    comparison = Comparison([many(100, 80)], [many(145, 80)])
    assert len(comparison.changes()) == 81 and not changes(comparison)["grown"].significant
    # Small ones that nobody looks at do not count against it.
    comparison = Comparison([many(100, 80)], [many(145, 80)], min_share=0.03)
    assert list(changes(comparison)) == ["grown"] and changes(comparison)["grown"].significant


def test_repeated_runs_by_hand():
    """Shares .60 .62 .64 beside .40 .42 .44: difference -.2, standard error .02 sqrt(2/3), 4 degrees of freedom."""
    a = [simple(each, 10000 - each) for each in (6000, 6200, 6400)]
    b = [simple(each, 10000 - each) for each in (4000, 4200, 4400)]
    change = changes(Comparison(a, b))["parse"]
    reach = 2.776445 * 0.02 * (2 / 3) ** 0.5
    assert change.difference == pytest.approx((-0.2, -0.2 - reach, -0.2 + reach), abs=1e-5) and change.significant
    assert change.a == pytest.approx((0.62, 0.62 - 4.302653 * 0.02 / 3**0.5, 0.62 + 4.302653 * 0.02 / 3**0.5), abs=1e-5)
    # Runs that differ among themselves: the same difference of means is nothing then, though each run's samples are sure of it.
    a = [simple(each, 10000 - each) for each in (4200, 6200, 8200)]
    b = [simple(each, 10000 - each) for each in (2200, 4200, 6200)]
    assert not changes(Comparison(a, b))["parse"].significant
    assert changes(Comparison(a[:1], b[:1]))["parse"].significant
    total = Comparison([simple(n, n) for n in (100, 101, 102)], [simple(n, n) for n in (110, 111, 112)]).total()
    assert total.difference == pytest.approx(
        (0.02, 0.02 - 2.776445 * 0.002 * (2 / 3) ** 0.5, 0.02 + 2.776445 * 0.002 * (2 / 3) ** 0.5)
    )
    assert total.significant


def test_functions_are_aligned_though_their_lines_moved():
    before = profile([([function("f", first=10, line=12)], 500), ([function("g", first=20, line=21)], 500)])
    after = profile([([function("f", first=30, line=35)], 500), ([function("g", first=20, line=21)], 500)])
    comparison = Comparison([before], [after])
    assert {(row.function.qualname, row.line) for row in comparison.rows} == {("f", 30), ("g", 20)}
    assert all(change.difference.value == 0 for change in changes(comparison).values())
    lines = Comparison([before], [after], by="line")
    assert {(row.function.qualname, row.line) for row in lines.rows} == {("f", 12), ("f", 35), ("g", 21)}


def test_files_that_are_elsewhere():
    """Another checkout, another Python: packages and the standard library by their own paths, the program by its folder."""

    def taken(app, lib, so):
        return profile(
            [([function("main", f"{app}/main.py"), function("f", f"{app}/sub/{name}.py")], 100) for name in ("a", "b", app[-1])]
            + [([function("loads", f"{lib}/json/__init__.py")], 100)]
            + [([function("get", f"{lib}/site-packages/requests/api.py")], 100)]
            + [([native("deflate", so)], 100)],
            native="yes",
        )  # fmt: skip

    before = taken("/home/me/one", "/usr/lib/python3.11", "/lib/libz.so.1")
    after = taken("/builds/two", "/opt/py/lib/python3.12", "/usr/lib64/libz.so.1")
    comparison = Comparison([before], [after])
    assert comparison.notes == ["no file of the program has the same path in all: /home/me/one is taken for /builds/two"]
    rows = {(row.function.qualname, row.file): row.total for row in comparison.rows}
    both = {key for key, (a, b) in rows.items() if a == b == [100e6]}
    assert both == {
        ("f", "/builds/two/sub/a.py"), ("f", "/builds/two/sub/b.py"), ("deflate", "/usr/lib64/libz.so.1"),
        ("loads", "/opt/py/lib/python3.12/json/__init__.py"), ("get", "/opt/py/lib/python3.12/site-packages/requests/api.py"),
    }  # fmt: skip
    assert rows["main", "/builds/two/main.py"] == ([300e6], [300e6]) and len(rows) == 8
    # The same checkout: files of like names in different folders are different.
    same = Comparison(
        [profile([([function("f", "/app/a/util.py")], 9), ([MAIN], 1)])],
        [profile([([function("f", "/app/b/util.py")], 9), ([MAIN], 1)])],
    )
    assert len(same.rows) == 3 and same.notes == []


def test_methods_before_qualified_names():
    """3.9 knows `b`, 3.12 `A.b`."""
    old = profile([([("b", "b", "/app/x.py", 10, 11)], 100)], python="3.9.2")
    new = profile([([function("A.b")], 100)], python="3.12.1")
    comparison = Comparison([old], [new])
    assert [row.total for row in comparison.rows] == [([100e6], [100e6])]
    assert any("before Python 3.11" in note for note in comparison.notes) and any("3.9" in note for note in comparison.notes)
    assert len(Comparison([profile([([function("A.b")], 9), ([function("B.b")], 9)])], [new]).rows) == 2


def test_different_rates_compare_by_weight():
    slow, fast = simple(60, 40, interval_ns=1_000_000), simple(600, 400, weight_us=100, interval_ns=100_000)
    comparison = Comparison([slow], [fast])
    change = changes(comparison)["parse"]
    assert change.a.value == change.b.value == 0.6 and change.b.high - change.b.low < (change.a.high - change.a.low) / 3
    assert comparison.notes == ["different rates: A 1,000 Hz, B 10,000 Hz; shares are of time, so they compare"]


def test_native_frames_in_one_only():
    below = native("deflate", "/lib/libz.so.1")
    with_native = profile([([MAIN, below], 500), ([MAIN], 500)], native="yes")
    without = profile([([MAIN], 1000)])
    comparison = Comparison([with_native], [without])
    assert [(row.function.qualname, row.own) for row in comparison.rows] == [("main", ([1e9], [1e9]))]
    assert any("native frames" in note for note in comparison.notes)


@pytest.mark.parametrize(
    "a, b, words",
    [
        ([simple(1, 1)], [simple(1, 1, mode="wall")], "CPU time and threads' time"),
        ([simple(1, 1)], [simple(1, 1), simple(1, 1)], "one run beside several"),
        ([simple(1, 1)], [profile([])], "no samples"),
    ],
)
def test_refusals(a, b, words):
    with pytest.raises(BadOption, match=words):
        Comparison(a, b)


def test_thread():
    writer = Writer()
    for at in range(100):
        writer.sample([MAIN], 6000 + at, 1000, thread=at % 2)
    writer.json(b"T", [{"id": 0, "tid": 1, "name": "Main"}, {"id": 1, "tid": 2, "name": "worker"}])
    writer.flush()
    both = Profile(writer.data)
    assert Comparison([both], [both], thread="work*").rows[0].total == ([50e6], [50e6])
    with pytest.raises(BadOption, match="'nobody'; it has: Main, worker"):
        Comparison([both], [both], thread="nobody")


# ---- time that was sampled at the kernel's tick


def in_step(parse, load, known, **header):
    """As `simple`, of which all but `known` samples were taken at no random instant."""
    writer = Writer(**{"python": "3.12.1", **header})
    for at, name in enumerate(["parse"] * parse + ["load"] * load):
        writer.sample([MAIN, function(name)], 6000 + 1000 * at, 1000, flags=0 if at % (parse + load) < known else 32)
    writer.flush()
    return Profile(writer.data)


def test_worst_cases_of_both_sides():
    """600 of 1000 beside 300 of 1000, of which 100 and 50 are unknown: A lies in 500 .. 700, B in 250 .. 350."""
    comparison = Comparison([in_step(600, 400, 900)], [in_step(300, 700, 950)])
    a, b, difference, significant = changes(comparison)["parse"]
    ends = {part: intervals.Whole(1000, 1000, 1000.0).share(part) for part in (500, 700, 250, 350)}
    assert (a.low, a.high, b.low, b.high) == (ends[500].low, ends[700].high, ends[250].low, ends[350].high)
    assert difference.value == pytest.approx(-0.3)
    assert difference.low == intervals.difference(ends[700], ends[250]).low
    assert difference.high == intervals.difference(ends[500], ends[350]).high < 0
    assert significant is True
    assert comparison.known == (True, True)
    assert any("A 10.0%, B 5.0%" in note for note in comparison.notes)


def test_nothing_is_marked_on_the_ground_of_what_is_unknown():
    """A change of 30 points that is sure by number, where 20 points of each side are unknown."""
    assert changes(Comparison([simple(600, 400)], [simple(300, 700)]))["parse"].significant is True
    one, other = in_step(600, 400, 800), in_step(300, 700, 800)
    assert changes(Comparison([one], [other]))["parse"].significant is False
    several = Comparison([one, one, one], [other, other, other])
    assert changes(several)["parse"].significant is False
    assert changes(several, measure="time")["parse"].significant is False
    assert several.grown("load", 5) == []
    assert Comparison([simple(600, 400)] * 3, [simple(300, 700)] * 3).grown("load", 5) != []


def test_no_interval_is_shown_where_most_is_unknown(tmp_path, capsys):
    for name, profile in (("a", in_step(600, 400, 0)), ("b", in_step(300, 700, 0))):
        (tmp_path / name).write_bytes(profile.raw())
    both = [str(tmp_path / name) for name in "ab"]
    assert main(["diff", *both]) == 0
    reported = capsys.readouterr().out
    assert re.search(r"^ 60\.0% ±\? +30\.0% ±\? +-30\.0 ±\? +0\.600 s ", reported, re.M), reported
    assert "A 100.0%, B 100.0%" in reported
    assert main(["diff", "--compare", "time", *both]) == 0
    assert re.search(r" -0\.300 s ±\? ", capsys.readouterr().out)
    assert main(["diff", "--json", *both]) == 0
    document = json.loads(capsys.readouterr().out)
    parse = next(row for row in document["rows"] if row["qualname"] == "parse")["self"]["share"]
    assert (parse["a"]["low"], parse["a"]["high"]) == (0, 1) and parse["significant"] is False
    assert document["a"][0]["unknown_weight"] == document["a"][0]["weight"] == 1_000_000_000


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evil = function("<b>|`\n\ud800é" + "x" * 10000)
    for name, scale in (("a", 1.0), ("b", 1.2)):
        for run, times in enumerate((1000, 1010, 990), 1):
            stacks = [([MAIN, function("parse")], int(times * scale)), ([MAIN, function("load")], times), ([MAIN, evil], 100)]
            Path(f"{name}{run}.spprof").write_bytes(written(stacks))
    return [f"{name}{run}.spprof" for name in "ab" for run in (1, 2, 3)]


def test_tables(files, capsys):
    assert main(["diff", "--sort", "total", *files[:3], "--", *files[3:]]) == 0
    reported = capsys.readouterr()
    lines = reported.out.splitlines()
    assert lines[0] == "A: a1.spprof, a2.spprof, a3.spprof (3 runs, 2.10 s; 2.12 s; 2.08 s of CPU time, 6,300 samples)"
    change = r"2\.100 ±0\.\d{3} s -> 2\.300 ±0\.\d{3} s, \+9\.5% \(\+\d\.\d% \.\. \+1\d\.\d%\)"
    assert re.fullmatch(rf"Time of a run: {change}: surely changed\.", lines[2])
    row = r"^ 47\.6% ±\d\.\d +52\.2% ±\d\.\d +\+4\.6 ±\d\.\d +\* +1\.000 s +1\.200 s  parse \(/app/x\.py:10\)$"
    assert re.search(row, reported.out, re.M)
    assert re.search(r"^ +\d\.\d% ±.* <b>\|`\\n\\ud800éxx", reported.out, re.M) and reported.err == ""
    assert lines[-2] == (
        "Shares are of all time: what did not change has less where something else takes more, and more where it takes less. "
        "--compare time marks those that changed by themselves."
    )
    assert "all 4 compared counted" in lines[-1] and "from how much runs vary" in lines[-1]
    assert main(["diff", files[0], files[3], "--limit", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "Time of a run: 2.10 s -> 2.30 s, +9.5%. How much runs vary is not known of one run each."
    assert lines[-3] == "... 2 more (--limit), 1 of them marked"
    assert lines[-2].endswith("and more where it takes less. The columns at the right have the time itself.")
    assert main(["diff", "--compare", "time", files[0], files[3]]) == 0
    text = capsys.readouterr().out
    assert "Shares are of" not in text and "+0.200 ±0.0" in text and "No change of time is marked" in text and " * " not in text
    assert main(["diff", "--markdown", "--sort", "total", *files[:3], "--", *files[3:]]) == 0
    text = capsys.readouterr().out
    row = r"^\| 47\.6% ±\d\.\d \| 52\.2% ±\d\.\d \| \*\*\+4\.6 ±\d\.\d\*\* \\\* \| 1\.000 s \| 1\.200 s \| `parse "
    assert re.search(row, text, re.M)
    assert r"``<b>\|`\n" in text


def test_json_is_as_described(files, capsys):
    fastjsonschema = pytest.importorskip("fastjsonschema")
    check = fastjsonschema.compile(json.loads((DOCS / "diff.schema.json").read_text()))
    for words in ([files[0], files[3]], [*files[:3], "--", *files[3:]], ["--by", "line", files[0], files[3]]):
        assert main(["diff", "--json", *words]) == 0
        document = check(json.loads(capsys.readouterr().out))
        assert len(document["rows"]) == document["compared"] == 3
    assert main(["diff", "--json", "--sort", "total", "--fail-if", "+5%", files[0], files[3]]) == 3
    reported = json.loads(capsys.readouterr().out)
    comparison = Comparison([Profile(files[0])], [Profile(files[3])])
    found = comparison.changes("total")
    assert [row["qualname"] for row in reported["rows"]] == [clean(row.function.qualname) for row, _ in found]
    for row, (_, change) in zip(reported["rows"], found):
        assert row["total"]["share"]["difference"] == dict(zip(("share", "low", "high"), change.difference))
        assert row["total"]["share"]["significant"] == change.significant and row["total"]["weight"]["significant"] is None
    (main_row,) = [row for row in reported["rows"] if row["qualname"] == "main"]
    assert main_row["self"]["share"]["significant"] is None  # it has none, so it was not compared
    assert len(reported["failed"]) == 1
    assert reported["weight"]["a"]["weight"] == reported["a"][0]["weight"] == 2_100_000_000


def test_json_of_report_and_diff_agree(files, capsys):
    """One field name has one meaning in both: processes are described alike, and so are shares."""
    assert main(["diff", "--json", files[0], files[3]]) == 0
    diff = json.loads(capsys.readouterr().out)
    assert main(["report", "-f", "json", files[0]]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["processes"] == diff["a"]
    (before,) = [row for row in report["rows"] if row["qualname"] == "parse"]
    (change,) = [row for row in diff["rows"] if row["qualname"] == "parse"]
    for kind in ("self", "total"):
        assert change[kind]["share"]["a"] == {key: before[kind][key] for key in ("share", "low", "high")}
        assert round(change[kind]["weight"]["a"]["weight"]) == before[kind]["weight"]


@pytest.mark.parametrize(
    "rules, code, words",
    [
        (["+9%"], 3, "--fail-if +9%: the time of a run grew by +9.5%, more than 9 %"),
        (["+10%"], 0, ""),
        (["parse:+15%"], 3, "--fail-if parse:+15%: parse grew by +20.0%, more than 15 %"),
        (["parse:+21%", "load:+1%"], 0, ""),
        (["*:15%"], 3, "parse grew by +20.0%"),
        (["+50%", "pars?:+15 %"], 3, "parse grew"),
        (["prase:+5%"], 2, "no function is called 'prase'"),
    ],
)
def test_fail_if(tmp_path, monkeypatch, capsys, rules, code, words):
    """Runs of 10 s whose time varies by less than 0.1 %: parse grows by 20 %, so the whole by 9.5 %."""
    monkeypatch.chdir(tmp_path)
    for name, parse in (("a", 10000), ("b", 12000)):
        for run, more in enumerate((0, 5, -5)):
            stacks = [([MAIN, function("parse")], parse + more), ([MAIN, function("load")], 11000)]
            Path(f"{name}{run}").write_bytes(written(stacks))
    options = [word for rule in rules for word in ("--fail-if", rule)]
    assert main(["diff", *options, "a0", "a1", "a2", "--", "b0", "b1", "b2"]) == code
    reported = capsys.readouterr().err
    assert words in reported and (code != 0 or reported == "")
    if code == 3:  # faster is never a failure
        assert main(["diff", *options, "b0", "b1", "b2", "--", "a0", "a1", "a2"]) == 0


def test_growth_must_be_sure(tmp_path, monkeypatch, capsys):
    """Means differ by 10 %, and so do the runs of one side among themselves."""
    monkeypatch.chdir(tmp_path)
    for name, runs in (("a", (900, 1000, 1100)), ("b", (1000, 1100, 1200))):
        for run, times in enumerate(runs):
            Path(f"{name}{run}").write_bytes(written([([MAIN], times)]))
    assert main(["diff", "--fail-if", "+5%", "a0", "a1", "a2", "--", "b0", "b1", "b2"]) == 0
    capsys.readouterr()
    assert main(["diff", "--fail-if", "+5%", "a1", "b1"]) == 3
    assert "one run each: --fail-if cannot distinguish" in capsys.readouterr().err


def test_usage(files, capsys, tmp_path):
    for words in ([files[0]], [files[0], files[1], files[2]], [files[0], "--"], ["--", files[0], files[1]]):
        assert main(["diff", *words]) == 2
        assert "A1 A2 A3 -- B1 B2 B3" in capsys.readouterr().err
    assert main(["diff", files[0], "--", files[1]]) == 0
    assert main(["diff", files[0], "nosuch"]) == 2
    for rule in ("5", "x:", "+%", "x%", "parse:+5", ":+5%"):
        with pytest.raises(SystemExit) as refused:
            main(["diff", "--fail-if", rule, *files[:2]])
        assert refused.value.code == 2 and "write '+5%'" in capsys.readouterr().err
    assert main(["diff", *files[:2], "-o", "no/x.html"]) == 2
    assert "cannot write no/x.html" in capsys.readouterr().err
    assert main(["diff", *files[:2], "-o", "-"]) == 0
    assert capsys.readouterr().out.startswith("<!DOCTYPE html>")
    Path("cut").write_bytes(Path(files[0]).read_bytes()[:-5])
    assert main(["diff", "cut", files[1], "-o", "x.html"]) == 0
    reported = capsys.readouterr()
    assert reported.out == "" and "cut: " in reported.err and "Written: x.html" in reported.err
    Path("empty").write_bytes(written([]))
    assert main(["diff", files[0], "empty"]) == 2 and "no samples" in capsys.readouterr().err


def test_rows_fit_the_width_of_tables(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(paths, "_full", False)
    for name in "ab":
        writer = Writer()
        for at in range(20):
            writer.sample([("f", "g" * 200, "/srv/a.py", 1, 2)], 6000 + 1000 * at, 1000)
        writer.flush()
        (tmp_path / name).write_bytes(writer.data)
    assert main(["diff", str(tmp_path / "a"), str(tmp_path / "b")]) == 0
    [row] = [line for line in capsys.readouterr().out.splitlines() if "ggg" in line]
    assert len(row) == 160 and row.endswith("/srv/a.py:1)")


def test_a_terminal_of_80_columns_is_enough(tmp_path, monkeypatch, capsys):
    """Its lines have shares or times, those that are compared; a wider one has both."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("shutil.get_terminal_size", lambda *fallback: os.terminal_size((80, 24)))
    monkeypatch.setattr("spprof.report.text._is_terminal", lambda stream: True)
    monkeypatch.setenv("NO_COLOR", "1")
    name = "Catalogue.of_all_prices_in_the_shop.<locals>.<lambda>"
    for path, slow in ("a", 600), ("b", 1600):
        Path(path).write_bytes(written([([MAIN, function(name)], slow), ([MAIN, function("load")], 400)]))
    of_share, of_time = r" 40\.0% ±\S+ +20\.0% ±\S+ +-20\.0 ±\S+ +\* load \(", r"\+0\.000 ±\S+ s +0\.400 s +0\.400 s  load \("
    for compare, of_load in ("share", of_share), ("time", of_time):
        assert main(["diff", "--compare", compare, "a", "b"]) == 0
        text = capsys.readouterr().out
        assert max(map(len, text.splitlines())) <= 80
        assert re.search(of_load, text), text
