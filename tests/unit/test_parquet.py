"""Parquet tables, asked by DuckDB: the answers must be those of `Profile.functions()`."""

from __future__ import annotations

import io
import json
import sys
from functools import lru_cache

import pytest
from others import needed
from spprof_file import Writer

from spprof import BadOption, Profile, formats

duckdb = needed("duckdb")
needed("pyarrow")

SELF = "SELECT function, file, first_line, sum(count), sum(weight) FROM profile GROUP BY ALL"
# A function that is in a stack several times (recursion) gets the sample's weight once.
TOTAL = """
    SELECT frame.function, frame.file, frame.line, sum(count), sum(weight)
    FROM (
        SELECT count, weight,
               unnest(list_distinct([{'function': f.function, 'file': f.file, 'line': f.first_line} FOR f IN stack])) AS frame
        FROM profile
    ) GROUP BY ALL"""


def table(profile, path, **options):
    with open(path, "wb") as out:
        formats.write(profile, out, "parquet", formats.Options(**options))
    connection = duckdb.connect()
    connection.execute(f"CREATE VIEW profile AS FROM '{path}'")
    return connection


def figures(rows, self):
    numbers = slice(4, 6) if self else slice(6, 8)
    return {(row.qualname, row.file, row.line, *row[numbers]) for row in rows if row[numbers] != (0, 0)}


@lru_cache(None)
def many_stacks():
    """More samples than are written at a time, two threads, recursion, native frames."""
    writer = Writer(start_unix_ns=1_700_000_000_000_000_000, pid=4711, python="3.11.7", argv=["/app/x.py", "ä"])
    functions = [(f"f{i}", f"C.f{i}", f"/app/m{i % 3}.py", 10 * i + 1) for i in range(20)]
    native = ("deflate", "deflate", "/lib/libz.so.1", 0x100, 0x123, 0, -1, -1, 1)
    for i in range(70_000):
        stack = [(*functions[(i * k) % 20], 10 * ((i * k) % 20) + 1 + k) for k in range(1, 2 + i % 7)]
        writer.sample(stack + [native] * (i % 5 == 0), 10_000 + 10 * i, i % 13, thread=i % 2, count=1 + i % 3)
    writer.flush()
    writer.json(b"T", [{"id": 0, "tid": 70, "name": "Main"}, {"id": 1, "tid": 71, "name": "<wörker>"}])
    return Profile(writer.data)


@pytest.mark.parametrize("which", ["small", "many"])
def test_duckdb_gives_the_functions_of_the_profile(which, data, tmp_path):
    profile = Profile(data) if which == "small" else many_stacks()
    asked = table(profile, tmp_path / "p.parquet")
    assert set(asked.execute(SELF).fetchall()) == figures(profile.functions(), self=True)
    assert set(asked.execute(TOTAL).fetchall()) == figures(profile.functions(), self=False)
    threads = asked.execute("SELECT tid, thread, sum(count), sum(weight) FROM profile GROUP BY ALL ORDER BY tid").fetchall()
    assert threads == [(thread.tid, thread.name, thread.samples, thread.weight) for thread in profile.threads]


def test_rows_are_samples(tmp_path):
    profile = many_stacks()
    asked = table(profile, tmp_path / "p.parquet")
    rows = asked.execute(
        "SELECT tid - 70, time_ns, weight, count, flags, [f.function FOR f IN stack], [f.line FOR f IN stack], line, native "
        "FROM profile"
    ).fetchall()
    expected = [
        (s.thread, s.timestamp_ns, s.weight, s.count, s.flags, [f.qualname for f in s.frames],
         [0 if f.native else f.line for f in s.frames], 0 if s.frames[-1].native else s.frames[-1].line, s.frames[-1].native)
        for s in profile
    ]  # fmt: skip
    assert rows == sorted(expected, key=lambda row: row[:1])
    first = asked.execute("SELECT epoch_ns(time), pid, argv, python, mode FROM profile LIMIT 1").fetchone()
    assert first == (1_700_000_000_005_000_000, 4711, "/app/x.py ä", "3.11.7", "cpu")
    stacks = asked.execute("SELECT count(DISTINCT stack_id), count(DISTINCT stack) FROM profile").fetchone()
    assert stacks[0] == stacks[1] == len(profile.aggregate())


def test_the_file_describes_itself(tmp_path):
    asked = table(many_stacks(), tmp_path / "p.parquet")
    metadata = asked.execute("SELECT key, value FROM parquet_kv_metadata(?)", [str(tmp_path / "p.parquet")]).fetchall()
    about = json.loads(dict(metadata)[b"spprof"])
    assert about["header"]["pid"] == 4711 and about["unit"] == "nanoseconds"
    encodings = asked.execute(
        "SELECT DISTINCT path_in_schema FROM parquet_metadata(?) WHERE encodings LIKE '%RLE_DICTIONARY%'",
        [str(tmp_path / "p.parquet")],
    ).fetchall()
    assert {"function", "file", "thread", "argv", "stack, list, element, function"} <= {name for (name,) in encodings}


def test_files_of_many_processes_are_one_table(data, tmp_path):
    table(Profile(data), tmp_path / "a.parquet")
    table(many_stacks(), tmp_path / "b.parquet")
    asked = duckdb.sql(f"SELECT pid, sum(weight) FROM '{tmp_path}/*.parquet' GROUP BY pid ORDER BY pid NULLS FIRST")
    assert asked.fetchall() == [(None, 4_811_000), (4711, sum(many_stacks().column("weight")))]


def test_labels(data, tmp_path):
    profile = Profile(data)
    profile.label_sets.append({"route": "/a", "user": "ä"})
    profile._columns()["label"] = [0, 1, 1, 0, 0, 0, 0]
    asked = table(profile, tmp_path / "p.parquet")
    assert asked.execute("SELECT sum(weight) FROM profile WHERE labels['route'] = '/a'").fetchone() == (1_200_000,)


def test_hard_names(tmp_path):
    writer = Writer()
    names = ["<script>'\"", "x" * 10_000, "\udcff", "ä\n;"]
    for i, name in enumerate(names):
        writer.sample([(name, name, name, 1, 2)], 6000 + i, 5)
    writer.flush()
    asked = table(Profile(writer.data), tmp_path / "p.parquet")
    names[2] = "\\udcff"
    assert asked.execute("SELECT function, file FROM profile").fetchall() == [(name, name) for name in names]


def test_an_empty_profile_and_one_thread(data, tmp_path):
    assert table(Profile(Writer().data), tmp_path / "e.parquet").execute("SELECT count(*) FROM profile").fetchone() == (0,)
    assert table(Profile(data), tmp_path / "t.parquet", thread="Main").execute("SELECT DISTINCT tid FROM profile").fetchall() == [
        (70,)
    ]


def test_what_a_table_cannot_follow_is_refused(data, monkeypatch):
    for options in ({"weight": "value"}, {"lines": False}, {"merge_threads": True}):
        with pytest.raises(BadOption, match="choose in the query"):
            formats.write(Profile(data), io.BytesIO(), "parquet", formats.Options(**options))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(BadOption, match=r"pip install 'spprof\[parquet\]'"):
        formats.write(Profile(data), io.BytesIO(), "parquet", formats.Options())
