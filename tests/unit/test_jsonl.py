"""JSON lines, read by a reader that is written from docs/file-format.md, by DuckDB and by jq."""

import json
import shutil
import subprocess

import pytest
from conftest import NAMES, any_name, named, render
from spprof_file import Writer

from spprof import Profile
from spprof.model import Frame, Total


def lines(profile, **options):
    return [json.loads(line) for line in render(profile, "jsonl", **options).decode("ascii").splitlines()]


def frame_of(line):
    """A frame of the model from its line: a missing field is unknown."""
    name, place = line["name"], ("source", "source_line")
    if line.get("native"):
        where = (line.get("library", ""), line.get("address", 0), line.get("end_address", 0), -1, -1, True)
        return Frame(line.get("short_name", name), name, *where, line.get(place[0], ""), line.get(place[1], 0))
    where = (line.get("file", ""), line.get("line", 0), line.get("end_line", 0))
    return Frame(line.get("short_name", name), name, *where, line.get("column", 0) - 1, line.get("end_column", 0) - 1)


def aggregate(profile, **options):
    """What `Profile.aggregate` gives, from the file, in one pass."""
    frames, stacks, totals = {}, {}, {}
    for line in lines(profile, **options):
        if line["type"] == "frame":
            frames[line["frame"]] = frame_of(line)
        elif line["type"] == "stack":
            stacks[line["stack"]] = tuple(frames[id] for id in line["frames"])
        elif line["type"] == "sample":
            stack = stacks[line["stack"]]
            samples, weight = totals.get(stack, (0, 0))
            totals[stack] = Total(samples + line["count"], weight + line["weight"])
    return totals


def test_a_reader_gets_the_whole_profile(data, native):
    for profile in (Profile(data), native, Profile(Writer().data)):
        assert aggregate(profile) == profile.aggregate()
        assert aggregate(profile, merge_threads=True) == profile.aggregate()
    assert aggregate(Profile(data), thread="#*") == Profile(data).aggregate("#*")


def test_samples_have_all_that_was_recorded(marked):
    found = lines(marked)
    keys = ("thread", "time_ns", "weight", "count", "flags", "labels")
    a, b = {"request": "/a"}, {"request": "/b", "user": "\u00e9"}
    assert [tuple(line.get(key) for key in keys) for line in found if line["type"] == "sample"] == [
        (0, 100_000, 100_000, 1, None, None),
        (0, 300_000, 200_000, 1, None, a),
        (0, 1_300_000, 1_000_000, 1, ["kernel"], a),
        (0, 4_300_000, 3_000_000, 1, ["truncated"], a),
        (0, 4_301_000, 10_000, 1, None, b),
        (1, 4_000_000, 500_000, 7, ["off_cpu"], b),
        (1, 4_001_000, 1_000, 1, None, None),
    ]
    assert found[0] == {"type": "header", "format": 1, **marked.header}
    assert found[-1] == {"type": "tick_stats", **marked.stats, "end": marked.end, "warning": None}
    threads = [{key: line[key] for key in ("thread", "tid", "name")} for line in found if line["type"] == "thread"]
    assert threads == [{"thread": 0, "tid": 70, "name": "Main"}, {"thread": 1, "tid": 71, "name": "#wor;ker"}]
    assert [line for line in found if line["type"] == "marker"] == [
        {
            "type": "marker", "name": "gc", "thread": thread, "time_ns": time, "duration_ns": duration,
            "data": {"generation": generation, "collected": collected, "uncollectable": uncollectable},
        }
        for thread, time, duration, generation, collected, uncollectable in (
            (0, 250_000, 30_500, 2, 7, 0), (1, 3_900_000, 50_000, 0, 1, 3),
        )
    ]  # fmt: skip


def test_options(marked):
    merged = [line for line in lines(marked, merge_threads=True) if line["type"] == "sample"]
    assert not any("thread" in line for line in merged)
    assert [line["time_ns"] for line in merged] == sorted(line["time_ns"] for line in merged)
    frames = [line for line in lines(marked, lines=False) if line["type"] == "frame"]
    assert {(line["name"], line.get("first_line")) for line in frames} == {
        ("<module>", 1), ("A.a", 10), ("b", 20), ("[truncated]", None), ("[no Python frames]", None),
    }  # fmt: skip
    assert len(frames) == 5 and not any("line" in line or "column" in line for line in frames)


@any_name
def test_any_name(name):
    shown = name.encode("utf-8", "backslashreplace").decode()
    found = lines(named(name))
    assert [line["name"] for line in found if line["type"] == "frame"] == [shown, "f"]
    assert [line["name"] for line in found if line["type"] == "thread"] == [shown or "Thread 4"]


QUERY = """
WITH profile AS (FROM read_json('{path}', format='newline_delimited', sample_size=-1)),
     leaf AS (SELECT stack, frames[-1] AS frame FROM profile WHERE type = 'stack')
SELECT f.name, sum(s.count)::BIGINT, sum(s.weight)::BIGINT
FROM profile s JOIN leaf USING (stack) JOIN profile f ON f.type = 'frame' AND f.frame = leaf.frame
WHERE s.type = 'sample' GROUP BY f.name ORDER BY 3 DESC
"""


def test_duckdb_reads_it(marked, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "p.jsonl"
    path.write_bytes(render(marked, "jsonl"))
    assert duckdb.sql(QUERY.format(path=path)).fetchall() == [
        ("b", 8, 3_500_000), ("A.a", 3, 1_210_000), ("<module>", 1, 100_000), ("[no Python frames]", 1, 1_000),
    ]  # fmt: skip
    table = f"FROM read_json('{path}', format='newline_delimited')"
    found = duckdb.sql(f"SELECT labels.request, sum(weight)::BIGINT {table} GROUP BY 1 ORDER BY 2").fetchall()
    assert found == [(None, 101_000), ("/b", 510_000), ("/a", 4_200_000)]


def test_duckdb_takes_any_name(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    writer = Writer()
    for step, name in enumerate(NAMES):
        writer.sample([(name, name, f"{name}?", 1, 7)], 6000 + step, 1)
    writer.flush()
    path = tmp_path / "p.jsonl"
    path.write_bytes(render(Profile(writer.data), "jsonl"))
    found = duckdb.sql(f"SELECT name FROM read_json('{path}', format='newline_delimited') WHERE type = 'frame'").fetchall()
    assert sorted(name for (name,) in found) == sorted(name.encode("utf-8", "backslashreplace").decode() for name in NAMES)


def test_jq_reads_it(data):
    jq = shutil.which("jq") or pytest.skip("jq is needed")
    program = 'select(.type == "sample" and (.flags // [] | index("off_cpu"))) | [.count, .weight]'
    done = subprocess.run([jq, "-c", program], input=render(Profile(data), "jsonl"), capture_output=True, timeout=60, check=True)
    assert done.stdout == b"[7,500000]\n"
