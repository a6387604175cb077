"""Profiles with samples of several types: views of one, what formats and reports make of them."""

from __future__ import annotations

import gzip
import io
import json
import random
import re
from xml.etree import ElementTree

import pytest
from spprof_file import Writer

import spprof
from spprof import formats
from spprof.cli import main
from spprof.live.follow import Follower, Windows
from spprof.live.picture import picture
from spprof.model.filtering import filtered
from spprof.model.types import measured
from spprof.report.comparison import Comparison
from spprof.report.summary import summary

EVENTS = [
    {"type": 0, "name": "time", "unit": "nanoseconds", "period": 1_000_000},
    {"type": 1, "name": "page-faults", "unit": "faults", "period": 31},
]
MAIN, F, G = (("<module>", "<module>", "x.py", 1, 1), ("f", "f", "x.py", 10, 11), ("g", "g", "x.py", 20, 21))


SVG = "{http://www.w3.org/2000/svg}"


def written(events=EVENTS, seed=3, rows=300, stats=True):
    """A file, and its rows: (type, thread, time us, weight, stack, count, flags, label)."""
    rng, writer = random.Random(seed), Writer(events=events)
    now, reported = [5000, 5000], []
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
        reported.append((type, thread, row[0], row[1], [each[1] for each in stack], row[3], row[4], label))
        if number % 50 == 49:
            writer.flush()
    if stats:
        losses = {"taken": 10, "expected": 12, "dropped": 2, "units": 77, "losses": {"queue_full": 2}}
        writer.json(b"A", {"clock": "signal", "expected": 5, "taken": 5, "losses": {}, "events": {"page-faults": losses}})
    writer.json(b"E", {"stop_ns": 10**9, "reason": "stop"})
    return writer.data, reported


@pytest.fixture
def both():
    data, reported = written()
    return spprof.Profile(data), reported


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
    profile, reported = both
    assert [(each.name, each.unit) for each in profile.sample_types] == [("time", "nanoseconds"), ("page-faults", "faults")]
    assert rows_of(profile, 0) == [row for row in reported if row[0] == 0] == rows_of(profile.of("time"), 0)
    faults = profile.of("page-faults")
    assert rows_of(faults, 1) == [row for row in reported if row[0] == 1]
    assert faults.unit == "faults" and profile.unit == "nanoseconds"
    assert [each.name for each in faults.sample_types] == ["page-faults"] and faults.of("page-faults") is faults
    assert faults.stats["taken"] == 10 and faults.stats["losses"] == {"queue_full": 2} and profile.stats["taken"] == 5
    assert list(map(len, profile.each_type())) == [len(profile), len(faults)]
    for wrong in ("faults", ""):
        with pytest.raises(spprof.BadOption, match="of time, page-faults"):
            profile.of(wrong)


def test_without_time_the_first_other_type_is_shown():
    data, reported = written(EVENTS[1:])
    profile = spprof.Profile(data)
    assert profile.unit == "faults" and rows_of(profile, 1) == reported


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
    profile, reported = both
    part = filtered(profile.of("page-faults"), labels={"k": "v"}, start_ns=50_000_000, stop_ns=100_000_000)
    assert rows_of(part, 1) == [row for row in reported if row[0] == 1 and row[7] and 50_000 <= row[2] < 100_000]
    assert [each.name for each in part.sample_types] == ["page-faults"]
    with pytest.raises(spprof.BadOption):
        part.of("time")


def test_pprof_has_a_value_for_each_type(both):
    profile, reported = both
    out = io.BytesIO()
    formats.write(profile, out, "pprof", formats.Options())
    raw = gzip.decompress(out.getvalue())
    for word in (b"samples", b"cpu", b"nanoseconds", b"page-faults", b"faults"):
        assert word in raw
    again = spprof.Profile(out.getvalue())
    assert sum(again.column("weight")) == sum(row[3] for row in reported if row[0] == 0) * 1000
    alone = io.BytesIO()
    formats.write(profile.of("page-faults"), alone, "pprof", formats.Options())
    assert b"\x60\x1f" in gzip.decompress(alone.getvalue())  # field 12, period: 31
    assert sum(spprof.Profile(alone.getvalue()).column("weight")) == sum(row[3] for row in reported if row[0] == 1)


def test_speedscope_has_a_profile_for_each_thread_and_type(both):
    profile, reported = both
    out = io.BytesIO()
    formats.write(profile, out, "speedscope", formats.Options())
    made = json.loads(out.getvalue())
    names = sorted((each["name"].rpartition(": ")[2], each["unit"], sum(each["weights"])) for each in made["profiles"])
    wanted = []
    for type, name, unit, scale in ((0, "time", "nanoseconds", 1000), (1, "page-faults", "none", 1)):
        for thread in (0, 1):
            wanted.append((name, unit, scale * sum(row[3] for row in reported if row[:2] == (type, thread))))
    assert names == sorted(wanted)
    assert made["profiles"][made["activeProfileIndex"]]["unit"] == "nanoseconds"


def written_as(profile, format, **options):
    out = io.BytesIO()
    formats.write(profile, out, format, formats.Options(**options))
    return out.getvalue()


@pytest.fixture(params=["time", "page-faults"])
def one(request, both):
    """A view, the number of its type, and the sums of its weights, in what the view counts, and of its ticks."""
    profile, reported = both
    type = request.param == "page-faults"
    weight = sum(row[3] for row in reported if row[0] == type) * (1 if type else 1000)
    return profile.of(request.param), type, weight, sum(row[5] for row in reported if row[0] == type)


def test_collapsed_counts_samples_of_time_and_values_of_others(one):
    view, type, weight, ticks = one

    def total(**options):
        return sum(int(line.rpartition(b" ")[2]) for line in written_as(view, "collapsed", **options).splitlines())

    assert total(weight="samples") == ticks and total(weight="value") == weight
    assert total() == (weight if type else ticks)


def test_svg(one):
    view, type, weight, ticks = one
    [title, *_] = (each.text for each in ElementTree.fromstring(written_as(view, "svg")).iter(SVG + "text"))
    amount = f"{weight:,} faults" if type else f"{weight / 1e9:.3f} s of CPU time"
    assert title.endswith(f": {amount}, {ticks:,} samples")
    boxes = [each.text.splitlines()[1] for each in ElementTree.fromstring(written_as(view, "svg")).iter(SVG + "title")]
    assert boxes and all(re.fullmatch(r"[\d,]+ faults, [\d.]+%" if type else r"[\d.]+ s, [\d.]+%", box) for box in boxes)


def test_callgrind(one):
    view, type, weight, ticks = one
    for options, order in (({}, 1), ({"weight": "samples"}, -1)):
        fields = dict(line.partition(": ")[::2] for line in written_as(view, "callgrind", **options).decode().splitlines())
        assert fields["events"].split()[::order] == ["faults" if type else "ns", "samples"]
        assert list(map(int, fields["summary"].split()))[::order] == [weight, ticks]
        text = written_as(view, "callgrind", **options).decode()
        assert ("event: faults : faults\n" in text and "nanoseconds" not in text) if type else "CPU time in nanoseconds" in text


def test_callgrind_of_samples_alone_has_them_once():
    text = written_as(spprof.Profile(b"a;b 3\na 4\n"), "callgrind").decode()
    assert "events: samples\n" in text and "summary: 7\n" in text


def test_gecko(one):
    view, type, weight, ticks = one
    if type:
        with pytest.raises(spprof.BadOption, match="counts faults, and the format gecko can only show time"):
            written_as(view, "gecko")
    else:
        threads = [each["samples"] for each in json.loads(written_as(view, "gecko"))["threads"]]
        assert sum(sum(each["weight"]) for each in threads) == pytest.approx(weight / 1e6)
        assert {each["weightType"] for each in threads} == {"tracing-ms"} and "threadCPUDelta" in threads[0]
    threads = [each["samples"] for each in json.loads(written_as(view, "gecko", weight="samples"))["threads"]]
    assert sum(sum(each["weight"]) for each in threads) == ticks and {each["weightType"] for each in threads} == {"samples"}
    assert ("threadCPUDelta" in threads[0]) is not type


def test_gecko_of_bytes():
    """A type that nothing takes yet, and the viewer has a word for."""
    events = [EVENTS[0], {"type": 1, "name": "alloc", "unit": "bytes", "period": 524_309}]
    data, reported = written(events)
    threads = [each["samples"] for each in json.loads(written_as(spprof.Profile(data).of("alloc"), "gecko"))["threads"]]
    assert sum(sum(each["weight"]) for each in threads) == sum(row[3] for row in reported if row[0])
    assert {each["weightType"] for each in threads} == {"bytes"} and "threadCPUDelta" not in threads[0]


@pytest.mark.parametrize("format", ["pstats", "chrome"])
def test_formats_that_have_time_alone_refuse_others(both, format):
    assert written_as(both[0], format)
    with pytest.raises(spprof.BadOption, match=f"counts faults, and the format {format} can only show time"):
        written_as(both[0].of("page-faults"), format)


def test_jsonl(one):
    view, type, weight, _ = one
    lines = [json.loads(line) for line in written_as(view, "jsonl").splitlines()]
    assert lines[0].get("unit", "nanoseconds") == view.unit and lines[0].get("event") == ("page-faults" if type else None)
    assert sum(line["weight"] for line in lines if line["type"] == "sample") == weight


def test_parquet(one):
    parquet = pytest.importorskip("pyarrow.parquet")
    view, _, weight, ticks = one
    table = parquet.read_table(io.BytesIO(written_as(view, "parquet")))
    assert json.loads(table.schema.metadata[b"spprof"])["unit"] == view.unit
    assert (sum(table["weight"].to_pylist()), sum(table["count"].to_pylist())) == (weight, ticks)


def test_perfetto(one):
    view, type, _, _ = one
    made = written_as(view, "perfetto")
    assert (b"page-faults" in made and b"faults" in made and b"cpu-time" not in made) if type else b"cpu-time" in made


@pytest.mark.parametrize("weight", [None, "samples"])
def test_otlp_has_a_profile_of_each_type(both, weight):
    service = pytest.importorskip("opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2")
    profile, reported = both
    request = service.ExportProfilesServiceRequest.FromString(written_as(profile, "otlp", weight=weight))
    strings = request.dictionary.string_table
    seen = []
    for each in request.resource_profiles[0].scope_profiles[0].profiles:
        names = each.sample_type, each.period_type
        seen.append((*((strings[name.type_strindex], strings[name.unit_strindex]) for name in names), each.period))
        type = len(seen) - 1
        scale = 1 if type or weight else 1000
        wanted = sum(row[5 if weight else 3] for row in reported if row[0] == type) * scale
        assert sum(sum(sample.values) for sample in each.samples) == wanted
        stacks = request.dictionary.stack_table
        functions = {
            strings[request.dictionary.function_table[request.dictionary.location_table[place].lines[0].function_index].name_strindex]
            for sample in each.samples for place in stacks[sample.stack_index].location_indices
        }  # fmt: skip
        assert functions >= {"<module>", "f", "g", "[no Python frames]"}
    counted = ("samples", "count")
    assert seen == [
        (counted if weight else ("cpu", "nanoseconds"), ("cpu", "nanoseconds"), 1_000_000),
        (counted if weight else ("page-faults", "faults"), ("page-faults", "faults"), 31),
    ]


def test_the_summary_says_what_it_is_of(both):
    profile, reported = both
    text = summary([profile])
    assert "of CPU time" in text and "There are samples of page-faults too" in text
    text = summary([profile.of("page-faults")])
    assert f"{sum(row[3] for row in reported if row[0] == 1):,} faults." in text
    assert "Event: page-faults, a sample for 31 asked" in text
    assert "12 expected = 10 taken + 2" in summary([profile.of("page-faults")], verbose=True)
    assert "CPU" not in text and "Hz" not in text


def test_the_summary_says_which_events_shared_a_counter():
    def summary_of(*times):
        profiles = []
        for enabled, running in times:
            writer = Writer(events=EVENTS)
            writer.sample([MAIN], 6000, 10)
            writer.value([MAIN], 7000, 31, type=1)
            writer.flush()
            known = {} if enabled is None else {"enabled_ns": enabled, "running_ns": running}
            writer.json(b"A", {"events": {"page-faults": {"units": 31, "losses": {}, **known}}})
            profiles.append(spprof.Profile(writer.data))
        return summary(profiles), summary([profile.of("page-faults") for profile in profiles])

    shared = "Shared: page-faults had a counter of the processor for 40% of the time"
    assert [text.count(shared) for text in summary_of((1000, 400))] == [1, 1]
    assert [text.count(shared) for text in summary_of((300, 0), (700, 400))] == [1, 1]  # two processes
    for times in ([(None, None)], [(0, 0)], [(1000, 1000)], [(1000, 996)]):
        assert "Shared" not in "".join(summary_of(*times))


def test_what_a_profile_of_one_type_looks_like(one):
    view, type, weight, ticks = one
    amount = f"{weight:,} faults" if type else f"{weight / 1e9:.2f} s of CPU time"
    assert repr(view).endswith(f": {amount}, {ticks:,} samples, 2 threads>")


def test_what_weights_are_of():
    assert measured({"mode": "cpu"}) == "CPU time" and measured({"mode": "wall", "unit": "nanoseconds"}) == "threads' time"
    assert measured({}) == "time" and measured({"mode": "cpu", "unit": "bytes"}) == "bytes"
    assert measured({"mode": "cpu", "unit": "nanoseconds", "event": "gc"}) == "threads' time"


def test_faults_at_no_random_instant_are_no_time():
    writer = Writer(events=EVENTS)
    for at in range(4):
        writer.value([MAIN], 5000 + at, 100, 0, 1, 32 if at else 0, None, 1)
    writer.flush()
    writer.json(b"A", {"clock": "perf", "expected": 4, "taken": 4, "losses": {}})
    profile = spprof.Profile(writer.data).of("page-faults")
    assert "Not sampled at random: 75.0% of the faults, so" in summary([profile])
    text = summary([profile], verbose=True)
    assert "In step? 75.0% of the faults were sampled at " in text and " time" not in text


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


@pytest.mark.parametrize("type, number", [(None, 0), ("time", 0), ("page-faults", 1)])
def test_what_follows_a_file_adds_up_one_type(tmp_path, type, number):
    """At every length as the whole does, and without keeping samples."""
    data, _ = written()
    path = tmp_path / "p.spprof"
    follower = Follower(path, type)
    for end in range(0, len(data) + 500, 500):
        path.write_bytes(data[:end])
        follower.read()
        shown = follower.profile()
        assert (shown is None) is (end < 500)
        if shown is not None:
            wanted = spprof.Profile(data[:end]).each_type()[number]
            assert shown.unit == wanted.unit and shown.aggregate() == wanted.aggregate()
            assert [(each.id, each.samples, each.weight) for each in shown.threads if each.samples] == [
                (each.id, each.samples, each.weight) for each in wanted.threads if each.samples
            ]
    columns = follower._reading.tables.columns
    assert shown.stats == wanted.stats and not columns["value_type"] and not columns["stack"]


def test_what_follows_a_file_without_time_shows_the_first_type(tmp_path):
    (tmp_path / "p.spprof").write_bytes(written(EVENTS[1:])[0])
    follower = Follower(tmp_path / "p.spprof")
    follower.read()
    shown = picture(follower.profile(), labels={"a": "b"})
    whole = spprof.Profile.load(tmp_path / "p.spprof").whole()
    assert shown.title == f"x.py: {whole.weight:,} faults with a=b, {whole.ticks:,} samples, by self faults"
    assert re.fullmatch(r"[\d,]+", shown.functions[0][0]) and re.fullmatch(r"[\d,]+", shown.threads[0][1])


def test_a_type_that_a_growing_file_has_not(tmp_path):
    (tmp_path / "p.spprof").write_bytes(written()[0])
    with pytest.raises(spprof.BadFile, match="has no samples of 'faults', but of time, page-faults"):
        Follower(tmp_path / "p.spprof", "faults").read()


@pytest.mark.parametrize("events", [EVENTS, EVENTS[1:]])
def test_parts_of_a_growing_file_have_all_types(tmp_path, events):
    """What `spprof push` sends."""
    data, reported = written(events)
    path = tmp_path / "p.spprof"
    windows, seen = Windows(path), []
    for end in range(0, len(data) + 5000, 5000):
        path.write_bytes(data[:end])
        windows.read_on()
        for part in windows.take():
            assert [each.name for each in part.sample_types] == [event["name"] for event in events]
            for event, view in zip(events, part.each_type()):
                seen += rows_of(view, event["type"])
    assert sorted(seen, key=repr) == sorted(reported, key=repr)


CUTS = {
    "thread": {"thread": "Thread #0"},
    "labels": {"labels": {"k": "v"}},
    "range": {"start_ns": 60_000_000, "stop_ns": 150_000_000},
    "all of them": {"thread": "Thread #1", "labels": {"k": "v"}, "start_ns": 60_000_000},
    "nothing": {"stop_ns": 1},
}


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_a_part_has_all_types(tmp_path, both, cut):
    """Each as the same part of a view of it has it, and so a file of the part: alone, and of a type."""
    profile, reported = both
    part = filtered(profile, **cut)
    assert part.sample_types == profile.sample_types
    of_one = {type: filtered(profile.of(name), **cut) for type, name in enumerate(("time", "page-faults"))}
    faults = rows_of(of_one[1], 1)
    assert faults == [
        row for row in reported
        if row[0] == 1 and ("thread" not in cut or row[1] == int(cut["thread"][-1])) and ("labels" not in cut or row[7])
        and cut.get("start_ns", 0) <= row[2] * 1000 < cut.get("stop_ns", 1 << 62)
    ]  # fmt: skip
    path = str(tmp_path / "part.spprof")
    part.save(path)
    for each in (part, spprof.Profile.load(path)):
        assert [rows_of(view, type) for type, view in enumerate(each.each_type())] == [rows_of(of_one[0], 0), faults]
        assert [view.unit for view in each.each_type()] == ["nanoseconds", "faults"]
        assert each.header["part"] == part.header["part"]
    again = filtered(filtered(part, labels={"k": "v"}), start_ns=70_000_000)
    again.save(path, force=True)
    assert rows_of(spprof.Profile.load(path).of("page-faults"), 1) == rows_of(again.of("page-faults"), 1)
    for type, of_type in of_one.items():
        of_type.save(path, force=True)
        read = spprof.Profile.load(path)
        assert read.sample_types == of_type.sample_types and read.unit == of_type.unit
        assert rows_of(read, type) == rows_of(of_type, type)


@pytest.mark.parametrize("name", ["time", "page-faults"])
def test_a_file_of_a_type(tmp_path, both, name):
    view = both[0].of(name)
    for number, options in enumerate([{}, {"thread": "*"}]):
        path = str(tmp_path / f"{number}.spprof")
        view.save(path, **options)
        read = spprof.Profile.load(path)
        assert read.sample_types == view.sample_types
        assert list(read.samples()) == list(view.samples())


def test_a_part_of_a_file_that_was_replaced(tmp_path):
    path = tmp_path / "p.spprof"
    path.write_bytes(written()[0])
    faults = spprof.Profile.load(path).of("page-faults")
    path.write_bytes(written(seed=4)[0])
    with pytest.raises(spprof.BadFile, match="was replaced"):
        faults.save(tmp_path / "part.spprof")


@pytest.mark.parametrize("type, word", [("time", "time"), ("page-faults", "faults")])
def test_reports_name_what_they_count(tmp_path, capsys, both, type, word):
    path = str(tmp_path / "p.spprof")
    with open(path, "wb") as file:
        file.write(both[0].raw())
    assert main(["report", path, "--type", type, "--by", "thread"]) == 0
    assert f"\n      {word:19}thread\n" in capsys.readouterr().out
    assert main(["report", path, "--type", type, "--by", "thread", "--format", "markdown"]) == 0
    assert f"| {word} | share | thread |" in capsys.readouterr().out
    assert main(["diff", path, path, "--type", type, "--min-share", "50"]) == 0
    assert f"of less than 50 % of the {word} in A and B together" in capsys.readouterr().out
