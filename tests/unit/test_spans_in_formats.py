"""Ids of OpenTelemetry's spans, as profiles, parts, reports and formats have them."""

import json

import pytest
from others import needed
from spprof_file import Writer

from spprof import Profile
from spprof.cli import main
from spprof.model.filtering import filtered
from spprof.model.joining import joined

STACK = [("step", "step", "/srv/app.py", 1, 2)]
TRACE, OTHER = "0af7651916cd43dd8448eb211c80319c", "f" * 32
A, B, C = f"{TRACE}-b7ad6b7169203331", f"{TRACE}-00f067aa0ba902b7", f"{OTHER}-00000000000000ff"
ROWS = [(A, None), (A, {"route": "/a"}), (B, {"route": "/a"}), (None, {"span_id": "own"}), (C, None), ("nonsense", None)]


@pytest.fixture
def profile(tmp_path):
    """One ms for each row: span, labels."""
    writer = Writer(mode="wall", start_unix_ns=1_700_000_000_000_000_000)
    for at, (span, labels) in enumerate(ROWS):
        writer.sample(STACK, 6_000 + 1_000 * at, 1_000, label=labels and json.dumps(labels), span=span)
    writer.flush()
    path = tmp_path / "p.spprof"
    path.write_bytes(writer.data)
    return Profile.load(path)


def converted(profile, tmp_path, name):
    assert main(["convert", profile.path, "-o", str(tmp_path / name)]) == 0
    return tmp_path / name


def ids(name):
    return {"trace_id": name[:32], "span_id": name[33:]} if name in (A, B, C) else {}


def test_samples_have_their_ids(profile):
    samples = list(profile)
    assert [sample.span for sample in samples] == [span or "" for span, _ in ROWS]
    assert (samples[0].trace_id, samples[0].span_id) == (TRACE, "b7ad6b7169203331")
    assert (samples[3].trace_id, samples[3].span_id) == ("", "")


def test_parts_reports_and_joined_profiles(profile, tmp_path, capsys):
    assert main(["report", profile.path, "--by", "span_id", "-f", "json"]) == 0
    rows = {row["labels"].get("span_id"): row["total"]["samples"] for row in json.loads(capsys.readouterr().out)["rows"]}
    assert rows == {A[33:]: 2, B[33:]: 1, C[33:]: 1, "own": 1, None: 1}
    part = filtered(profile, labels={"trace_id": TRACE, "route": "/a"})
    assert [sample.span for sample in part] == [A, B]
    path = converted(profile, tmp_path, "again.spprof")
    assert [sample.span for sample in Profile.load(path)] == [sample.span for sample in profile]
    assert main(["convert", profile.path, "--label", f"trace_id={TRACE}", "-o", str(tmp_path / "part.spprof")]) == 0
    assert [sample.span for sample in Profile.load(tmp_path / "part.spprof")] == [A, A, B]
    assert [sample.span for sample in joined([profile, part])] == [*(sample.span for sample in profile), A, B]


def test_jsonl(profile, tmp_path):
    lines = map(json.loads, converted(profile, tmp_path, "p.jsonl").read_text().splitlines())
    found = [{key: line[key] for key in ("trace_id", "span_id") if key in line} for line in lines if line["type"] == "sample"]
    assert found == [ids(span) for span, _ in ROWS]


def test_parquet(profile, tmp_path):
    parquet = needed("pyarrow.parquet")
    table = parquet.read_table(converted(profile, tmp_path, "p.parquet")).to_pylist()
    assert [(row["trace_id"], row["span_id"]) for row in table] == [
        (ids(span).get("trace_id"), ids(span).get("span_id")) for span, _ in ROWS
    ]


def test_pprof(profile, tmp_path):
    found = [sample.labels for sample in Profile.load(converted(profile, tmp_path, "p.pb.gz"))]
    found = [{key: value for key, value in labels.items() if not key.startswith("thread")} for labels in found]
    expected = [{**(labels or {}), **ids(span)} for span, labels in ROWS]
    assert sorted(map(sorted, map(dict.items, found))) == sorted(map(sorted, map(dict.items, expected)))


def test_otlp(profile, tmp_path):
    service = needed("opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2")
    request = service.ExportProfilesServiceRequest.FromString(converted(profile, tmp_path, "p.otlp").read_bytes())
    links = request.dictionary.link_table
    assert (links[0].trace_id, links[0].span_id) == (b"", b"")
    found = []
    for sample in request.resource_profiles[0].scope_profiles[0].profiles[0].samples:
        link = links[sample.link_index]
        found += [(time, link.trace_id.hex(), link.span_id.hex()) for time in sample.timestamps_unix_nano]
    assert [pair[1:] for pair in sorted(found)] == [
        (ids(span).get("trace_id", ""), ids(span).get("span_id", "")) for span, _ in ROWS
    ]
    assert len(links) == 4


def test_perfetto(profile, tmp_path):
    assert TRACE.encode() in converted(profile, tmp_path, "p.perfetto-trace").read_bytes()
