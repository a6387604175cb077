"""OTLP profiles, decoded with OpenTelemetry's own definitions. A real collector takes them in tests/collector."""

from __future__ import annotations

import io
import sys

import pytest
from others import needed
from spprof_file import Writer

from spprof import BadOption, Profile, formats

service = needed("opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2")
if sys.version_info < (3, 10):
    pytest.skip("opentelemetry-proto for Python 3.9 has an older draft of profiles", allow_module_level=True)


class Request:
    """A request with its indices followed: `samples` are (thread, other attributes, frames from root to leaf, values, times)."""

    def __init__(self, profile, **options):
        out = io.BytesIO()
        formats.write(profile, out, "otlp", formats.Options(**options))
        message = service.ExportProfilesServiceRequest.FromString(out.getvalue())
        self.dictionary = tables = message.dictionary
        self.strings = list(tables.string_table)
        (resource,) = message.resource_profiles
        self.resource = {pair.key: pair.value for pair in resource.resource.attributes}
        (scope,) = resource.scope_profiles
        (self.profile,) = scope.profiles
        self.samples = []
        for sample in self.profile.samples:
            attributes = self.attributes(sample.attribute_indices)
            frames = [
                self.frame(tables.location_table[index]) for index in tables.stack_table[sample.stack_index].location_indices
            ]
            self.samples.append(
                (attributes.pop("thread.id", 0), attributes, frames[::-1], list(sample.values), list(sample.timestamps_unix_nano))
            )

    def attributes(self, indices):
        result = {}
        for index in indices:
            pair = self.dictionary.attribute_table[index]
            assert self.strings[pair.key_strindex] not in result
            result[self.strings[pair.key_strindex]] = getattr(pair.value, pair.value.WhichOneof("value"))
        return result

    def frame(self, location):
        (line,) = location.lines
        function = self.dictionary.function_table[line.function_index]
        library = self.strings[self.dictionary.mapping_table[location.mapping_index].filename_strindex]
        return (
            self.strings[function.name_strindex],
            self.strings[function.filename_strindex],
            function.start_line,
            line.line,
            library,
        )

    def type(self, value):
        return self.strings[value.type_strindex], self.strings[value.unit_strindex]


START = 1_700_000_000_000_000_000


@pytest.fixture
def profile(data):
    profile = Profile(data)
    profile.header["start_unix_ns"] = START
    return profile


def test_samples_with_one_identity_are_one_with_all_their_values_and_times(profile):
    request = Request(profile)
    reported = []
    for tid, attributes, frames, values, times in request.samples:
        assert attributes == {"thread.name": {70: "Main", 71: "#wor;ker"}[tid]}
        reported += [(tid, time - START + 5_000_000, value, [frame[0] for frame in frames]) for time, value in zip(times, values)]
    expected = [
        (70 + sample.thread, sample.timestamp_ns, sample.weight, [frame.qualname for frame in sample.frames])
        for sample in profile
    ]
    assert sorted(reported) == sorted(expected)
    assert request.samples[2][2] == [
        ("<module>", "/app/x;y.py", 1, 3, ""),
        ("A.a", "/app/x;y.py", 10, 11, ""),
        ("b", "/app/%\n.py", 20, 20, ""),
        ("A.a", "/app/x;y.py", 10, 11, ""),
    ]
    identities = [(tid, str(attributes), str(frames)) for tid, attributes, frames, _, _ in request.samples]
    assert len(identities) == len(set(identities))


def test_units_period_and_duration(profile):
    request = Request(profile)
    assert request.type(request.profile.sample_type) == request.type(request.profile.period_type) == ("cpu", "nanoseconds")
    assert (request.profile.period, request.profile.time_unix_nano, request.profile.duration_nano) == (
        1_000_000,
        START,
        5_000_000,
    )
    assert len(request.profile.profile_id) == 16
    counts = Request(profile, weight="samples")
    assert counts.type(counts.profile.sample_type) == ("samples", "count")
    assert sorted(value for *_, values, _ in counts.samples for value in values) == [1, 1, 1, 1, 1, 1, 7]


def test_tables_begin_with_nothing_and_hold_nothing_twice(profile):
    for name, table in Request(profile).dictionary.ListFields():
        entries = [str(entry) for entry in table]
        assert entries[0] == "", name
        assert len(set(entries)) == len(entries), name


def test_options_and_labels(profile):
    profile.label_sets.append({"route": "/a", "user": "ä"})
    profile._columns()["label"] = [0, 1, 1, 0, 0, 0, 0]
    labelled = [sum(values) for _, attributes, _, values, _ in Request(profile).samples if attributes.get("route") == "/a"]
    assert sum(labelled) == 1_200_000
    assert {tid for tid, *_ in Request(profile, merge_threads=True).samples} == {0}
    assert {tid for tid, *_ in Request(profile, thread="Main").samples} == {70}
    assert {frame[3] for _, _, frames, *_ in Request(profile, lines=False).samples for frame in frames} == {0}


def test_without_a_known_time_there_are_sums(data):
    request = Request(Profile(data))  # no start_unix_ns
    assert not any(times for *_, times in request.samples) and all(len(values) == 1 for *_, values, _ in request.samples)
    assert sum(values[0] for *_, values, _ in request.samples) == 4_811_000


def test_hard_names_and_native_frames():
    writer = Writer(argv=["/x/ä.py"], pid=3)
    for number, name in enumerate(("<script>'\"", "x" * 10_000, "\udcff")):
        deflate = ("deflate", "deflate", "/lib/libz.so.1", 0x100, 0x123, 0, -1, -1, 1)
        writer.sample([(name, name, "f.py", 1, 2), deflate], 6000 + number, 5)
    writer.flush()
    request = Request(Profile(writer.data))
    assert [frames[0][0] for _, _, frames, *_ in request.samples] == ["<script>'\"", "x" * 10_000, "\\udcff"]
    assert {frames[1] for _, _, frames, *_ in request.samples} == {("deflate", "", 0, 0, "/lib/libz.so.1")}
    assert request.dictionary.location_table[2].address == 0x123
    assert request.resource["service.name"].string_value == "ä.py" and request.resource["process.pid"].int_value == 3


def test_libraries_have_their_build_ids():
    """Not those of which the run saw two files."""
    writer = Writer(native="yes")
    for path in ("/lib/a.so", "/lib/b.so", "/lib/c.so"):
        writer.sample([("f", "f", path, 0x100, 0x123, 0, -1, -1, 1)], 6000, 5)
    writer.flush()
    writer.block(b"O", b"00ff /lib/a.so\0" + b"01 /lib/b.so\0" + b"02 /lib/b.so\0" + b" /lib/c.so\0")
    request = Request(Profile(writer.data))
    known = {request.strings[each.filename_strindex]: request.attributes(each.attribute_indices)
             for each in request.dictionary.mapping_table}  # fmt: skip
    assert known == {"": {}, "/lib/a.so": {"process.executable.build_id.gnu": "00ff"}, "/lib/b.so": {}, "/lib/c.so": {}}


def test_an_empty_profile():
    assert Request(Profile(Writer().data)).samples == []


def test_another_draft_is_refused(data, monkeypatch):
    from spprof.formats import otlp

    monkeypatch.setitem(otlp._SAMPLE, "values", 2)
    with pytest.raises(BadOption, match="another draft"):
        Request(Profile(data))


def test_without_the_extra_it_says_what_to_install(data, monkeypatch):
    monkeypatch.setitem(sys.modules, formats.FORMATS["otlp"].needs, None)
    with pytest.raises(BadOption, match=r"pip install 'spprof\[otlp\]'"):
        Request(Profile(data))
