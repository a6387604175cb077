"""A growing file, read on piece by piece: at every length what a reader of the whole prefix would add up."""

from __future__ import annotations

import json
import os
from array import array

import pytest
from conftest import MAIN, A, small_writer
from spprof_file import Writer

from spprof import BadFile, Profile
from spprof.live.follow import Follower
from spprof.live.picture import picture
from spprof.model.waits import REASONS


def figures(profile):
    threads = [(each.id, each.name, each.samples, each.weight) for each in profile.threads]
    return threads, profile.functions(), profile.functions(by="line", thread="Main"), profile.aggregate(), profile.end


@pytest.mark.parametrize("step", [5, 100, 1000])
def test_at_every_length_as_if_read_whole(tmp_path, data, step):
    file = tmp_path / "p.spprof"
    follower = Follower(file)
    assert follower.read() == 0 and follower.profile() is None  # not there yet
    seen = 0
    for end in range(step, len(data) + step, step):
        file.write_bytes(data[:end])
        assert follower.read() == len(data[:end]) - len(data[: end - step])
        profile = follower.profile()
        if profile is not None:
            seen += 1
            assert figures(profile) == figures(Profile(data[:end]))
            assert follower.warning is None
    assert seen and profile.end["reason"] == "stop"


def test_only_the_sums_stay_in_memory(tmp_path):
    file, writer = tmp_path / "p.spprof", Writer()
    follower = Follower(file)
    for i in range(200):
        writer.sample([(*MAIN, 3), (*A, 11)], 6000 + 10 * i, 10)
        writer.flush()
        file.write_bytes(writer.data)
        follower.read()
    assert follower.profile().threads[0].samples == 200
    assert not follower._reading.tables.columns["stack"] and follower._rest == [b""]


def test_a_large_block_is_put_together_once(tmp_path, monkeypatch):
    """Not each time a piece of it comes, nor are the tables copied for each block: that would take quadratic time."""

    class Uncopied(array):
        def __add__(self, other):
            raise AssertionError("copied")

    writer = small_writer()
    small = len(writer.data)
    writer.json(b"X", "x" * 100_000)
    writer.sample([(*MAIN, 3), (*A, 12)], 9000, 10)
    writer.flush()
    file = tmp_path / "p.spprof"
    file.write_bytes(writer.data)
    monkeypatch.setattr("spprof.live.follow._CHUNK", 100)
    follower, takes = Follower(file), []
    take = follower._take
    follower._take = lambda data: (takes.append(len(data)), take(data))
    while follower.read():
        if follower._reading is not None:
            columns = follower._reading.tables.columns
            columns["code_line"] = Uncopied("I", columns["code_line"])
    assert figures(follower.profile()) == figures(Profile(writer.data))
    assert len(takes) < small // 100 + 20 and sum(takes) < 3 * len(writer.data)


def test_forget_counts_from_now_on(tmp_path):
    file, writer = tmp_path / "p.spprof", Writer()
    follower = Follower(file)
    for time, weight in ((5500, 100), (6000, 7)):
        follower.forget()
        writer.sample([(*MAIN, 3)], time, weight)
        writer.flush()
        file.write_bytes(writer.data)
        follower.read()
    assert [row.self_weight for row in follower.profile().functions()] == [7000]


def test_labels_choose_samples_of_the_whole_file(tmp_path):
    """Also those that were read before the choice; what `forget` left out stays out."""
    file, writer = tmp_path / "p.spprof", Writer()
    sets = [{}, {"route": "/a"}, {"route": "/b", "user": "x y"}]
    for i in range(30):
        writer.sample([(*MAIN, 3)], 6000 + 10 * i, 2**i, label=json.dumps(sets[i % 3]))
        if i % 10 == 9:
            writer.flush()
    file.write_bytes(writer.data)
    follower = Follower(file)

    def weight(labels):
        follower.only(labels)
        while follower.read():
            pass

        def carries(labels_of):
            return all(labels_of.get(key, "").startswith(value.rstrip("*")) for key, value in labels.items())

        truth = [i for i in range(30) if carries(sets[i % 3])]
        assert sum(each.weight for each in follower.profile().threads) == 1000 * sum(2**i for i in truth)
        return len(truth)

    choices = ({}, {"route": "/a"}, {"route": "/*"}, {"user": "x y", "route": "/b"}, {"no": "x"})
    assert [weight(labels) for labels in choices] == [30, 10, 20, 10, 0]
    follower.only({})
    while follower.read():
        pass
    follower.forget()
    for i in range(3):
        writer.sample([(*MAIN, 3)], 9000 + i, 5, label=json.dumps(sets[i]))
    writer.flush()
    file.write_bytes(writer.data)
    for labels, samples in (({}, 3), ({"route": "/a"}, 1), ({"route": "/*"}, 2)):
        follower.only(labels)
        while follower.read():
            pass
        assert sum(each.samples for each in follower.profile().threads) == samples


@pytest.mark.skipif(os.name == "nt", reason="Windows replaces no file that is open")
def test_a_file_written_again_is_read_again(tmp_path, data):
    file = tmp_path / "p.spprof"
    follower = Follower(file)
    file.write_bytes(data)
    follower.read()
    short = Writer()
    short.sample([(*MAIN, 3)], 5500, 4)
    short.flush()
    file.write_bytes(short.data)  # the same file, emptied
    follower.read()
    assert [row.self_weight for row in follower.profile().functions()] == [4000]
    other = tmp_path / "other"
    other.write_bytes(data)
    other.replace(file)  # another file of that name
    follower.read()
    assert figures(follower.profile()) == figures(Profile(data))


def test_damage_ends_it_with_a_warning(tmp_path, data):
    writer = small_writer()
    broken = bytearray(writer.data)
    broken[len(data) // 2] ^= 1
    file = tmp_path / "p.spprof"
    file.write_bytes(broken)
    follower = Follower(file)
    follower.read()
    assert "checksum is wrong" in follower.warning == Profile(bytes(broken)).warning
    assert figures(follower.profile()) == figures(Profile(bytes(broken)))
    file.write_bytes(bytes(broken) + b"more")
    follower.read()  # no error, and no more figures
    assert figures(follower.profile()) == figures(Profile(bytes(broken)))


def test_a_folder_is_named(tmp_path):
    with pytest.raises(OSError) as raised:
        Follower(tmp_path).read()
    assert raised.value.filename == str(tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="what is asked there would end the process")
def test_a_program_that_is_gone_writes_no_more(tmp_path):
    path = tmp_path / "p.spprof"
    for pid, is_left in ((os.getpid(), False), ((1 << 22) + 1, True), (0, False)):  # no process has the second number
        path.write_bytes(Writer(pid=pid).data)
        follower = Follower(path)
        assert not follower.is_left()
        follower.read()
        assert follower.is_left() == is_left


def test_another_kind_of_file_is_refused(tmp_path):
    file = tmp_path / "p.spprof"
    file.write_bytes(b"\x89S")
    follower = Follower(file)
    follower.read()
    assert follower.profile() is None
    file.write_bytes(b"\x89SQLite")
    with pytest.raises(BadFile, match=r"not a \.spprof file"):
        follower.read()


def test_what_was_waited_for_and_its_holder(tmp_path):
    """Beside the function that waited, and of each thread: as reports say it of the whole file."""
    file = tmp_path / "p.spprof"
    writer = Writer(mode="wall")
    save, wait = ("save", "Store.save", "/srv/store.py", 40, 44), ("wait", "wait", "/srv/app.py", 3, 4)
    pool = [("_bootstrap", "_bootstrap", "/usr/lib/python3.11/threading.py", 1, 2)]
    off, numbers = 4, {name: number for number, name in enumerate(REASONS)}
    at, kept = 10_000, None
    for turn in range(3):
        for stack, us, thread, flags, reason, on, by in (
            ([save], 3000, 1, 0, "running", None, 0),
            ([(*MAIN, 3), wait], 1000, 0, off, "lock", None, 2),
            ([(*MAIN, 3), wait], 800, 0, off, "io", "pipe:[7]", 0),
            ([(*MAIN, 3), wait], 100, 0, 0, "running", None, 0),
            ([(*MAIN, 3)], 100, 0, off, "sleep", None, 0),
            ([(*MAIN, 3)], 900, 0, 0, "running", None, 0),
            (pool, 1000, 2, off, "lock", None, 0),
        ):
            at += us
            writer.sample(stack, at, us, thread=thread, flags=flags, reason=numbers[reason], on=on, by=by)
        writer.flush()
        if not turn:
            writer.json(b"T", [{"id": i, "tid": 7 + i, "name": name} for i, name in enumerate(["Main", "worker", "pool"])])
        file.write_bytes(writer.data)
        kept = kept or Follower(file)
        kept.read()
    shown = picture(kept.profile())
    assert {row[0]: row[4] for row in shown.threads} == {
        "Main": "a lock, held by worker 34.5%; input or output: pipe:[7] 27.6%; sleep 3.4%",
        "worker": "",
        "pool": "idle 100.0%",
    }
    names = {row[-1].partition(" (")[0]: row[-1] for row in shown.functions}
    assert names["wait"].endswith("app.py:3) · a lock") and names["_bootstrap"].endswith(" · idle")
    assert not any("·" in names[each] for each in ("Store.save", MAIN[0]))
    assert all("·" not in row[-1] for row in picture(kept.profile(), thread="worker").functions)
    kept.forget()
    assert [row[4] for row in picture(kept.profile()).threads if row[4]] == []
