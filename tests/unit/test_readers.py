"""Other profilers' files: small ones by hand, our own formats read back, and damaged ones. Real ones of other tools are in
tests/integration/test_others_files.py."""

from __future__ import annotations

import gzip
import io
import json
import random
import tracemalloc
from pathlib import Path

import fastjsonschema
import pytest
from spprof_file import Writer, varint
from test_formats import native_profile

from spprof import BadFile, BadOption, Profile, formats, readers
from spprof.cli import main


def aggregate(profile):
    """What is asked of every reader: thread and stack -> samples and weight; of a frame what all formats tell."""
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


@pytest.mark.parametrize("format", ["pprof", "speedscope", "collapsed"])
def test_native_frames_survive(format):
    data = native_profile()
    stacks = {stack for _, stack in aggregate(Profile(converted(data, format)))}
    library = "/usr/lib/libz.so.1" if format == "pprof" else "libz.so.1"
    assert (("f", "/app/f.py", 2, False), ("deflate", library, 0, True)) in stacks


@pytest.mark.parametrize("format", ["pprof", "speedscope", "collapsed"])
def test_hard_names_survive(format):
    writer = Writer()
    names = ["<script>'\"", "x" * 10_000, "ä;b", "a\nb%3B", "a (b) c", "[x]", "100%"]
    for i, name in enumerate(names):
        writer.sample([(name, name, f"/f {i}(x)/é.py", 1, 7)], 6000 + i, 1)
    writer.flush()
    again = Profile(converted(writer.data, format))
    told = [(sample.frames[0].qualname, sample.frames[0].line) for sample in again]
    expected = [(name, 7) for name in names]
    if format == "collapsed":  # `name (file:line)` has no name with ` (` in it
        expected[4] = ("a", 7)
    assert sorted(told) == sorted(expected)


@pytest.mark.parametrize("format", [name for name in formats.FORMATS if name not in ("spprof", "parquet", "otlp")])
def test_what_was_read_is_written_in_every_format(format, data, tmp_path, capsys):
    for source in ("pprof", "speedscope", "collapsed"):
        (tmp_path / "in").write_bytes(converted(data, source))
        code = main(["convert", str(tmp_path / "in"), "-f", format, "-o", str(tmp_path / source)])
        if source == "collapsed" and format in ("gecko", "pstats", "chrome", "callgrind"):  # they can only show time
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
    assert (profile.unit, list(profile.column("weight_ns"))) == (ours, [3 * factor, 5 * factor])


def test_speedscope_fractions_add_up():
    profile = Profile(speedscope(sampled("nanoseconds", [0.4] * 10, [[0]] * 10)))
    assert sum(profile.column("weight_ns")) == 4


def test_speedscope_events_become_stretches():
    events = [("O", 0, 10), ("O", 1, 12), ("C", 1, 15), ("C", 0, 16), ("O", 1, 20), ("C", 1, 21)]
    events = [{"type": type, "frame": frame, "at": at} for type, frame, at in events]
    profile = Profile(
        speedscope({"type": "evented", "name": "t", "unit": "nanoseconds", "startValue": 10, "endValue": 21, "events": events})
    )
    told = [([frame.name for frame in sample.frames], sample.timestamp_ns, sample.weight_ns) for sample in profile]
    assert told == [(["main"], 2, 2), (["main", "foo"], 5, 3), (["main"], 6, 1), (["foo"], 11, 1)]


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
    assert (again.unit, sum(again.column("weight_ns"))) == ("samples", 25)


def test_diff_of_counts(tmp_path, capsys):
    """300 of 1000 and 200 of 1000: Newcombe's interval, as of time; in numbers where time stands in seconds."""
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
    assert (document["unit"], document["weight_ns"]["a"]["weight_ns"]) == ("samples", 1000)
    assert main(["report", a, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    validate("report", document)
    assert (document["unit"], document["weight_ns"]) == ("samples", 1000)
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
        (speedscope(sampled(samples=((0,), (2,)))), "IndexError"),
        (speedscope(sampled(samples=((0,), (-1,)))), "negative"),
        (speedscope(sampled(), sampled("none")), "units none, seconds"),
        (speedscope(sampled(weights=(1, 1e300))), "impossible"),
        (speedscope({**sampled(), "type": "evented", "events": [{"type": "C", "frame": 0, "at": 1}]}), "events do not match"),
        (pprof([message((1, 3), (2, -5))]), "negative"),
        (pprof([message((1, 3))]), "more or fewer values"),
        (pprof([message((1, 99), (2, 5))]), "KeyError 99"),
        (pprof([message((1, 3), (2, 5))])[:-3], "cut off"),
        (gzip.compress(b"main 1\n")[:-9], "cut short"),
        (gzip.compress(b"main 1\n")[:-8] + bytes(8), "gzipped file is damaged"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",  # pytest puts it into the environment: 32 KB at most on Windows
)  # fmt: skip
def test_what_is_wrong_is_said(content, words):
    with pytest.raises(BadFile, match=words):
        Profile(content)._columns()


def test_mutated_files_give_a_profile_or_bad_file(data):
    """Every outcome but BadFile is a defect of the reader, whatever the damage."""
    rng = random.Random(4711)
    evented = {"type": "evented", "name": "t", "unit": "none", "startValue": 0, "events": [{"type": "O", "frame": 0, "at": 1}]}
    seeds = [converted(data, "pprof"), gzip.decompress(converted(data, "pprof")), converted(data, "speedscope")]
    seeds += [converted(data, "collapsed"), speedscope(sampled(), evented), pprof([message((1, 4), (1, 3), (2, 100))])]
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
    monkeypatch.setattr(readers, "_MAX_BYTES", 1 << 20)
    bomb = gzip.compress(bytes(1 << 25))
    tracemalloc.start()
    with pytest.raises(BadFile, match="holds more than 1 MiB"):
        Profile(bomb)._columns()
    assert tracemalloc.get_traced_memory()[1] < 1 << 23
    tracemalloc.stop()
    many = gzip.compress(bytes(1 << 19)) * 40  # each within the bound
    with pytest.raises(BadFile, match="holds more than 1 MiB"):
        Profile(many)._columns()


def test_inlining_cannot_make_an_endless_stack():
    line = (4, message((1, 1), (2, 1)))
    location = (4, message((1, 5), *[line] * 5000))
    content = pprof([message((1, varint(5) * 5000), (2, 1))], more=[location])
    assert len(content) < 100_000
    with pytest.raises(BadFile, match="65536 frames"):
        Profile(content)._columns()
