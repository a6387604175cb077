"""`spprof diff` of counted runs: what became of a function is split into how often it is called, and what a call takes."""

from __future__ import annotations

import json
import re
from math import inf, isclose
from pathlib import Path

import pytest
from browser import needs_browser, seen_by
from spprof_file import Writer

from spprof import Profile
from spprof.cli import main
from spprof.model import intervals
from spprof.report import diff_page
from spprof.report.comparison import Comparison
from spprof.report.splitting import split

DOCS = Path(__file__).resolve().parents[2] / "docs"


def function(name, first=10, file="/app/x.py"):
    return (name, name, file, first)


MAIN = function("main", 1)


def written(figures, main_calls=1, file="/app/x.py", calls="python", uncounted=0, flags=None):
    """Of each name so many samples of 1 ms, and so many calls."""
    writer = Writer(**({"calls": calls, "python": "3.12.1"} if calls else {"python": "3.12.1"}))
    at, begins = 5000, (*MAIN[:2], file, 1)
    for name, (samples, _) in figures.items():
        for i in range(samples):
            at += 1000
            unknown = flags is not None and i < flags
            writer.sample([(*begins, 2), (*function(name, file=file), 11)], at, 1000, flags=32 if unknown else 0)
    writer.flush()
    if calls:
        rows = [((*begins, 0), None, 0, main_calls, 0)]
        for name, (_, number) in figures.items():
            code = (*function(name, file=file), 0)
            rows += [(code, (*begins, 0), 2, number - number // 2, 7), (code, (*begins, 0), 3, number // 2, 0)] if number else []
        writer.calls(*rows, uncounted=uncounted)
    writer.json(b"E", {"stop_ns": 1, "reason": "stop"})
    return writer.data


def profile(figures, **more):
    return Profile(written(figures, **more))


def of(comparison, name, kind="own"):
    found = comparison.changes(kind)
    return next(split(comparison, row, kind, len(found)) for row, _ in found if row.function.qualname == name)


BEFORE = {"parse": (200, 1000), "load": (800, 50)}
AFTER = {"parse": (868, 3100), "load": (800, 50)}  # 3.1 times the calls, of 1.4 times the time each


def test_one_run_each():
    """The count is exact; the time of a call has the interval of the sampled share, and no mark: runs vary."""
    a, b = profile(BEFORE), profile(AFTER)
    parse = of(Comparison([a], [b]), "parse")
    assert parse.calls == ((1000,) * 3, (3100,) * 3, (3.1,) * 3, True)
    reported = parse.per_call
    assert (reported.a.value, reported.b.value, reported.significant) == (pytest.approx(200e-6), pytest.approx(280e-6), None)
    before, after = a.whole().share(200e6), b.whole().share(868e6)
    assert reported.a == pytest.approx(before.times(1.0 / 1000)) and reported.b == pytest.approx(after.times(1.668 / 3100))
    # Its ends are where B less so many times A may be 0: Newcombe's interval of the difference ends there.
    assert reported.ratio.value == pytest.approx(1.4) and reported.ratio.low < 1.4 < reported.ratio.high
    for end, side in ((reported.ratio.low, 1), (reported.ratio.high, 2)):
        assert intervals.difference(reported.a.times(end), reported.b)[side] == pytest.approx(0, abs=1e-9)
    load = of(Comparison([a], [b]), "load")
    assert load.calls[2:] == ((1,) * 3, False) and load.per_call.ratio.low < 1 < load.per_call.ratio.high
    assert of(Comparison([a], [b]), "main", "total").per_call.a.value == pytest.approx(1)


def test_the_parts_make_the_whole():
    """Calls times the time of a call is the time, on both sides."""
    comparison = Comparison([profile(BEFORE)], [profile(AFTER)])
    for kind in ("own", "total"):
        for row, _ in comparison.changes(kind):
            reported = split(comparison, row, kind, 1)
            time = comparison.change(row.figures(kind), "time")
            for side in "ab":
                assert isclose(
                    getattr(reported.calls, side).value * getattr(reported.per_call, side).value,
                    getattr(time, side).value,
                    abs_tol=1e-12,
                )


def test_several_runs():
    """From how much they vary: counts that vary have an interval, by hand by Welch's; of equal ones it is the number."""
    a = [profile({"parse": (2000 + d, 1000 + d), "load": (8000, 50)}) for d in (-10, 0, 10)]
    b = [profile({"parse": (5600 + d, 2000 + d), "load": (8000, 50)}) for d in (-10, 0, 10)]
    comparison = Comparison(a, b)
    parse, load = of(comparison, "parse"), of(comparison, "load")
    reach = 4.302653 * 10 / 3**0.5
    assert parse.calls.a == pytest.approx((1000, 1000 - reach, 1000 + reach), abs=1e-3) and parse.calls.significant is True
    low, high = parse.calls.ratio[1:]
    assert intervals.welch([low * n for n in (990, 1000, 1010)], [1990, 2000, 2010]).low == pytest.approx(0, abs=1e-4)
    assert intervals.welch([high * n for n in (990, 1000, 1010)], [1990, 2000, 2010]).high == pytest.approx(0, abs=1e-4)
    assert parse.per_call.ratio.value == pytest.approx(1.4, abs=1e-4) and parse.per_call.significant is True
    assert load.calls == ((50,) * 3, (50,) * 3, (1,) * 3, False) and load.per_call.significant is False
    # Times that vary as much as they differ, and calls that do not.
    a = [profile({"parse": (n, 1000), "load": (8000, 50)}) for n in (1000, 2000, 3000)]
    b = [profile({"parse": (n, 2000), "load": (8000, 50)}) for n in (3000, 5000, 7000)]
    parse = of(Comparison(a, b), "parse")
    assert parse.calls.significant is True and parse.per_call.significant is False


def test_only_calls_grew_and_only_cost_grew():
    a = [profile({"f": (2000, 1000), "g": (2000, 1000), "load": (6000, 1)})] * 3
    b = [profile({"f": (4000, 2000), "g": (4000, 1000), "load": (6000, 1)})] * 3
    comparison = Comparison(a, b)
    f, g = of(comparison, "f"), of(comparison, "g")
    assert (f.calls.significant, f.per_call.significant) == (True, False)
    assert (g.calls.significant, g.per_call.significant) == (False, True)


def test_what_has_no_ratio():
    """A function that was not called before is new; where it has no sample, nobody knows how many times as much it takes."""
    a, b = profile({"load": (500, 5), "few": (0, 10)}), profile({"load": (500, 5), "new": (100, 9), "few": (100, 10)})
    comparison = Comparison([a], [b])
    new, few = of(comparison, "new"), of(comparison, "few")
    assert (new.calls.a.value, new.calls.b.value) == (0, 9)
    assert (new.calls.ratio, new.calls.significant, new.per_call) == (None, True, None)
    assert few.calls.ratio.value == 1 and few.per_call.ratio is None and few.per_call.b.value == pytest.approx(0.01)
    back = of(Comparison([b], [a]), "few")
    assert back.per_call.ratio.value == 0 == back.per_call.ratio.low and 0 < back.per_call.ratio.high < 1
    assert of(Comparison([profile({"load": (990, 1), "rare": (1, 1)})], [profile({"load": (900, 1), "rare": (99, 1)})]), "rare")


def test_a_ratio_may_have_no_bound():
    """A's interval ends at 0, so any factor may be."""
    low = intervals.Estimate(1.0, 0.0, 2.0)
    b = intervals.Estimate(3.0, 2.5, 3.5)
    reported = intervals.ratio_of(1.0, 3.0, lambda factor: intervals.difference(low.times(factor), b))
    assert reported.value == 3 and 1 < reported.low < 2 and reported.high == inf


def test_time_at_no_random_instant_widens_it():
    before, after = profile(BEFORE, flags=100), profile(AFTER, flags=100)
    wide, narrow = of(Comparison([before], [after]), "parse"), of(Comparison([profile(BEFORE)], [profile(AFTER)]), "parse")
    assert wide.per_call.ratio.low < narrow.per_call.ratio.low < narrow.per_call.ratio.high < wide.per_call.ratio.high


def test_functions_are_aligned_as_their_samples():
    a, b = profile(BEFORE, file="/home/me/x.py"), profile(AFTER, file="/builds/x.py")
    assert of(Comparison([a], [b]), "parse").calls.ratio.value == 3.1


def test_where_calls_were_not_counted():
    counted, plain, less = profile(BEFORE), profile(AFTER, calls=None), profile(AFTER, uncounted=5)
    comparison = Comparison([counted], [plain])
    assert of(comparison, "parse") is None and any("only A counted its calls" in note for note in comparison.notes)
    assert Comparison([plain], [plain]).notes == []
    assert of(Comparison([counted], [counted], by="line"), "parse") is None
    reported = Comparison([counted], [less])
    assert of(reported, "parse") is not None and any(
        note.startswith("not all calls of B were counted: 5") for note in reported.notes
    )


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, figures in (("a", BEFORE), ("b", AFTER)):
        for run in (1, 2, 3):
            varied = {each: (samples + run, calls) for each, (samples, calls) in figures.items()}
            Path(f"{name}{run}.spprof").write_bytes(written(varied))
    return [f"{name}{run}.spprof" for name in "ab" for run in (1, 2, 3)]


def test_text_and_markdown(files, capsys):
    assert main(["diff", files[0], files[3]]) == 0
    text = capsys.readouterr().out
    line = r"\n      calls: 3\.10 x \*, 1,000 -> 3,100; a call: 1\.39 x \(1\.\d\d \.\. 1\.\d\d\), 201 us -> 280 us\n"
    assert re.search(r"  parse \(/app/x\.py:10\)" + line, text)
    assert "calls: 1.00 x, 50 -> 50; a call: " in text and "The time of a call has no mark" in text
    assert main(["diff", *files[:3], "--", *files[3:]]) == 0
    text = capsys.readouterr().out
    assert re.search(r"calls: 3\.10 x \*, 1,000 -> 3,100; a call: 1\.39 x \(1\.\d\d \.\. 1\.\d\d\) \*, 202 us -> 281 us\n", text)
    assert main(["diff", "--markdown", *files[:3], "--", *files[3:]]) == 0
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert {len(row) for row in rows} == {8} and rows[0][5:7] == ["calls", "a call"]
    assert any(row[5] == r"3.10 x \*, 1,000 -> 3,100" for row in rows)


def test_json(files, capsys):
    fastjsonschema = pytest.importorskip("fastjsonschema")
    check = fastjsonschema.compile(json.loads((DOCS / "diff.schema.json").read_text()))
    for words in ([files[0], files[3]], [*files[:3], "--", *files[3:]]):
        assert main(["diff", "--json", *words]) == 0
        rows = {row["qualname"]: row for row in check(json.loads(capsys.readouterr().out))["rows"]}
        calls = rows["parse"]["calls"]
        assert calls["ratio"] == {"ratio": 3.1, "low": 3.1, "high": 3.1} and calls["significant"] is True
        reported = rows["parse"]["self"]["per_call"]
        assert 1.2 < reported["ratio"]["low"] < reported["ratio"]["ratio"] < reported["ratio"]["high"] < 1.7
        assert reported["a"]["weight"] == pytest.approx(201e3, rel=0.01)
        assert rows["load"]["total"]["per_call"]["a"]["weight"] == pytest.approx(16e6, rel=0.01)


def test_the_page(files):
    reported = diff_page.html(Comparison([Profile(files[0])], [Profile(files[3])]))
    data = json.loads(re.search(r'>(\{"spprof":.*?)</script>', reported, re.S)[1])
    parse = next(row for row in data["rows"] if row["name"].startswith("parse"))["own"]
    assert data["counted"] is True and parse[6] == [1000, 3100, [3.1, 3.1, 3.1], True]
    assert parse[7][:2] == pytest.approx([201e-6, 280e-6], rel=0.01) and parse[7][3] is None


@needs_browser
def test_the_page_shows_it(files, tmp_path):
    path = tmp_path / "diff.html"
    path.write_text(diff_page.html(Comparison([Profile(files[0])], [Profile(files[3])])), encoding="utf-8")
    seen = seen_by("diff.mjs", path)
    rows = {row[-1].split(" ")[0]: row for row in seen["rows"]}
    assert seen["errors"] == [] and rows["parse"][5] == "3.10 x *, 1,000 → 3,100"
    assert re.fullmatch(r"1\.39 x \(1\.\d\d \.\. 1\.\d\d\), 201 us → 280 us", rows["parse"][6])
    assert len({len(row) for row in seen["rows"]}) == 1
