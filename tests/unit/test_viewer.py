"""The HTML page in a real browser: what it shows must be what the model says, however one clicks. See browser.py."""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from browser import BROWSER, BROWSER_MARKS, environment
from spprof_file import Writer
from test_html import HOLDER, NAMES, hostile, waiting

from spprof import Profile
from spprof.model import Marker, intervals

pytestmark = BROWSER_MARKS

SOURCE = """\
def main():
    rows = [parse(line) for line in "\u20ac\U0001f600"] + [slow(1), slow(2)]
    return rows


def parse(line):
    return line.strip()


def slow(n):
    return sum(range(n))  # </script><b>
"""


class Browser:
    """The driver's commands as methods: `click(selector=...)` and so on (tests/browser/viewer.mjs)."""

    def __init__(self):
        self.process = subprocess.Popen(
            ["node", str(BROWSER / "viewer.mjs")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            universal_newlines=True,
            env=environment(),
        )

    def __getattr__(self, command):
        def do(**options):
            print(json.dumps({"do": command, **options}), file=self.process.stdin, flush=True)
            answer = json.loads(self.process.stdout.readline())
            assert "error" not in answer, answer["error"]
            return answer["result"]

        return do

    def close(self):
        self.process.stdin.close()
        self.process.wait(120)
        self.process.stdout.close()

    # What the views show.

    def table(self):
        """Rows of the table: function, file:line, self, total, samples."""
        return [(row[7], row[8], row[0], row[3], row[6]) for row in self.rows(selector="table.figures")]

    def said(self, id):
        return self.text(selector=f'[data-testid="{id}"]')

    def selected(self):
        return self.evaluate(script="document.getElementById('flame-selected').getAttribute('aria-label')")

    def pixel(self, x, y):
        script = f"[...document.getElementById('flame').getContext('2d').getImageData({x}, {y}, 1, 1).data]"
        return tuple(self.evaluate(script=script))[:3]


@pytest.fixture(scope="module")
def browser():
    browser = Browser()
    yield browser
    browser.close()


def time_text(ns):
    for size, unit, digits in ((1e9, "s", 2), (1e6, "ms", 2)):
        if ns >= size:
            return f"{ns / size:.{digits}f} {unit}"
    return f"{ns / 1e3:.{1 if 0 < ns < 1e5 else 0}f} \u00b5s"


def known_rows(rows):
    """Rows of the model as the table shows them."""
    return [
        (
            row.qualname,
            os.path.basename(row.file) + (f":{row.line}" if row.line else ""),
            time_text(row.self_weight),
            time_text(row.total_weight),
            f"{row.self_samples:,}",
        )
        for row in rows
        if row.total_samples
    ]


@pytest.fixture(scope="module")
def known(tmp_path_factory):
    """Two threads, recursion, truncation, native frames, a waiting thread, columns, labels, a GC run. 100 ms."""
    directory = tmp_path_factory.mktemp("known")
    source = directory / "app.py"
    source.write_text(SOURCE, encoding="utf-8")
    file = str(source)
    writer = Writer(argv=["app.py", "--fast"], python="3.11.7 (main)", native="yes")
    main, other = ("main", "main", file, 1, 2, 2, 12, 23), ("main", "main", file, 1, 2, 2, 50, 57)
    late = ("main", "main", file, 1, 2, 2, 59, 66)
    parse = ("parse", "parse", file, 6, 7, 7, 11, 23)
    slow = ("slow", "slow", file, 10, 11, 11, 11, 24)
    deflate = ("deflate", "deflate", "/usr/lib/libz.so.1", 0x100, 0x123, 0, -1, -1, 1)
    stacks = [[main, parse], [other, slow], [other, slow, slow], [late, slow, deflate], [main]]
    for i in range(80):
        writer.sample(stacks[i % 5], 5_000 + 1000 * (i + 1), 1000)
    for i in range(10):
        writer.sample([slow, parse], 5_000 + 2000 * (i + 1), 500, thread=1, count=3, flags=4)
    writer.sample([parse], 95_000, 700, thread=1, flags=1)
    writer.sample([], 105_000, 40, thread=1)
    writer.flush()
    writer.json(b"T", [{"id": 0, "tid": 70, "name": "MainThread"}, {"id": 1, "tid": 71, "name": "worker"}])
    writer.json(
        b"A", {"clock": "perf", "expected": 130, "taken": 92, "repeated": 20, "losses": {"queue_full": 18}, "dropped": 18}
    )
    writer.json(b"E", {"stop_ns": 105_000_000, "reason": "stop"})
    profile = Profile(writer.data)
    columns = profile._columns()
    columns["label_sets"] = [{}, {"request": "/a"}, {"request": "/b", "user": "x"}]
    columns["label"] = [i % 3 if i < 60 else 0 for i in range(len(profile))]
    columns["markers"] = [Marker("gc", 0, 25_000_000, 3_000_000, {"generation": 2, "collected": 12, "uncollectable": 0})]
    path = directory / "known.html"
    profile.save(path, format="html", sources=True)
    return profile, str(path), file


@pytest.fixture
def opened(browser, known):
    """The known page, fresh. Whatever a test does there, nothing may be logged, thrown or fetched."""
    browser.open(path=known[1])
    yield browser
    assert browser.troubles() == []


def test_header_says_what_was_profiled_and_lost(opened):
    header = opened.text(selector="header").split("\n")
    assert header[0] == "app.py --fast"
    assert opened.evaluate(script="document.title") == "app.py --fast \u00b7 spprof"
    chips = dict(
        zip(
            *[iter(opened.evaluate(script="[...document.querySelectorAll('.chips dt, .chips dd')].map((e) => e.textContent)"))]
            * 2
        )
    )
    assert chips == {
        "CPU time": "85.74 ms", "on CPU": "80.74 ms", "off CPU": "5.00 ms", "samples": "112", "lasted": "100.00 ms",
        "threads": "2", "rate": "1,000 Hz, perf", "Python": "3.11.7", "lost": "13.8 %",
    }  # fmt: skip
    opened.click(selector="summary")
    tick_stats = opened.rows(selector='table[aria-label="What became of every tick"]')
    assert [row[0] for row in tick_stats] == ["130", "92", "20", "18"]
    assert "queue was full" in tick_stats[3][1]
    run = dict(opened.rows(selector='table[aria-label="The run"]'))
    assert run["python"] == "3.11.7 (main)" and run["a sample every"] == "1.00 ms"
    assert not [key for key in run if "_" in key]


@pytest.mark.parametrize("lost, red", [(1.07, False), (5, False), (5.1, True)])
def test_a_little_that_was_lost_is_no_alarm(browser, tmp_path, lost, red):
    writer = Writer()
    writer.sample([("f", "f", "/f.py", 1, 1)], 6000, 1000)
    writer.flush()
    ticks = {"expected": 10_000, "taken": 1, "dropped": round(lost * 100), "losses": {"queue_full": round(lost * 100)}}
    writer.json(b"A", {"clock": "perf", **ticks})
    Profile(writer.data).save(tmp_path / "x.html", format="html")
    browser.open(path=str(tmp_path / "x.html"))
    shown = "[...document.querySelectorAll('.chips .bad')].map((e) => e.innerText.split('\\n')[0])"
    assert browser.evaluate(script=shown) == (["lost"] if red else [])


def test_a_box_says_what_was_waited_for_and_its_holder(browser, tmp_path):
    """Beside its name if that is most of it, as in the time when it waited for the GIL alone."""
    waiting().save(tmp_path / "waiting.html", format="html")
    for part, name, said in [
        ("", "main (app.py:1)", f"waited: 3.00 ms the GIL, held by {HOLDER}; 2.00 ms input or output: socket 10.0.0.3:5432;"),
        ("&range=12000,12501", "main (app.py:1) \u00b7 the GIL", f"waited: 3.00 ms the GIL, held by {HOLDER}"),
    ]:
        browser.open(path=str(tmp_path / "waiting.html"), fragment=f"#waits=names{part}")
        browser.press(key="1")
        browser.evaluate(script="document.getElementById('flame').focus()")
        browser.press(key="ArrowDown")
        assert browser.selected().startswith(f"{name}: "), browser.selected()
        assert said in browser.said("flame-about")
    assert browser.troubles() == []


def test_reasons_and_holders(browser, tmp_path):
    """The time of each reason and holder, both sides of one, what is left of a reason, boxes below what waited, lanes."""
    waiting().save(tmp_path / "waiting.html", format="html")
    browser.open(path=str(tmp_path / "waiting.html"))
    reasons = {
        "the GIL": "3.00 ms", "a lock": "2.00 ms", "input or output": "2.00 ms", "running": "1.50 ms", "sleep": "1.00 ms",
        "unknown": "1.00 ms",
    }  # fmt: skip
    browser.press(key="6")
    assert {row[4]: row[0] for row in browser.rows(selector='table[aria-label="What was waited for"]')} == reasons
    assert [(row[0], *row[4:]) for row in browser.rows(selector='table[aria-label="Held by"]')] == [
        ("3.00 ms", f"the GIL: {HOLDER}", "Main 3.00 ms"),
        ("1.00 ms", f"a lock: {HOLDER}", "Main 1.00 ms"),
        ("1.00 ms", "a lock: unknown, or no owner", "Main 1.00 ms"),
    ]
    for side, name in (("waiters", "main (app.py:1)"), ("holder", "Store.save (store.py:40)")):
        browser.evaluate(script=f"document.getElementById('{side}').focus()")
        browser.press(key="ArrowDown")
        said = browser.evaluate(script=f"document.getElementById('{side}-selected').getAttribute('aria-label')")
        assert said.startswith(f"{name}: 3.00 ms"), said
    swatches = "[...document.querySelectorAll('.lanes-legend li:has(> .swatch)')].map((item) => item.innerText)"
    assert set(browser.evaluate(script=swatches)) == set(reasons)
    row = "document.querySelector('.lane-box canvas').getContext('2d').getImageData(0, 20, 2000, 18).data.buffer"
    assert browser.evaluate(script=f"new Set(new Uint32Array({row})).size") > len(reasons)  # each colour, and none
    browser.select(selector='.timeline label:has-text("Threads") select', value="cpu")
    assert browser.evaluate(script=swatches) == ["on CPU", "off CPU (waiting)"]
    browser.press(key="1")
    browser.evaluate(script="document.getElementById('flame').focus()")
    for name in ("main (app.py:1): 10.00 ms", "[the GIL]: 3.00 ms", f"[held by {HOLDER}]: 3.00 ms"):
        browser.press(key="ArrowDown")
        assert browser.selected().startswith(name), browser.selected()
    browser.select(selector='.bar label:has-text("Colour") select', value="reason")
    assert {item.rsplit(" ", 2)[0] for item in browser.text(selector=".bar .legend").split("\n")} == set(reasons)
    browser.select(selector='.filters label:has-text("Waiting for") select', value="a lock")
    assert browser.said("looking").startswith("looking at 2.00 ms of 10.50 ms")
    browser.press(key="2")
    assert [row[0] for row in browser.table()] == ["main"]
    browser.press(key="5")
    browser.select(selector='#panel label:has-text("Waits") select', value="boxes")
    assert [row[3] for row in tree_rows(browser)] == ["main", "[a lock]", "[held by worker"]
    assert browser.troubles() == []


@pytest.mark.parametrize("by", ["function", "line"])
def test_the_table_is_the_models(opened, known, by):
    opened.press(key="2")
    opened.select(selector="#panel select", value=by)
    assert opened.table() == known_rows(known[0].functions(by=by))
    assert "Self samples" in opened.text(selector="table.figures thead")
    # Any column, both ways.
    rows = known[0].functions(by=by)
    columns = {
        "Total": (3, lambda r: r.total_weight),
        "Samples": (4, lambda r: r.self_samples),
        "Function": (0, lambda r: r.qualname),
        "Self": (2, lambda r: r.self_weight),
    }
    for title, (shown, key) in columns.items():
        texts = known_rows(sorted(rows, key=key))
        for expected in (texts, texts[::-1]) if title == "Function" else (texts[::-1], texts):
            opened.click(selector=f'th button:has-text("{title}")')
            assert [row[shown] for row in opened.table()] == [row[shown] for row in expected]
            direction = "ascending" if expected is texts else "descending"
            assert (
                opened.evaluate(script="document.querySelector('th[aria-sort]:not([aria-sort=none])').getAttribute('aria-sort')")
                == direction
            )


def test_intervals_of_the_table(opened, known):
    """Wilson's: at its ends the share is 1.959964 standard errors away."""
    opened.press(key="2")
    whole, samples = sum(known[0].column("weight")), known[0].whole().samples  # the effective number, as in `report`
    row = next(row for row in known[0].functions() if row.qualname == "slow")
    share = row.self_weight / whole
    shown = next(cells for cells in opened.rows(selector="table.figures") if cells[7] == "slow")
    low, high = (float(text) / 100 for text in shown[2].replace(" %", "").split("\u2013"))
    for end in (low, high):
        assert abs(share - end) / (end * (1 - end) / samples) ** 0.5 == pytest.approx(1.96, abs=0.02)
    assert low < share < high


@pytest.mark.parametrize("clock, unknown", [("timer", 1000), ("perf-user", 100), ("perf", 0)])
def test_ranges_where_samples_were_taken_at_the_kernels_tick(browser, tmp_path, clock, unknown):
    """Wider by what is not known, and none where that is most of the time; a line says why. An older file's clock says it."""
    writer = Writer(clock=clock)
    for i in range(1000):
        stack = [("half" if i % 2 else "other", "half" if i % 2 else "other", "/app/x.py", 1, 2)]
        writer.sample(stack, 6_000 + 1000 * i, 1000, flags=2 if clock == "perf-user" and i < 100 else 0)
    writer.flush()
    Profile(writer.data).save(tmp_path / "x.html", format="html")
    browser.open(path=str(tmp_path / "x.html"))
    browser.press(key="2")
    ranges = {cells[2] for cells in browser.rows(selector="table.figures")}
    ends = [intervals.share(part, 1000, 1000)[side] for side, part in enumerate((500 - unknown, 500 + unknown))]
    assert ranges == ({"?"} if unknown == 1000 else {f"{100 * ends[0]:.1f}\u2013{100 * ends[1]:.1f} %"})
    note = browser.evaluate(script="document.querySelector('header [role=note]')?.textContent ?? ''")
    assert ("the kernel's own tick" in note, "not known (?)" in note) == (unknown > 0, unknown == 1000)


def test_a_thread_alone(opened, known):
    opened.press(key="2")
    opened.click(selector='.lanes button:has-text("worker")')
    assert sorted(opened.table()) == sorted(known_rows(known[0].functions(thread="worker")))
    assert "5.74 ms of 85.74 ms, 32 samples" in opened.said("looking")
    opened.click(selector='.lanes button:has-text("MainThread")', modifiers=["Shift"])
    assert sorted(opened.table()) == sorted(known_rows(known[0].functions()))
    opened.press(key="r")
    assert opened.evaluate(script="document.querySelectorAll('[aria-pressed=true]').length") == 0


def self_times(samples):
    times = defaultdict(int)
    for sample in samples:
        times[sample.frames[-1].qualname] += sample.weight
    return {name: time_text(ns) for name, ns in times.items()}


def shown_self_times(browser):
    return {row[0]: row[2] for row in browser.table() if row[2] != time_text(0)}


def test_a_range_of_time(opened, known):
    """Typed, then dragged: only samples taken from its beginning until before its end."""
    opened.press(key="2")
    opened.fill(selector='.filters label:has-text("From") input', text="0.0205")
    opened.fill(selector='.filters label:has-text("to") input', text="0.0405")
    inside = [s for s in known[0].samples() if 20_500_000 <= s.timestamp_ns - 5_000_000 < 40_500_000]
    assert len(inside) == 20
    assert shown_self_times(opened) == self_times(inside)
    width = opened.evaluate(script="document.querySelector('.lane-box canvas').clientWidth")
    opened.drag(selector=".lane-box canvas", **{"from": [0.5 * width, 30], "to": [0.75 * width, 30]})
    low, high = (
        round(float(opened.evaluate(script=f"document.querySelectorAll('.filters input[type=number]')[{i}].value")) * 1e9)
        for i in (0, 1)
    )
    assert (low, high) == (pytest.approx(50e6, abs=1e6), pytest.approx(75e6, abs=1e6))
    inside = [s for s in known[0].samples() if low <= s.timestamp_ns - 5_000_000 < high]
    assert shown_self_times(opened) == self_times(inside)
    opened.click(selector=".lane-box canvas", at={"x": 20, "y": 30})
    assert sorted(opened.table()) == sorted(known_rows(known[0].functions()))


def test_labels(opened, known):
    opened.press(key="2")
    opened.select(selector='.filters label:has-text("request") select', value="/b")
    chosen = [s for s, label in zip(known[0].samples(), known[0].column("label")) if label == 2]
    assert len(chosen) == 20
    assert shown_self_times(opened) == self_times(chosen)
    opened.select(selector='.filters label:has-text("request") select', value="/a")
    opened.select(selector='.filters label:has-text("user") select', value="x")
    assert opened.text(selector=".empty") == "No samples here."
    opened.click(selector='button:has-text("Show all")')
    assert sorted(opened.table()) == sorted(known_rows(known[0].functions()))


def test_search_shows_the_share_of_stacks_and_fades_the_rest(opened, known):
    before = opened.pixel(5, 2)
    opened.press(key="/")
    for key in "slow":
        opened.press(key=key)
    whole = sum(s.weight for s in known[0].samples())
    part = sum(s.weight for s in known[0].samples() if any(f.qualname == "slow" for f in s.frames))
    assert opened.said("found") == f"{100 * part / whole:.1f} % in 1 function"
    faded = opened.pixel(5, 2)
    assert min(faded) > min(before)  # nearer to white
    assert opened.pixel(5, 22) != faded  # slow, below main
    opened.press(key="2")  # goes into the field
    assert opened.said("found") == "0.0 % in 0 functions"
    opened.press(key="Escape")
    opened.press(key="1")  # a command again: the field is left
    assert opened.pixel(5, 2) == before


def legend(browser):
    return " ".join(browser.text(selector=".bar .legend").split())


def test_filters_reach_the_legend(opened):
    """The figures are those of the view, and colours stay."""
    items = "[...document.querySelectorAll('.bar .legend li')]"
    colours = f"Object.fromEntries({items}.map((item) => [item.title, item.firstChild.style.background]))"
    assert legend(opened) == "app.py 81.3 % libz.so.1 18.7 % [no Python frames] 0.05 %"
    whole = opened.evaluate(script=colours)
    opened.click(selector='.lanes button:has-text("worker")')
    assert legend(opened) == "app.py 99.3 % [no Python frames] 0.70 %"
    part = opened.evaluate(script=colours)
    assert part["app.py"] == whole["app.py"]


def test_on_cpu_and_off_cpu_apart(opened, known):
    opened.press(key="2")
    for value, off in (("off", True), ("on", False)):
        opened.select(selector='.filters label:has-text("Time") select', value=value)
        some = [sample for sample in known[0].samples() if bool(sample.flags & 4) == off]
        assert shown_self_times(opened) == self_times(some)
        assert f"of 85.74 ms, {sum(sample.count for sample in some)} samples" in opened.said("looking")
    opened.press(key="r")
    assert sorted(opened.table()) == sorted(known_rows(known[0].functions()))


def test_the_timelines_colours_have_a_legend(opened):
    assert opened.text(selector=".lanes-legend").split("\n") == ["on CPU", "off CPU (waiting)", "garbage collection"]
    swatch = "[...document.querySelectorAll('.lanes-legend .swatch')].map((e) => getComputedStyle(e).backgroundColor)"
    drawn = (
        "[...document.querySelector('.lane-box canvas').getContext('2d').getImageData(5, 33, 1, 1).data].slice(0, 3).join(', ')"
    )
    assert opened.evaluate(script=swatch)[0] == f"rgb({opened.evaluate(script=drawn)})"


def tree_rows(browser):
    """Total, self, level and name of each row."""
    script = """[...document.querySelectorAll('.calls tbody tr')].map((row) => [row.cells[0].innerText, row.cells[3].innerText,
      Number(row.cells[5].firstChild.getAttribute('aria-level')), row.cells[5].innerText.slice(1).split(' (')[0]])"""
    return [tuple(row) for row in browser.evaluate(script=script)]


def test_a_call_tree_and_an_inverted_one(opened):
    opened.press(key="5")
    # What has 30 % is open at first.
    assert tree_rows(opened)[:5] == [
        ("80.00 ms", "16.00 ms", 1, "main"), ("48.00 ms", "16.00 ms", 2, "slow"), ("16.00 ms", "16.00 ms", 3, "slow"),
        ("16.00 ms", "16.00 ms", 3, "deflate [libz.so.1]"), ("16.00 ms", "16.00 ms", 2, "parse"),
    ]  # fmt: skip
    opened.click(selector='.calls button:has-text("main")')
    assert [row[3] for row in tree_rows(opened)] == ["main", "slow", "[truncated]", "[no Python frames]"]
    opened.select(selector='#panel label:has-text("Tree") select', value="inverted")
    top = [row[::3] for row in tree_rows(opened)]
    assert top[:2] == [("32.00 ms", "slow"), ("21.70 ms", "parse")] and top[4][1] == "[no Python frames]"
    assert sorted(top[2:4]) == [("16.00 ms", "deflate [libz.so.1]"), ("16.00 ms", "main")]
    opened.click(selector='.calls button:has-text("parse")')
    below = [row[::3] for row in tree_rows(opened) if row[2] == 2]
    assert below == [("16.00 ms", "main"), ("5.00 ms", "slow"), ("700 \u00b5s", "[truncated]")]


def test_functions_merged_and_folded_and_libraries_hidden(opened):
    """Their time is not lost: it is the caller's. Each is undone by a click."""

    def selves():
        opened.press(key="2")
        return {row[0]: row[2] for row in opened.table()}

    whole = selves()
    assert (whole["slow"], whole["deflate"]) == ("32.00 ms", "16.00 ms")
    opened.press(key="1")
    opened.click(selector="#flame", at={"x": 20, "y": 30})  # slow
    opened.click(selector='.selected-actions button:has-text("Fold")')
    assert selves()["slow"] == "53.00 ms"
    opened.click(selector='.shaped:has-text("folded slow")')
    assert selves() == whole
    opened.press(key="1")
    opened.evaluate(script="document.getElementById('flame').focus()")
    opened.press(key="ArrowDown")
    opened.press(key="ArrowDown")
    opened.press(key="m")
    merged = selves()
    assert "slow" not in merged and merged["main"] == "48.00 ms"
    opened.press(key="r")
    opened.press(key="1")
    opened.evaluate(script="document.getElementById('flame').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown"):
        opened.press(key=key)
    if "deflate" not in opened.selected():
        opened.press(key="ArrowRight")
    opened.press(key="h")
    hidden = selves()
    assert "deflate" not in hidden and hidden["slow"] == "48.00 ms"
    assert opened.text(selector=".shaped").split(" ")[:2] == ["hidden", "libz.so.1"]


def test_the_address_shows_what_was_seen(browser, known):
    """Whatever one chose; and an address of another page does no harm."""
    address = "location.hash"
    settled = "new Promise((done) => setTimeout(done, 400))"  # addresses are written when nothing changed for a moment
    browser.open(path=known[1])
    browser.press(key="2")
    browser.click(selector='.lanes button:has-text("worker")')
    browser.select(selector='.filters label:has-text("Time") select', value="off")
    browser.fill(selector="#search", text="slow")
    seen = browser.table()
    browser.evaluate(script=settled)
    link = browser.evaluate(script=address)
    assert "tab=table" in link and "cpu=off" in link and "threads=1" in link
    browser.open(path=known[1])
    everything = browser.evaluate(script="document.querySelector('[aria-selected=true]').id")
    assert everything == "tab-flame"
    browser.evaluate(script=f"location.hash = {json.dumps(link)}; {settled}")
    assert browser.table() == seen and browser.evaluate(script="document.getElementById('search').value") == "slow"
    # A part of the flame graph.
    browser.evaluate(script=f"location.hash = ''; {settled}")
    browser.click(selector="#flame", at={"x": 20, "y": 30})
    browser.evaluate(script=settled)
    link = browser.evaluate(script=address)
    assert "zoom=" in link
    browser.open(path=known[1], fragment=link)
    assert browser.evaluate(script="document.querySelector('.bar button').disabled") is False
    row = "[...document.getElementById('flame').getContext('2d').getImageData(0, 25, 900, 1).data].join()"
    here = browser.evaluate(script=row)
    browser.click(selector='button:has-text("Reset zoom")')
    assert browser.evaluate(script=row) != here
    browser.open(
        path=known[1],
        fragment="#tab=x&threads=99&type=7&range=9,1&zoom=2&chosen=1e9&merged=-1,77&source=1&boxes=q&other"
        "&label.x=y&label.user=z&label.request=/b",
    )
    browser.evaluate(script=settled)
    assert browser.evaluate(script="[...new URLSearchParams(location.hash.slice(1))]") == [["label.request", "/b"]]
    assert browser.evaluate(script="document.querySelector('[aria-selected=true]').id") == "tab-flame"
    assert browser.troubles() == []


def test_in_a_narrow_window_the_graph_has_most(browser, known):
    browser.open(path=known[1], width=420, height=800)
    box = browser.evaluate(script="document.getElementById('flame').getBoundingClientRect().toJSON()")
    assert box["height"] >= 0.45 * 800 and box["width"] >= 0.95 * 420
    assert browser.evaluate(script="document.documentElement.scrollWidth") <= 420
    assert box["bottom"] <= 800
    for key in "2345":
        browser.press(key=key)
        assert browser.evaluate(script="document.documentElement.scrollWidth") <= 420
    assert browser.troubles() == []


def test_boxes_by_mouse(opened, known):
    """main is the widest root; a click zooms to a box, a click beside all shows the whole again."""
    frames = [s.frames for s in known[0].samples()]
    weights = [s.weight for s in known[0].samples()]
    whole = sum(weights)
    main = sum(w for f, w in zip(frames, weights) if f[0].qualname == "main")
    width = opened.evaluate(script="document.getElementById('flame').clientWidth")
    assert opened.pixel(int(width * (main / whole)) - 4, 2) == opened.pixel(5, 2)
    assert opened.pixel(int(width * (main / whole)) + 2, 2) != opened.pixel(5, 2)
    slow = sum(w for f, w in zip(frames, weights) if len(f) > 1 and f[0].qualname == "main" and f[1].qualname == "slow")
    opened.click(selector="#flame", at={"x": 20, "y": 30})
    about = opened.said("flame-about")
    assert about.startswith("slow (app.py:10)") and f"{time_text(slow)}, {100 * slow / whole:.1f} %" in about
    assert "48 samples" in about and f"{time_text(16_000_000)} of it itself" in about
    assert opened.pixel(int(width * 0.85), 22) == opened.pixel(5, 22)  # slow is now the whole width, where nothing was
    assert opened.evaluate(script="document.querySelector('.bar button').disabled") is False
    opened.click(selector='button:has-text("Reset zoom")')
    assert opened.evaluate(script="document.querySelector('.bar button').disabled") is True
    opened.hover(selector="#flame", at={"x": 20, "y": 10})
    assert opened.text(selector=".tooltip").startswith("main (app.py:1)")
    opened.wheel(selector="#flame", at=[20, 10], by=-300)
    assert opened.evaluate(script="document.querySelector('.bar button').disabled") is False
    opened.press(key="Escape")


def test_boxes_by_keyboard(opened):
    opened.evaluate(script="document.getElementById('flame').focus()")
    walked = []
    for key in ["ArrowDown", "ArrowDown", "ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp", "ArrowUp", "ArrowRight"]:
        opened.press(key=key)
        walked.append(opened.selected().split(" (")[0])
    assert walked == ["main", "slow", "parse", "slow", "slow", "slow", "main", "slow"]
    assert opened.evaluate(script="document.getElementById('flame').getAttribute('aria-activedescendant')") == "flame-selected"
    opened.press(key="ArrowLeft")
    opened.press(key="ArrowDown")
    opened.press(key="Enter")
    width = opened.evaluate(script="document.getElementById('flame').clientWidth")
    assert opened.pixel(int(width * 0.85), 22) == opened.pixel(5, 22)
    opened.press(key="Escape")
    assert opened.pixel(int(width * 0.85), 22) == (255, 255, 255)
    opened.press(key="c")
    assert opened.said("butterfly-about").startswith("slow (app.py:10)")
    opened.press(key="?")
    assert "callers and callees of the selected box" in opened.text(selector='[role="dialog"]')
    opened.press(key="Escape")
    assert opened.evaluate(script="document.querySelector('[role=dialog]')") is None


def test_directions_orders_and_colours(opened, known):
    background = (255, 255, 255)
    height = opened.evaluate(script="document.getElementById('flame').clientHeight")
    assert (opened.pixel(5, 2) != background, opened.pixel(5, height - 18) != background) == (True, False)
    opened.select(selector='label:has-text("Roots") select', value="flame")
    assert (opened.pixel(5, 2) != background, opened.pixel(5, height - 18) != background) == (False, True)
    opened.select(selector='label:has-text("Roots") select', value="icicle")
    opened.select(selector='label:has-text("Order") select', value="time")
    assert "2 threads over time" in opened.text(selector=".flame-view .bar")
    width = opened.evaluate(script="document.getElementById('flame').clientWidth")
    assert opened.pixel(int(width * 0.79), 22) != background  # MainThread, below its name, ran until 80 ms of 100
    assert opened.pixel(int(width * 0.82), 22) == background
    middle = [int(width * (i + 0.5) / 100) for i in range(5)]  # the stacks of the first five milliseconds
    assert [opened.pixel(x, 42) != background for x in middle] == [True, True, True, True, False]
    assert [opened.pixel(x, 62) != background for x in middle] == [False, False, True, True, False]
    opened.hover(
        selector="#flame", at={"x": int(width * 0.897), "y": 110}
    )  # rows: a name, 3 of MainThread's, a name, 2 of worker's
    assert opened.text(selector=".tooltip").startswith("[truncated]")  # its last but one: the 0.7 ms until 90 ms
    opened.evaluate(script="document.getElementById('flame').focus()")
    walked = []
    for key in ["ArrowDown", "ArrowDown", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp", "ArrowUp"]:
        opened.press(key=key)
        walked.append(opened.selected().split(" ")[0])
    # slow runs from 1 to 4 ms and calls itself from 2 to 3. The worker does nothing until 3.5: slow > parse. Up from there is
    # what MainThread did at 3.5.
    assert walked == ["main", "parse", "slow", "slow", "slow", "parse", "slow", "deflate"]
    opened.click(selector='.lanes button:has-text("worker")')
    assert "worker over time" in opened.text(selector=".flame-view .bar")
    assert opened.pixel(int(width * 0.897), 2) != background and opened.pixel(int(width * 0.79), 2) == background
    opened.press(key="r")
    legend = {}
    for scheme in ("package", "language", "thread"):
        opened.select(selector='label:has-text("Colour") select', value=scheme)
        legend[scheme] = opened.text(selector=".bar .legend").replace("\n", " ")
    assert "app.py" in legend["package"] and "libz.so.1" in legend["package"]
    assert "Python 81.3 %" in legend["language"] and "native 18.7 %" in legend["language"]
    assert legend["thread"] == "MainThread (70) 93.3 % worker (71) 6.69 %"


def test_dark_and_light(browser, known):
    paper = "getComputedStyle(document.body).backgroundColor"
    lane = "[...document.querySelector('.lane-box canvas').getContext('2d').getImageData(5, 33, 1, 1).data].slice(0, 3)"
    browser.open(path=known[1], scheme="dark")
    busy = browser.evaluate(script=lane)
    assert (browser.evaluate(script=paper), browser.pixel(1, 400)) == ("rgb(24, 26, 31)", (24, 26, 31))
    browser.click(selector='button:has-text("Light")')
    assert (browser.evaluate(script=paper), browser.pixel(1, 400)) == ("rgb(255, 255, 255)", (255, 255, 255))
    light_busy = browser.evaluate(script=lane)
    assert light_busy != busy
    browser.open(path=known[1])
    assert browser.evaluate(script=paper) == "rgb(255, 255, 255)"
    assert browser.evaluate(script=lane) == light_busy
    assert browser.troubles() == []


def test_callers_and_callees(opened):
    """By hand: of 16 rounds of 5 ms slow has 3, of which 1 calls deflate and 1 itself; the worker's has 10 samples of 0.5 ms."""
    opened.press(key="3")
    slow = "[...document.querySelectorAll('label select option')].find((option) => option.textContent.startsWith('slow')).value"
    opened.select(selector='label:has-text("Function") select', value=opened.evaluate(script=slow))
    assert opened.said("butterfly-about").startswith("slow (app.py:10) 53.00 ms in all")
    assert opened.rows(selector='table[aria-label="Callers"]') == [
        ["48.00 ms", "90.6 %", "main (app.py:1)"], ["5.00 ms", "9.43 %", "called by nobody (root)"],
    ]  # fmt: skip
    assert opened.rows(selector='table[aria-label="Callees"]') == [
        ["16.00 ms", "30.2 %", "slow (app.py:10)"], ["16.00 ms", "30.2 %", "deflate [libz.so.1]"],
        ["5.00 ms", "9.43 %", "parse (app.py:6)"], ["16.00 ms", "30.2 %", "itself"],
    ]  # fmt: skip
    opened.click(selector='table[aria-label="Callees"] button:has-text("deflate")')
    assert opened.said("butterfly-about").startswith("deflate [libz.so.1] 16.00 ms in all")
    assert opened.rows(selector='table[aria-label="Callers"]') == [["16.00 ms", "100.0 %", "slow (app.py:10)"]]


def test_source_lines_and_spans(opened, known):
    profile, _, file = known
    opened.press(key="4")
    expected = {row.line: (time_text(row.self_weight) if row.self_weight else "", time_text(row.total_weight))
                for row in profile.functions(by="line") if row.file == file}  # fmt: skip
    rows = opened.rows(selector="table.code")
    assert {int(row[2]): (row[0], row[1]) for row in rows if row[1]} == expected
    assert [row[3] for row in rows] == [line.strip() for line in SOURCE.splitlines()]
    opened.click(selector='tr[data-line="2"] button')
    spans = opened.evaluate(
        script="[...document.querySelectorAll('tr.span')].map((r) => [r.dataset.span, ...[...r.cells].map((c) => c.innerText)])"
    )
    assert spans == [  # columns count bytes of UTF-8
        ["2:12-23", "16.00 ms", "32.00 ms", "13", "parse(line)"],
        ["2:50-57", "", "32.00 ms", "51", "slow(1)"],
        ["2:59-66", "", "16.00 ms", "60", "slow(2)"],
    ]


def test_a_gc_run_is_on_the_timeline(opened):
    width = opened.evaluate(script="document.querySelector('.lane-box canvas').clientWidth")
    at = {"x": int(width * (21.5 / 100)), "y": 30}  # 20 to 23 ms of 100
    opened.hover(selector=".lane-box canvas", at=at)
    said = opened.text(selector=".said")
    assert "MainThread, 100.0 % active" in said
    assert "garbage collection 3.00 ms, generation 2, collected 12, uncollectable 0" in said
    opened.hover(selector=".lane-box canvas", at={"x": int(width * 0.0975), "y": 50})
    assert opened.text(selector=".said").endswith("ms: worker, 100.0 % off the CPU")


NAMED = set(
    "button link textbox searchbox spinbutton combobox tab tabpanel tree treeitem image img table dialog checkbox".split()
)


def test_everything_has_a_name_for_screen_readers(opened):
    opened.evaluate(script="document.getElementById('flame').focus()")
    opened.press(key="ArrowDown")
    for tab in "12345":
        opened.press(key=tab)
        opened.press(key="?") if tab == "5" else None
        tree = opened.tree()
        nameless = [role for role, name in tree if role.lower() in NAMED and not name]
        assert nameless == []
    assert len([name for role, name in tree if role == "tab"]) == 5


def test_names_from_hell_do_no_harm(browser, tmp_path):
    path = tmp_path / "hostile.html"
    profile = Profile(hostile())
    columns = profile._columns()
    columns["label_sets"] = [{}, {NAMES[1]: NAMES[0], "x": NAMES[5]}]
    profile.save(path, format="html", sources=True)
    browser.open(path=str(path))
    for key in "12345":
        browser.press(key=key)
    browser.press(key="2")
    shown = browser.evaluate(script="[...document.querySelectorAll('td.wide:nth-child(8)')].map((cell) => cell.textContent)")
    clean = [name if len(name) < 240 else name[:239] + "\u2026" for name in NAMES]
    # A lone surrogate is shown as U+FFFD by code that has to encode it.
    assert sorted(name.encode("utf-8", "replace").replace(b"?", b"") for name in shown) == sorted(
        name.encode("utf-8", "replace").replace(b"?", b"") for name in clean
    )
    browser.fill(selector="#search", text="<script>window.hacked")
    assert "1 function" in browser.said("found")
    assert browser.evaluate(
        script="[window.hacked, document.scripts.length, document.querySelectorAll('#app script, #app b').length]"
    ) == [None, 1, 0]
    assert browser.evaluate(script="document.documentElement.scrollWidth <= window.innerWidth")
    assert browser.troubles() == []


def test_profiles_with_nothing_in_them(browser, tmp_path):
    path = tmp_path / "empty.html"
    writer = Writer()
    writer.flush()
    Profile(writer.data).save(path, format="html")
    browser.open(path=str(path))
    assert "No samples were taken" in browser.text(selector="header")
    for key, words in [("2", "No samples here."), ("3", "No samples here."), ("4", "No samples with a line of source here.")]:
        browser.press(key=key)
        assert browser.text(selector=".empty") == words
    browser.press(key="1")
    browser.evaluate(script="document.getElementById('flame').focus()")
    for key in ["ArrowDown", "ArrowRight", "Enter", "+", "-", "Escape"]:
        browser.press(key=key)
    assert browser.troubles() == []


def test_files_that_count_something_else_than_time(browser, tmp_path):
    """Collapsed stacks have numbers, no times: no seconds, no timeline, and the error bars of so many samples."""
    profile = Profile(b"python;main;foo 2000\npython;main 499\npython;x 1\n")
    profile.save(tmp_path / "counted.html")
    browser.open(path=str(tmp_path / "counted.html"))
    chips = browser.text(selector=".chips").replace("\n", " ")
    assert "samples 2,500" in chips and "time" not in chips and "lasted" not in chips
    browser.press(key="2")
    rows = {cells[7]: cells[:7] for cells in browser.rows(selector="table.figures")}
    assert rows["foo"] == [
        "2,000",
        "80.0 %",
        "78.4\u201381.5 %",
        "2,000",
        "80.0 %",
        "78.4\u201381.5 %",
        "2,000",
    ]  # Wilson's of 2000 in 2500
    assert rows["python"][3] == "2,500"
    body = browser.text(selector="body")
    assert " ms" not in body and " s\n" not in body and "\u00b5s" not in body
    assert browser.evaluate(script="document.querySelectorAll('.lane-box, .filters input[type=number]').length") == 0
    browser.press(key="1")
    assert browser.evaluate(script="[...document.querySelectorAll('.flame-view select')].length") == 3  # no order of time
    browser.click(selector="#flame", at={"x": 20, "y": 50})
    assert browser.said("flame-about").startswith("foo") and "2,000 samples, 80.0 %" in browser.said("flame-about")
    browser.press(key="c")
    assert "2,000 samples in all, 80.0 %" in browser.said("butterfly-about")
    assert browser.troubles() == []


def test_types_of_samples_share_a_page(browser, tmp_path):
    """All views follow the switch, and each has figures in its type's unit; filters stay."""
    events = [
        {"type": 0, "name": "time", "unit": "nanoseconds", "period": 1_000_000},
        {"type": 1, "name": "page-faults", "unit": "faults", "period": 31},
    ]
    writer = Writer(events=events, argv=["x.py"], interval_ns=1_000_000)
    main = ("main", "main", "/x.py", 1, 2)
    f, g = ("f", "f", "/x.py", 10, 11), ("g", "g", "/x.py", 20, 21)
    writer.value([main, f], 30_000, 450, type=1)
    for i in range(50):
        writer.sample([main, f], 5_000 + 1000 * (i + 1), 1000)
        writer.sample([main, f], 5_000 + 1000 * (i + 1), 1000, thread=1)
    for i in range(50):
        writer.sample([main, g], 55_000 + 1000 * (i + 1), 1000)
        writer.value([main, g], 55_000 + 1000 * (i + 1), 31, type=1)
    writer.flush()
    writer.json(b"T", [{"id": 0, "tid": 70, "name": "MainThread"}, {"id": 1, "tid": 71, "name": "worker"}])
    about = {"expected": 55, "taken": 51, "dropped": 4, "losses": {"queue_full": 4}}
    writer.json(b"A", {"clock": "perf", "expected": 150, "taken": 150, "losses": {}, "events": {"page-faults": about}})
    writer.json(b"E", {"stop_ns": 105_000_000, "reason": "stop"})
    Profile(writer.data).save(tmp_path / "types.html", format="html")
    browser.open(path=str(tmp_path / "types.html"))

    def lanes():
        pressed = "(li) => [li.innerText, li.firstChild.getAttribute('aria-pressed')]"
        return [tuple(lane) for lane in browser.evaluate(script=f"[...document.querySelectorAll('.lanes li')].map({pressed})")]

    def chips():
        return " ".join(browser.text(selector=".chips").split())

    def tick_stats():
        return [row[:2] for row in browser.rows(selector=".tick-stats table:first-child")]

    assert "CPU time 150.00 ms" in chips() and "1,000 Hz" in chips() and "lost 0.0 %" in chips()
    assert lanes() == [("MainThread", "false"), ("page-faults", "false"), ("worker", "false")]
    browser.press(key="2")
    assert [row[0] for row in browser.table()] == ["f", "g", "main"] and browser.table()[0][2:4] == ("100.00 ms", "100.00 ms")
    browser.select(selector="header select", value="1")
    assert "faults 2,000 samples 51" in chips() and "a sample for 31 faults" in chips() and "Hz" not in chips()
    assert "lost 7.27 %" in chips() and "lasted 100.00 ms" in chips()
    browser.click(selector=".tick-stats summary")
    assert tick_stats()[0] == ["55", "ticks expected"] and tick_stats()[-1][0] == "4"
    browser.click(selector=".tick-stats summary")
    assert lanes()[1] == ("page-faults", "true")
    rows = [("g", "1,550", "1,550"), ("f", "450", "450"), ("main", "0", "2,000")]
    assert [(row[0], *row[2:4]) for row in browser.table()] == rows
    heads = browser.evaluate(script="[...document.querySelectorAll('.figures th')].map((head) => head.innerText.trim())")
    assert heads[0].startswith("Self faults") and heads[3] == "Total faults"
    browser.press(key="1")
    browser.evaluate(script="document.getElementById('flame').focus()")
    browser.press(key="ArrowDown")
    browser.press(key="ArrowDown")
    assert browser.selected().startswith("g (x.py:20): 1,550 faults, 77.5 %")
    assert browser.evaluate(script="[...document.querySelectorAll('.flame-view select')].length") == 3  # no order of time
    browser.press(key="3")
    browser.press(key="1")
    wide = browser.evaluate(script="document.querySelector('.lane-box').getBoundingClientRect().width")
    said = []
    for near in range(-4, 5):  # quarters of a pixel: one is of its bin
        browser.hover(selector=".lane-box canvas", at={"x": wide * 25 / 100 + near / 4, "y": 18 + 22 + 11})
        said.append(browser.text(selector=".said").rpartition(": ")[2])
    assert set(said) == {"MainThread, 0 faults", "MainThread, 450 faults"}
    browser.drag(selector=".lane-box canvas", **{"from": [wide / 2 + 1, 30], "to": [wide + 5, 30]})
    assert "looking at 1,550 of 2,000 faults, 50 samples" in browser.said("looking")
    browser.click(selector=".lanes li:first-child button")  # this thread alone
    browser.select(selector="header select", value="0")
    assert "looking at 50.00 ms of 150.00 ms" in browser.said("looking")
    assert browser.evaluate(script="[...document.querySelectorAll('.flame-view select')].length") == 4
    browser.click(selector=".lanes li:nth-child(2) button")
    assert "looking at 1,550 of 2,000 faults" in browser.said("looking")
    assert browser.troubles() == []


def test_threads_of_a_file_without_times(browser, tmp_path):
    Profile(b"thread (1): Main;main 30\nthread (2): worker;work 10\n").save(tmp_path / "threads.html")
    browser.open(path=str(tmp_path / "threads.html"))
    assert browser.text(selector=".threads").split() == ["Main", "30,", "75.0", "%", "worker", "10,", "25.0", "%"]
    browser.click(selector='.threads button:has-text("worker")')
    assert browser.said("looking") == "looking at 10 of 40 samples, 10 samples"
    assert browser.troubles() == []


def test_small_profile_and_its_marks(browser, tmp_path, data):
    """Recursion, truncation, no Python frames; a profile whose end is missing."""
    path = tmp_path / "small.html"
    profile = Profile(data[: data.rindex(b'{"stop_ns"') - 9])
    profile.save(path, format="html", sources=True)
    browser.open(path=str(path))
    assert "The program did not finish the profile" in browser.text(selector="header")
    browser.press(key="2")
    assert sorted(browser.table()) == sorted(
        (q, f if q != "b" else "% .py:20", *rest) for q, f, *rest in known_rows(profile.functions())
    )  # fmt: skip
    assert browser.troubles() == []


def test_a_page_that_was_damaged_says_so(browser, known, tmp_path):
    text = Path(known[1]).read_text()
    at = text.index('id="profile">') + 13
    for name, damaged in [("cut", text[: at + 400] + "</script></body>"), ("none", text[:at] + "%SPPROF_DATA%</script></body>")]:
        path = tmp_path / f"{name}.html"
        path.write_text(damaged)
        browser.open(path=str(path))
        assert browser.text(selector=".broken").startswith("This page cannot be shown: ")
