"""A growing file, read on piece by piece: at every length what a reader of the whole prefix would add up."""

from __future__ import annotations

import os

import pytest
from conftest import MAIN, A, small_writer
from spprof_file import Writer

from spprof import BadFile, Profile
from spprof.live.follow import Follower


def figures(profile):
    threads = [(each.id, each.name, each.samples, each.weight_ns) for each in profile.threads]
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
    assert not follower._reading.tables.columns["stack"] and follower._rest == b""


def test_forget_counts_from_now_on(tmp_path):
    file, writer = tmp_path / "p.spprof", Writer()
    follower = Follower(file)
    for time, weight in ((5500, 100), (6000, 7)):
        follower.forget()
        writer.sample([(*MAIN, 3)], time, weight)
        writer.flush()
        file.write_bytes(writer.data)
        follower.read()
    assert [row.self_weight_ns for row in follower.profile().functions()] == [7000]


@pytest.mark.skipif(os.name == "nt", reason="Windows replaces no file that is open")
def test_a_file_written_anew_is_read_anew(tmp_path, data):
    file = tmp_path / "p.spprof"
    follower = Follower(file)
    file.write_bytes(data)
    follower.read()
    short = Writer()
    short.sample([(*MAIN, 3)], 5500, 4)
    short.flush()
    file.write_bytes(short.data)  # the same file, emptied
    follower.read()
    assert [row.self_weight_ns for row in follower.profile().functions()] == [4000]
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


def test_another_kind_of_file_is_refused(tmp_path):
    file = tmp_path / "p.spprof"
    file.write_bytes(b"\x89S")
    follower = Follower(file)
    follower.read()
    assert follower.profile() is None
    file.write_bytes(b"\x89SQLite")
    with pytest.raises(BadFile, match=r"not a \.spprof file"):
        follower.read()
