"""Several processes' profiles as one."""

from __future__ import annotations

import io
import json
import sys

import pytest
from conftest import render
from others import needed
from spprof_file import Writer

from spprof import Profile
from spprof.cli import main
from spprof.errors import BadOption
from spprof.formats import FORMATS
from spprof.model.joining import joined, title_of
from spprof.model.layout import NAMING, columns_of

MAIN = ("<module>", "<module>", "/srv/app.py", 1, 3)
WORK = ("work", "work", "/srv/app.py", 10, 12)
ONLY_HERE = ("here", "here", "/srv/worker.py", 5, 6)


def process(pid, *stacks, **header):
    """Each stack is a millisecond."""
    times = {"start_ns": 5_000_000, "start_unix_ns": 1_700_000_000_000_000_000}
    writer = Writer(**{"pid": pid, "argv": ["/bin/gunicorn", "app:app"], **times, **header})
    at = writer.header["start_ns"] // 1000
    for number, stack in enumerate(stacks, 1):
        writer.sample(stack, at + 1000 * number, 1000)
    writer.flush()
    writer.json(b"T", [{"id": 0, "tid": pid, "name": "MainThread"}])
    writer.json(b"A", {"clock": "perf", "expected": 4, "taken": len(stacks), "losses": {"x": 1}, "wall_ns": pid, "cpu_ns": 10})
    writer.json(b"E", {"stop_ns": writer.header["start_ns"] + 9_000_000, "reason": "exit"})
    return Profile(writer.data)


@pytest.fixture
def two():
    return [process(70, [MAIN], [MAIN, WORK]), process(71, [MAIN, ONLY_HERE, WORK], [MAIN, WORK], [MAIN, WORK])]


def test_figures_are_those_of_both(two):
    one = joined(two)
    rows = {row.qualname: row[4:] for row in one.functions()}
    assert rows["work"] == (4, 4_000_000, 4, 4_000_000) and rows["here"] == (0, 0, 1, 1_000_000)
    assert rows["<module>"] == (1, 1_000_000, 5, 5_000_000)
    assert len(one) == 5 and one.end == {"stop_ns": 14_000_000, "reason": "exit"} and one.unfinished is None
    stacks = {frames: total for profile in two for frames, total in profile.aggregate().items()}
    assert one.aggregate().keys() == stacks.keys()
    assert sorted(sample.timestamp_ns for sample in one.samples()) == sorted(s.timestamp_ns for p in two for s in p.samples())


def test_threads_have_their_process(two):
    one = joined(two)
    assert [(each.name, each.tid) for each in one.threads] == [
        ("MainThread, gunicorn app:app 70", 70),
        ("MainThread, gunicorn app:app 71", 71),
    ]
    assert [one.process_of(thread.id)["pid"] for thread in one.threads] == [70, 71]
    assert title_of({"argv": ["/x/y.py", "z" * 90], "pid": 3}) == "y.py " + "z" * 32 + "... 3"


def test_tick_stats_are_added_up(two):
    stats = joined(two).stats
    assert (stats["expected"], stats["losses"], stats["wall_ns"], stats["cpu_ns"], stats["clock"]) == (
        8,
        {"x": 2},
        71,
        20,
        "perf",
    )


def waiting(pid, peer, **names):
    """Thread 1 held the GIL that thread 0 waited for."""
    writer = Writer(pid=pid, mode="wall")
    first = dict(label=json.dumps({"route": f"/{pid}"}), reason=4, on=peer, flags=4, **names)
    writer.sample([MAIN], 6000, 1000, **first)
    writer.sample([MAIN], 7000, 1000, label=json.dumps({"route": "/"}), reason=2, flags=4, by=2)
    writer.sample([MAIN, WORK], 7000, 1000, thread=1)
    writer.flush()
    writer.json(b"T", [{"id": 0, "tid": pid, "name": "main"}, {"id": 1, "tid": pid + 1, "name": "worker"}])
    return Profile(writer.data)


def test_labels_and_what_was_waited_for():
    one = joined([waiting(70, "socket 10.0.0.3:5432", task="fetch"), waiting(80, "lock", task="other")])
    strings = one._columns()["strings"]
    sets, reasons = one.label_sets, one.column("reason")
    rows = zip(one.column("label"), reasons, one._columns()["waits_on"])
    assert [(sets[label], one.reasons[reason], strings[on - 1] if on else "") for label, reason, on in rows] == [
        ({"route": "/70"}, "io", "socket 10.0.0.3:5432"),
        ({"route": "/"}, "gil", ""),
        ({}, "running", ""),
        ({"route": "/80"}, "io", "lock"),
        ({"route": "/"}, "gil", ""),
        ({}, "running", ""),
    ]
    assert [sample.task for sample in one.samples()] == ["fetch", "", "", "other", "", ""]


@pytest.mark.parametrize("thread", [None, "main"])
def test_holders_stay_those_of_their_process_though_filtered_out(thread):
    one = joined([waiting(70, "lock"), waiting(80, "lock")], thread)
    holders = [by - 1 for by in one.column("held_by") if by]
    assert [one.thread_name(id) for id in holders] == ["worker, x.py 70", "worker, x.py 80"]
    assert [one.thread_tid(id) for id in holders] == [71, 81]
    assert [one.process_of(id)["pid"] for id in holders] == [70, 80]


def test_columns_that_name_something_are_moved():
    """A column is a plain value, or layout.NAMING says what it names."""
    plain = {"time_ns", "weight", "count", "flags", "reason"}
    assert {*columns_of("sample")} == plain | {*NAMING}


def test_another_machines_clock_is_that_of_the_day():
    here, there = process(1, [MAIN]), process(2, [MAIN], start_ns=900_000_000_000, start_unix_ns=1_700_000_002_000_000_000)
    one = joined([here, there])
    assert list(one.column("time_ns")) == [6_000_000, 2_006_000_000]
    assert one.header["start_ns"] == 5_000_000


def test_all_types_of_samples_that_each_has():
    time = {"type": 0, "name": "time", "unit": "nanoseconds", "period": 1_000_000}
    faults = {"type": 1, "name": "page-faults", "unit": "faults", "period": 1}
    both, alone = process(1, [MAIN], events=[time, faults]), process(2, [MAIN], events=[time])
    assert [each.name for each in joined([both, both]).sample_types] == ["time", "page-faults"]
    assert len(joined([both, both]).of("page-faults")) == 0
    assert [each.name for each in joined([both, alone]).sample_types] == ["time"]


def test_no_type_in_common_is_said():
    time = {"type": 0, "name": "time", "unit": "nanoseconds", "period": 1_000_000}
    wall = {"type": 1, "name": "wall", "unit": "nanoseconds", "period": 1_000_000}
    with pytest.raises(BadOption, match="the files have no type of samples in common: time; wall"):
        joined([process(1, [MAIN], events=[time]), process(2, events=[wall])])


def test_files_of_other_profilers(tmp_path, two, capsys):
    for name, text in (("1", "main (a.py:1);f (b.py:2) 3\n"), ("2", "main (a.py:1) 4\n")):
        (tmp_path / f"{name}.collapsed").write_text(text)
    files = [str(tmp_path / f"{name}.collapsed") for name in "12"]
    one = joined([Profile.load(file) for file in files])
    assert one.unit == "samples" and {row.qualname: row.self_weight for row in one.functions()} == {"main": 4, "f": 3}
    assert main(["convert", *files, "-o", str(tmp_path / "o.svg")]) == 0
    assert main(["open", "--no-browser", *files, "-o", str(tmp_path / "o.html")]) == 0


@pytest.mark.parametrize("turn", [1, -1])
def test_a_file_of_another_profiler_and_one_of_ours(two, turn):
    lines = "P1;T0:1;a.py:f:3 5000\n"
    other = Profile(("# austin: 3.6.0\n# mode: wall\n# interval: 100\n\n" + lines).encode())
    one = joined([two[0], other][::turn])
    found = {row.qualname: row.self_weight for row in one.functions()}
    assert found == {"<module>": 1_000_000, "work": 1_000_000, "f": 5_000_000}


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_every_format_takes_it(two, format):
    one = joined(two)
    if format == "spprof":
        with pytest.raises(BadOption, match=r"cannot become one \.spprof file"):
            render(one, format)
    else:
        if FORMATS[format].needs:
            needed(FORMATS[format].needs)
        assert render(one, format)


def test_a_timeline_has_processes_as_groups(two):
    events = json.loads(render(joined(two), "chrome"))["traceEvents"]
    assert {event["pid"] for event in events if event["ph"] == "X"} == {70, 71}
    named = [(event["pid"], event["args"]["name"]) for event in events if event["name"] == "process_name"]
    assert named == [(70, "/bin/gunicorn app:app"), (71, "/bin/gunicorn app:app")]


def test_a_row_of_parquet_is_of_its_process(two):
    needed("pyarrow")
    from pyarrow import parquet

    pair = [process(70, [MAIN], python="3.11.7"), process(71, [MAIN], python="3.12.1", mode="wall")]
    rows = parquet.read_table(io.BytesIO(render(joined(pair), "parquet"))).to_pylist()
    assert [(row["pid"], row["python"], row["mode"]) for row in rows] == [(70, "3.11.7", "cpu"), (71, "3.12.1", "wall")]


@pytest.mark.parametrize("options", [{}, {"merge_threads": True}])
def test_a_resource_of_otlp_is_a_process(two, options):
    service = needed("opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2")
    if sys.version_info < (3, 10):
        pytest.skip("opentelemetry-proto for Python 3.9 has an older draft of profiles")
    request = service.ExportProfilesServiceRequest.FromString(render(joined(two), "otlp", **options))
    found, ids = {}, set()
    for each in request.resource_profiles:
        about = {pair.key: pair.value for pair in each.resource.attributes}
        (profile,) = each.scope_profiles[0].profiles
        found[about["process.pid"].int_value] = sum(sum(sample.values) for sample in profile.samples)
        ids.add(profile.profile_id)
    assert found == {70: 2_000_000, 71: 3_000_000} and len(ids) == 2


@pytest.fixture
def files(two, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number, profile in enumerate(two):
        (tmp_path / f"p{number}.spprof").write_bytes(profile.raw())
    return ["p0.spprof", "p1.spprof"]


def test_convert_and_open_take_several(files, tmp_path, capsys):
    assert main(["convert", *files, "-o", "all.collapsed", "--no-lines"]) == 0
    assert "MainThread, gunicorn app:app 71;<module> (/srv/app.py);here" in (tmp_path / "all.collapsed").read_text()
    assert main(["convert", *files, "-o", "main.collapsed", "--thread", "MainThread"]) == 0
    assert main(["convert", *files, "-o", "x.collapsed", "--thread", "nobody"]) == 2
    assert "no thread matches 'nobody'" in capsys.readouterr().err
    assert main(["open", "--no-browser", *files, "-o", "all.html"]) == 0
    assert main(["open", "--no-browser", "all.html", files[0]]) == 2
    assert "is a page already" in capsys.readouterr().err


def test_report_by_process(files, capsys):
    assert main(["report", "--by", "process", *files]) == 0
    said = capsys.readouterr().out
    first, second = (line for line in said.splitlines() if "gunicorn" in line)
    assert "3.00 ms  60.0%" in first and first.endswith("gunicorn app:app 71") and second.endswith("gunicorn app:app 70")
    assert said.endswith("  spprof open p0.spprof p1.spprof\n")
    assert main(["report", "--by", "thread", *files]) == 0
    assert "MainThread (71, process 71)" in capsys.readouterr().out
    assert main(["report", "--by", "process", "--format", "json", *files]) == 0
    assert [row["pid"] for row in json.loads(capsys.readouterr().out)["rows"]] == [71, 70]


def test_a_warning_of_many_processes_is_one(two, capsys, tmp_path, monkeypatch):
    from spprof.report.tick_stats import warnings

    cut = [Profile(process(pid, [MAIN]).raw()[:-60]) for pid in range(1, 7)]
    (line,) = warnings(cut)
    assert line.startswith("Warning: 6 processes (1, 2, 3, 4, ...): ")


def test_the_newest_is_the_whole_run(tmp_path, monkeypatch, capsys):
    import os

    monkeypatch.chdir(tmp_path)
    for age, (name, run) in enumerate((("a.2", "r"), ("a.1", "r"), ("a.3", "other"), ("a.4", None))):
        (tmp_path / f"{name}.spprof").write_bytes(process(age, [MAIN], **({"run": run} if run else {})).raw())
        os.utime(f"{name}.spprof", (1_000_000 - age, 1_000_000 - age))
    assert main(["report"]) == 0
    reported = capsys.readouterr()
    assert reported.err == "spprof: a.1.spprof with 1 more of its run, the newest here\n"
    assert "of 2 processes" in reported.out


@pytest.mark.parametrize(
    "verb, more",
    [
        ("report", ()),
        ("report", ("--by", "process")),
        ("why", ()),
        ("open", ("--no-browser",)),
        ("convert", ("-o", "x.html")),
        ("diff", ()),
    ],
)
def test_cpu_time_and_wall_time_are_not_one_sum(tmp_path, monkeypatch, capsys, verb, more):
    monkeypatch.chdir(tmp_path)
    for mode in "cpu", "wall":
        writer = Writer(mode=mode)
        writer.sample([MAIN], 6000, 1000)
        writer.flush()
        (tmp_path / f"{mode}.spprof").write_bytes(writer.data)
    assert main([verb, "cpu.spprof", "wall.spprof", *more]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    combined = "compared" if verb == "diff" else "added up"
    assert f"CPU time and threads' time cannot be {combined} (CPU time: cpu.spprof; threads' time: wall.spprof)" in said
    assert "same --mode" in said and main([verb, "cpu.spprof", "cpu.spprof", *more]) in (0, 1)
