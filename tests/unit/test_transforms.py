"""Parts of a profile, by hand-computed numbers of the small profile of conftest.py."""

from __future__ import annotations

import io
import json
from array import array

import pytest
from conftest import small_writer

from spprof import BadOption, Profile, formats
from spprof.cli import main
from spprof.model import Marker
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
    columns = ("thread", "time_ns", "weight_ns", "count", "flags", "label")
    return [(a, b // US, c // US, d, e, f) for a, b, c, d, e, f in zip(*map(profile.column, columns))]


def test_nothing_asked_for_is_everything(profile):
    whole = filtered(profile)
    assert rows(whole) == rows(profile) and whole.aggregate() == profile.aggregate()
    assert whole.threads == profile.threads and whole.markers == profile.markers and whole.header == profile.header


def test_by_thread(profile):
    part = filtered(profile, thread="#wor*")
    assert rows(part) == [(1, 9000, 500, 7, 4, 3), (1, 9001, 1, 1, 0, 0)]
    assert [(each.name, each.samples, each.weight_ns) for each in part.threads] == [("#wor;ker", 8, 501 * US)]
    assert [marker.thread for marker in part.markers] == [1]


def test_by_label_all_that_are_given(profile):
    assert [row[1] for row in rows(filtered(profile, labels={"route": "/a"}))] == [5300, 6300, 9300, 9301]
    part = filtered(profile, labels={"route": "/a", "user": "1"})
    assert [row[1:3] for row in rows(part)] == [(5300, 200), (9300, 3000), (9301, 10)]
    # The truncated stack, marked by its key, is still that: [truncated], a, b.
    assert {tuple(frame.name for frame in stack): total.weight_ns // US for stack, total in part.aggregate().items()} == {
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
    assert sum(sum(part.column("weight_ns")) for part in parts) == sum(profile.column("weight_ns")) == 4811 * US
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


def test_every_format_takes_it_but_our_own(profile):
    part = filtered(profile, labels={"route": "/a"}, stop_ns=6300 * US)
    out = io.BytesIO()
    formats.write(part, out, "collapsed", formats.Options(weight="ns", lines=False, merge_threads=True))
    assert out.getvalue() == b"<module> (/app/x%3By.py);A.a (/app/x%3By.py) 200000\n" + (
        b"<module> (/app/x%3By.py);A.a (/app/x%3By.py);b (/app/%25%0A.py);A.a (/app/x%3By.py) 1000000\n"
    )
    with pytest.raises(BadOption, match=r"cannot be saved as \.spprof"):
        formats.write(part, out, "spprof", formats.Options())


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
