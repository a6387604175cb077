"""The page of `spprof diff -o`: what is in it; and in a real browser, offline, what it shows, that it can be used, and that names
do no harm.

See browser.py."""

import json
import re

import pytest
from browser import needs_browser, seen_by
from spprof_file import Writer

from spprof import Profile
from spprof.report import diff_page as diff
from spprof.report.comparison import Comparison

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\n\u2028\ud800é{{data}}"


def profile(shares):
    """1000 samples of 1 ms: of `main`, which calls parse, load and others so many times."""
    main = ("main", "main", "/app/x.py", 1, 2)
    writer = Writer()
    at = 5000
    for name, n in shares.items():
        for _ in range(n):
            at += 1000
            writer.sample([main, (name, name, "/app/x.py", 10, 11)], at, 1000)
    writer.flush()
    return Profile(writer.data)


def page():
    before, after = profile({"parse": 600, "load": 390, EVIL: 10}), profile({"parse": 200, "load": 780, EVIL: 5, "x" * 10000: 15})
    before.path, after.path = f"/tmp/{EVIL}", "/tmp/after.spprof"
    return diff.html(Comparison([before], [after]))


def test_what_is_in_the_page():
    """600 and 200 of 1000: Newcombe's interval, by hand from Wilson's (0.5693 .. 0.6299) and (0.1764 .. 0.2259)."""
    reported = page()
    assert "alert(1)</script>" not in reported and "<img" not in reported and reported.count("<script") == 2
    data = json.loads(re.search(r'>(\{"spprof":.*?)</script>', reported, re.S)[1])
    rows = {row["name"].split(" ")[0][:20]: row for row in data["rows"]}
    assert len(rows) == len(data["rows"]) == 5 and data["samples"] == [1000, 1000] and data["unit"] == "nanoseconds"
    a, b, change, marked, *times = rows["parse"]["own"]
    assert (a[0], b[0], change, marked, times) == (0.6, 0.2, pytest.approx([-0.4, -0.438, -0.36], abs=0.0005), True, [0.6, 0.2])
    assert [rows["main"]["total"][side][0] for side in (0, 1)] == [1, 1]
    own = {name: [round(1000 * row["own"][side][0]) for side in (0, 1)] for name, row in rows.items() if "own" in row}
    evil = next(name for name in own if name.startswith("</"))
    assert {name: shares for name, shares in own.items() if any(shares)} == {
        "parse": [600, 200], "load": [390, 780], evil: [10, 5], "x" * 20: [0, 15],
    }  # fmt: skip
    assert sorted(call[0] for call in data["calls"])[-1] == 1 and len(data["calls"]) >= 5


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "diff.html"
    path.write_text(page(), encoding="utf-8")
    return seen_by("diff.mjs", path)


@needs_browser
def test_no_error_and_nothing_is_loaded(seen):
    assert seen["errors"] == []
    assert [url[:8] for url in seen["requests"]] == ["file:///"]
    assert seen["scripts"] == 2 and seen["images"] == 0
    file = EVIL.rpartition("/")[2].split("\n")[0] + "\\n"  # the name of the file; what comes before its last slash is folders
    assert file in seen["title"] and file in seen["heading"]
    assert any("alert(1)" in row[-1] and "\\ud800" in row[-1] for row in seen["rows"])


@needs_browser
def test_the_table(seen):
    """600 and 200 of 1000: Newcombe's interval, by hand from Wilson's (0.5693 .. 0.6299) and (0.1764 .. 0.2259)."""
    by_name = {row[-1].split(" ")[0]: row for row in seen["rows"]}
    assert by_name["parse"] == ["60.0 %", "20.0 %", "-40.0 (-43.8 .. -36.0) *", "0.60 s", "0.20 s", "parse (/app/x.py:10)"]
    assert by_name["load"][:2] == ["39.0 %", "78.0 %"] and by_name["load"][2].endswith(" *")
    assert [row[-1].split(" ")[0] for row in seen["rows"]][:2] == ["parse", "load"]
    assert len(seen["rows"]) == 4
    marked = [name[:4] for name, row in by_name.items() if row[2].endswith("*")]
    assert marked == ["pars", "load", "xxxx"]  # 15 of 1000 beside none; not 5 beside 10
    assert max(map(len, by_name)) <= 300
    totals = {row[-1].split(" ")[0]: row for row in seen["totals"]}
    assert totals["main"][:3] == ["100.0 %", "100.0 %", "0.0 (-0.4 .. +0.4)"]
    assert sorted(row[-1][:4] for row in seen["marked"]) == ["load", "pars", "xxxx"]
    assert [row[-1].split(" ")[0] for row in seen["sorted"]][:3] == ["main", "load", "parse"]
    assert [row[-1].split(" ")[0] for row in seen["searched"]] == ["parse"]


def named(calls):
    return {call["title"].split(" ")[0].split("\n")[0]: call for call in calls}


@needs_browser
def test_the_flame_graph(seen):
    calls, wide = named(seen["calls"]), seen["wide"]
    assert calls["main"]["width"] == pytest.approx(wide) and calls["load"]["width"] == pytest.approx(0.78 * wide)
    assert calls["parse"]["width"] == pytest.approx(0.2 * wide) and calls["parse"]["y"] > calls["main"]["y"]
    assert "share of A 60.0 %, of B 20.0 %, change -40.0 (-43.8 .. -36.0) points *" in calls["parse"]["title"]
    assert calls["load"]["fill"] == "hsl(4 85% 58.55%)" and calls["parse"]["fill"] == "hsl(216 85% 58%)"
    assert calls["main"]["fill"] == "var(--plain)"
    (pale,) = [call["fill"] for name, call in calls.items() if name.startswith("<")]
    assert " 25% " in pale  # not more than chance
    assert named(seen["by_a"])["parse"]["width"] == pytest.approx(0.6 * wide)
    assert [title.split(" ")[0] for title in seen["found"]] == ["parse"]
    zoomed = named(seen["zoomed"])
    assert sorted(zoomed) == ["all", "main", "parse"] and zoomed["parse"]["width"] == pytest.approx(wide)
    assert seen["reset"] == seen["by_a"]


@needs_browser
def test_the_boxes_by_keyboard(seen):
    """all > main > load, parse, ...: widths are those of A. parse was clicked before, and calls nobody."""
    names = [name for _, name, _ in seen["walked"]]
    assert names == ["parse", "main", "all", "main", "parse", "load", "parse", "parse"]
    assert [selected for _, _, selected in seen["walked"]] == [f"treeitem true {name}" for name in names]
    assert sorted(named(seen["entered"])) == ["all", "main", "parse"]
    assert seen["left"] == seen["by_a"]
