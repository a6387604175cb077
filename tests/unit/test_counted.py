"""Exact counts of calls: what is read, and what reports and formats make of it."""

from __future__ import annotations

import gzip
import io
import json
import pstats
from pathlib import Path

import pytest
from conftest import render
from others import needed
from spprof_file import Writer
from test_html import Page

import spprof
from spprof import formats
from spprof.cli import main
from spprof.model.filtering import filtered
from spprof.readers.pprof import _fields, _numbers
from spprof.report.called import called
from spprof.report.summary import summary
from spprof.report.tables import table

MAIN, F, G = ("<module>", "<module>", "/app/x.py", 1, 0), ("f", "A.f", "/app/x.py", 10, 0), ("g", "g", "/app/x.py", 20, 0)
H, LEN = ("h", "h", "/app/x.py", 30, 0), ("len", "builtins.len", "", 0, 1)
ROWS = [
    (MAIN, None, 0, 1, 0), (F, MAIN, 3, 1000, 0), (F, MAIN, 4, 500, 0), (G, F, 12, 1500, 3000), (F, F, 13, 7, 0),
    (H, G, 21, 2, 0), (LEN, G, 22, 4500, 0),
]  # fmt: skip


def at(function, line):
    return (*function[:4], line)


def written(rows=ROWS, header="c", **about):
    writer = Writer(**({"calls": header} if header else {}))
    for i in range(100):
        stack = [at(MAIN, 3), at(F, 12), at(G, 22)] if i % 2 else [at(MAIN, 3), at(F, 11)]
        writer.sample(stack, 6000 + 1000 * i, 1000)
    writer.flush()
    if rows is not None:
        writer.calls(*rows, **about)
    writer.json(b"E", {"stop_ns": 10**9, "reason": "stop"})
    return writer.data


@pytest.fixture
def profile():
    return spprof.Profile(written())


def test_rows_are_read(profile):
    f = spprof.Function("f", "A.f", "/app/x.py", 10)
    calls = profile.calls
    assert len(calls.rows) == len(ROWS) and calls.missing == ""
    assert calls.rows[1] == (f, spprof.Function("<module>", "<module>", "/app/x.py", 1), 3, 1000, 0)
    assert calls.rows[0].caller is None and calls.rows[-1].function.native
    assert calls.functions()[f] == (1507, 0)


def test_the_example_of_the_format():
    page = (Path(__file__).resolve().parents[2] / "docs" / "file-format.md").read_text(encoding="utf-8")
    lines = page.rpartition("An example: line 3 of `g`")[2].split("```")[1].strip().splitlines()
    payload = bytes.fromhex("".join(line[:27] for line in lines))
    writer = Writer(calls="python")
    writer.block(b"C", payload)
    f, g = spprof.Function("f", "f", "x.py", 7), spprof.Function("g", "g", "x.py", 1)
    assert spprof.Profile(writer.data).calls == spprof.Calls([spprof.Call(f, g, 3, 5, 0)])
    again = Writer(calls="python")
    again.calls((("f", "f", "x.py", 7, 0), ("g", "g", "x.py", 1, 0), 3, 5, 0))
    assert again.data == writer.data


def test_the_last_block_wins():
    data = written()
    cut = data[: data.rindex(b"E") - 8]
    assert spprof.Profile(cut).calls.rows == spprof.Profile(data).calls.rows
    writer = Writer(calls="python")
    writer.calls((F, None, 0, 1, 0))
    writer.calls((F, None, 0, 2, 0))
    assert [call.calls for call in spprof.Profile(writer.data).calls.rows] == [2]


def test_without_counts():
    assert spprof.Profile(written(None, "")).calls is None
    died = spprof.Profile(written(None))
    assert died.calls is None
    with pytest.raises(spprof.BadOption, match="not in the file"):
        called([died])
    with pytest.raises(spprof.BadOption, match="--calls"):
        called([spprof.Profile(written(None, ""))])


@pytest.mark.parametrize("payload", [b"", b"\x01\x01\x01\x05", b"\x00\x00" * 13])
def test_a_block_that_makes_no_sense_is_not_read(payload):
    writer = Writer(calls="python")
    writer.calls((F, None, 0, 1, 0))
    writer.block(b"C", payload)
    assert [call.calls for call in spprof.Profile(writer.data).calls.rows] == [1]


def test_what_was_not_counted_is_said():
    profile = spprof.Profile(written(uncounted=5, taken=2))
    text = called([profile]) + summary([profile])
    words = "Not counted: 5 calls of functions or lines for which there was no space; calls where the program had a"
    assert text.count(words) == 2


def test_a_part_has_no_counts(profile):
    part = filtered(profile, start_ns=10_000_000)
    assert part.calls is None
    with pytest.raises(spprof.BadOption, match="a part of a profile has none"):
        table([part], sort="calls")
    out = io.BytesIO()
    formats.write(part, out, "spprof", formats.Options())
    assert spprof.Profile(out.getvalue()).calls is None


def test_time_a_call_with_its_interval(profile):
    shown = table([profile])
    f, g = (next(row for row in shown.rows if row.what["name"] == name) for name in "fg")
    assert (f.calls, f.resumes, g.calls, g.resumes) == (1507, 0, 1500, 3000)
    time = shown.per_call(g)
    assert time.value == pytest.approx(50e6 / 1500)
    low, high = profile.confidence_interval(g.self_weight)
    assert (time.low, time.high) == pytest.approx((low * 100e6 / 1500, high * 100e6 / 1500))
    assert table([profile], sort="total").per_call(f).value == pytest.approx(100e6 / 1507)
    text = summary([profile])
    assert "calls  self a call" in text
    assert "1,507   33.2 us ±" in text and "1,500   33.3 us ±" in text


def test_the_order_of_calls_has_what_was_never_sampled(profile):
    rows = [(row.text.split(" ")[0], row.calls) for row in table([profile], sort="calls").rows]
    assert rows[:2] in ([("g", 1500), ("builtins.len", 4500)], [("builtins.len", 4500), ("g", 1500)])  # resumes count
    assert rows[2:] == [("A.f", 1507), ("h", 2), ("<module>", 1)]


def test_counts_of_several_files_are_added_up(profile):
    both = table([profile, spprof.Profile(written())], sort="calls")
    assert {row.what["name"]: row.calls for row in both.rows}["f"] == 2 * 1507
    assert table([profile, spprof.Profile(written(None, ""))]).counted is None


def test_the_table_of_calling_lines(profile):
    text = called([profile])
    assert "7,510 calls were counted" in text
    assert "1,500        3,000  A.f (app/x.py:12) > g (app/x.py:20)" in text.replace("/app/x.py", "app/x.py")
    assert "[no Python code] > <module>" in text and "> builtins.len" in text


def test_report_as_json_and_markdown(profile, tmp_path, capsys):
    path = tmp_path / "p.spprof"
    path.write_bytes(written())
    assert main(["report", str(path), "-f", "json"]) == 0
    row = json.loads(capsys.readouterr().out)["rows"][0]
    assert row["calls"] in (1507, 1500) and row["per_call"]["low"] < row["per_call"]["weight"] < row["per_call"]["high"]
    assert main(["report", str(path), "-f", "markdown", "--sort", "total"]) == 0
    assert "| calls | total a call | function |" in capsys.readouterr().out
    assert main(["report", str(path), "--calls"]) == 0
    assert "calls were counted" in capsys.readouterr().out
    assert main(["report", str(path), "--calls", "--by", "line"]) != 0


def test_pstats_has_true_numbers_of_calls(profile, tmp_path):
    path = tmp_path / "p.pstats"
    path.write_bytes(render(profile, "pstats"))
    stats = pstats.Stats(str(path), stream=io.StringIO()).stats
    f, g, main_key = ("/app/x.py", 10, "A.f"), ("/app/x.py", 20, "g"), ("/app/x.py", 1, "<module>")
    assert stats[f][:2] == (1507, 1507) and stats[g][:2] == (4500, 4500) and stats[("~", 0, "builtins.len")][:2] == (4500, 4500)
    assert stats[f][3] == pytest.approx(0.1) and stats[g][2] == pytest.approx(0.05)
    assert stats[f][4][main_key][:2] == (1500, 1500) and stats[f][4][f][:2] == (7, 7)
    assert stats[("/app/x.py", 30, "h")] == (2, 2, 0.0, 0.0, {g: (2, 2, 0.0, 0.0)})
    pstats.Stats(str(path), stream=io.StringIO()).sort_stats("ncalls").print_callers()


def test_callgrind_has_true_numbers_of_calls(profile):
    text = render(profile, "callgrind").decode()
    assert "calls=1000 10\n3 100000000 100" in text
    assert "calls=500 10\n4 0 0" in text and "calls=4500 20\n12 50000000 50" in text


def test_pprof_has_a_sample_type_of_calls(profile):
    fields = list(_fields(gzip.decompress(render(profile, "pprof"))))
    strings = [bytes(value).decode() for field, value in fields if field == 6]
    types = [{number: strings[value] for number, value in _fields(value)} for field, value in fields if field == 1]
    assert [(each[1], each[2]) for each in types] == [("samples", "count"), ("cpu", "nanoseconds"), ("calls", "count")]
    values = [_numbers(dict(_fields(value))[2]) for field, value in fields if field == 2]
    assert list(map(sum, zip(*values))) == [100, 100_000_000, sum(row[3] + row[4] for row in ROWS)]


def test_the_page_has_calls_of_each_function(profile):
    about = Page(render(profile, "html")).about
    strings = about["strings"]
    counts = {strings[function[1]]: calls for function, calls in zip(about["functions"], about["calls"])}
    assert counts == {"<module>": [1, 0], "A.f": [1507, 0], "g": [1500, 3000]} and about["calls_missing"] == ""
    assert "calls" not in Page(render(profile, "html", thread="*")).about
    assert "calls" not in Page(render(spprof.Profile(written(rows=None, header=None)), "html")).about


def test_jsonl_has_the_rows(profile):
    lines = [json.loads(line) for line in render(profile, "jsonl").splitlines()]
    calls = [line for line in lines if line["type"] == "calls"]
    module = {"name": "<module>", "file": "/app/x.py", "first_line": 1}
    f = {"type": "calls", "name": "A.f", "short_name": "f", "file": "/app/x.py", "first_line": 10}
    first = {"type": "calls", **module, "caller": None, "line": 0, "calls": 1, "resumes": 0}
    assert len(calls) == len(ROWS) and calls[0] == first
    assert calls[1] == {**f, "caller": module, "line": 3, "calls": 1000, "resumes": 0}
    assert (calls[-1]["name"], calls[-1]["short_name"], calls[-1]["native"]) == ("builtins.len", "len", True)
    assert [line["type"] for line in lines if "calls" in line["type"] or line["type"] == "tick_stats"][-1] == "tick_stats"
    some = [json.loads(line) for line in render(spprof.Profile(written(uncounted=5)), "jsonl").splitlines()]
    assert [line["what"][:7] for line in some if line["type"] == "calls_missing"] == ["5 calls"]
    assert not any(b'"type":"calls' in line for line in render(profile, "jsonl", thread="*").splitlines())


def test_parquet_has_calls_of_the_leaf_and_all_rows(profile, tmp_path):
    duckdb = needed("duckdb")
    needed("pyarrow")
    path = tmp_path / "p.parquet"
    path.write_bytes(render(profile, "parquet"))
    reported = duckdb.sql(
        f"SELECT function, any_value(calls), sum(weight) / any_value(calls) FROM '{path}' GROUP BY ALL ORDER BY 1"
    )
    assert reported.fetchall() == [("A.f", 1507, 50e6 / 1507), ("g", 1500, 50e6 / 1500)]
    ((about,),) = duckdb.sql(f"SELECT value FROM parquet_kv_metadata('{path}') WHERE key = 'spprof'").fetchall()
    assert [row["calls"] for row in json.loads(about)["calls"]] == [row[3] for row in ROWS]
    path.write_bytes(render(profile, "parquet", thread="*"))
    assert duckdb.sql(f"SELECT DISTINCT calls FROM '{path}'").fetchall() == [(None,)]


def test_other_formats_do_not_mind(profile):
    for format in ("speedscope", "collapsed", "gecko"):
        assert render(profile, format)


def test_counts_of_the_hottest_functions_are_estimates():
    page = (Path(__file__).resolve().parents[2] / "docs" / "file-format.md").read_text(encoding="utf-8")
    lines = page.rpartition("An example: `f` (`x.py`, line 1) was called five times")[2].split("```")[1].strip().splitlines()
    payload = bytes.fromhex("".join(line[:27] for line in lines))
    writer = Writer(calls="hot")
    for i in range(10):
        writer.sample([("f", "f", "x.py", 1, 2)], 6000 + 1000 * i, 3)
    writer.flush()
    writer.block(b"W", payload)
    profile = spprof.Profile(writer.data)
    f = spprof.HotFunction(spprof.Function("f", "f", "x.py", 1), 5, 2000, 1, 3000, 9e6)
    assert profile.calls is None and profile.hot == spprof.HotCalls([f])
    assert (f.per_call_ns, f.estimate(30_000)) == (600, 50)
    (row,) = table([profile]).rows
    assert (row.calls, row.hot) == (50, f)
    assert table([profile]).per_call(row).value == pytest.approx(600)
    assert "~50" in summary([profile], 5) and table([profile], sort="total").per_call(row) is None
    assert table([profile, profile]).rows[0].calls == 100
    assert table([profile], thread="*").hot is None and filtered(profile, stop_ns=9000).hot is None
    with pytest.raises(spprof.BadOption, match="only the hottest"):
        called([profile])


@pytest.mark.parametrize("payload", [b"", b"\x01\x01\x01\x05", b"\x00\x00" * 12, b"\x00\x00" * 7 + b"\x01\x01\x01\x05" * 6])
def test_a_block_of_the_hottest_that_makes_no_sense_is_not_read(payload):
    writer = Writer(calls="hot")
    writer.block(b"W", payload)
    assert spprof.Profile(writer.data).hot is None
