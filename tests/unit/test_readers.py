"""Other profilers' files: small ones by hand, our own formats read back, and damaged ones. Real ones of other tools are in
tests/integration/test_others_files.py."""

from __future__ import annotations

import bz2
import codecs
import contextlib
import cProfile
import gzip
import io
import json
import lzma
import marshal
import os
import pickle
import pstats
import random
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import fastjsonschema
import pytest
from spprof_file import Writer, varint
from test_formats import native_profile

from spprof import BadFile, BadOption, Profile, formats, readers
from spprof.cli import main
from spprof.report.tables import table


def aggregate(profile):
    """What is asked of every reader: thread and stack -> samples and weight; of a frame what all formats have."""
    result = {}
    for thread in profile.threads:
        samples, weights = profile.sums_of(thread.id)
        for key, count in samples.items():
            stack = tuple(
                (frame.qualname, frame.file, frame.line * (not frame.native), frame.native) for frame in profile.stack(key)
            )
            known = result.get((thread.name, stack), (0, 0))
            result[thread.name, stack] = known[0] + count, known[1] + weights[key]
    return result


def converted(data, format, **options):
    out = io.BytesIO()
    formats.write(Profile(data), out, format, formats.Options(**options))
    return out.getvalue()


# Round trips


def test_our_pprof_files_read_back_are_the_same(data):
    again = Profile(converted(data, "pprof"))
    assert aggregate(again) == aggregate(Profile(data))
    assert (again.unit, again.mode, again.interval_ns) == ("nanoseconds", "cpu", 1_000_000)
    assert {thread.name: thread.tid for thread in again.threads} == {"Main": 70, "#wor;ker": 71}
    first_lines = {(row.qualname, row.line) for row in again.functions()}
    assert {("A.a", 10), ("b", 20), ("<module>", 1)} <= first_lines


def test_our_speedscope_files_read_back_are_the_same_but_for_ticks(data):
    again = Profile(converted(data, "speedscope"))
    truth = aggregate(Profile(data))
    assert {key: weight for key, (_, weight) in aggregate(again).items()} == {key: weight for key, (_, weight) in truth.items()}
    assert len(again) == 7 and again.unit == "nanoseconds"
    assert {thread.name: thread.tid for thread in again.threads} == {"Main": 70, "#wor;ker": 71}
    cols = {frame.col for sample in again for frame in sample.frames if frame.qualname == "A.a" and frame.line == 11}
    assert cols == {4}


def test_our_collapsed_files_read_back_count_the_same_samples(data):
    again = Profile(converted(data, "collapsed"))
    assert again.unit == "samples"
    truth = {key: samples for key, (samples, _) in aggregate(Profile(data)).items()}
    assert {key: samples for key, (samples, _) in aggregate(again).items()} == truth
    assert all(samples == weight for samples, weight in aggregate(again).values())


def test_our_gecko_files_read_back_are_the_same_but_for_ticks(data):
    again = Profile(converted(data, "gecko"))
    assert weights_of(again) == weights_of(Profile(data))
    assert (len(again), again.unit, again.interval_ns, again.warning) == (7, "nanoseconds", 1_000_000, None)
    assert {thread.name: thread.tid for thread in again.threads} == {"Main": 70, "#wor;ker": 71}
    first_lines = {(row.qualname, row.line) for row in again.functions()}
    assert {("A.a", 10), ("b", 20), ("<module>", 1)} <= first_lines
    cols = {frame.col for sample in again for frame in sample.frames if frame.qualname == "A.a" and frame.line == 11}
    assert cols == {4}
    ticks = Profile(converted(data, "gecko", weight="samples"))
    assert ticks.unit == "samples" and sum(ticks.column("weight")) == sum(Profile(data).column("count"))


def test_our_chrome_files_read_back_have_the_same_time(data):
    """They have the last part of a path, and the first line where the line is unknown."""
    truth = {}
    for thread in Profile(data).threads:
        profile = Profile(data)
        for key, weight in profile.sums_of(thread.id)[1].items():
            stack = tuple((frame.qualname, os.path.basename(frame.file), frame.native) for frame in profile.stack(key))
            truth[thread.name, stack] = truth.get((thread.name, stack), 0) + weight
    again = Profile(converted(data, "chrome"))
    reported = {}
    for (thread, stack), weight in weights_of(again).items():
        key = thread, tuple((name, file, native) for name, file, _, native in stack)
        reported[key] = reported.get(key, 0) + weight
    assert reported == {key: weight for key, weight in truth.items() if weight}
    assert again.unit == "nanoseconds" and {thread.name: thread.tid for thread in again.threads} == {"Main": 70, "#wor;ker": 71}


def test_our_pstats_files_read_back_have_the_same_own_time(data):
    own = {}
    for row in Profile(data).functions():
        own[row.qualname] = own.get(row.qualname, 0) + row.self_weight
    again = Profile(converted(data, "pstats"))
    assert self_figures_of(again) == {name: ns for name, ns in own.items() if ns}
    assert "no stacks" in again.warning


def weights_of(profile):
    return {key: weight for key, (_, weight) in aggregate(profile).items() if weight}


def self_figures_of(profile):
    return {row.qualname: row.self_weight for row in profile.functions() if row.self_weight}


@pytest.mark.parametrize("format", ["pprof", "speedscope", "collapsed", "gecko", "chrome"])
def test_native_frames_survive(format):
    data = native_profile()
    stacks = {stack for _, stack in aggregate(Profile(converted(data, format)))}
    library = "/usr/lib/libz.so.1" if format in ("pprof", "gecko") else "libz.so.1"
    file = "f.py" if format == "chrome" else "/app/f.py"
    assert (("f", file, 2, False), ("deflate", library, 0, True)) in stacks


@pytest.mark.parametrize("format", ["pprof", "speedscope", "collapsed", "gecko", "chrome"])
def test_hard_names_survive(format):
    writer = Writer()
    names = ["<script>'\"", "x" * 10_000, "ä;b", "a\nb%3B", "a (b) c", "[x]", "100%"]
    for i, name in enumerate(names):
        writer.sample([(name, name, f"/f {i}(x)/é.py", 1, 7)], 6000 + i, 1)
    writer.flush()
    again = Profile(converted(writer.data, format))
    reported = [(sample.frames[0].qualname, sample.frames[0].line) for sample in again]
    expected = [(name, 7) for name in names]
    if format == "collapsed":  # `name (file:line)` has no name with ` (` in it
        expected[4] = ("a", 7)
    assert sorted(reported) == sorted(expected)


@pytest.mark.parametrize("format", [name for name in formats.FORMATS if name not in ("spprof", "parquet", "otlp")])
def test_what_was_read_is_written_in_every_format(format, data, tmp_path, capsys):
    for source in ("pprof", "speedscope", "collapsed"):
        (tmp_path / "in").write_bytes(converted(data, source))
        code = main(["convert", str(tmp_path / "in"), "-f", format, "-o", str(tmp_path / source)])
        if source == "collapsed" and format in ("gecko", "pstats", "chrome", "cpuprofile"):  # they can only show time
            assert code == 2 and "counts samples" in capsys.readouterr().err and not (tmp_path / source).exists()
        else:
            assert code == 0 and (tmp_path / source).stat().st_size > 100


# Each format by hand


def test_collapsed_with_and_without_threads():
    plain = Profile(b"# comment\nmain;foo 2\r\nmain;foo;bar 3\nmain 1\n\n")
    assert aggregate(plain) == {
        ("all threads", (("main", "", 0, False), ("foo", "", 0, False))): (2, 2),
        ("all threads", (("main", "", 0, False), ("foo", "", 0, False), ("bar", "", 0, False))): (3, 3),
        ("all threads", (("main", "", 0, False),)): (1, 1),
    }
    assert aggregate(Profile(b" 3\na (x.py:3) 4\n"))["all threads", (("[no Python frames]", "", 0, False),)] == (3, 3)
    named = Profile("python;a (x.py:3);inflate [libz.so.1] 4\nwörker;[unknown] 1".encode())
    assert aggregate(named) == {
        ("python", (("a", "x.py", 3, False), ("inflate", "libz.so.1", 0, True))): (4, 4),
        ("wörker", (("[unknown]", "", 0, False),)): (1, 1),
    }
    py_spy = Profile(b"thread (4711): M;a (x.py:3) 4\nthread (0x12);b (x.py:4) 1")
    assert [(thread.name, thread.tid, thread.samples) for thread in py_spy.threads] == [("M", 4711, 4), ("Thread 18", 18, 1)]


def speedscope(*profiles, frames=("main", "foo"), **more):
    shared = {"frames": [{"name": name} if isinstance(name, str) else name for name in frames]}
    return json.dumps({"shared": shared, "profiles": profiles, **more}).encode()


def sampled(unit="seconds", weights=(0.1, 0.2), samples=((0,), (0, 1)), **more):
    return {
        "type": "sampled",
        "name": "t",
        "unit": unit,
        "startValue": 0,
        "endValue": 1,
        "samples": samples,
        "weights": weights,
        **more,
    }


@pytest.mark.parametrize(
    ("unit", "ours", "factor"),
    [
        ("seconds", "nanoseconds", 10**9),
        ("milliseconds", "nanoseconds", 10**6),
        ("none", "samples", 1),
        ("microseconds", "nanoseconds", 1000),
        ("bytes", "bytes", 1),
    ],
)
def test_speedscope_units(unit, ours, factor):
    profile = Profile(speedscope(sampled(unit, (3, 5))))
    assert (profile.unit, list(profile.column("weight"))) == (ours, [3 * factor, 5 * factor])


def test_speedscope_fractions_add_up():
    profile = Profile(speedscope(sampled("nanoseconds", [0.4] * 10, [[0]] * 10)))
    assert sum(profile.column("weight")) == 4


def test_speedscope_events_become_stretches():
    events = [("O", 0, 10), ("O", 1, 12), ("C", 1, 15), ("C", 0, 16), ("O", 1, 20), ("C", 1, 21)]
    events = [{"type": type, "frame": frame, "at": at} for type, frame, at in events]
    profile = Profile(
        speedscope({"type": "evented", "name": "t", "unit": "nanoseconds", "startValue": 10, "endValue": 21, "events": events})
    )
    reported = [([frame.name for frame in sample.frames], sample.timestamp_ns, sample.weight) for sample in profile]
    assert reported == [(["main"], 2, 2), (["main", "foo"], 5, 3), (["main"], 6, 1), (["foo"], 11, 1)]


def message(*fields):
    """A protocol buffer from (number, int or bytes), by the definition."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value % (1 << 64))
        else:
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


STRINGS = ["", "alloc", "bytes", "contentions", "count", "main", "a.go", "inner", "key", "value", "tid"]


def pprof(samples, types=((1, 2),), more=()):
    strings = [(6, text.encode()) for text in STRINGS]
    functions = [(5, message((1, 1), (2, 5), (4, 6), (5, 10))), (5, message((1, 2), (2, 7), (4, 6)))]
    # Location 3: `inner` inlined into `main`; 4: no symbol.
    locations = [
        (4, message((1, 3), (3, 99), (4, message((1, 2), (2, 5))), (4, message((1, 1), (2, 12))))),
        (4, message((1, 4), (2, 1), (3, 0x1234))),
    ]
    mapping = (3, message((1, 1), (5, 6)))
    named = [(1, message((1, type), (2, unit))) for type, unit in types]
    return message(*named, *((2, sample) for sample in samples), mapping, *locations, *functions, *strings, *more)


def test_pprof_inlined_functions_labels_and_units():
    labels = message((3, message((1, 8), (2, 9))), (3, message((1, 10), (3, 77))))
    profile = Profile(pprof([message((1, 4), (1, 3), (2, 100)) + labels, message((1, varint(3)), (2, varint(50)))]))
    assert profile.unit == "bytes"
    main_, inner, unknown = ("main", "a.go", 12, False), ("inner", "a.go", 5, False), ("0x1234", "a.go", 0, True)
    assert aggregate(profile) == {
        ("Thread 77", (main_, inner, unknown)): (1, 100),
        ("all threads", (main_, inner)): (1, 50),
    }
    assert [profile.label_sets[label] for label in profile.column("label")] == [{"key": "value"}, {}]
    contended = Profile(pprof([message((1, 3), (2, 7))], types=((3, 4),)))
    assert contended.unit == "contentions"


def test_members_of_a_gzip_file_are_one():
    profile = Profile(gzip.compress(b"main;foo 2\n") + gzip.compress(b"main 3\n"))
    assert sum(profile.column("count")) == 5


# What other writers do


PLAIN = "main;parse;read_row 30\nmain;parse;gr\u00f6\u00dfe 20\nmain;write 50\n"


def self_figures(content):
    """Weight by name of what was running; every sample once."""
    profile = Profile(content if isinstance(content, bytes) else content.encode())
    figures = {}
    for row in profile.functions():
        if row.self_weight:
            figures[row.qualname] = figures.get(row.qualname, 0) + row.self_weight
    assert sum(figures.values()) == sum(profile.column("weight")) == sum(thread.weight for thread in profile.threads)
    return figures


@pytest.mark.parametrize(
    "content",
    [
        PLAIN.encode(),
        PLAIN.rstrip("\n").encode(),
        PLAIN.replace("\n", "\r\n").encode("utf-8-sig"),
        PLAIN.replace("\n", "\r").encode(),
        PLAIN.replace("\n", "\n\r\n").encode(),
        PLAIN.encode("utf-16"),
        codecs.BOM_UTF16_BE + PLAIN.encode("utf-16-be"),
        PLAIN.encode("utf-16-le"),
        PLAIN.encode("utf-16-be"),
        PLAIN.encode("utf-32"),
        gzip.compress(PLAIN.encode("utf-16"), mtime=0),
        b"\n\n# made by hand\n" + PLAIN.replace("\n", "\n\n").encode() + b"  \n\t\n",
        PLAIN.replace(" 30", "\t30").replace(" 20", " \t20  ").encode(),
        PLAIN.encode() + bytes(4096),
    ],
    ids=str,
)
def test_text_as_systems_write_it(content):
    assert self_figures(content) == {"read_row": 30, "gr\u00f6\u00dfe": 20, "write": 50}
    assert (Profile(content).warning is None) == (not content.endswith(bytes(8)))


def test_what_is_no_utf_8_stays_apart():
    assert self_figures(b"a;gr\xf6n 1\n") == {"gr\ufffdn": 1}
    assert self_figures(b"a;gr\xf6n 1\na;gr\xfcn 2\n") == {"gr\\xf6n": 1, "gr\\xfcn": 2}
    strings = [b"", b"samples", b"count", b"main", b"a.go", b"f\xf6", b"f\xfc"]
    functions = [(5, message((1, 1), (2, 5))), (5, message((1, 2), (2, 6)))]
    locations = [(4, message((1, n), (4, message((1, n))))) for n in (1, 2)]
    samples = [(2, message((1, n), (2, n))) for n in (1, 2)]
    assert self_figures(
        message((1, message((1, 1), (2, 2))), *samples, *locations, *functions, *((6, one) for one in strings))
    ) == {"f\\xf6": 1, "f\\xfc": 2}


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        ("main;a 10.0\nmain;b 30.\n", {"a": 10, "b": 30}),
        ("main;a 1e3\nmain;b 1E+03\n", {"a": 1000, "b": 1000}),
        ("thread 4711 12\nthread 4711;main;a 8\n", {"thread 4711": 12, "a": 8}),
        ("main;a 0\nmain;b 30\n", {"b": 30}),
        ("main;a 0\nmain;b 0\n", {}),
        ("# mode: wall\n# nothing was sampled\n", {}),
        ("#<Class:0x1>#f;b 5\n", {"b": 5}),
        ("main;a 999999999999999999\nmain;b 1\n", {"a": 999999999999999999, "b": 1}),
        ("swapper;do_idle_[k] 10\npython3;read_[k] 30\n", {"do_idle_[k]": 10, "read_[k]": 30}),
        ("main;operator new 2;std::vector<int, 4> 7\nmain;f 16 1\n", {"std::vector<int, 4>": 7, "f 16": 1}),
        ("main;;a 10\n;main;b 30\nmain; 5\n", {"a": 10, "b": 30, "": 5}),
        ("{main};f 3\n", {"f": 3}),
        ("[unknown];f 3\n", {"f": 3}),
        ("f (a.py:1);operator new(unsigned long) 3\nf (a.py:1);g 4\n", {"operator new(unsigned long)": 3, "g": 4}),
    ],
)
def test_numbers_and_names_of_collapsed_stacks(text, figures):
    assert self_figures(text) == figures


def test_samples_of_nothing_are_none():
    assert len(Profile(b"main;a 0\nmain;b 30\n")) == 1
    assert len(Profile(pprof([message((1, 3), (2, 0))], types=((3, 4),)))) == 1  # no count is given: it is one


PY_SPY = """\
process 4711:"python3 app.py";thread (0x7F01): MainThread;<module> (app.py:9);work (app.py:3) 60
process 4711:"python3 app.py";process 4712:"python3 -c import time; work(2); "a";done()";thread (4712): wor;ker;work (app.py:4) 40
"""


def test_py_spys_processes_and_threads():
    """py-spy 0.4.3's form, with `;` and quotes in a command line, and `;` in a thread's name."""
    profile = Profile(PY_SPY.encode())
    assert [(thread.name, thread.tid, thread.weight) for thread in profile.threads] == [
        ("MainThread", 0x7F01, 60),
        ("wor;ker", 4712, 40),
    ]
    totals = {row.qualname: (row.self_weight, row.total_weight) for row in profile.functions()}
    assert totals == {
        "work": (100, 100),
        "<module>": (0, 60),
        'process 4711:"python3 app.py"': (0, 100),
        'process 4712:"python3 -c import time; work(2); "a";done()"': (0, 40),
    }
    no_threads = Profile(PY_SPY.replace("thread (0x7F01): MainThread;", "").replace("thread (4712): wor;ker;", "").encode())
    assert {row.qualname: row.total_weight for row in no_threads.functions()} == {key: t for key, (_, t) in totals.items()}
    same = 'process 1:"a";thread (7): T;f (x.py:1) 1\nprocess 2:"a";thread (7): T;f (x.py:1) 2\n'
    assert [(thread.name, thread.tid, thread.weight) for thread in Profile(same.encode()).threads] == [
        ("T", 7, 1),
        ("T", 7, 2),
    ]


AUSTIN = """\
# austin: 3.7.0
# interval: 100
# mode: {mode}

P4711;T0:4711;/app/main.py:<module>:12;C:\\app\\main.py:work:3 60000
P4711;T0:4712;C:\\app\\main.py:work:4 20000
P4711;T4712;/app/main.py:wait:7 20000
P4711;T0:4712 0
# duration: 100123
"""


def test_austins_text():
    profile = Profile(AUSTIN.format(mode="wall").encode())
    assert (profile.unit, profile.mode, profile.interval_ns, len(profile)) == ("nanoseconds", "wall", 100_000, 3)
    assert [(thread.tid, thread.weight) for thread in profile.threads] == [(4711, 60_000_000), (4712, 40_000_000)]
    assert {row.qualname: row.self_weight for row in profile.functions()} == {
        "work": 80_000_000,
        "wait": 20_000_000,
        "<module>": 0,
    }
    lines = {(row.qualname, row.file, row.line): row.self_weight for row in profile.functions(by="line")}
    assert lines["work", "C:\\app\\main.py", 4] == 20_000_000
    assert Profile(AUSTIN.format(mode="memory").encode()).unit == "bytes"
    headless = Profile(AUSTIN[AUSTIN.index("P4711") :].encode())
    assert headless.unit == "nanoseconds" and "what its numbers count" in headless.warning
    two = Profile(AUSTIN.format(mode="cpu").replace("P4711;T0:4712", "P9;T0:4711").encode())
    assert [thread.weight for thread in two.threads] == [60_000_000, 20_000_000, 20_000_000]
    assert {"process 4711", "process 9"} <= {row.qualname for row in two.functions()}


def evented(*events, **more):
    reported = [dict(zip(("type", "frame", "at"), event)) for event in events]
    profile = {
        "type": "evented",
        "name": "t",
        "unit": "milliseconds",
        "startValue": 0,
        "endValue": 10,
        "events": reported,
        **more,
    }
    return {key: value for key, value in profile.items() if value is not ...}


NEST = [("O", 0, 0), ("O", 1, 2), ("C", 1, 8), ("C", 0, 10)]


@pytest.mark.parametrize(
    ("profile", "figures"),
    [
        (evented(*NEST), {"main": 4, "foo": 6}),
        (evented(*NEST[:2]), {"main": 2, "foo": 8}),
        (evented(*NEST[:3]), {"main": 4, "foo": 6}),
        (evented(*((k, f, at + 1_700_000_000_000) for k, f, at in NEST), startValue=..., endValue=...), {"main": 4, "foo": 6}),
        (evented(*((k, f, at + 1_700_000_000_000) for k, f, at in NEST), startValue=None), {"main": 4, "foo": 6}),
        (evented(NEST[0], NEST[1], ("C", 1, 8.000000000000002), ("C", 0, 8.0)), {"main": 2, "foo": 6}),
        (evented(("O", 0, 3), ("C", 0, 3)), {}),
        (sampled("milliseconds", (3, 4, 3), ((), (0,), (0, 1))), {"[no Python frames]": 3, "main": 4, "foo": 3}),
    ],
)
def test_speedscope_files_of_other_writers(profile, figures):
    assert self_figures(speedscope(profile)) == {name: ms * 10**6 for name, ms in figures.items()}
    assert max(Profile(speedscope(profile)).column("time_ns"), default=0) <= 10 * 10**6


def test_profiles_of_one_name_stay_two_in_every_reader_and_format(tmp_path):
    """A thread of 30 ms and one of 10, of one name and with no id, or with the same."""
    for name in ("w", 'Thread 7 "w"'):
        twice = Profile(
            speedscope(*({**sampled("milliseconds", (ms,), ((0,),)), "name": name} for ms in (30, 10)), exporter="by hand")
        )
        assert [thread.weight for thread in twice.threads] == [30_000_000, 10_000_000]
        for format in ("speedscope", "pprof"):
            out = io.BytesIO()
            formats.write(twice, out, format, formats.Options())
            reported = {(thread.name, thread.weight) for thread in Profile(out.getvalue()).threads}
            assert reported == {("w", 30_000_000), ("w", 10_000_000)}
        out = io.BytesIO()
        formats.write(twice, out, "callgrind", formats.Options())
        assert out.getvalue().count(b"[thread w (") == 2
    (tmp_path / "a").write_bytes(speedscope({**sampled(), "name": "w"}))
    (tmp_path / "b").write_bytes(speedscope({**sampled(), "name": "w"}))
    rows = table([Profile.load(tmp_path / name) for name in "ab"], by="thread").rows
    assert [(row.what["thread"], row.total_weight) for row in rows] == [("w", 300_000_000)] * 2


def pprof_of(*samples, types=(("samples", "count"), ("cpu", "nanoseconds")), functions=((1, "f", ""),), default="", wanted=1):
    """Of (values, {label: text or number}); functions are (id, name, system name)."""
    strings = {"": 0}

    def string(text):
        return strings.setdefault(text, len(strings))

    fields = [(1, message((1, string(kind)), (2, string(unit)))) for kind, unit in types]
    for values, labels in samples:
        reported = [
            (3, message((1, string(key)), (2, string(value)) if isinstance(value, str) else (3, value))) for key, value in labels
        ]
        fields.append((2, message((1, 1), (2, b"".join(varint(value % (1 << 64)) for value in values)), *reported)))
    fields += [(5, message((1, id), (2, string(name)), (3, string(system)))) for id, name, system in functions]
    fields += [(4, message((1, 1), (4, message((1, wanted))))), (14, string(default))]
    return message(*fields, *((6, text.encode()) for text in strings))


@pytest.mark.parametrize(
    ("labels", "thread", "others"),
    [
        ([("thread_id", "4711")], ("Thread 4711", 4711), {}),
        ([("thread id", 4711), ("thread name", "w")], ("w", 4711), {}),
        ([("thread", 7)], ("Thread 7", 7), {}),
        ([("thread_id", "main-1")], ("main-1", 0), {}),
        ([("Thread-ID", 5), ("os thread id", 6)], ("Thread 5", 5), {"os_thread_id": "6"}),
        ([("key", "a"), ("key", "b")], ("all threads", 0), {"key": "a, b"}),
    ],
)
def test_threads_and_labels_of_other_writers_of_pprof(labels, thread, others):
    profile = Profile(pprof_of(([1, 5], labels)))
    assert [(each.name, each.tid) for each in profile.threads] == [thread]
    assert [profile.label_sets[label] for label in profile.column("label")] == [others]


def test_functions_without_a_name():
    assert self_figures(pprof_of(([1, 5], []), functions=((1, "", "work"),))) == {"work": 5}
    assert self_figures(pprof_of(([1, 5], []), functions=((1, "", ""),))) == {"[function 1]": 5}


def test_which_of_several_values_is_said(tmp_path, capsys):
    types = [("wall-samples", "count"), ("wall-time", "us"), ("cpu-samples", "count"), ("cpu-time", "ns"), ("heap", "bytes")]
    content = pprof_of(([1, 20, 3, 40, 50], []), types=types, default="cpu-time")
    profile = Profile(content)
    assert (profile.unit, list(profile.column("weight")), list(profile.column("count"))) == ("nanoseconds", [40], [3])
    without = Profile(pprof_of(([1, 20, 3, 40, 50], []), types=types))
    assert (list(without.column("weight")), list(without.column("count")), without.mode) == ([20_000], [1], "wall")
    (tmp_path / "p").write_bytes(content)
    assert main(["report", str(tmp_path / "p")]) == 0
    said = "Of its values (wall-samples, wall-time, cpu-samples, cpu-time, heap) this is cpu-time."
    assert said in capsys.readouterr().out


# Chrome's trace events


def event(phase, at, name="f", tid=1, **more):
    return {"ph": phase, "ts": at, "name": name, "pid": 1, "tid": tid, **more}


CHROME = [
    event("M", 0, "thread_name", args={"name": "Main"}),
    event("B", 1000.5),
    event("X", 1002, "g (x.py:7)", dur=3.25),
    event("B", 1006, "h", args={"filename": "/y.py", "line": 3}),
    event("i", 1007, "now"),
    event("E", 1008, "h"),
    event("E", 1010.5, None),
    event("X", 1001, "other", 2, dur=4),
    event("X", 1001, "inner", 2, dur=4),
]
CHROME_FIGURES = {"f": 4750, "g": 3250, "h": 2000, "inner": 4000}


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(CHROME),
        json.dumps({"traceEvents": CHROME, "displayTimeUnit": "ms"}),
        json.dumps(CHROME)[:-1],  # its end is not needed
        json.dumps(CHROME)[:-1] + ",\n",
        json.dumps([CHROME[0], CHROME[2], *CHROME[7:], CHROME[1], *CHROME[3:7]]),  # in any order but of equal times
    ],
)
def test_chromes_trace_events(content):
    profile = Profile(content.encode())
    assert self_figures(content) == CHROME_FIGURES
    assert (profile.unit, profile.warning) == ("nanoseconds", None)
    threads = {(thread.name, thread.tid, thread.weight) for thread in profile.threads}
    assert threads == {("Main", 1, 10_000), ("Thread 2", 2, 4000)}
    assert {(row.qualname, row.file): row.total_weight for row in profile.functions()} == {
        ("f", ""): 10_000,
        ("g", "x.py"): 3250,
        ("h", "/y.py"): 2000,
        ("other", ""): 4000,
        ("inner", ""): 4000,
    }


def spans(*events, **more):
    return json.dumps([event(phase, at, name, **({"dur": lasts} if lasts else {}), **more) for phase, name, at, lasts in events])


@pytest.mark.parametrize(
    ("content", "a", "b"),
    [
        (
            spans(("B", "m", 0, 0), ("B", "a", 0, 0), ("E", "a", 4, 0), ("B", "b", 4, 0), ("E", "m", 10, 0), ("E", "b", 10, 0)),
            4,
            6,
        ),
        (
            spans(("B", "m", 0, 0), ("B", "a", 0, 0), ("B", "b", 4, 0), ("E", "a", 4, 0), ("E", "b", 10, 0), ("E", "m", 10, 0)),
            4,
            6,
        ),
        (spans(("X", "m", 0, 11), ("X", "a", 0, 5), ("X", "b", 4, 6)), 4, 6),
        (spans(("X", "a", 0, 5), ("X", "b", 4, 6)), 4, 6),
        (
            spans(*(("X", name, 1_764_194_400_000_000 + at, n) for name, at, n in (("m", 0, 10), ("a", 0, 4), ("b", 4, 6)))),
            4,
            6,
        ),
    ],
    ids=["ends swapped", "the next begins first", "rounded up", "rounded siblings", "since 1970"],
)  # fmt: skip
def test_times_of_chromes_events_that_are_rounded_or_large(content, a, b):
    figures = self_figures(content.encode())
    assert (figures["a"], figures["b"]) == (1000 * a, 1000 * b)


@pytest.mark.parametrize("depth, read", [(2000, True), (6000, False)])
def test_stacks_of_every_depth_are_bounded(depth, read):
    """A nested call is a few bytes, and each depth a stack of its own: their frames grow by the square."""
    events = [{"ph": "X", "pid": 1, "tid": 1, "name": f"f{n}", "ts": n, "dur": 2 * (depth - n) + 1} for n in range(depth)]
    profile = Profile(json.dumps(events).encode())
    if read:
        assert max(map(len, profile.aggregate())) == depth
    else:
        with pytest.raises(BadFile, match="6,000 different stacks have 18,003,000 frames together, up to 6,000 each"):
            profile._columns()


def test_ends_in_another_order_are_refused_in_no_quadratic_time():
    n = 20_000
    names = [f"f{number}" for number in range(n)]
    crossing = spans(*(("B", name, 0, 0) for name in names), *(("E", name, 1, 0) for name in names))
    with pytest.raises(BadFile, match="and the last that began is"):
        Profile(crossing.encode())._columns()


def test_cpythons_own_collapsed_stacks():
    text = "tid:7;/app/x y.py:<module>:30;/app/x y.py:work:{} 3\n"
    profile = Profile((text.format(14) + text.format(15) + "tid:8;<frozen runpy>:_run:1 4\n").encode())
    assert [(thread.tid, thread.weight) for thread in profile.threads] == [(7, 6), (8, 4)]
    rows = {(row.qualname, row.file): (row.self_weight, row.total_weight) for row in profile.functions()}
    assert rows == {("work", "/app/x y.py"): (6, 6), ("<module>", "/app/x y.py"): (0, 6), ("_run", "<frozen runpy>"): (4, 4)}


@pytest.mark.parametrize(
    ("line", "thread", "library"),
    [
        ("[ET_NET 0]  101/102 [003] 1.5:    10 cpu-clock: ", "[ET_NET 0]", "/lib/x.so"),
        ("app 101 [003] 1.5:    10 cpu-clock: ", "app", "/tmp/my lib (1).so"),
    ],
)
def test_brackets_and_parentheses_of_perf(line, thread, library):
    profile = Profile(f"{line}\n\t55d0 f ({library})\n\n".encode())
    assert aggregate(profile) == {(thread, (("f", library, 0, True),)): (1, 10)}


def test_what_is_on_no_stack_is_left_out_with_a_word():
    events = [event("b", 1, id=1), event("X", 0, dur=5), event("e", 9, id=1), event("C", 3, args={"n": 1})]
    assert self_figures(json.dumps(events)) == {"f": 5000}
    assert Profile(json.dumps(events).encode()).warning == "2 asynchronous events, which are on no stack, were left out"
    late = [event("X", 0, dur=5), event("X", 3, "g", dur=2.5)]  # by less than many writers' grain
    assert self_figures(json.dumps(late)) == {"f": 3000, "g": 2000}
    assert (
        Profile(json.dumps(late).encode()).warning
        == "1 calls end up to 1 us after their caller or the next call, and were cut there"
    )


def test_processes_of_a_trace_stay_apart():
    events = [event("X", 0, dur=5), {**event("X", 2, dur=4), "pid": 2}]
    profile = Profile(json.dumps(events).encode())
    assert weights_of(profile) == {
        ("Thread 1", (("process 1", "", 0, False), ("f", "", 0, False))): 5000,
        ("Thread 1", (("process 2", "", 0, False), ("f", "", 0, False))): 4000,
    }
    assert len(profile.threads) == 2


# V8


def v8(nodes, samples=(3, 2, 3), deltas=(10, 20, 30), **more):
    return {"nodes": nodes, "startTime": 1000, "endTime": 1100, "samples": samples, "timeDeltas": deltas, **more}


def v8_node(id, name, url="", line=-1, children=(), **more):
    call = {"functionName": name, "scriptId": "1", "url": url, "lineNumber": line, "columnNumber": 4 if url else -1}
    return {"id": id, "callFrame": call, "hitCount": id, "children": children, **more}


V8_NODES = [v8_node(1, "(root)", children=[2]), v8_node(2, "main", "file:///app/my%20app.js", 9, [3]), v8_node(3, "")]
V8 = v8(V8_NODES)


def test_v8s_cpu_profile():
    """A sample lasts until the next: 20, 30 and what is left of the 100 us; 10 before the first."""
    profile = Profile(json.dumps(V8).encode())
    main_ = ("main", "/app/my app.js", 10, False)
    assert weights_of(profile) == {
        ("all threads", (main_,)): 30_000,
        ("all threads", (main_, ("(anonymous)", "", 0, False))): 60_000,
    }
    assert [sample.timestamp_ns for sample in profile] == [30_000, 60_000, 100_000]
    parents = [v8_node(1, "(root)"), {**V8_NODES[1], "parent": 1, "children": None}, {**V8_NODES[2], "parent": 2}]
    assert weights_of(Profile(json.dumps(v8(parents)).encode())) == weights_of(profile)
    back = v8(V8_NODES, (3, 3, 2), (10, 50, -30))  # V8's clock went back by 30
    assert weights_of(Profile(json.dumps(back).encode())) == weights_of(profile)


def test_a_v8_profile_without_times_counts_samples():
    profile = Profile(json.dumps({**V8, "samples": None}).encode())
    assert (profile.unit, self_figures_of(profile)) == ("samples", {"[no Python frames]": 1, "main": 2, "(anonymous)": 3})


# perf


PERF = """\
# captured on    : today
python3  4711 1000.250000:    250000 cpu-clock:ppp:{}
\tffffffff81 do_fault+0x2ec ([kernel.kallsyms])
\t      55d0 std::function<void (int)>::operator()+0x10 (/usr/lib/libx.so (deleted))
\t      55d1 f (inlined)
\t      55d2 py::A.work:/app/b.py+0x5 (/tmp/perf-4711.map)
\t      55d3 [unknown] (/usr/bin/python3)

my prog: a 4711/4712 [001] 1000.500000:    500000 cpu-clock:{}
\t      55d3 [unknown] ([unknown])

python3  4711 1000.750000: PERF_RECORD_COMM exec: python3:4711/4711
python3  4711 1001.000000:    250000 cpu-clock:      55d0 main+0x1 (/usr/bin/python3)
    python3  4711 1001.000000:    250000 cpu-clock:      55d0 main+0x1 (/usr/bin/python3)
""".format(*"  ")


def test_perfs_text():
    profile = Profile(PERF.encode())
    python = ("[unknown]", "/usr/bin/python3", 0, True)
    stack = (
        python,
        ("A.work", "/app/b.py", 0, False),
        ("f", "", 0, True),
        ("std::function<void (int)>::operator()", "/usr/lib/libx.so (deleted)", 0, True),
        ("do_fault", "kernel.kallsyms", 0, True),
    )
    assert aggregate(profile) == {
        ("python3", stack): (1, 250_000),
        ("my prog: a", (("[unknown]", "", 0, True),)): (1, 500_000),
        ("python3", (("main", "/usr/bin/python3", 0, True),)): (2, 500_000),
    }
    assert (profile.unit, profile.mode, profile.warning) == ("nanoseconds", "cpu", None)
    assert {(thread.name, thread.tid) for thread in profile.threads} == {("python3", 4711), ("my prog: a", 4712)}


def test_events_of_perf():
    cycles = PERF.replace("cpu-clock:ppp", "cycles:u").replace("cpu-clock", "cycles")
    assert (Profile(cycles.encode()).unit, sum(Profile(cycles.encode()).column("weight"))) == ("cycles", 1_250_000)
    plain = "a  7 1.5: sched:sched_switch: prev_comm=a prev_pid=7\n\t 55 f+0x1 (/x)\n\n"
    plain += "a  7 1.6: sched:sched_switch: x\n\t 56 g (/x)\n"
    assert (self_figures(plain), Profile(plain.encode()).unit) == ({"f": 1, "g": 1}, "samples")
    both = PERF + PERF.replace("cpu-clock", "instructions").replace("000 instr", "999 instr")
    assert aggregate(Profile(both.encode())) == aggregate(Profile(PERF.encode()))
    assert Profile(both.encode()).header["values"] == ["cpu-clock", "instructions"]
    lost = Profile((PERF + "a 7 1.5: PERF_RECORD_LOST lost 12\n").encode())
    assert lost.warning == "perf lost 12 records while it recorded: their samples are missing"


# Firefox


RAW_GECKO = {
    "meta": {"version": 30, "interval": 1},
    "libs": [],
    "threads": [
        {
            "name": "GeckoMain",
            "tid": "77",
            "pid": 7,
            "samples": {"schema": {"stack": 0, "time": 1}, "data": [[1, 0.0], [0, 1.0], [1, 2.0], [None, 3.0]]},
            "stackTable": {"schema": {"prefix": 0, "frame": 1}, "data": [[None, 0], [0, 1]]},
            "frameTable": {"schema": {"location": 0, "line": 3}, "data": [[0], [1]]},
            "stringTable": ["main", "work (x.js:3)"],
        }
    ],
    "processes": [],
}


def test_firefoxs_own_profile_counts_samples():
    main_ = ("main", "", 0, False)
    profile = Profile(json.dumps(RAW_GECKO).encode())
    assert aggregate(profile) == {
        ("GeckoMain", (main_,)): (1, 1),
        ("GeckoMain", (main_, ("work (x.js:3)", "", 0, False))): (2, 2),
        ("GeckoMain", (("[no Python frames]", "", 0, False),)): (1, 1),
    }
    assert (profile.unit, [thread.tid for thread in profile.threads]) == ("samples", [77])
    two = {**RAW_GECKO, "processes": [json.loads(json.dumps(RAW_GECKO).replace('"pid": 7', '"pid": 8'))]}
    assert {row.qualname: row.total_weight for row in Profile(json.dumps(two).encode()).functions()} == {
        "main": 6,
        "work (x.js:3)": 4,
        "process 7": 4,
        "process 8": 4,
    }


def gecko(**thread):
    """Tables of each thread, as before version 57 of the processed form, and libraries."""
    return {
        "meta": {"preprocessedProfileVersion": 24, "interval": 2},
        "libs": [{"name": "libz.so", "path": "/lib/libz.so"}],
        "threads": [
            {
                "name": "T",
                "samples": {"stack": [0, 1], "weight": [1.5, 2], "weightType": "tracing-ms", "length": 2},
                "stackTable": {"prefix": [None, 0], "frame": [0, 1]},
                "frameTable": {"func": [0, 1], "line": [12, None]},
                "funcTable": {"name": [0, 1], "fileName": [2, None], "lineNumber": [10, None], "resource": [-1, 0]},
                "resourceTable": {"lib": [0]},
                "stringArray": ["main", "inflate", "/app/m.py"],
                **thread,
            }
        ],
    }


def test_firefoxs_processed_profile():
    profile = Profile(json.dumps(gecko()).encode())
    assert weights_of(profile) == {
        ("T", (("main", "/app/m.py", 12, False),)): 1_500_000,
        ("T", (("main", "/app/m.py", 12, False), ("inflate", "/lib/libz.so", 0, True))): 2_000_000,
    }


# cProfile


def test_cprofiles_file_has_each_functions_own_time():
    profiler = cProfile.Profile()
    profiler.runcall(sorted, range(1000), key=lambda n: -n)
    stats = pstats.Stats(profiler).stats
    truth = {}
    for (_, _, name), (_, _, own, _, _) in stats.items():
        truth[name] = truth.get(name, 0) + round(own * 1e9)
    for version in range(5):
        profile = Profile(marshal.dumps(stats, version))
        assert self_figures_of(profile) == {name: ns for name, ns in truth.items() if ns}
        calls = {(row.qualname, row.line): row.self_samples for row in profile.functions()}
        assert calls[next((name, line) for _, line, name in stats if name == "<lambda>")] == 1000
        assert "no stacks" in profile.warning and profile.unit == "nanoseconds"
    assert len(Profile(marshal.dumps({}))) == 0


# The command line


def test_report_says_samples_not_time(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("main;foo 20\nmain 5\n")
    assert main(["report", str(tmp_path / "a.txt")]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("25 samples. By self samples:\n")
    assert "        20  80.0% ±19.1         20  80.0% ±19.1  foo\n" in printed and "ms" not in printed and "Hz" not in printed
    assert "Read from another profiler's file (collapsed): there are no tick stats." in printed
    (tmp_path / "b.json").write_bytes(speedscope(sampled()))
    assert main(["report", str(tmp_path / "a.txt"), str(tmp_path / "b.json")]) == 2
    assert "count nanoseconds and samples, which cannot be added up" in capsys.readouterr().err


@pytest.mark.parametrize("format", ["speedscope", "pprof", "collapsed"])
def test_counts_stay_counts(format):
    counted = Profile(b"main;foo 20\nmain 5\n")
    out = io.BytesIO()
    formats.write(counted, out, format, formats.Options())
    again = Profile(out.getvalue())
    assert (again.unit, sum(again.column("weight"))) == ("samples", 25)


def test_diff_of_counts(tmp_path, capsys):
    """300 of 1000 and 200 of 1000: Newcombe's interval, as of time; in numbers where time is in seconds."""
    (tmp_path / "a.txt").write_text("main;foo 300\nmain;bar 700\n")
    (tmp_path / "b.txt").write_text("main;foo 200\nmain;bar 800\n")
    (tmp_path / "c.json").write_bytes(speedscope(sampled()))
    a, b = str(tmp_path / "a.txt"), str(tmp_path / "b.txt")
    assert main(["diff", a, b]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(
        "A: a.txt (1 run, 1,000 samples)\nB: b.txt (1 run, 1,000 samples)\nSamples of a run: 1,000 -> 1,000, +0.0%."
    )
    assert "samples of A       of B  function\n" in printed
    assert " 30.0% \u00b12.9   20.0% \u00b12.6         -10.0 \u00b13.8  *        300        200  foo\n" in printed
    assert " ms" not in printed and " s " not in printed and "time" not in printed
    assert main(["diff", a, b, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    validate("diff", document)
    assert (document["unit"], document["weight"]["a"]["weight"]) == ("samples", 1000)
    assert main(["report", a, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    validate("report", document)
    assert (document["unit"], document["weight"]) == ("samples", 1000)
    assert main(["diff", a, str(tmp_path / "c.json")]) == 2
    assert "count nanoseconds and samples, which cannot be compared" in capsys.readouterr().err
    assert main(["diff", a, b, "-o", str(tmp_path / "d.html")]) == 0
    assert '"unit":"samples"' in (tmp_path / "d.html").read_text()


def validate(kind, document):
    schema = Path(__file__).resolve().parents[2] / "docs" / f"{kind}.schema.json"
    fastjsonschema.compile(json.loads(schema.read_text()))(document)


@pytest.mark.parametrize("text", [b"main;foo 0\nmain 5\n", b"main;foo 0\n", b"main;x 5000000000\nmain 5000000000\n"])
def test_numbers_that_no_sample_has(text, tmp_path, capsys):
    """Nothing, and more than 32 bits: shown as they are, and as a page too."""
    (tmp_path / "a.txt").write_bytes(text)
    assert main(["report", str(tmp_path / "a.txt")]) == 0
    assert main(["convert", str(tmp_path / "a.txt"), "-o", str(tmp_path / "a.html")]) == 0


def test_no_spprof_file_is_made_of_another(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("main;foo 20\n")
    assert main(["convert", str(tmp_path / "a.txt"), "-f", "spprof", "-o", "-"]) == 2
    assert "choose another format" in capsys.readouterr().err
    with pytest.raises(BadOption):
        Profile.load(tmp_path / "a.txt").save(tmp_path / "x.spprof")


# Damage


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty"),
        (b"main;foo x\n", "line 1 is not 'stack NUMBER'"),
        (b"a 1\nb\n", "line 2 is not"),
        (b"{}", "speedscope"),
        (b'{"a": ' * 100_000, "nested too deep|does not make sense|damaged"),
        (speedscope(sampled(weights=(1,))), "differ in number"),
        (speedscope(sampled(weights=(1, -1))), "-1 is no weight"),
        (speedscope(sampled(weights=(1, float("nan")))), "nan is no weight"),
        (speedscope(sampled(samples=((0,), (2,)))), "a frame of sample 1 of profile 1 is 2, and there are 2"),
        (speedscope(sampled(samples=((0,), (-1,)))), "is -1, and there are 2"),
        (speedscope(sampled(samples=((0,), (True,)))), "is True, and there are 2"),
        (speedscope(sampled(), sampled("none")), "units none, seconds"),
        (speedscope(sampled(weights=(1, 1e300))), "impossible"),
        (speedscope({**sampled(), "type": "evented", "events": [{"type": "C", "frame": 0, "at": 1}]}), "events do not match"),
        (pprof([message((1, 3), (2, -5))]), "negative"),
        (pprof([message((1, 3))]), "more or fewer values"),
        (pprof([message((1, 99), (2, 5))]), "location 99 is wanted"),
        (pprof([message((1, 3), (2, 5))])[:-3], "cut off"),
        (pprof_of(([-1, -5], [])), r"negative \(-5\)"),
        (pprof_of(([1, 5], []), wanted=2), "function 2 is wanted by location 1"),
        (b"main;a 1.5\n", "line 1 has 1.5"),
        (b"main;a 3\nmain;a -5\n", "line 2 has -5"),
        (b"main;a 9223372036854775808\n", "more than 62 bits"),
        (b"main;a 10 40\nmain;b 30 20\n", "line 1, as all others, ends with two numbers"),
        (b"main;a 10\nmain;b 30\nmain;lon", "line 3 is not 'stack NUMBER'"),
        (b"main;a 10\0\0\0", "cut by a crash"),
        (b"main;a 10\n\0\0\0main;b 5\n", "the first at byte 10"),
        (b"\0" * 9, "nothing but zero bytes"),
        (("\ufeff" + PLAIN).encode("utf-16-le")[:-3], "UTF-16 text that is damaged"),
        (PY_SPY.encode() + b"the sum of both (app.py:7) 5\n", "line 3 does not begin with a process as line 1 does"),
        (b"f (a.py:1) 1\nf (a.py:1);Takes two; and gives 3\nthe sum (a.py:7) 5\n", "line 2: 'Takes two' is no function"),
        (AUSTIN.format(mode="full").replace("60000", "300,0,-2048").encode(), "line 5 has time, idle time and memory in one"),
        (AUSTIN.format(mode="gc").encode(), "its mode is 'gc'"),
        (AUSTIN.format(mode="wall").replace("T4712;", "x;").encode(), "line 7 does not begin with a process and a thread"),
        (speedscope(evented(*NEST[:2], ("C", 0, 8), ("C", 1, 10))), "event 2 of profile 1 closes frame 0, and frame 1 is"),
        (speedscope(evented(*NEST, ("C", 0, 10))), "closes frame 0, and no frame is open"),
        (speedscope(evented(("O", 0, 0), ("O", 1, 5), ("C", 1, 4))), "time goes back from 5 to 4"),
        (speedscope(evented(*NEST[:2], endValue=...)), "the end of profile 1, where 2 frames are open has no 'endValue'"),
        (speedscope(evented(*NEST[:2], endValue=1)), "time goes back from 2 to 1"),
        (speedscope(evented(("X", 0, 0))), "has the type 'X'"),
        (speedscope({**sampled(), "type": "odd"}), "profile 1 is 'odd', not"),
        (speedscope({key: value for key, value in sampled().items() if key != "weights"}), "profile 1 has no 'weights'"),
        (speedscope(sampled("hours")), "the unit hours is none of"),
        (speedscope(sampled(), frames=[{"name": None}, "a"]), "'name' of frame 0 is None, not text"),
        (json.dumps([event("X", 0)]).encode(), "event 0 has no 'dur'"),
        (json.dumps([event("X", 0, dur=-1)]).encode(), "'dur' of event 0 is -1: it ends before it begins"),
        (json.dumps([event("X", "1", dur=1)]).encode(), "'ts' of event 0 is '1', not a number"),
        (json.dumps([event("X", 1e300, dur=1)]).encode(), "'ts' of event 0 is 1e[+]300, an impossible time"),
        (json.dumps([event("X", 0, dur=5), event("X", 3, dur=5)]).encode(), "event 1 begins within event 0 and ends after it"),
        (json.dumps([event("E", 0)]).encode(), "event 0 ends what has not begun on its thread"),
        (json.dumps([event("B", 0), event("B", 1, "g")]).encode(), "event 1 begins what does not end .'g'"),
        (json.dumps([event("B", 0), event("E", 1, "g")]).encode(), "event 1 ends 'g', and the last that began is 'f'"),
        (json.dumps([event("?", 0)]).encode(), "event 0 has the unknown phase"),
        (json.dumps([event("P", 0, "ProfileChunk")]).encode(), "event 0 is a part of a CPU profile"),
        (json.dumps(v8(V8_NODES, deltas=[1])).encode(), r"samples and timeDeltas differ in number \(3 and 1\)"),
        (json.dumps(v8(V8_NODES, (9, 2, 3))).encode(), "sample 0: the node with the id 9 is wanted"),
        (json.dumps(v8([*V8_NODES, V8_NODES[1]])).encode(), "node 3 has the id 2, as another has"),
        (json.dumps(v8([v8_node(4, "x", children=[3]), *V8_NODES])).encode(), "the node with the id 3 has two parents"),
        (json.dumps(v8([v8_node(2, "a", children=[3]), v8_node(3, "b", children=[2])])).encode(), "among its own callers"),
        (json.dumps({**V8, "endTime": None}).encode(), "'endTime' of the file is None"),
        (json.dumps(v8(V8_NODES, deltas=(1, 2, 1e300))).encode(), "time delta 2 is 1e[+]300, an impossible time"),
        (PERF.replace("[unknown] (/usr/bin/python3)", "").encode(), "line 7: '55d3' is no frame of a stack"),
        ((PERF + "hello world\n").encode(), "line 15 is no sample"),
        (PERF.replace(" 500000 cpu", " cpu").encode(), "line 9 has no period, as line 2 has"),
        (PERF.replace("55d0 main+0x1 (/usr/bin/python3)\n  ", "7ff0 |OP LOAD| x (/y)\n  ").encode(), "line 13: '7ff0 .OP LOAD"),
        (json.dumps({"meta": {}, "threads": [{"samples": {}}]}).encode(), "'samples' of thread 0 has no 'stack'"),
        (json.dumps(gecko(samples={"stack": [2]})).encode(), "the stack of sample 0 of thread 0 is 2, and there are 2"),
        (json.dumps(gecko(samples={"stack": [0], "weight": []})).encode(), r"differ in number \(1 and 0\)"),
        (json.dumps(gecko(samples={"stack": [0], "weight": [-1]})).encode(), "sample 0 of thread 0: -1 is no weight"),
        (json.dumps(gecko(samples={"stack": [0], "weight": [1], "weightType": "x"})).encode(), "the weights of thread 0 are 'x'"),
        (json.dumps(gecko(stackTable={"prefix": [0, 0], "frame": [0, 1]})).encode(), "stack 0 of thread 0 is among its own"),
        (json.dumps(gecko(frameTable={"func": [0, 9]})).encode(), "the function of frame 1 of thread 0 is 9, and there are 2"),
        (json.dumps(gecko(stringArray=["main"])).encode(), "a text of frame 0 of thread 0 is 2, and there are 1"),
        (json.dumps(gecko(stringArray=None)).encode(), "thread 0 has no 'stringArray'"),
        (marshal.dumps({("a", 1, "f"): (1, 1, 0.5, 1.0, {})})[:-4], "cut off at byte"),
        (marshal.dumps({("a", 1): (1, 1, 0.5, 1.0, {})}), r"function 0 is \('a', 1\), not a file, a line and a name"),
        (marshal.dumps({("a", 1, "f"): (1, 1, 0.5)}), "function 0, 'f', has no five figures"),
        (marshal.dumps({("a", 1, "f"): (1, -1, 0.5, 1.0, {})}), "has the number of calls -1"),
        (marshal.dumps({("a", 1, "f"): (1, 1, float("nan"), 1.0, {})}), "has the time nan"),
        (marshal.dumps({("a", 1, "f"): (1, 1, [0.5], 1.0, {})}), r"an object of the kind '\[' is at byte"),
        (marshal.dumps({("a", 1, "f"): (1, 1, 0.5, 1.0, {})}) + b"x", "something follows at byte"),
        (gzip.compress(b"main 1\n", mtime=0)[:-9], "cut short"),
        (gzip.compress(b"main 1\n", mtime=0)[:-8] + bytes(8), "gzipped file is damaged"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # pytest puts it into the environment: 32 KB at most on Windows
)  # fmt: skip
def test_what_is_wrong_is_said(content, words):
    with pytest.raises(BadFile, match=words):
        Profile(content)._columns()


def _zipped():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("profile.speedscope.json", "{}")
    return out.getvalue()


def _cprofile(table):
    profiler, out = cProfile.Profile(), io.StringIO()
    profiler.runcall(sum, range(10))
    stats = pstats.Stats(profiler, stream=out).print_stats()
    return out.getvalue().encode() if table else marshal.dumps(stats.stats)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (lambda: _cprofile(table=True), "cProfile's table"),
        (lambda: converted(native_profile(), "callgrind"), "a callgrind file"),
        (lambda: converted(native_profile(), "svg"), r"a picture \(SVG\)"),
        (lambda: converted(native_profile(), "html"), "a web page"),
        (lambda: converted(native_profile(), "jsonl"), "spprof's JSON lines"),
        (lambda: gzip.compress(native_profile()), "a .spprof file that was gzipped"),
        (lambda: b"events: Ir\nfl=x.py\nfn=f\n1 100\n", "a callgrind file"),
        (lambda: b'{"head": {}, "startTime": 1, "timestamps": [], "samples": []}', "a CPU profile of V8 in the form before 2016"),
        (lambda: b'{"head": {}, "samples": []}', "a heap profile of V8"),
        (lambda: b'{"files": {}, "elapsed_time_sec": 1}', "a scalene profile"),
        (lambda: b'{"session": {}}', "a pyinstrument session"),
        (lambda: b"PERFILE2" + bytes(20), "perf's own file"),
        (lambda: b"MOJ\x03\x01mode\0wall\0", "austin's binary form"),
        (lambda: b"Timer unit: 1e-06 s\n\nTotal time: 1 s\n", "line_profiler's table"),
        (lambda: pickle.dumps({"a": 1}), "a pickle"),
        (lambda: b"\x80\x04cline_profiler.line_profiler\nLineStats\n", "a line_profiler file"),
        (lambda: b"\x28\xb5\x2f\xfd" + bytes(9), "compressed by zstd"),
        (lambda: b"\x04\x22\x4d\x18\x60\x40\x82" + bytes(9), "compressed by lz4"),
        (lambda: b"\x04\x22\x4d\x18\x60\x40\x82\xf1\0\0\0\xf0memray\0\x0c" + bytes(9), "a memray file"),
        (lambda: bz2.compress(b"a 1\n"), "compressed by bzip2"),
        (lambda: lzma.compress(b"a 1\n"), "compressed by xz"),
        (lambda: zlib.compress(b"a 1\n"), "compressed by zlib"),
        (_zipped, "a zip archive"),
    ],
)
def test_a_kind_that_is_not_read_is_named_with_a_way(content, kind):
    with pytest.raises(BadFile, match=f"this is .*{kind}.*, which spprof does not read: .{{10,}}"):
        Profile(content())._columns()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "nested too deep"),
        (b'{"profiles": [' + b"9" * 20_000 + b"]}", "profile 1 is no object|damaged"),
        (b"{}", r"an empty object\). It reads .*speedscope"),
        (b'{"a": 1, "b": 2}', "an object with the keys 'a', 'b'"),
        (b"[1, 2]", "no object"),
        (b"hello\n", "nor another that spprof reads"),
        (b"\x0a\x00\x07", "nor another that spprof reads .* as pprof"),
    ],
    ids=["deep", "digits", "empty", "keys", "list", "text", "binary"],
)
def test_what_is_no_profile_is_said(content, words):
    with pytest.raises(BadFile, match=words):
        Profile(content)._columns()


def test_no_text_is_slow_to_refuse():
    """Seconds together; with an expression that is quadratic the first alone took an hour, which the limit of a test ends."""
    n = 100_000
    prose = "f (a.py:1) 1\n" + " " * n + "< 1"
    for text in ("9" * n, "a " + " " * n + "b c", "a (" * n, ":" * n, '{"profiles": [' + "9" * n + "x", prose):
        for end in ("", " 1\n", ") 1\n", "]\n"):
            try:
                Profile((text + end).encode())._columns()
            except BadFile as error:
                assert len(str(error)) < 700
    blanks = " " * n
    for line in (
        f"a{blanks}x",
        f"{blanks}x",
        "a " * n,
        f"a 7{blanks}1.5: x:",
        f"a 7 1.5: {blanks}x",
        f"\t55 {'f (+0x1 ' * n}",
        " a 7/" * n,
    ):
        with contextlib.suppress(BadFile):
            Profile(f"a 7 1.5: 10 cpu-clock:\n\t55 f\n\n{line}\n".encode())._columns()
    for text in ("a (" * n + ":1)", "(" * n, ":" * n):
        Profile(json.dumps([event("X", 0, text, dur=1)]).encode())._columns()


def test_a_file_cannot_make_a_key_that_takes_for_ever_to_hash():
    """Of each tuple two references are in the next."""
    first = b"\xa9\x02" + b"i\x01\0\0\0" * 2
    others = b"".join(b"\xa9\x02" + b"r%c\0\0\0" % (n + 1) * 2 + b"N" for n in range(100))
    with pytest.raises(BadFile, match="a tuple within a tuple"):
        Profile(b"\xfb" + first + b"N" + others + b"0")._columns()


def test_mutated_files_give_a_profile_or_bad_file(data):
    """Every outcome but BadFile is a defect of the reader, whatever the damage."""
    rng = random.Random(4711)
    opened = {"type": "evented", "name": "t", "unit": "none", "startValue": 0, "events": [{"type": "O", "frame": 0, "at": 1}]}
    seeds = [converted(data, "pprof"), gzip.decompress(converted(data, "pprof")), converted(data, "speedscope")]
    seeds += [PY_SPY.encode(), AUSTIN.format(mode="wall").encode(), speedscope(evented(*NEST)), PLAIN.encode("utf-16")]
    seeds += [converted(data, format) for format in ("chrome", "gecko", "pstats")] + [_cprofile(table=False), PERF.encode()]
    seeds += [json.dumps(one).encode() for one in (CHROME, V8, RAW_GECKO)]
    seeds += [marshal.dumps({("a", 1, "f"): (1, 1, 0.5, 1, {})}, 0)]
    seeds += [converted(data, "collapsed"), speedscope(sampled("none"), opened), pprof([message((1, 4), (1, 3), (2, 100))])]
    outcomes = {True: 0, False: 0}
    for _ in range(3000):
        content = bytearray(rng.choice(seeds))
        for _ in range(rng.choice((1, 1, 2, 8))):
            at = rng.randrange(len(content))
            what = rng.randrange(5)
            if what == 0:
                content[at] = rng.randrange(256)
            elif what == 1:
                del content[at : at + rng.choice((1, 4, len(content)))]
            elif what == 2:
                content[at:at] = content[rng.randrange(len(content)) :][: rng.randrange(40)]
            elif what == 3:
                content[at:at] = rng.choice((b"-", b"1e400", b"null", b"[]", b"\xff" * 9, b"9" * 30, b"{", b"\x80"))
            else:
                content[at] ^= 1 << rng.randrange(8)
            if not content:
                break
        try:
            profile = Profile(bytes(content))
            profile.functions()
            aggregate(profile)
            outcomes[True] += 1
        except BadFile:
            outcomes[False] += 1
    assert min(outcomes.values()) > 300, outcomes


def test_a_bomb_is_refused_before_it_is_unpacked(monkeypatch):
    monkeypatch.setattr(readers, "_LIMIT_FIRST", 1 << 20)
    bomb = gzip.compress(bytes(1 << 25))
    tracemalloc.start()
    with pytest.raises(BadFile, match="holds more than 2 MiB, 64 times its size"):
        Profile(bomb)._columns()
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()
    many = gzip.compress(bytes(1 << 19)) * 40  # each within the bound
    with pytest.raises(BadFile, match="holds more than 2 MiB"):
        Profile(many)._columns()


def test_a_gzip_file_of_many_members_takes_no_quadratic_time():
    """Copying the rest of the file for each member took minutes, which the limit of a test ends."""
    content = gzip.compress(b"") * 100_000 + gzip.compress(b"a 1\n")
    assert len(Profile(content)) == 1


def test_inlining_cannot_make_an_endless_stack():
    line = (4, message((1, 1), (2, 1)))
    location = (4, message((1, 5), *[line] * 5000))
    content = pprof([message((1, varint(5) * 5000), (2, 1))], more=[location])
    assert len(content) < 100_000
    with pytest.raises(BadFile, match="65536 frames"):
        Profile(content)._columns()
