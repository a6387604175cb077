"""Parts of a profile, by hand-computed numbers of the small profile of conftest.py."""

from __future__ import annotations

import gc
import io
import json
import threading
import time
from array import array

import pytest
from conftest import LIBRARY, small_writer
from spprof_file import Writer

import spprof
from spprof import BadFile, BadOption, Profile, _core, formats
from spprof.cli import main
from spprof.model import Marker
from spprof.readers import loading
from spprof.readers import spprof as twin
from spprof.readers.spprof import build_ids
from spprof.transforms import filtered

# Samples of `small_writer`, in the order of the file: thread, time and weight in us. Each stands for the time up to its own:
# #0 5000-5100, #1 5100-5300, #2 5300-6300; thread 1: #3 8500-9000 (7 ticks), #4 9000-9001; #5 6300-9300, #6 9291-9301.
US = 1000


@pytest.fixture
def profile(data):
    profile = Profile(data)
    columns = profile._columns()
    columns["label_sets"] = [{}, {"route": "/a", "user": "1"}, {"route": "/a"}, {"route": "/é;'\""}]
    columns["label"] = memoryview(array("I", [0, 1, 2, 3, 0, 1, 1]))
    columns["markers"] = [Marker("gc", 0, 5_200 * US, 5 * US, {}), Marker("gc", 1, 9_000 * US, 7 * US, {})]
    return profile


def rows(profile):
    columns = ("thread", "time_ns", "weight", "count", "flags", "label")
    return [(a, b // US, c // US, d, e, f) for a, b, c, d, e, f in zip(*map(profile.column, columns))]


def test_nothing_asked_for_is_everything(profile):
    whole = filtered(profile)
    assert rows(whole) == rows(profile) and whole.aggregate() == profile.aggregate()
    assert whole.threads == profile.threads and whole.markers == profile.markers and whole.header == profile.header


def test_by_thread(profile):
    part = filtered(profile, thread="#wor*")
    assert rows(part) == [(1, 9000, 500, 7, 4, 3), (1, 9001, 1, 1, 0, 0)]
    assert [(each.name, each.samples, each.weight) for each in part.threads] == [("#wor;ker", 8, 501 * US)]
    assert [marker.thread for marker in part.markers] == [1]


def test_by_label_all_that_are_given(profile):
    assert [row[1] for row in rows(filtered(profile, labels={"route": "/a"}))] == [5300, 6300, 9300, 9301]
    part = filtered(profile, labels={"route": "/a", "user": "1"})
    assert [row[1:3] for row in rows(part)] == [(5300, 200), (9300, 3000), (9301, 10)]
    # The truncated stack, marked by its key, is still that: [truncated], a, b.
    assert {tuple(frame.name for frame in stack): total.weight // US for stack, total in part.aggregate().items()} == {
        ("<module>", "a"): 200, ("[truncated]", "a", "b"): 3000, ("<module>", "a", "b", "a"): 10,
    }  # fmt: skip
    assert part.markers == []  # they carry no labels
    assert rows(filtered(profile, labels={"route": "/é;'\""})) == [(1, 9000, 500, 7, 4, 3)]
    assert filtered(profile, labels={"user": "2"}).threads == []


@pytest.mark.parametrize(
    "first, last, expected",
    [
        (5100, 6300, [(0, 5300, 200, 1), (0, 6300, 1000, 1)]),  # touches its neighbours, which have no time in it
        (5200, 5400, [(0, 5300, 100, 1), (0, 6300, 100, 1)]),
        (None, 5050, [(0, 5100, 50, 1)]),
        (9290, None, [(0, 9300, 10, 1), (0, 9301, 10, 1)]),
        (8600, 8800, [(1, 9000, 200, 3), (0, 9300, 200, 1)]),  # 7 ticks * 200 / 500 = 2.8
        (9300, 9400, [(0, 9301, 1, 1)]),
        (1, 2, []),
        (9500, 9500, []),
    ],
)
def test_by_time_samples_are_cut_at_the_ends(profile, first, last, expected):
    part = filtered(profile, start_ns=first and first * US, stop_ns=last and last * US)
    assert [row[:4] for row in rows(part)] == expected


def test_times_that_adjoin_add_up(profile):
    edges = [0, 5001, 5250, 5300, 8700, 9000, 9295, 20_000]
    parts = [filtered(profile, start_ns=a * US, stop_ns=b * US) for a, b in zip(edges, edges[1:])]
    assert sum(sum(part.column("weight")) for part in parts) == sum(profile.column("weight")) == 4811 * US
    assert [len(part.markers) for part in parts] == [0, 1, 0, 0, 0, 1, 0]


def test_a_sample_without_weight_is_a_point():
    writer = small_writer()
    writer.sample([], 9500, 0, thread=2)
    writer.flush()
    profile = Profile(writer.data)
    assert len(filtered(profile, start_ns=9500 * US, stop_ns=9501 * US)) == 1
    assert len(filtered(profile, start_ns=9400 * US, stop_ns=9500 * US)) == 0


def test_a_part_of_a_part(profile):
    part = filtered(filtered(profile, labels={"route": "/a"}), thread="Main", start_ns=6000 * US, stop_ns=7000 * US)
    assert part.raw() == profile.raw()  # which formats ask for what is not in columns
    assert rows(part) == [(0, 6300, 300, 1, 2, 2), (0, 9300, 700, 1, 1, 1)]


def test_other_formats_take_it(profile):
    part = filtered(profile, labels={"route": "/a"}, stop_ns=6300 * US)
    out = io.BytesIO()
    formats.write(part, out, "collapsed", formats.Options(weight="value", lines=False, merge_threads=True))
    assert out.getvalue() == b"<module> (/app/x%3By.py);A.a (/app/x%3By.py) 200000\n" + (
        b"<module> (/app/x%3By.py);A.a (/app/x%3By.py);b (/app/%25%0A.py);A.a (/app/x%3By.py) 1000000\n"
    )


# ---- a part as a file of its own


def rich_writer():
    """Labels that are first used late, native functions with names and lines, collections, a thread of the second block."""
    main, native = ("<module>", "<module>", "/app/main.py", 1, 3), ("deflate", "deflate", LIBRARY, 0x100, 0x123, 0, -1, -1, 1)
    writer = Writer(start_ns=5_000_000_123, native="yes", clock="timer", argv=["app\udc80.py"])
    for block in range(3):
        at = 5_000_000 + 10_000 * block
        writer.sample([main], at + 100, 100)
        writer.sample([main, native], at + 1100, 1000, label='{"route": "/a"}' if block else None)
        writer.sample([main, ("f", "A.f", "/app/main.py", 10, 11 + block, 12 + block, 4, 9)], at + 1101, 7, flags=3)
        if block:
            writer.sample([main], at + 5000, 3000, thread=1, count=9, flags=4, label='{"route": "/b", "user": "\u00e9"}')
        writer.flush()
        writer.collections((1, (at + 500) * US, 2500, 2, 7, 0), (2, (at + 501) * US, 10, 0, 1, 1), (0, at * US, 1, 0, 0, 0))
    writer.block(b"O", b"00ff17 " + LIBRARY.encode() + b"\0")
    writer.json(b"T", [{"id": 0, "tid": 70, "name": "Main"}, {"id": 1, "tid": 71, "name": "w\udcff", "more": [1]}])
    writer.json(b"L", {"frames": {"1": [["deflate", "/src/deflate.c", 10], ["<inlined>", "/src/deflate.h", 3]]}})
    writer.json(b"N", {"names": {"1": "zlib.compress"}})
    writer.json(b"A", {"clock": "timer", "expected": 17, "taken": 7, "losses": {"x": 4}, "dropped": 4, "write_error": 0})
    writer.json(b"E", {"stop_ns": 5_100_000_000, "reason": "stop"})
    return writer


def everything(profile):
    """All that a profile says, but how it numbers stacks and labels."""
    columns = ("thread", "time_ns", "weight", "count", "flags")
    return {
        "samples": list(profile),
        "columns": [list(profile.column(name)) for name in columns],
        "about": [profile.header, profile.stats, profile.end, profile.warning, profile.unfinished],
        "figures": [profile.functions(by="line"), profile.aggregate(), profile.native_calls(), profile.threads],
        "rest": [profile.markers, profile.files(), build_ids(profile.raw()), profile._columns()["threads"]],
    }


def as_file(part, **options):
    out = io.BytesIO()
    formats.write(part, out, "spprof", formats.Options(**options))
    return out.getvalue()


PARTS = [
    {"thread": "w*"},
    {"thread": "70"},
    {"labels": {"route": "/a"}},
    {"labels": {"route": "*", "user": "\u00e9"}},
    {"start_ns": 5_000_100_999, "stop_ns": 5_013_000_001},  # cuts samples, and is no whole microseconds
    {"start_ns": 5_010_000_000},
    {"stop_ns": 5_010_000_500, "thread": "Main"},
    {"start_ns": 1, "stop_ns": 2},
    {},
]
each_part = pytest.mark.parametrize("wanted", PARTS, ids=str)
READERS = pytest.mark.parametrize("read", [_core.read, twin.read], ids=["core", "twin"])


@READERS
@each_part
def test_a_part_is_a_file_that_says_the_same(wanted, read, monkeypatch):
    monkeypatch.setattr(loading, "_read_ours", read)
    part = filtered(Profile(rich_writer().data), **wanted)
    again = Profile(as_file(part))
    assert everything(again) == everything(part)
    assert everything(Profile(as_file(again))) == everything(part)


@each_part
def test_a_part_of_a_part_is_one_too(wanted):
    first = filtered(Profile(rich_writer().data), start_ns=5_000_500_000)
    part, by_files = filtered(first, **wanted), Profile(as_file(filtered(Profile(as_file(first)), **wanted)))
    assert everything(by_files) == everything(Profile(as_file(part))) == everything(part)
    assert Profile(as_file(filtered(part, thread="w*"))).header["part"] == filtered(part, thread="w*").header["part"]


def test_a_thread_that_a_format_is_asked_for_is_a_part():
    profile = Profile(rich_writer().data)
    assert as_file(profile, thread="w*") == as_file(filtered(profile, thread="w*")) != as_file(profile) == profile.raw()


def test_a_part_of_a_damaged_file_has_what_was_read_and_says_what_was_not():
    """Cut off anywhere; and a block that makes no sense, with sound ones behind it."""
    data = rich_writer().data
    for size in [*range(len(data) // 3, len(data), 7)]:
        part = filtered(Profile(data[:size]), labels={"route": "*"})
        again = Profile(as_file(part))
        found, expected = everything(again), everything(part)
        assert again.warning == part.unfinished if part.end is None else again.warning == part.warning
        found["about"].pop(3), expected["about"].pop(3)
        assert found == expected
    writer = rich_writer()
    writer.columns["node_parent"] += [0, 0]
    writer.columns["node_frame"] += [0, 0]
    writer.flush()
    writer.sample([("late", "late", "late.py", 1, 1)], 9_000_000, 1)
    writer.flush()
    part = filtered(Profile(writer.data), start_ns=5_000_500_000)
    again = Profile(as_file(part))
    assert "does not make sense" in part.warning and everything(again) == everything(part)
    assert "late.py" not in again.files()


def test_a_part_of_a_file_that_was_replaced_is_refused(tmp_path):
    path = tmp_path / "p.spprof"
    path.write_bytes(rich_writer().data)
    part = filtered(Profile.load(path), start_ns=5_000_500_000)
    path.write_bytes(small_writer().data)
    with pytest.raises(BadFile, match="was replaced after it had been read"):
        part.save(tmp_path / "part.spprof")
    assert [each.name for each in tmp_path.iterdir()] == ["p.spprof"]


def test_reports_of_a_part_are_those_of_the_whole_with_the_filter(tmp_path, capsys):
    """By both ways of filtering, and of the part's part."""
    whole, part, both = (str(tmp_path / name) for name in ("p.spprof", "part.spprof", "both.spprof"))
    (tmp_path / "p.spprof").write_bytes(rich_writer().data)
    words, more = ["--from", "0.0005", "--to", "0.0123"], ["--label", "route=/a"]
    assert main(["convert", whole, *words, "-o", part]) == 0
    assert main(["convert", part, *more, "-o", both]) == 0
    for view in ([], ["--by", "line"], ["--format", "tree"], ["--format", "json"], ["--native-calls"], ["--by", "route"], ["-v"]):
        for file, given in ((whole, words), (part, more)):
            assert main(["report", file, *given, *view]) == 0
            expected = capsys.readouterr().out
            made = part if file == whole else both
            assert main(["report", made, *view]) == 0
            found = (
                capsys.readouterr().out.replace(json.dumps(made), "null").replace(made, file)
            )  # a part that is no file has no path
            assert found == expected and len(expected) > 100
    assert main(["convert", whole, *words, "--thread", "w*", "-o", both, "--force"]) == 0
    assert main(["report", both]) == 0
    assert capsys.readouterr().out.startswith("Only from 0.0005 s, to 0.0123 s, thread w*; the tick stats are the whole")


def test_a_part_of_a_real_recording(tmp_path):
    """Native frames, labels, several threads; whatever was sampled."""
    path = tmp_path / "p.spprof"
    spprof.start(output_path=path, rate=5000, native=_core.NATIVE)
    worker = threading.Thread(target=lambda: [json.dumps(list(range(500))) for _ in range(300)])
    worker.start()
    with spprof.label(route="/a"):
        end = time.thread_time() + 0.1  # without the GIL a collection is of everything, and takes 50 ms here
        while time.thread_time() < end:
            sorted(range(500, 0, -1))
            gc.collect(0)
    worker.join()
    whole = spprof.stop()
    start, end = min(whole.column("time_ns"), default=0), max(whole.column("time_ns"), default=0)
    for wanted in ({"labels": {"route": "/a"}}, {"start_ns": start + (end - start) // 3, "stop_ns": end - (end - start) // 3}):
        part = filtered(whole, **wanted)
        assert everything(Profile(as_file(part))) == everything(part)


def test_ranges_that_make_no_sense(profile):
    with pytest.raises(BadOption, match="ends before it begins"):
        filtered(profile, start_ns=2, stop_ns=1)


def test_convert_and_report_take_a_time_range(path, tmp_path, capsys):
    out = tmp_path / "o.speedscope.json"
    assert main(["convert", str(path), "--from", "0.0001", "--to", "0.0003", "-o", str(out)]) == 0
    (only,) = json.loads(out.read_text())["profiles"]
    assert only["weights"] == [200_000]  # the file's start is at 5000 us
    assert main(["report", str(path), "--from", "0.0042"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Only from 0.0042 s; the tick stats") and "0.11 ms of CPU time, 2 samples." in shown


def test_a_label_that_is_not_there_is_an_error(path, capsys):
    assert main(["report", str(path), "--label", "route=/x"]) == 2
    assert "no sample carries the label route=/x (there is no label 'route')" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["report", str(path), "--label", "route"])
    assert "give KEY=VALUE" in capsys.readouterr().err


def test_report_by_label(path, profile, capsys, monkeypatch):
    monkeypatch.setattr(Profile, "load", lambda path: profile)
    assert main(["report", "x", "--label", "route=/a", "--label", "user=1"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Only route=/a, user=1;") and "3.21 ms of CPU time, 3 samples." in shown
    assert main(["report", "x", "--label", "route=/b"]) == 2
    assert "(route is /a, /é;'\")" in capsys.readouterr().err
