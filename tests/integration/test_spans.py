"""Spans of OpenTelemetry: each function of the target works in one span alone, whose ids the program itself saw, so every sample
of it must carry just those."""

import json

import pytest
from judging import until_seen
from ran import TARGETS

from spprof.cli import main

pytest.importorskip("opentelemetry.trace", reason="opentelemetry-api is needed: pip install '.[consumers]'")

KINDS = ("before", "outer", "inner", "inherited", "child", "executor", "tothread", "again", "after", "thread", "inthread")


def judged(profile, truth):
    """How many samples in and outside of spans there are of each kind of function: each with its span, and no other."""
    seen = {}
    for sample in profile:
        ran = [frame.name for frame in sample.frames if frame.name in truth]
        if ran:
            assert len(ran) == 1 and sample.span == truth[ran[0]], f"impossible: {sample}, {truth[ran[0]]!r}"
            kind = ran[0].partition("_")[0]
            seen[kind] = seen.get(kind, 0) + 1
    return seen


@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_a_sample_has_the_span_of_its_context(run_python, mode):
    found = set()
    for seconds in until_seen(found, set(KINDS), seconds=1):
        ran = run_python(TARGETS / "spanned.py", "out.spprof", mode, seconds)
        truth = ran.json["truth"]
        assert not any(ids for name, ids in truth.items() if name.startswith(("before", "after", "thread")))
        assert all(ids for name, ids in truth.items() if not name.startswith(("before", "after", "thread")))
        found |= {*judged(ran.profile, truth)}


def test_a_library_that_is_imported_later(run_python):
    """The first samples may have no span, but none has a wrong one."""
    found = set()
    for seconds in until_seen(found, {"span"}, seconds=1):
        ran = run_python(TARGETS / "spanned.py", "out.spprof", "cpu", seconds, "late")
        truth = ran.json["truth"]
        for sample in ran.profile:
            ran_in = [frame.name for frame in sample.frames if frame.name in truth]
            if sample.span and ran_in:
                assert sample.span == truth[ran_in[0]], f"impossible: {sample}"
                found.add("span")


def test_reports_of_a_trace(run_python, capsys):
    ran = run_python(TARGETS / "spanned.py", "out.spprof", "wall", 1)
    spans = {}
    for sample in ran.profile:
        spans[sample.span] = spans.get(sample.span, 0) + sample.count
    span = max((each for each in spans if each), key=spans.__getitem__)
    trace = span.partition("-")[0]
    assert main(["report", str(ran.path), "--label", f"trace_id={trace}", "--by", "span_id", "-f", "json"]) == 0
    rows = {row["labels"].get("span_id"): row["total"]["samples"] for row in json.loads(capsys.readouterr().out)["rows"]}
    assert rows == {each.partition("-")[2]: n for each, n in spans.items() if each.partition("-")[0] == trace}
