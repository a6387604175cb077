"""Tasks of asyncio, as profiles and reports have them."""

import json

import pytest
from spprof_file import Writer

from spprof import Profile
from spprof.cli import main
from spprof.model.filtering import filtered

STACK = [("step", "step", "/srv/app.py", 1, 2)]


@pytest.fixture
def profile(tmp_path):
    """One ms for each: task, labels."""
    writer = Writer()
    for at, (task, labels) in enumerate(
        [
            ("orders", None),
            ("orders", {"route": "/a"}),
            ("Task-7", {"route": "/a"}),
            (None, {"route": "/b"}),
            (None, None),
            ("orders", {"task": "own"}),
        ]
    ):
        writer.sample(STACK, 6_000 + 1_000 * at, 1_000, label=labels and json.dumps(labels), task=task)
    writer.flush()
    path = tmp_path / "p.spprof"
    path.write_bytes(writer.data)
    return Profile.load(path)


def rows(capsys, *options):
    assert main(["report", *options, "-f", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    return {tuple(row["labels"].items()): row["total"]["samples"] for row in document["rows"]}


def test_samples_have_their_tasks(profile):
    assert [sample.task for sample in profile] == ["orders", "orders", "Task-7", "", "", "orders"]
    assert [sample.labels for sample in profile][1:3] == [{"route": "/a"}] * 2


def test_by_task(profile, capsys):
    """A label of the program's own that is called so comes first."""
    assert rows(capsys, profile.path, "--by", "task") == {
        (("task", "orders"),): 2,
        (("task", "Task-7"),): 1,
        (): 2,
        (("task", "own"),): 1,
    }
    assert main(["report", profile.path, "--by", "task"]) == 0
    assert "[no task]" in capsys.readouterr().out


def test_sets_of_labels_have_no_tasks(profile, capsys):
    assert rows(capsys, profile.path, "--by", "label") == {
        (): 2,
        (("route", "/a"),): 2,
        (("route", "/b"),): 1,
        (("task", "own"),): 1,
    }


def test_the_part_of_a_task(profile, capsys, tmp_path):
    assert rows(capsys, profile.path, "--by", "route", "--label", "task=o*s") == {(): 1, (("route", "/a"),): 1}
    assert len(filtered(profile, labels={"task": "Task-7", "route": "/a"})) == 1
    part = tmp_path / "part.spprof"
    assert main(["convert", profile.path, "--label", "task=o*", "-o", str(part)]) == 0
    assert [sample.task for sample in Profile.load(part)] == ["orders"] * 3
    assert main(["report", profile.path, "--label", "task=none"]) != 0
    assert "task is Task-7, orders, own" in capsys.readouterr().err


def test_a_file_without_the_column(tmp_path, capsys):
    writer = Writer()
    writer.sample(STACK, 6_000, 1_000)
    writer.flush()
    path = tmp_path / "old.spprof"
    path.write_bytes(writer.data)
    assert [sample.task for sample in Profile.load(path)] == [""]
    assert main(["report", str(path), "--by", "task"]) != 0
    assert "no sample carries a label" in capsys.readouterr().err
