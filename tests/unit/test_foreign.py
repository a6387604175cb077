"""Files of others are data: nothing in their texts commands a terminal, breaks a line or is markup, whatever field it is in."""

from __future__ import annotations

import contextlib
import io
import json
import marshal
import re
import xml.etree.ElementTree as xml

import pytest
import test_readers as others
from conftest import small_writer
from spprof_file import MAGIC, Writer, block

from spprof import Profile, SpprofError, formats
from spprof.cli import main
from spprof.cli._part import title
from spprof.report import diff_page, export
from spprof.report.comparison import Comparison
from spprof.report.diff_text import Shown, text
from spprof.report.imports import imports
from spprof.report.last_stacks import last_stacks
from spprof.report.summary import summary
from spprof.report.tables import table
from spprof.report.text import put, readable
from spprof.report.tree import tree

MARK = "\x1b[31mMARK\x1b]0;t\x07\0\n\r\x9b2J\u2028\u202e</title></script><script>alert('\"&')</script>;MARK"
ELEMENTS = {"{http://www.w3.org/2000/svg}" + name for name in ("svg", "g", "rect", "text", "title")}
SMALL = small_writer().data


def planted(value):
    """The document with the mark in one of its texts, or keys, for each of them."""
    if isinstance(value, str):
        yield value + MARK
        yield MARK
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from ({**value, key: one} for one in planted(each))
            yield {**value, f"{key}{MARK}": each}
    elif isinstance(value, (list, tuple)):
        for number, each in enumerate(value):
            yield from ([*value[:number], one, *value[number + 1 :]] for one in planted(each))


def planted_json(document):
    return [json.dumps(one).encode() for one in planted(document)]


def planted_text(content):
    """The mark, whole and without line ends, before each word and sign of a text."""
    places = [match.start() for match in re.finditer(r"\b|$", content)]
    marks = MARK, MARK.replace("\n", "").replace("\r", "").replace("\0", "")
    return [(content[:at] + mark + content[at:]).encode() for at in places for mark in marks]


def planted_spprof():
    header = {"pid": 7, "clock": "perf", "python": "3.11", "platform": "linux", "native": "yes", "unit": "nanoseconds"}
    header.update(
        version=1, start_ns=5_000_000, mode="cpu", interval_ns=1_000_000, argv=["x.py"], source="x", values=["a"], value="a"
    )
    part = {"version": 1, "start_ns": 5_000_000, "part": "route=/a", "warning": "it was cut"}
    for with_mark in (*planted(header), *planted(part)):
        yield (
            MAGIC + block(b"H", json.dumps(with_mark).encode()) + SMALL[len(MAGIC) + 9 + int.from_bytes(SMALL[8:12], "little") :]
        )
    stats = {"clock": "perf", "expected": 17, "taken": 7, "losses": {"x": 4}, "write_error": "no space", "refused": "why"}
    for kind, document in (
        (b"A", stats),
        (b"E", {"stop_ns": 9, "reason": "killed", "cut": True}),
        (b"T", [{"id": 0, "tid": 1, "name": "M"}]),
    ):
        for with_mark in planted(document):
            yield SMALL + block(kind, json.dumps(with_mark).encode())
    for name, qualname, file in ((MARK, "q", "f"), ("n", MARK, "f"), ("n", "q", MARK), ("<module>", "<module>", MARK)):
        for kind in (0, 1):
            writer = Writer(native="yes")
            writer.sample([(name, qualname, file, 1, 1, 0, -1, -1, kind)], 6000, 5, label=json.dumps({MARK: "v", "k": MARK}))
            writer.flush()
            writer.block(b"F", f"{MARK} {file}".encode())
            yield writer.data
    for row in (f"{MARK} x.py", f"{'0' * 64} {MARK}", MARK.replace(" ", "")):
        yield SMALL + block(b"F", row.encode())


def planted_pprof():
    strings = ["", "cpu", "bytes", "f", "/f.py", "thread", "T", "k", "v"]
    for number in range(1, len(strings)):
        kind, line = others.message((1, 1), (2, 2)), (4, others.message((1, 1), (2, 7)))
        labels = [(3, others.message((1, key), (2, value))) for key, value in ((5, 6), (7, 8))]
        fields = [(1, kind), (2, others.message((1, 1), (2, 10), *labels)), (4, others.message((1, 1), line))]
        fields += [(5, others.message((1, 1), (2, 3), (4, 4)))]
        texts = [text + MARK * (at == number) for at, text in enumerate(strings)]
        yield others.message(*fields, *((6, text.encode()) for text in texts))


def planted_cprofile():
    for key in (("a" + MARK, 1, "f"), ("a", 1, MARK), ("~", 0, MARK)):
        yield marshal.dumps({key: (1, 1, 0.5, 1, {})}, 0)


FILES = {
    "spprof": lambda: list(planted_spprof()),
    "collapsed": lambda: planted_text("main (a.py:1);f (b.py:2);g [libz.so] 12\nmain (a.py:1) 3\n"),
    "py-spy": lambda: planted_text('process 1:"a b";thread (7): T;f (x.py:1) 1\n'),
    "austin": lambda: planted_text(others.AUSTIN.format(mode="wall")),
    "perf": lambda: planted_text(others.PERF),
    "pprof": lambda: list(planted_pprof()),
    "speedscope": lambda: planted_json(json.loads(others.speedscope(others.sampled("none")))),
    "chrome": lambda: planted_json(others.CHROME),
    "v8": lambda: planted_json(others.V8),
    "gecko": lambda: planted_json(others.gecko()),
    "firefox": lambda: planted_json(others.RAW_GECKO),
    "cprofile": lambda: list(planted_cprofile()),
}


def no_mark_in_lines(written):
    """What a terminal shows: nothing but lines of printable text, none of which a mark has begun."""
    assert all(line.isprintable() for line in written.split("\n")), ascii(written)
    assert not re.search(r"^(?:\\x9b|\\r|\x9b)", written, re.MULTILINE), ascii(written)


def reported(made):
    """As it comes out of the only way to a terminal; what is refused, with its words."""
    out = io.StringIO()
    with contextlib.suppress(SpprofError):
        put(out, made())
    return out.getvalue()


def look_at(content):
    """Everything that is made of a file."""
    profile = Profile(content)
    profile._columns()
    everyone = ("function", "line", "file", "thread", "label")
    no_mark_in_lines(reported(lambda: title([profile])))
    for by in everyone:
        no_mark_in_lines(reported(lambda by=by: summary([profile], by=by, verbose=True)))
    no_mark_in_lines(reported(lambda: summary([profile, profile])))
    no_mark_in_lines(reported(lambda: summary([profile], shown="calls")))
    no_mark_in_lines(reported(lambda: tree([profile], io.StringIO(), None, "line", False, 0.0)))
    no_mark_in_lines(reported(lambda: imports([profile], io.StringIO(), None, 0.0)))
    no_mark_in_lines(reported(lambda: "\n".join(last_stacks(profile, None))))
    for by in everyone:
        page = reported(lambda by=by: export.as_markdown(table([readable(profile)], by), 15))
        no_mark_in_lines(page)
        outside = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", page)  # code means nothing
        assert not re.search(r"(?<!\\)<script", outside)
        json.loads(reported(lambda by=by: export.as_json(table([profile], by), None)))
    with contextlib.suppress(SpprofError):
        comparison = Comparison([readable(profile)], [readable(profile)], "function", None, False, 0.0)
        no_mark_in_lines(reported(lambda: "\n".join(text(comparison, Shown("self", "share", 15, "function")))))
        for compared in (comparison, Comparison([profile], [profile], "function", None, False, 0.0)):
            assert "<script>alert" not in diff_page.html(compared)
    for format, kind in formats.FORMATS.items():
        out = io.BytesIO()
        with contextlib.suppress(SpprofError):
            formats.write(profile, out, format, formats.Options(sources=False))
        written = out.getvalue()
        if format == "svg" and written:
            picture = xml.fromstring(written)
            assert {element.tag for element in picture.iter()} == ELEMENTS
        if format in ("collapsed", "callgrind"):
            no_mark_in_lines(written.decode().replace("\t", ""))
        if format == "collapsed":
            assert all(re.fullmatch(r".* \d+|#.*|", line) for line in written.decode().split("\n"))
            assert "</script>;MARK" not in written.decode()
        if format == "html":
            assert b"<script>alert" not in written
        if kind.extension.endswith("json") and written:
            json.loads(written)
            assert b"\x1b" not in written


@pytest.mark.parametrize("kind", FILES)
def test_no_text_of_a_file_is_more_than_text(kind, tmp_path, capsys):
    """A mark in each of its texts and keys, one after the other."""
    outcomes = {True: 0, False: 0}
    path = tmp_path / "foreign"
    for content in FILES[kind]():
        try:
            look_at(content)
            outcomes[True] += 1
        except SpprofError:
            path.write_bytes(content)
            assert main(["report", str(path)]) == 2
            written = capsys.readouterr().err
            assert written.endswith("\n")
            no_mark_in_lines(written)
            outcomes[False] += 1
    assert outcomes[True] >= 3, outcomes
