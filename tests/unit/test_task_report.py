"""`report --tasks`: where the time of tasks went and what held their loops, of a file whose truth is written here."""

import json
import math
import re

import pytest
from spprof_file import Writer

import spprof
from spprof.cli import main
from spprof.errors import BadOption
from spprof.model.waits import REASONS
from spprof.report import tasks

LOOP, TASK, JOB, FUTURE, LOCKED, SLEEPS = (REASONS.index(name) for name in ("loop", "task", "job", "future", "lock", "sleep"))
MS = 1000  # us
NS = 1_000_000
EVENTS = [
    {"type": 0, "name": "time", "unit": "nanoseconds", "period": NS},
    {"type": 11, "name": "tasks", "unit": "nanoseconds", "period": 10 * NS},
]
OFF = 4


def frame(name, file="/app.py", line=1):
    return (name, name, file, 1, line, 0, -1, -1, 0)


RUN, HOGS, WAITS = frame("run"), frame("hogs", line=7), frame("waits", line=9)
SLEEP, LOCK = frame("sleep", "/lib/asyncio/tasks.py", 600), frame("acquire", "/lib/asyncio/locks.py", 100)
SHADOW = frame("sleep", "/app/tasks.py", 600)  # is not asyncio's


def written(tmp_path, events=EVENTS):
    writer = Writer(mode="wall", events=events, pid=1)
    start = 5 * MS
    if events is EVENTS:
        writer.sample([RUN, HOGS], start + 10 * MS, 10 * MS, task="hog")
        writer.sample([RUN], start + 20 * MS, 10 * MS)
        writer.sample([RUN, HOGS], start + 30 * MS, 10 * MS, task="hog")
    value = {"type": 11, "flags": OFF}
    writer.value([WAITS], start + 5 * MS, 10 * NS, reason=LOOP, task="one", **value)
    writer.value([WAITS, SLEEP], start + 5 * MS, 20 * NS, reason=FUTURE, task="two", by="one, hog", **value)
    writer.value([WAITS, LOCK], start + 15 * MS, 30 * NS, reason=FUTURE, task="one", **value)
    writer.value([WAITS, SHADOW], start + 15 * MS, 5 * NS, reason=FUTURE, task="two", **value)
    writer.value([WAITS], start + 16 * MS, 10 * NS, reason=LOOP, task="one", **value)  # the loop itself ran next to it
    writer.value([WAITS], start + 25 * MS, 40 * NS, reason=TASK, task="one", on="two", **value)
    writer.value([WAITS], start + 25 * MS, 50 * NS, reason=JOB, task="two", **value)
    writer.value([WAITS], start + 28 * MS, 7 * NS, reason=LOOP, task="two", **value)
    writer.value([WAITS], start + 99 * MS, 3 * NS, reason=LOOP, task="two", **value)
    writer.flush()
    path = tmp_path / "p.spprof"
    path.write_bytes(writer.data)
    return path


def test_the_time_of_each_task_by_reason(tmp_path):
    rows, _ = tasks.tasks([spprof.Profile.load(written(tmp_path))])
    assert [(row.task, row.ns, row.awaited_by) for row in rows] == [
        ("one", 90 * NS, []),
        ("two", 85 * NS, ["one", "hog"]),
        ("hog", 20 * NS, []),
    ]
    spent = {row.task: {(part.reason, part.on): part.ns for part in row.spent} for row in rows}
    assert spent == {
        "one": {("task", "two"): 40 * NS, ("lock", ""): 30 * NS, ("loop", ""): 20 * NS},
        "two": {("job", ""): 50 * NS, ("sleep", ""): 20 * NS, ("loop", ""): 10 * NS, ("future", ""): 5 * NS},
        "hog": {("running", ""): 20 * NS},
    }


def test_a_task_that_is_never_seen_to_wait_is_awaited_by_those_that_wait_for_it(tmp_path):
    writer = Writer(mode="wall", events=EVENTS, pid=1)
    writer.sample([RUN, HOGS], 15 * MS, 10 * MS, task="hog")
    waits = [("one", TASK, "hog"), ("two", FUTURE, None), ("one", TASK, "hog"), ("three", TASK, "hog")]
    for at, (name, reason, on) in enumerate(waits):
        writer.value([WAITS], (10 + at) * MS, NS, reason=reason, task=name, on=on, type=11, flags=OFF)
    writer.flush()
    rows, _ = tasks.tasks([spprof.Profile(writer.data)])
    awaited = {row.task: row.awaited_by for row in rows}
    assert awaited == {"hog": ["one", "three"], "one": [], "two": [], "three": []}


def test_what_held_a_loop_adds_up_to_the_time_of_ready_tasks(tmp_path):
    _, held = tasks.tasks([spprof.Profile.load(written(tmp_path))])
    assert [(row.task, [f.name for f in row.stack], row.ns, row.waiters) for row in held] == [
        ("hog", ["run", "hogs"], 17 * NS, [("one", 10 * NS), ("two", 7 * NS)]),
        ("", ["run"], 10 * NS, [("one", 10 * NS)]),
        ("", [], 3 * NS, [("two", 3 * NS)]),  # nothing says what ran then
    ]
    assert [row.where for row in held] == ["task hog in hogs (/app.py:7)", "the event loop in run (/app.py:1)", "unknown"]


def test_without_samples_of_time_nobody_knows_what_held_a_loop(tmp_path):
    rows, held = tasks.tasks([spprof.Profile.load(written(tmp_path, EVENTS[1:]))])
    assert {row.task for row in rows} == {"one", "two"}
    assert [(row.where, row.ns) for row in held] == [("unknown", 30 * NS)]


def test_the_report_in_text_and_json(tmp_path, capsys):
    path = str(written(tmp_path))
    main(["report", path, "--tasks"])
    text = capsys.readouterr().out
    assert "3 names of tasks, 0.20 s of their time." in text and "two, awaited by one, hog" in text
    assert "task hog in hogs (/app.py:7)" in text and "ready: one 10.00 ms, two 7.00 ms" in text
    main(["report", path, "--tasks", "-f", "json"])
    made = json.loads(capsys.readouterr().out)
    assert made["kind"] == "tasks" and sum(row["ns"] for row in made["rows"]) == 195 * NS
    assert sum(row["ns"] for row in made["held"]) == 30 * NS
    main(["report", path, "--type", "tasks", "--waiting", "loop", "-f", "json"])
    assert json.loads(capsys.readouterr().out)["samples"] == 4


def test_few_samples_of_great_weight_say_so(tmp_path, capsys):
    """A sample stands for all tasks of which it was drawn: of one in a hundred, few may be most of the time."""
    writer = Writer(mode="wall", events=EVENTS, pid=1)
    writer.sample([RUN], 15 * MS, 10 * MS)
    for at in range(200):
        writer.value([WAITS], (20 + 10 * at) * MS, 10 * NS, reason=LOCKED, task="many", type=11, flags=OFF)
        if at % 80 == 0:
            writer.value([WAITS, SLEEP], (20 + 10 * at) * MS, 1000 * NS, reason=SLEEPS, task="rare", type=11, flags=OFF)
    writer.flush()
    path = tmp_path / "p.spprof"
    path.write_bytes(writer.data)
    (rare, many), _ = tasks.tasks([spprof.Profile.load(path)])
    assert (rare.task, rare.ns, rare.few) == ("rare", 3000 * NS, " [3 samples]") and (many.task, many.few) == ("many", "")
    # Wilson's interval of a share of so many samples of one weight: docs/intervals.md.
    whole, squares, p = 5000, {"rare": 3 * 1000**2, "many": 200 * 10**2}, 0.6
    number = p * (1 - p) * whole**2 / ((1 - p) ** 2 * squares["rare"] + p**2 * squares["many"])
    number = min(number, whole**2 / sum(squares.values()))
    z2 = 1.959963984540054**2
    middle, reach = (p + z2 / 2 / number), math.sqrt(z2 * (p * (1 - p) / number + z2 / 4 / number**2))
    ends = [whole * NS * (middle + sign * reach) / (1 + z2 / number) for sign in (-1, 1)]
    assert [rare.interval.low, rare.interval.high] == pytest.approx(ends)
    assert main(["report", str(path), "--tasks"]) == 0
    text = capsys.readouterr().out
    reach = max(ends[1] / NS - 3000, 3000 - ends[0] / NS)
    assert re.search(rf"^ +3\.00 s ±{reach / 1000:.2f} s +rare \[3 samples\]$", text, re.M), text
    main(["report", str(path), "--tasks", "-f", "json"])
    row = json.loads(capsys.readouterr().out)["rows"][0]
    assert row["ns_interval"] == row["spent"][0]["ns_interval"] == pytest.approx(ends)


def test_a_profile_without_waiting_tasks_says_how_to_take_one(tmp_path):
    writer = Writer(mode="wall")
    writer.sample([RUN], 10 * MS, 5 * MS)
    writer.flush()
    (tmp_path / "p.spprof").write_bytes(writer.data)
    with pytest.raises(BadOption, match="--event tasks"):
        tasks.tasks([spprof.Profile.load(tmp_path / "p.spprof")])


def test_what_a_task_waits_for_is_known_without_the_functions_that_are_hidden(tmp_path, capsys):
    path = str(written(tmp_path))
    found = []
    for part in ([], ["--hide", "acquire", "--hide", "/lib/asyncio/*"]):
        assert main(["report", path, "--tasks", "-f", "json", *part]) == 0
        found.append(json.loads(capsys.readouterr().out)["rows"])
    assert found[0] == found[1]


@pytest.mark.parametrize("part", [("--waiting", "loop"), ("--label", "task=one"), ("--focus", "waits", "--hide", "acquire")])
def test_what_held_the_loop_of_a_part_is_looked_for_in_the_whole(tmp_path, capsys, part):
    """A task that nobody has seen running, too, has its part."""
    assert main(["report", str(written(tmp_path)), "--tasks", "-f", "json", *part]) == 0
    made = json.loads(capsys.readouterr().out)
    assert "one" in [row["task"] for row in made["rows"]]
    held = {row["task"]: row["waiters"] for row in made["held"] if row["stack"]}
    assert {"task": "one", "ns": 10 * NS} in held["hog"] and {"task": "one", "ns": 10 * NS} in held[""]
