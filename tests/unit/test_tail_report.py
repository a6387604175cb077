"""Requests, as profiles and `report --tail` have them."""

import json

import pytest
from spprof_file import Writer

from spprof import Profile
from spprof.cli import main
from spprof.files.profile import Profile as Loaded
from spprof.model import waits
from spprof.model.filtering import filtered
from spprof.model.joining import joined

MAIN = ("<module>", "<module>", "/srv/app.py", 1, 9)
QUERY = [MAIN, ("query", "query", "/srv/app.py", 20, 22)]
RENDER = [MAIN, ("render", "render", "/srv/app.py", 30, 33)]
MS, OFF = 1_000_000, 4


def labels(id, route="/a"):
    return json.dumps({"request": id, "route": route})


def write(path, **header):
    """100 requests of 10 ms that render for 4 ms and read for 2 ms from a socket, and 2 of 110 ms that read for 102 ms."""
    writer = Writer(mode="wall", **header)
    number = waits.REASONS.index
    requests, now = [], 10_000
    for i in range(102):
        reads = 102 if i >= 100 else 2
        of = labels(str(i), "/slow" if i >= 100 else "/a")
        requests.append((now * 1000, (8 + reads) * MS, of))
        writer.sample(RENDER, now + 4_000, 4_000, label=of, count=4)
        writer.sample(QUERY, now + 4_000 + 1_000 * reads, 1_000 * reads, flags=OFF, reason=number("io"), on="socket", label=of)
        now += 1_000 * (8 + reads)
        writer.sample(RENDER, now + 5_000, 5_000, label=of, count=5)  # in its context, but after its end
        now += 10_000
    writer.requests(*requests)
    path.write_bytes(writer.data)
    return Profile.load(path)


@pytest.fixture
def profile(tmp_path):
    return write(tmp_path / "p.spprof")


def report(capsys, *options):
    assert main(["report", *options, "-f", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_requests_have_their_time_and_labels(profile):
    first = profile.requests[0]
    assert (first.time_ns, first.duration_ns, first.labels) == (10 * MS, 10 * MS, {"request": "0", "route": "/a"})
    assert len(profile.requests) == 102 and profile.requests[-1].duration_ns == 110 * MS


def test_what_the_slow_ones_do(profile, capsys):
    """Their parts add up to their time; what ran after their end is none of it."""
    made = report(capsys, profile.path, "--tail", "p98")
    assert (made["slow"], made["others"], made["least_ns"]) == (2, 100, 110 * MS)
    assert (made["slow_ns"], made["others_ns"]) == (110 * MS, 10 * MS)
    rows = {(row["reason"], row["on"]): (row["slow_ns"] / MS, row["others_ns"] / MS) for row in made["rows"]}
    assert rows == {("io", "socket"): (102, 2), ("running", ""): (4, 4), ("elsewhere", ""): (4, 4)}
    assert made["rows"][0]["reason"] == "io" and made["rows"][0]["more_ns"] == 100 * MS
    places = {row["place"]: (row["slow_ns"] / MS, row["others_ns"] / MS) for row in made["places"]}
    assert places == {"query (/srv/app.py:22)": (102, 2), "render (/srv/app.py:33)": (4, 4)}


def test_the_difference_has_an_interval(tmp_path, capsys):
    """Of eleven requests the slower ones have 100 and 104 ms in a place, others 0, 1, ... 8: by Welch's test."""
    writer = Writer(mode="wall")
    requests, now = [], 10_000
    for i, ms in enumerate([*range(9), 100, 104]):
        requests.append((now * 1000, (ms + 1) * MS, labels(str(i))))
        now += ms * 1000
        if ms:
            writer.sample(QUERY, now, ms * 1000, label=labels(str(i)))
        now += 2_000
    writer.requests(*requests)
    path = tmp_path / "p.spprof"
    path.write_bytes(writer.data)
    (row,) = report(capsys, str(path), "--tail", "p81")["places"]
    low, high = row["more_interval"]
    assert row["more_ns"] == 98 * MS and low < 98 * MS < high and low + high == pytest.approx(196 * MS)
    # Student's t of 1.4 degrees of freedom (1.45, rounded down), times the root of 8 / 2 + 7.5 / 9.
    assert high - row["more_ns"] == pytest.approx(6.657 * (4 + 7.5 / 9) ** 0.5 * MS, rel=1e-3)


def test_an_id_that_comes_again_is_another_request(tmp_path, capsys):
    writer = Writer(mode="wall")
    for now, stack in ((10_000, QUERY), (50_000, RENDER)):
        writer.sample(stack, now + 3_000, 3_000, label=labels("same"))
    writer.requests((10 * MS, 5 * MS, labels("same")), (50 * MS, 4 * MS, labels("same")))
    path = tmp_path / "p.spprof"
    path.write_bytes(writer.data)
    made = report(capsys, str(path), "--tail", "p50")
    places = {row["place"]: (row["slow_ns"] / MS, row["others_ns"] / MS) for row in made["places"]}
    assert places == {"query (/srv/app.py:22)": (3, 0), "render (/srv/app.py:33)": (0, 3)}
    assert all(row["more_interval"] is None for row in made["places"])
    assert main(["report", str(path), "--tail", "p50"]) == 0
    text = capsys.readouterr().out
    assert "2 requests. The slowest 1 took 5.00 ms and longer, 5.00 ms on average; the others 4.00 ms." in text
    assert "+3.00 ms ±?" in text and "query (/srv/app.py:22)" in text


def test_processes_together_and_parts(profile, tmp_path, capsys):
    other = write(tmp_path / "q.spprof", pid=2)
    assert report(capsys, profile.path, other.path, "--tail", "p98")["others"] == 200
    assert report(capsys, profile.path, "--tail", "p50", "--label", "route=/slow")["others"] == 1
    assert len(joined([profile, other]).requests) == 204
    assert [each.id for each in filtered(profile, stop_ns=30 * MS).requests] == ["0"]


def test_a_part_is_a_file_with_its_requests(profile, tmp_path):
    path = tmp_path / "part.spprof"
    assert main(["convert", profile.path, "--label", "route=/slow", "-o", str(path)]) == 0
    assert Loaded.load(path).requests == profile.requests[-2:]


@pytest.mark.parametrize(
    "options, text",
    [
        (["--tail", "p99", "--by", "line"], "a table of its own"),
        (["--tail", "p99", "-f", "markdown"], "a table of its own"),
        (["--tail", "p99", "--to", "0.01", "--thread", "*"], "the profile has 1 requests"),
    ],
)
def test_what_cannot_be_shown_is_refused(profile, capsys, options, text):
    assert main(["report", profile.path, *options]) != 0
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("wrong", ["99", "p", "p100", "p0", "px"])
def test_a_percentile_that_is_none_is_refused(profile, capsys, wrong):
    with pytest.raises(SystemExit):
        main(["report", profile.path, "--tail", wrong])
    assert "such as p99" in capsys.readouterr().err


def test_only_wall_time_has_requests(data, tmp_path, capsys):
    path = tmp_path / "cpu.spprof"
    path.write_bytes(data)
    assert main(["report", str(path), "--tail", "p99"]) != 0
    assert "--mode wall" in capsys.readouterr().err


def test_damaged_rows_are_left_out(tmp_path):
    writer = Writer(mode="wall")
    writer.sample(QUERY, 13_000, 3_000)
    writer.requests((10 * MS, 5 * MS, labels("1")), (10 * MS, 5 * MS, "[1"), (10 * MS, 5 * MS, "[1]"))
    path = tmp_path / "p.spprof"
    path.write_bytes(writer.data)
    assert [each.id for each in Profile.load(path).requests] == ["1"]


@pytest.mark.parametrize("part", [["--thread", "*"], ["--waiting", "io"], ["--to", "1"], ["--focus", "query"]])
def test_time_that_was_not_asked_for_is_not_said_to_have_had_no_thread(profile, capsys, part):
    assert main(["report", profile.path, "--tail", "p98"]) == 0
    assert "without a thread: it awaited something" in capsys.readouterr().out
    assert main(["report", profile.path, "--tail", "p98", *part]) == 0
    text = capsys.readouterr().out
    assert "it awaited something" not in text and "with none of the samples that were asked for" in text


def test_a_request_that_ran_before_the_profile_is_not_in_it(tmp_path):
    """Its time would be one without a thread."""
    writer = Writer(mode="wall", start_ns=5 * MS)
    writer.sample(QUERY, 9_000, 1_000, label=labels("whole"))
    writer.requests((3 * MS, 4 * MS, labels("begun")), (5 * MS, 4 * MS, labels("whole")))
    (tmp_path / "p.spprof").write_bytes(writer.data)
    assert [request.id for request in Profile.load(tmp_path / "p.spprof").requests] == ["whole"]
