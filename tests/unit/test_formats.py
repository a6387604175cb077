"""Formats, read back by parsers written here from their definitions."""

from __future__ import annotations

import io
import json
import re
from urllib.parse import unquote

import pytest
from others import needed
from spprof_file import Writer

from spprof import Profile, errors, formats
from spprof.cli import main
from spprof.report.export import as_json
from spprof.report.tables import table


def render(data, format, **options):
    out = io.BytesIO()
    formats.write(Profile(data), out, format, formats.Options(**options))
    return out.getvalue()


def collapsed(data, **options):
    """stack (tuple of unescaped frames) -> number, as flamegraph.pl splits lines."""
    result = {}
    for line in render(data, "collapsed", **options).decode().splitlines():
        assert not line.startswith("#")
        stack, number = re.fullmatch(r"(.+) (\d+)", line).groups()
        frames = tuple(map(unquote, stack.split(";")))
        assert frames not in result
        result[frames] = int(number)
    return result


ROOT, A, B = "<module> (/app/x;y.py:3)", "A.a (/app/x;y.py:11)", "b (/app/%\n.py:20)"


def test_collapsed_counts_samples(data):
    assert collapsed(data) == {
        ("Main", ROOT): 1,
        ("Main", ROOT, A): 1,
        ("Main", ROOT, A, B, A): 1,
        ("Main", ROOT, A, B, "A.a (/app/x;y.py:13)"): 1,
        ("Main", "[truncated]", A, B): 1,
        ("#wor;ker", B): 7,
        ("#wor;ker", "[no Python frames]"): 1,
    }


def native_profile():
    writer = Writer()
    python, library = ("f", "f", "/app/f.py", 1, 2), "/usr/lib/libz.so.1"
    writer.sample([python, ("deflate", "deflate", library, 0x100, 0x123, 0, -1, -1, 1)], 6000, 1000)
    writer.sample([python, ("deflate", "deflate", library, 0x100, 0x145, 0, -1, -1, 1)], 7000, 1000)
    writer.sample([("[native unpaired]", "[native unpaired]", "", 0, 0, 0, -1, -1, 1), python], 8000, 1000, flags=16)
    writer.flush()
    return writer.data


def test_native_frames_are_distinct():
    data = native_profile()
    deflate, python = "deflate [libz.so.1]", "f (/app/f.py:2)"
    merged = collapsed(data, merge_threads=True)
    assert merged == {(python, deflate): 2, ("[native unpaired]", python): 1}
    threads, file = speedscope(data)
    stacks = [stack for stack, _ in next(iter(threads.values()))]
    assert stacks == [[("f", 2), (deflate, 0)]] * 2 + [[("[native unpaired]", 0), ("f", 2)]]
    assert {"name": deflate, "file": "/usr/lib/libz.so.1"} in file["shared"]["frames"]
    profile = Profile(data)
    assert [frame.native for frame in next(iter(profile)).frames] == [False, True]
    rows = {(row.qualname, row.file, row.line, row.self_samples) for row in profile.functions()}
    assert rows == {("deflate", "/usr/lib/libz.so.1", 0, 2), ("f", "/app/f.py", 1, 1), ("[native unpaired]", "", 0, 0)}


def test_collapsed_options(data):
    weights = collapsed(data, weight="value", merge_threads=True, lines=False)
    root, a, b = "<module> (/app/x;y.py)", "A.a (/app/x;y.py)", "b (/app/%\n.py)"
    assert weights == {
        (root,): 100_000,
        (root, a): 200_000,
        (root, a, b, a): 1_010_000,
        ("[truncated]", a, b): 3_000_000,
        (b,): 500_000,
        ("[no Python frames]",): 1_000,
    }
    assert sum(collapsed(data, thread="#*").values()) == 8


@pytest.mark.parametrize("name", ["a;b", "a\nb", "a\r\nb", "a\x85b", "a\u2028b", "a b 3", "#c", "100%", "%3B", "\x0c", "", "é😀"])
def test_collapsed_survives_any_name(name):
    writer = Writer()
    writer.sample([(name, name, name + "?", 1, 1)], 6000, 5)
    writer.flush()
    writer.json(b"T", [{"id": 0, "tid": 4, "name": name or "t"}])
    assert collapsed(writer.data) == {(name or "t", f"{name} ({name}?:1)"): 1}
    assert collapsed(writer.data, merge_threads=True) == {(f"{name} ({name}?:1)",): 1}


def test_collapsed_lone_surrogates_do_not_fail():
    writer = Writer()
    writer.sample([("\udcff", "\udcff", "x.py", 1, 1)], 6000, 5)
    writer.flush()
    assert list(collapsed(writer.data).values()) == [1]


def check_speedscope(file):
    """The rules of file-format-schema.json that a file of sampled profiles must keep."""
    assert file["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert set(file) <= {"$schema", "shared", "profiles", "name", "activeProfileIndex", "exporter"}
    for frame in file["shared"]["frames"]:
        assert set(frame) <= {"name", "file", "line", "col"} and isinstance(frame["name"], str)
        assert all(isinstance(frame.get(key, 1), int) for key in ("line", "col"))
    for profile in file["profiles"]:
        assert set(profile) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert (profile["type"], profile["unit"]) == ("sampled", "nanoseconds")
        assert len(profile["samples"]) == len(profile["weights"])
        assert profile["endValue"] - profile["startValue"] == sum(profile["weights"])
        assert all(0 <= i < len(file["shared"]["frames"]) for stack in profile["samples"] for i in stack)
    if file["profiles"]:
        assert 0 <= file["activeProfileIndex"] < len(file["profiles"])


def speedscope(data, **options):
    file = json.loads(render(data, "speedscope", **options))
    check_speedscope(file)
    names = [(frame["name"], frame.get("line", 0)) for frame in file["shared"]["frames"]]
    return {
        profile["name"]: [([names[i] for i in stack], weight) for stack, weight in zip(profile["samples"], profile["weights"])]
        for profile in file["profiles"]
    }, file


def test_speedscope_a_profile_a_thread_in_time_order(data):
    threads, file = speedscope(data)
    assert list(threads) == ["Main (70)", "#wor;ker (71)"]
    assert file["activeProfileIndex"] == 0
    assert threads["Main (70)"] == [
        ([("<module>", 3)], 100_000),
        ([("<module>", 3), ("A.a", 11)], 200_000),
        ([("<module>", 3), ("A.a", 11), ("b", 20), ("A.a", 11)], 1_000_000),
        ([("[truncated]", 0), ("A.a", 11), ("b", 20)], 3_000_000),
        ([("<module>", 3), ("A.a", 11), ("b", 20), ("A.a", 13)], 10_000),
    ]
    assert threads["#wor;ker (71)"] == [([("b", 20)], 500_000), ([("[no Python frames]", 0)], 1_000)]
    assert {"name": "A.a", "file": "/app/x;y.py", "line": 11, "col": 5} in file["shared"]["frames"]


def test_speedscope_merged_and_without_lines(data):
    threads, _ = speedscope(data, merge_threads=True, lines=False)
    assert [weight for _, weight in threads["all threads"]] == [100_000, 200_000, 1_000_000, 500_000, 1_000, 3_000_000, 10_000]
    assert threads["all threads"][-1][0] == [("<module>", 1), ("A.a", 10), ("b", 20), ("A.a", 10)]


def test_speedscope_of_an_empty_profile():
    threads, _ = speedscope(Writer().data)
    assert threads == {"no samples": []}  # speedscope opens no file without profiles


def test_speedscope_joins_more_than_one_chunk():
    writer = Writer()
    for i in range(70_000):
        writer.sample([("f", "f", "x.py", 1, 1 + i % 2)], 6000 + i, 1)
    writer.flush()
    threads, _ = speedscope(writer.data)
    (samples,) = threads.values()
    assert [stack[0][1] for stack, _ in samples[65_530:65_540]] == [1, 2] * 5


def test_speedscope_counts_ticks(data):
    file = json.loads(render(data, "speedscope", weight="samples"))
    assert [(profile["unit"], profile["weights"]) for profile in file["profiles"]] == [("none", [1] * 5), ("none", [7, 1])]


@pytest.mark.parametrize("format", formats.FORMATS)
def test_each_option_means_something_or_is_refused(format, tmp_path):
    """The output differs, or is as without because the format knows no such thing, or the option is refused with a reason."""
    if formats.FORMATS[format].needs:
        needed(formats.FORMATS[format].needs)
    writer = Writer()
    f, g = ("f", "f", "/a.py", 1, 2), ("f", "f", "/a.py", 1, 3)
    for thread in range(2):
        for step, frame in enumerate((f, g)):
            writer.sample([frame], 7000 + 2000 * step + thread, 1000, thread=thread, count=step + 2)
    writer.flush()
    writer.json(b"T", [{"id": id, "tid": 5 + id, "name": f"t{id}"} for id in range(2)])
    plain = render(writer.data, format)
    cases = {"weight": "samples", "lines": False, "merge_threads": True, "thread": "t0"}
    cases["weight"] = "value" if format == "collapsed" else "samples"
    unknown = {"pstats": {"lines", "merge_threads"}}.get(format, set())
    for option, value in cases.items():
        refused = formats.FORMATS[format].refuses
        if option in refused:
            target = tmp_path / "kept"
            target.write_bytes(b"kept")
            with pytest.raises(errors.BadOption, match=f"does not fit the format {format}: "):
                Profile(writer.data).save(target, format, **{option: value})
            assert target.read_bytes() == b"kept"
        else:
            assert (render(writer.data, format, **{option: value}) == plain) == (option in unknown), option


def test_every_extension_names_its_format():
    for name, format in formats.FORMATS.items():
        assert formats.format_of("p" + format.extension) == name


def no_samples():
    writer = Writer(start_unix_ns=10**18, pid=5)
    writer.json(b"T", [{"id": 0, "tid": 4, "name": "Main"}])
    writer.json(b"E", {"stop_ns": 9_000_000, "reason": "stop"})
    return writer.data


@pytest.mark.parametrize("format", ["gecko", "pstats"])
def test_a_file_that_its_reader_does_not_open_without_samples_is_not_made(format, tmp_path, capsys):
    (tmp_path / "p.spprof").write_bytes(no_samples())
    for output in (str(tmp_path / "x"), "-"):
        assert main(["convert", str(tmp_path / "p.spprof"), "-f", format, "-o", output]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and "no samples were taken, and" in printed.err and not (tmp_path / "x").exists()


@pytest.mark.parametrize("format", ["collapsed", "speedscope", "pprof"])
def test_no_samples_read_back_are_none(format):
    assert len(Profile(render(no_samples(), format))) == 0


def strings_of(value):
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        return [text for each in value for text in strings_of(each)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("format", formats.FORMATS)
def test_every_format_takes_a_path_that_is_no_utf_8(format):
    if formats.FORMATS[format].needs:
        needed(formats.FORMATS[format].needs)
    writer = Writer(argv=["x.py"], start_unix_ns=10**18, pid=5)
    writer.sample([("f", "f", "/a\udcfd/b.py", 1, 2), ("n", "n", "/lib\udcfa.so", 0, 64, 0, -1, -1, 1)], 6000, 5)
    writer.sample([("f", "f", "/a\udcfd/b.py", 1, 2)], 6005, 5)
    writer.flush()
    assert render(writer.data, format)


def test_what_is_no_unicode_is_spelled_out_everywhere():
    """In every text of the profile: DuckDB refuses a file for one lone surrogate."""
    writer = Writer(argv=["x\udcff.py", "\ud800"], python="3\udcff", start_unix_ns=10**18, pid=5)
    frames = [("n\udcff", "q\udcfe", "/a\udcfd/b.py", 1, 2), ("nat\udcfc", "nat\udcfb", "/lib\udcfa.so", 0, 64, 0, -1, -1, 1)]
    writer.sample(frames, 6000, 5, label='{"k\\udcf9": "v\\udcf8"}')
    writer.flush()
    writer.json(b"T", [{"id": 0, "tid": 4, "name": "t\udcf7"}])
    for format in ("speedscope", "gecko", "chrome", "jsonl"):
        text = render(writer.data, format).decode()
        for line in text.splitlines() if format == "jsonl" else [text]:
            "".join(strings_of(json.loads(line))).encode()  # a lone surrogate is an error
    for format in ("collapsed", "callgrind", "svg", "html"):
        render(writer.data, format).decode("utf-8")
    "".join(strings_of(json.loads(as_json(table([Profile(writer.data)]), None)))).encode()
