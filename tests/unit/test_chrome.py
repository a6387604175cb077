"""Chrome traces: their events beside hand-computed ones, and opened by the real speedscope (see test_speedscope.py)."""

import json

import pytest
from browser import needs_browser
from conftest import NAMES, render
from spprof_file import Writer
from test_speedscope import seen_in_speedscope

from spprof import Profile, errors

ROOT, A, B, A13 = "<module> (x;y.py:3)", "A.a (x;y.py:11)", "b (%\n.py:20)", "A.a (x;y.py:13)"


def events(profile, **options):
    return json.loads(render(profile, "chrome", **options))["traceEvents"]


def calls(profile, **options):
    """Of each thread: name, begin and length of its calls in microseconds, outer calls first."""
    result = {}
    for event in events(profile, **options):
        if event["ph"] == "X":
            result.setdefault(event["tid"], []).append((event["name"], event["ts"], event["dur"]))
    # As readers do: what begins and ends together stays in the order of the file.
    return {tid: sorted(rows, key=lambda row: (row[1], -row[2])) for tid, rows in result.items()}


def test_calls_last_as_long_as_samples_show_them(data):
    # Samples at 100, 300, 1300, 4300, 4301 us from the start weigh 100, 200, 1000, 3000, 10 us.
    assert calls(Profile(data)) == {
        70: [
            (ROOT, 0, 1300),
            (A, 100, 1200),
            (B, 300, 1000),
            (A, 300, 1000),
            ("[truncated]", 1300, 3000),
            (A, 1300, 3000),
            (B, 1300, 3000),
            (ROOT, 4300, 10),
            (A, 4300, 10),
            (B, 4300, 10),
            (A13, 4300, 10),
        ],
        71: [(B, 3500, 500), ("[no Python frames]", 4000, 1)],
    }


def test_gaps_longer_than_an_interval_end_calls():
    writer = Writer()  # an interval is 1000 us
    f = ("f", "f", "f.py", 1, 1)
    for time, weight in ((1000, 1000), (2900, 1000), (3500, 0), (4800, 1000), (7000, 1000), (7990, 1000)):
        writer.sample([f], 5000 + time, weight)
    writer.flush()
    # 900 us of gap are passed over, 800 more are not: then the time is again that of the samples.
    assert calls(Profile(writer.data)) == {
        1 << 22: [("f (f.py:1)", 0, 2000), ("f (f.py:1)", 3800, 1000), ("f (f.py:1)", 6000, 2000)]
    }


def test_names_threads_and_gc_runs(marked):
    found = events(marked)
    names = {(event["tid"], event["args"]["name"]) for event in found if event["name"] == "thread_name"}
    assert names == {(70, "Main"), (71, "#wor;ker")}
    runs = [(e["ph"], e["tid"], e["ts"], e.get("args")) for e in found if e.get("cat") == "gc"]
    first = {"generation": 2, "collected": 7, "uncollectable": 0}
    second = {"generation": 0, "collected": 1, "uncollectable": 3}
    assert runs == [("b", 70, 250, first), ("e", 70, 280.5, None), ("b", 71, 3900, second), ("e", 71, 3950, None)]


def test_options(data):
    assert list(calls(Profile(data), thread="#*")) == [71]
    assert {name for name, _, _ in calls(Profile(data), lines=False)[70]} == {
        "<module> (x;y.py:1)", "A.a (x;y.py:10)", "b (%\n.py:20)", "[truncated]",
    }  # fmt: skip
    merged = {"merge_threads": True}
    for options, why in (({"weight": "value"}, "a timeline shows time"), (merged, "threads run at the same time")):
        with pytest.raises(errors.BadOption, match=why):
            render(Profile(data), "chrome", **options)


def test_threads_of_one_tid_are_distinct():
    writer = Writer()
    for thread in range(3):
        writer.sample([("f", "f", "f.py", 1, 1)], 6000 + thread, 1, thread=thread)
    writer.flush()
    writer.json(b"T", [{"id": id, "tid": tid, "name": "t"} for id, tid in ((0, 9), (1, 9), (2, 0))])
    assert sorted(calls(Profile(writer.data))) == [9, (1 << 22) + 1, (1 << 22) + 2]


def test_an_empty_profile():
    assert calls(Profile(Writer().data)) == {}


@needs_browser
def test_the_real_viewer_shows_threads_and_times(marked, tmp_path):
    seen = seen_in_speedscope(render(marked, "chrome", lines=False), "p.trace.json", tmp_path)
    assert seen["errors"] == []
    assert ["Main" in name for name in seen["list"]] == [True, False] and "#wor;ker" in seen["list"][1]
    main, worker = ({row[2]: row[:2] for row in seen["rows"][name]} for name in seen["profiles"])
    assert {name.split(" ")[0]: [cell.split(" ")[0] for cell in row] for name, row in main.items()} == {
        "<module>": ["1.31ms", "100.00µs"],
        "A.a": ["4.21ms", "1.21ms"],
        "b": ["4.01ms", "3.00ms"],
        "[truncated]": ["3.00ms", "0.00ns"],
    }
    assert [cell.split(" ")[0] for cell in worker["b (% .py:20)"]] == ["500.00µs", "500.00µs"]


@needs_browser
def test_any_name_in_the_real_viewer(tmp_path):
    writer = Writer()
    for step, name in enumerate(NAMES):
        writer.sample([(name, name, "f.py", 1, 7)], 6000 + step, 1)
    writer.flush()
    seen = seen_in_speedscope(render(Profile(writer.data), "chrome"), "p.trace.json", tmp_path)
    assert seen["errors"] == []
    (rows,) = seen["rows"].values()
    assert len(rows) == len(NAMES)
