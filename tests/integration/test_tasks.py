"""Tasks of asyncio: each function of the target runs in one task alone, under a name that the program itself saw, so every
sample of it must carry just that name."""

import json
import sys

import pytest
from judging import until_seen
from ran import TARGETS

from spprof.cli import main

LONGEST = 128  # bytes of a name, of as many a character as CPython has


def kept(name):
    width = next(width for width, end in ((1, 0x100), (2, 0x10000), (4, 0x110000)) if max(map(ord, name), default=0) < end)
    return name[: LONGEST // width]


def named(profile, truth):
    """The functions of tasks that were seen: each under its task's name, and under no other."""
    seen = set()
    for sample in profile:
        ran = [frame.name for frame in sample.frames if frame.name in truth]
        if ran:
            assert len(ran) == 1 and sample.task == kept(truth[ran[0]]), f"impossible: {sample}, {truth[ran[0]]!r}"
            seen.add(ran[0])
        if any(frame.name == "outside" for frame in sample.frames):
            assert sample.task == "", f"impossible: {sample}"
            seen.add("outside")
    return seen


@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_a_sample_has_the_name_of_its_task(run_python, tmp_path, mode):
    found, to_see = set(), {"outside"}
    for seconds in until_seen(found, to_see, seconds=1):
        ran = run_python(TARGETS / "tasks.py", "out.spprof", mode, seconds)
        truth = ran.json["truth"]
        to_see |= {name for name in truth if name.endswith("first") or int(name.split("_")[1]) % 2}
        found |= named(ran.profile, truth)


@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_a_sample_has_its_task_while_other_loops_step(run_python, tmp_path, mode):
    found, truth = set(), {"computes": "worker", "worker": "worker", "hops": "hop"}
    for seconds in until_seen(found, {"worker", "hop"}, seconds=1):
        ran = run_python(TARGETS / "tasks_of_many_loops.py", "out.spprof", mode, seconds)
        for sample in ran.profile:
            names = {frame.name for frame in sample.frames}
            named = {truth[name] for name in names & set(truth)}
            # `tasks` calls them, too, to make their coroutines
            assert "tasks" in names or named in (set(), {sample.task}), f"impossible: {sample}"
            found |= {sample.task} & named


def test_a_task_that_steps_while_it_is_asked_is_no_unknown_one(run_python, tmp_path):
    runs = 20 if getattr(sys, "_is_gil_enabled", lambda: True)() else 500  # one of 150 did
    assert run_python(TARGETS / "tasks_that_step.py", runs).json["refused"] == 0


def test_reports_by_task_and_of_one_task(run_python, tmp_path, capsys):
    ran = run_python(TARGETS / "tasks.py", "out.spprof", "wall", 1)
    main(["report", str(ran.path), "--by", "task", "-f", "json"])
    rows = {row["labels"].get("task", ""): row["total"]["samples"] for row in json.loads(capsys.readouterr().out)["rows"]}
    truth = {}
    for sample in ran.profile:
        truth[sample.task] = truth.get(sample.task, 0) + sample.count
    assert rows == truth and len(truth) > 3
    name = max((name for name in truth if name), key=lambda name: truth[name])
    main(["report", str(ran.path), "--label", f"task={name}", "-f", "json"])
    assert json.loads(capsys.readouterr().out)["samples"] == truth[name]
