"""Files of other formats say why threads waited: read back by what knows nothing of spprof."""

import json

import pytest
from others import needed
from spprof_file import Writer

from spprof import Profile
from spprof.cli import main
from spprof.model.waits import REASONS

OFF = 4
STACK = [("<module>", "<module>", "/srv/app.py", 1, 9), ("load", "load", "/srv/app.py", 3, 4)]
GIL, IO = REASONS.index("gil"), REASONS.index("io")
PEER = "socket 10.0.0.3:5432"
# reason, what it waits on, its holder -> ms
EXPECTED = {("running", None, None): 2, ("io", PEER, None): 5, ("gil", None, "worker"): 3, ("gil", None, None): 1}


@pytest.fixture
def wall(tmp_path):
    writer = Writer(mode="wall", start_unix_ns=1_700_000_000_000_000_000)
    at = 10_000
    for (reason, on, by), ms in EXPECTED.items():
        for _ in range(ms):
            at += 1_000
            flags = 0 if reason == "running" else OFF
            label = json.dumps({"route": "/cart"}) if reason == "io" else None
            number = REASONS.index(reason) if flags else 0
            writer.sample(STACK, at, 1_000, flags=flags, reason=number, on=on, by=2 if by else 0, label=label)
    writer.sample(STACK, at, 0, thread=1)
    writer.flush()
    writer.block(b"T", json.dumps([{"id": 0, "tid": 7, "name": "main"}, {"id": 1, "tid": 8, "name": "worker"}]).encode())
    path = tmp_path / "wall.spprof"
    path.write_bytes(writer.data)
    return Profile.load(path)


def converted(profile, tmp_path, ending):
    out = tmp_path / f"out{ending}"
    assert main(["convert", profile.path, "-o", str(out)]) == 0
    return out


def summed(rows):
    """(reason, on, by) -> ms, of (dict, ns)."""
    found = {}
    for why, ns in rows:
        key = (why.get("reason"), why.get("waits_on") or None, why.get("held_by") or None)
        found[key] = found.get(key, 0) + ns / 1e6
    return {key: ms for key, ms in found.items() if ms}


def test_jsonl(wall, tmp_path):
    rows = map(json.loads, converted(wall, tmp_path, ".jsonl").read_text().splitlines())
    samples = [row for row in rows if row["type"] == "sample"]
    assert summed((row, row["weight"]) for row in samples) == EXPECTED
    assert {row["labels"]["route"] for row in samples if "labels" in row} == {"/cart"}


def test_parquet(wall, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = parquet.read_table(converted(wall, tmp_path, ".parquet")).to_pylist()
    assert summed((row, row["weight"]) for row in rows) == EXPECTED


def test_pprof(wall, tmp_path):
    """By the reader of other profilers' files, which takes all labels for labels."""
    read = Profile.load(converted(wall, tmp_path, ".pb.gz"))
    sets = read.label_sets
    rows = [(sets[label], weight) for label, weight in zip(read.column("label"), read.column("weight"))]
    assert summed(rows) == EXPECTED
    assert {labels.get("route") for labels, _ in rows if labels.get("reason") == "io"} == {"/cart"}


def test_otlp(wall, tmp_path):
    service = pytest.importorskip("opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2")
    request = service.ExportProfilesServiceRequest.FromString(converted(wall, tmp_path, ".otlp").read_bytes())
    strings, attributes = request.dictionary.string_table, request.dictionary.attribute_table
    rows = []
    profiles = request.resource_profiles[0].scope_profiles[0].profiles
    kinds = [tuple(strings[index] for index in (of.sample_type.type_strindex, of.sample_type.unit_strindex)) for of in profiles]
    assert kinds == [("cpu", "nanoseconds"), ("off_cpu", "nanoseconds")]
    for sample in (sample for profile in profiles for sample in profile.samples):
        pairs = (attributes[number] for number in sample.attribute_indices)
        why = {strings[pair.key_strindex]: pair.value.string_value for pair in pairs}
        rows.append((why, sum(sample.values)))
    assert summed(rows) == EXPECTED


def test_perfetto(wall, tmp_path):
    schema = needed("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    trace = schema.Trace.FromString(converted(wall, tmp_path, ".perfetto-trace").read_bytes())
    named = [each for packet in trace.packet for each in packet.interned_data.stack_sample_async_context_descriptors]
    contexts = {0: {}, **{each.iid: dict(pair.split("=", 1) for pair in each.name.split(", ")) for each in named}}
    samples = [packet.stack_sample for packet in trace.packet if packet.HasField("stack_sample")]
    rows = [(contexts[sample.task_context.async_id], sample.primary_weight) for sample in samples]
    assert summed(rows) == EXPECTED
    assert {why.get("route") for why, _ in rows if why.get("reason") == "io"} == {"/cart"}


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_tasks_are_there_in_any_mode(tmp_path, ending):
    parquet = pytest.importorskip("pyarrow.parquet") if ending == ".parquet" else None
    writer = Writer()
    for number, task in enumerate(("fetch", None, "store\udcff", "fetch")):
        writer.sample(STACK, 10_000 + 1_000 * number, 1_000, task=task)
    writer.flush()
    (tmp_path / "tasks.spprof").write_bytes(writer.data)
    out = converted(Profile.load(tmp_path / "tasks.spprof"), tmp_path, ending)
    if ending == ".jsonl":
        rows = [row for row in map(json.loads, out.read_text().splitlines()) if row["type"] == "sample"]
    else:
        rows = parquet.read_table(out).to_pylist()
    assert [row.get("task") for row in rows] == ["fetch", None, "store\\udcff", "fetch"]


def test_a_profile_without_reasons_has_none_in_its_files(data, tmp_path):
    path = tmp_path / "cpu.spprof"
    path.write_bytes(data)
    rows = map(json.loads, converted(Profile.load(path), tmp_path, ".jsonl").read_text().splitlines())
    assert not any("reason" in row for row in rows if row["type"] == "sample")


FRAMES = {"[input or output: socket 10.0.0.3:5432]": 5, "[the GIL, held by worker]": 3, "[the GIL]": 1, "load (/srv/app.py:4)": 2}


def with_waits(profile, tmp_path, ending):
    out = tmp_path / f"waits{ending}"
    assert main(["convert", profile.path, "--waits", "-o", str(out)]) == 0
    return out


def test_a_frame_below_the_leaf_says_why_in_collapsed_stacks(wall, tmp_path):
    rows = (line.rsplit(" ", 1) for line in with_waits(wall, tmp_path, ".collapsed").read_text().splitlines())
    stacks = {stack: int(number) for stack, number in rows if stack.startswith("main;")}
    assert {stack.rsplit(";", 1)[1]: number for stack, number in stacks.items()} == FRAMES
    assert all("load (/srv/app.py:4)" in stack for stack in stacks)


def test_a_frame_below_the_leaf_says_why_in_speedscope(wall, tmp_path):
    made = json.loads(with_waits(wall, tmp_path, ".speedscope.json").read_text())
    names, found = [frame["name"] for frame in made["shared"]["frames"]], {}
    for profile in made["profiles"]:
        for stack, ns in zip(profile["samples"], profile["weights"]):
            found[names[stack[-1]]] = found.get(names[stack[-1]], 0) + ns / 1e6
    assert [ms for name, ms in found.items() if name.startswith("[")] == [5, 3, 1]
    assert {name for name in found if name.startswith("[")} == {name for name in FRAMES if name.startswith("[")}
    assert sum(found.values()) == 11


@pytest.mark.parametrize("ending", [".svg", ".html", ".gecko.json", ".trace.json", ".callgrind", ".pstats", ".pb.gz"])
def test_every_format_takes_that_frame(wall, tmp_path, ending):
    """And all else stays: the profile that was given does not change."""
    before = wall.functions()
    assert with_waits(wall, tmp_path, ending).stat().st_size > 0
    assert wall.functions() == before


@pytest.mark.parametrize("mode, ending, text", [("wall", ".spprof", "does not fit"), ("cpu", ".collapsed", "--mode wall")])
def test_where_there_is_no_such_frame_it_is_refused(wall, data, tmp_path, capsys, mode, ending, text):
    path = tmp_path / "in.spprof"
    path.write_bytes(data)
    file = wall.path if mode == "wall" else str(path)
    assert main(["convert", file, "--waits", "-o", str(tmp_path / f"no{ending}")]) != 0
    assert text in capsys.readouterr().err
