"""Perfetto's traces, decoded with the schema that PyPI's `perfetto` ships. No trace processor runs here."""

from __future__ import annotations

import io

import pytest
from others import needed
from spprof_file import Writer

from spprof import Profile, formats
from spprof.model import Marker

schema = needed("perfetto.protos.perfetto.trace.perfetto_trace_pb2")

TABLES = (
    "function_names",
    "mapping_paths",
    "source_paths",
    "mappings",
    "frames",
    "callstacks",
    "stack_sample_async_context_descriptors",
)


class Trace:
    """A trace as an importer sees it: interned data by id, packets by what they hold."""

    def __init__(self, data):
        trace = schema.Trace()
        trace.ParseFromString(data)
        self.packets = trace.packet
        self.of = {}
        self.samples = []
        for packet in self.packets:
            assert packet.trusted_packet_sequence_id == 1
            if packet.HasField("interned_data"):
                for table in TABLES:
                    for entry in getattr(packet.interned_data, table):
                        assert entry.iid not in self.of.setdefault(table, {}), "ids are never given twice"
                        self.of[table][entry.iid] = entry
            if packet.HasField("stack_sample"):
                self.samples.append((packet.timestamp, packet.stack_sample, self.stack(packet.stack_sample.callstack_iid)))

    def stack(self, iid):
        """Names and places from root to leaf; all must be known when the sample comes."""
        result = []
        for frame_id in self.of["callstacks"][iid].frame_ids:
            frame = self.of["frames"][frame_id]
            mapping = self.of["mappings"][frame.mapping_id]
            (path,) = (self.of["mapping_paths"][id].str.decode() for id in mapping.path_string_ids)
            name = self.of["function_names"][frame.function_name_id].str.decode()
            source = self.of["source_paths"][frame.source_path_iid].str.decode() if frame.source_path_iid else ""
            result.append((name, path, source, frame.line_number, frame.rel_pc))
        return result


def trace_of(profile, **options):
    out = io.BytesIO()
    formats.write(profile, out, "perfetto", formats.Options(**options))
    return Trace(out.getvalue())


def test_every_sample_has_its_time_weight_thread_and_stack(data):
    profile = Profile(data)
    trace = trace_of(profile)
    reported = [
        (sample.task_context.tid, time, sample.primary_weight, [frame[0] for frame in stack])
        for time, sample, stack in trace.samples
    ]
    expected = [
        (70 + sample.thread, sample.timestamp_ns, sample.weight, [frame.qualname for frame in sample.frames])
        for sample in profile
    ]
    assert sorted(reported) == sorted(expected)
    root, a, b = (
        ("<module>", "/app/x;y.py", "/app/x;y.py", 3, 0),
        ("A.a", *["/app/x;y.py"] * 2, 11, 0),
        ("b", *["/app/%\n.py"] * 2, 20, 0),
    )
    assert [stack for _, _, stack in trace.samples[:3]] == [[root], [root, a], [root, a, b, a]]
    kernel = [time for time, sample, _ in trace.samples if sample.execution_context.mode == schema.StackSample.MODE_KERNEL]
    assert kernel == [6_300_000]
    assert [time for time, sample, _ in trace.samples if sample.unwind_error == "truncated"] == [9_300_000]


def test_labels_are_the_contexts_that_samples_were_taken_in(marked):
    trace = trace_of(marked)
    contexts = trace.of["stack_sample_async_context_descriptors"]
    assert {(one.name, one.kind) for one in contexts.values()} == {
        ("request=/a", "labels"),
        ("request=/b, user=\u00e9", "labels"),
    }
    reported = {
        (sample.task_context.tid, time): contexts[sample.task_context.async_id].name if sample.task_context.async_id else ""
        for time, sample, _ in trace.samples
    }
    assert reported == {
        (70 + sample.thread, sample.timestamp_ns): ", ".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
        for sample in marked
    }
    assert "" in reported.values()
    merged = {time: sample.task_context.async_id for time, sample, _ in trace_of(marked, merge_threads=True).samples}
    assert {time: contexts[id].name if id else "" for time, id in merged.items()} == {
        time: name for (_, time), name in reported.items()
    }


def test_clocks_defaults_and_tracks(data):
    profile = Profile(Writer(start_unix_ns=1_700_000_000_000_000_123, pid=4711, argv=["/x/app.py", "-v"]).data)
    first, process = trace_of(profile).packets
    assert first.sequence_flags & schema.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    clocks = {clock.clock_id: clock.timestamp for clock in first.clock_snapshot.clocks}
    assert clocks == {schema.BUILTIN_CLOCK_MONOTONIC: 5_000_000, schema.BUILTIN_CLOCK_REALTIME: 1_700_000_000_000_000_123}
    assert first.clock_snapshot.primary_trace_clock == schema.BUILTIN_CLOCK_MONOTONIC
    defaults = first.trace_packet_defaults
    assert defaults.timestamp_clock_id == schema.BUILTIN_CLOCK_MONOTONIC
    counter = defaults.stack_sample_defaults.primary_descriptor
    assert (counter.name, counter.unit) == ("cpu-time", schema.StackSample.UNIT_NANOSECONDS)
    about = process.track_descriptor.process
    assert (about.pid, about.process_name, list(about.cmdline)) == (4711, "app.py", ["/x/app.py", "-v"])
    tracks = [packet.track_descriptor for packet in trace_of(Profile(data)).packets if packet.HasField("track_descriptor")]
    assert [(track.thread.tid, track.thread.thread_name) for track in tracks[1:]] == [(70, "Main"), (71, "#wor;ker")]
    assert {track.parent_uuid for track in tracks[1:]} == {tracks[0].uuid}


def test_runs_of_the_collector_are_slices_of_their_thread(data):
    profile = Profile(data)
    profile._columns()["markers"] = [Marker("gc", 1, 6_000_000, 250_000, {"generation": 0, "collected": 12, "uncollectable": 0})]
    trace = trace_of(profile)
    (track,) = (p.track_descriptor.uuid for p in trace.packets if p.track_descriptor.thread.tid == 71)
    begin, end = (packet for packet in trace.packets if packet.HasField("track_event"))
    assert [(p.timestamp, p.track_event.type, p.track_event.track_uuid) for p in (begin, end)] == [
        (6_000_000, schema.TrackEvent.TYPE_SLICE_BEGIN, track),
        (6_250_000, schema.TrackEvent.TYPE_SLICE_END, track),
    ]
    assert begin.track_event.name == "gc" and list(begin.track_event.categories) == ["gc"]
    notes = {note.name: note.int_value for note in begin.track_event.debug_annotations}
    assert notes == {"generation": 0, "collected": 12, "uncollectable": 0}
    assert all(note.HasField("int_value") for note in begin.track_event.debug_annotations)
    assert not any(packet.HasField("track_event") for packet in trace_of(profile, thread="Main").packets)


def test_options(data):
    merged = trace_of(Profile(data), merge_threads=True)
    assert len(merged.samples) == 7 and not any(sample.task_context.tid for _, sample, _ in merged.samples)
    assert [time for time, _, _ in merged.samples] == sorted(time for time, _, _ in merged.samples)
    assert {sample.task_context.tid for _, sample, _ in trace_of(Profile(data), thread="Main").samples} == {70}
    lines = {frame[3] for _, _, stack in trace_of(Profile(data), lines=False).samples for frame in stack}
    assert lines == {0, 1, 10, 20}  # first lines; 0: [no Python frames], [truncated]


@pytest.mark.parametrize("weight_us", [1, (1 << 28) // 1000, 40_000_000, 10**10])
def test_large_weights_and_times(weight_us):
    writer = Writer(start_ns=10**15)
    writer.sample([("f", "f", "f.py", 1, 2)], 10**12 + 7, weight_us)
    writer.sample([("f", "f", "f.py", 1, 2)], 10**12 + 10**9, 3)
    writer.flush()
    reported = [(time, sample.primary_weight) for time, sample, _ in trace_of(Profile(writer.data)).samples]
    assert reported == [(10**15 + 7000, weight_us * 1000), (10**15 + 10**12, 3000)]


def test_hard_names_native_frames_and_threads_without_ids():
    writer = Writer()
    for number, name in enumerate(("<script>'\"", "x" * 10_000, "\udcff", "ä\n")):
        writer.sample(
            [(name, name, "f.py", 1, 2), ("deflate", "deflate", "/lib/libz.so.1", 0x100, 0x123, 0, -1, -1, 1)],
            6000,
            5,
            thread=number,
        )
    writer.flush()
    writer.json(b"T", [{"id": 0, "tid": 9, "name": "a"}, {"id": 1, "tid": 9, "name": "b"}])
    trace = trace_of(Profile(writer.data))
    assert [stack[0][0] for _, _, stack in trace.samples] == ["<script>'\"", "x" * 10_000, "\\udcff", "ä\n"]
    assert {stack[1] for _, _, stack in trace.samples} == {("deflate", "/lib/libz.so.1", "", 0, 0x123)}
    assert len({sample.task_context.tid for _, sample, _ in trace.samples}) == 4


def test_an_empty_profile():
    assert trace_of(Profile(Writer().data)).samples == []
