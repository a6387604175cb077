"""Exact times of calls: what is read, and what reports make of it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from spprof_file import Writer

import spprof
from spprof import formats
from spprof.cli import main
from spprof.model.filtering import filtered
from spprof.model.times import bounds
from spprof.report.summary import summary
from spprof.report.timed import slowest

MAIN, F, G = ("<module>", "<module>", "/app/x.py", 1, 0), ("f", "A.f", "/app/x.py", 10, 0), ("g", "g", "/app/x.py", 20, 0)
SLOW = {"began": 7_000_000, "wall": 9_000, "tid": 77, "labels": {"route": "/a"}, "stack": [(MAIN, 3), (F, 12)]}
TIMED = [
    {"function": F, "wall": {64: 990, 200: 9, 576: 1}, "raised": 3, "total": 70_000, "max": 17_000, "slowest": [SLOW]},
    {"function": G, "steps": 1, "wall": {1000: 4}, "running": {500: 4}, "open": 2, "total": 10**9, "max": 2 * 10**6},
]


def written(*rows, header="cpu,m:*", **about):
    writer = Writer(**({"times": header} if header else {}))
    for i in range(100):
        writer.sample([(*MAIN[:4], 3), (*F[:4], 12)], 6000 + 1000 * i, 1000)
    writer.flush()
    writer.times(*(rows or TIMED), **about)
    writer.json(b"E", {"stop_ns": 10**9, "reason": "stop"})
    return writer.data


@pytest.fixture
def profile():
    return spprof.Profile(written())


def test_buckets_hold_what_is_within_a_64th():
    last = -1
    for bucket in range(59 * 64):
        low, high = bounds(bucket)
        assert low == last + 1 and (high - low) * 64 <= low
        last = high
    assert last == 2**64 - 1


def test_rows_are_read(profile):
    times = profile.times
    f, g = times.functions
    assert times.missing == "" and f.function == spprof.Function("f", "A.f", "/app/x.py", 10)
    assert (f.calls, f.raised, f.open, f.running, f.cpu) == (1000, 3, 0, None, None)
    assert f.wall == spprof.Histogram({64: 990, 200: 9, 576: 1}, 70_000, 17_000)
    assert (f.wall.quantile(0.5), f.wall.quantile(0.99), f.wall.quantile(0.991)) == (64, 64, sum(bounds(200)) // 2)
    assert f.wall.quantile(0.999) == sum(bounds(200)) // 2 and f.wall.quantile(1) == sum(bounds(576)) // 2
    assert (g.calls, g.open, g.running.n) == (4, 2, 4)
    (slow,) = f.slowest
    assert (slow.wall_ns, slow.began_ns, slow.thread_id, slow.labels) == (9000, 7_000_000, 77, {"route": "/a"})
    assert [(function.name, line) for function, line in slow.stack] == [("<module>", 3), ("f", 12)]
    assert (slow.running_ns, slow.cpu_ns, slow.raised, slow.cut) == (None, None, False, False)


def test_a_quantile_never_exceeds_the_maximum():
    histogram = spprof.Histogram({576: 1}, 16_390, 16_390)
    assert histogram.quantile(0.5) == 16_390 < sum(bounds(576)) // 2
    assert spprof.Histogram({}, 0, 0).quantile(0.5) == 0


def test_the_example_of_the_format():
    page = (Path(__file__).resolve().parents[2] / "docs" / "file-format.md").read_text(encoding="utf-8")
    lines = page.rpartition("An example: `f` was called twice")[2].split("```")[1].strip().splitlines()
    payload = bytes.fromhex("".join(line[:27] for line in lines))
    writer = Writer(times="x:f")
    writer.block(b"M", payload)
    f = ("f", "f", "x.py", 7, 0)
    (timed,) = spprof.Profile(writer.data).times.functions
    assert (timed.calls, timed.raised, timed.open, timed.wall) == (2, 0, 0, spprof.Histogram({72: 2}, 144, 72))
    again = Writer(times="x:f")
    again.times({"function": f, "wall": {72: 2}, "total": 144, "max": 72})
    assert again.data == writer.data


def test_code_objects_of_one_function_are_added_up():
    rows = [
        {"function": F, "wall": {70: 3, 80: 1}, "total": 300, "max": 90},
        {"function": F, "wall": {70: 2}, "total": 150, "max": 75},
    ]
    (timed,) = spprof.Profile(written(*rows)).times.functions
    assert (timed.calls, timed.wall) == (6, spprof.Histogram({70: 5, 80: 1}, 450, 90))


def test_the_last_block_wins_and_damage_is_not_read():
    writer = Writer(times="m:*")
    writer.times({"function": F, "wall": {70: 1}})
    writer.times({"function": F, "wall": {70: 2}})
    for payload in (b"", b"\x01\x01\x01\x05", b"\x00\x00" * 34):
        writer.block(b"M", payload)
    assert [timed.calls for timed in spprof.Profile(writer.data).times.functions] == [2]


def test_without_times():
    none = spprof.Profile(Writer().data)
    assert none.times is None and "Timed calls" not in summary([none])
    with pytest.raises(spprof.BadOption, match="--time"):
        slowest([none], 5, 100)


def test_functions_that_were_marked_in_the_run_have_no_pattern_in_the_header(profile):
    assert spprof.Profile(written(header="")).times == profile.times


def test_a_part_has_none(profile):
    part = filtered(profile, start_ns=10_000_000)
    assert part.times is None
    with pytest.raises(spprof.BadOption, match="a part"):
        slowest([part], 5, 100)
    out = io.BytesIO()
    formats.write(part, out, "spprof", formats.Options())
    assert spprof.Profile(out.getvalue()).times is None


def test_the_table(profile):
    lines = summary([profile]).split("Timed calls, by total time:")[1].splitlines()[2:5]
    assert lines[0].split() == ["calls", "p50", "p99", "p99.9", "max", "total", "running", "function"]
    assert lines[1].split()[0] == "4" and "g (/app/x.py:20) [2 open]" in lines[1]
    assert "1,000     64 ns     64 ns    289 ns   17.0 us   70.0 us" in lines[2]
    assert lines[2].endswith("A.f (/app/x.py:10) [3 raised]")
    assert "Timed calls" not in summary([profile], by="line")


def test_several_files_and_what_is_missing(profile):
    other = spprof.Profile(written(TIMED[0], untimed=2, lost=5))
    text = summary([profile, other])
    assert "2,000     64 ns" in text and "[6 raised]" in text
    assert "Not timed: 2 functions for which there was no space; 5 calls (no memory, or no end seen)." in text


def test_the_slowest(profile):
    text = slowest([profile], 5, 100)
    assert "A.f (/app/x.py:10): 1,000 calls [3 raised]" in text
    assert "  9.00 us, began at 2.00 ms, thread 77, route=/a\n    <module> (/app/x.py:3)\n    A.f (/app/x.py:12)" in text


def test_reports_as_json_and_text(tmp_path, capsys):
    path = tmp_path / "p.spprof"
    path.write_bytes(written(cpu=1))
    assert main(["report", str(path), "-f", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    schema = json.loads((Path(__file__).resolve().parents[2] / "docs" / "report.schema.json").read_text(encoding="utf-8"))
    pytest.importorskip("fastjsonschema").validate(schema, document)
    g, f = document["times"]["functions"]
    assert f["wall"] == {"p50": 64, "p99": 64, "p99.9": 289, "max": 17_000, "total": 70_000}
    assert f["slowest"][0]["stack"][1]["line"] == 12 and "running" in g and "running" not in f and "cpu" in g
    assert main(["report", str(path), "--slowest"]) == 0
    assert "route=/a" in capsys.readouterr().out
    assert main(["report", str(path), "--slowest", "--by", "line"]) != 0
    assert main(["report", str(path), "-f", "json", "--by", "line"]) == 0
    assert "times" not in json.loads(capsys.readouterr().out)
