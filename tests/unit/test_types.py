"""Profiles with samples of several types: views of one, what formats and reports make of them."""

from __future__ import annotations

import gzip
import io
import json
import random

import pytest
from spprof_file import Writer

import spprof
from spprof import formats
from spprof.cli import main
from spprof.live.follow import Follower
from spprof.model.filtering import filtered
from spprof.report.comparison import Comparison
from spprof.report.summary import summary

EVENTS = [
    {"type": 0, "name": "time", "unit": "nanoseconds", "period": 1_000_000},
    {"type": 1, "name": "page-faults", "unit": "faults", "period": 31},
]
MAIN, F, G = (("<module>", "<module>", "x.py", 1, 1), ("f", "f", "x.py", 10, 11), ("g", "g", "x.py", 20, 21))


def written(events=EVENTS, seed=3, rows=300, stats=True):
    """A file, and its rows: (type, thread, time us, weight, stack, count, flags, label)."""
    rng, writer = random.Random(seed), Writer(events=events)
    now, told = [5000, 5000], []
    for number in range(rows):
        thread, type = rng.randrange(2), rng.choice([event["type"] for event in events])
        now[thread] += rng.randrange(1, 2000)
        stack = rng.choice([[MAIN], [MAIN, F], [MAIN, G], [MAIN, F, G], []])
        row = (now[thread], rng.randrange(1, 5000), thread, rng.randrange(1, 3), rng.choice([0, 0, 1]))
        label = rng.choice([None, None, '{"k": "v"}'])
        if type:
            writer.value(stack, *row, label, type)
        else:
            writer.sample(stack, *row, label)
        told.append((type, thread, row[0], row[1], [each[1] for each in stack], row[3], row[4], label))
        if number % 50 == 49:
            writer.flush()
    if stats:
        losses = {"taken": 10, "expected": 12, "dropped": 2, "units": 77, "losses": {"queue_full": 2}}
        writer.json(b"A", {"clock": "signal", "expected": 5, "taken": 5, "losses": {}, "events": {"page-faults": losses}})
    writer.json(b"E", {"stop_ns": 10**9, "reason": "stop"})
    return writer.data, told


@pytest.fixture
def both():
    data, told = written()
    return spprof.Profile(data), told


def rows_of(profile, type):
    scale = 1 if type else 1000
    return [
        (
            type, each.thread, each.timestamp_ns // 1000, each.weight // scale,
            [frame.qualname for frame in each.frames if frame.file == "x.py"], each.count, each.flags,
            json.dumps(each.labels) if each.labels else None,
        )
        for each in profile
    ]  # fmt: skip


def test_a_view_has_the_samples_of_its_type_and_no_others(both):
    profile, told = both
    assert [(each.name, each.unit) for each in profile.sample_types] == [("time", "nanoseconds"), ("page-faults", "faults")]
    assert rows_of(profile, 0) == [row for row in told if row[0] == 0] == rows_of(profile.of("time"), 0)
    faults = profile.of("page-faults")
    assert rows_of(faults, 1) == [row for row in told if row[0] == 1]
    assert faults.unit == "faults" and profile.unit == "nanoseconds"
    assert [each.name for each in faults.sample_types] == ["page-faults"] and faults.of("page-faults") is faults
    assert faults.stats["taken"] == 10 and faults.stats["losses"] == {"queue_full": 2} and profile.stats["taken"] == 5
    assert list(map(len, profile.each_type())) == [len(profile), len(faults)]
    for wrong in ("faults", ""):
        with pytest.raises(spprof.BadOption, match="of time, page-faults"):
            profile.of(wrong)


def test_without_time_the_first_other_type_is_shown():
    data, told = written(EVENTS[1:])
    profile = spprof.Profile(data)
    assert profile.unit == "faults" and rows_of(profile, 1) == told


def test_a_type_without_samples():
    writer = Writer(events=EVENTS)
    writer.sample([MAIN], 6000, 10)
    writer.flush()
    profile = spprof.Profile(writer.data)
    assert len(profile.of("page-faults")) == 0 and len(profile) == 1


@pytest.mark.parametrize("events", [
    [{"type": 1}], [1], {"a": 1}, [EVENTS[1], EVENTS[1]], [{**EVENTS[1], "type": 256}], [{**EVENTS[1], "name": 5}], "time",
])  # fmt: skip
def test_a_header_that_makes_no_sense(events):
    with pytest.raises(spprof.BadFile):
        spprof.Profile(Writer(events=events).data).sample_types  # noqa: B018


def test_a_part_is_of_the_type_that_it_was_made_of(both):
    profile, told = both
    part = filtered(profile.of("page-faults"), labels={"k": "v"}, start_ns=50_000_000, stop_ns=100_000_000)
    assert rows_of(part, 1) == [row for row in told if row[0] == 1 and row[7] and 50_000 <= row[2] < 100_000]
    assert [each.name for each in part.sample_types] == ["page-faults"]
    with pytest.raises(spprof.BadOption):
        part.of("time")


def test_pprof_has_a_value_for_each_type(both):
    profile, told = both
    out = io.BytesIO()
    formats.write(profile, out, "pprof", formats.Options())
    raw = gzip.decompress(out.getvalue())
    for word in (b"samples", b"cpu", b"nanoseconds", b"page-faults", b"faults"):
        assert word in raw
    again = spprof.Profile(out.getvalue())
    assert sum(again.column("weight")) == sum(row[3] for row in told if row[0] == 0) * 1000
    alone = io.BytesIO()
    formats.write(profile.of("page-faults"), alone, "pprof", formats.Options())
    assert sum(spprof.Profile(alone.getvalue()).column("weight")) == sum(row[3] for row in told if row[0] == 1)


def test_speedscope_has_a_profile_for_each_thread_and_type(both):
    profile, told = both
    out = io.BytesIO()
    formats.write(profile, out, "speedscope", formats.Options())
    made = json.loads(out.getvalue())
    names = sorted((each["name"].rpartition(": ")[2], each["unit"], sum(each["weights"])) for each in made["profiles"])
    wanted = []
    for type, name, unit, scale in ((0, "time", "nanoseconds", 1000), (1, "page-faults", "none", 1)):
        for thread in (0, 1):
            wanted.append((name, unit, scale * sum(row[3] for row in told if row[:2] == (type, thread))))
    assert names == sorted(wanted)
    assert made["profiles"][made["activeProfileIndex"]]["unit"] == "nanoseconds"


@pytest.mark.parametrize("format", ["collapsed", "html", "svg", "jsonl"])
def test_formats_take_a_view(both, format):
    out = io.BytesIO()
    formats.write(both[0].of("page-faults"), out, format, formats.Options())
    assert out.getvalue()


def test_the_summary_says_what_it_is_of(both):
    profile, told = both
    text = summary([profile])
    assert "of CPU time" in text and "There are samples of page-faults too" in text
    text = summary([profile.of("page-faults")])
    assert f"{sum(row[3] for row in told if row[0] == 1):,} faults." in text
    assert "Event: page-faults, a sample for 31 asked" in text
    assert "12 expected = 10 taken + 2" in text and "CPU" not in text and "Hz" not in text


def test_diff_compares_a_type_with_itself(both):
    profile, _ = both
    faults = profile.of("page-faults")
    assert Comparison([faults], [faults]).unit == "faults"
    with pytest.raises(spprof.BadOption):
        Comparison([faults], [profile])


@pytest.mark.parametrize("command, why", [("report", "added up"), ("diff", "compared")])
def test_files_that_show_different_types_are_refused_and_what_they_have_in_common_is_said(tmp_path, capsys, command, why):
    paths = [str(tmp_path / "both.spprof"), str(tmp_path / "faults.spprof")]
    for path, events in zip(paths, (EVENTS, EVENTS[1:])):
        with open(path, "wb") as file:
            file.write(written(events)[0])
    assert main([command, *paths]) == 2
    said = f"count faults and nanoseconds, which cannot be {why}; all have samples of page-faults (--type page-faults)"
    assert said in capsys.readouterr().err
    assert main([command, *paths, "--type", "page-faults"]) == 0


def test_what_follows_a_file_shows_time_and_keeps_no_others(tmp_path):
    data, told = written()
    path = tmp_path / "p.spprof"
    path.write_bytes(data)
    follower = Follower(path)
    while follower.read():
        pass
    profile = follower.profile()
    assert profile is not None
    assert sum(thread.weight for thread in profile.threads) == 1000 * sum(row[3] for row in told if row[0] == 0)
    assert not follower._reading.tables.columns["value_type"]


def test_a_file_of_a_part_has_time_alone(tmp_path, both):
    """Blocks V of the whole are in none: what the part left out would be in them."""
    profile, _ = both
    middle = sorted(profile.column("time_ns"))[len(profile) // 2]
    part = filtered(profile, start_ns=middle)
    for number, each in enumerate([part, profile.of("time")]):
        path = str(tmp_path / f"{number}.spprof")
        each.save(path)
        read = spprof.Profile.load(path)
        assert [told.name for told in read.sample_types] == ["time"]
        assert read.column("time_ns").tolist() == each.column("time_ns").tolist()
        assert read.column("weight").tolist() == [weight // 1000 * 1000 for weight in each.column("weight")]


def test_live_without_time_is_refused(capsys):
    """Its picture would be empty."""
    assert main(["run", "--live", "--event", "page-faults", "x.py"]) == 2
    assert "--live shows time alone" in capsys.readouterr().err


def test_a_file_of_a_part_of_another_type_is_refused(tmp_path, both):
    profile, _ = both
    faults = profile.of("page-faults")
    for part, options in ((faults, {}), (filtered(faults, start_ns=0), {}), (faults, {"thread": "*"})):
        with pytest.raises(spprof.BadOption, match="can only hold time, not faults"):
            part.save(str(tmp_path / "part.spprof"), **options)
    assert not list(tmp_path.iterdir())


def test_a_profile_without_time_is_not_followed(tmp_path):
    (tmp_path / "p.spprof").write_bytes(written(EVENTS[1:])[0])
    with pytest.raises(spprof.BadFile, match="no samples of time"):
        Follower(tmp_path / "p.spprof").read()
