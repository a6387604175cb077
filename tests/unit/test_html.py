"""What the HTML page holds, read back by a decoder written here from the description in spprof/formats/html.py."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import random
import stat
import struct
import subprocess
import sys
import zlib
from collections import defaultdict

import pytest
from spprof_file import Writer

from spprof import BadOption, Profile, formats
from spprof.formats import _sources, html
from spprof.model import NO_FRAMES, TRUNCATION, Marker
from spprof.model.explained import explained
from spprof.model.filtering import filtered
from spprof.model.records import HOLDS_GIL
from spprof.model.waits import REASONS

EVENTS = [
    {"type": 0, "name": "time", "unit": "nanoseconds", "period": 1_000_000},
    {"type": 1, "name": "page-faults", "unit": "faults", "period": 31},
]


def page(profile, **options):
    out = io.BytesIO()
    formats.write(profile, out, "html", formats.Options(**options))
    return out.getvalue()


class Page:
    """A page read back: `about` is its JSON; samples are (thread id, time ns, weight, stack, count, flags, label). `others`:
    those of each other type."""

    def __init__(self, data):
        with open(html.PAGE, "rb") as file:
            head, tail = file.read().split(html.PLACEHOLDER)  # exactly once
        assert data.startswith(head) and data.endswith(tail)
        text = data[len(head) : len(data) - len(tail)]
        self.data = zlib.decompress(base64.b64decode(text, validate=True))
        size = struct.unpack_from("<I", self.data)[0]
        self.about = json.loads(self.data[4 : 4 + size].decode("ascii"))
        self.at = 4 + size
        fn, line, end_line, col, end_col, source, source_line = (self.column() for _ in range(7))
        strings = self.about["strings"]
        functions = [(strings[a], strings[b], strings[c], d, e) for a, b, c, d, e in self.about["functions"]]
        self.frames = [
            (*functions[f][:3], ln, end, c - 1, ec - 1, functions[f][4] == 1, strings[s - 1] if s else "", sl)
            for f, ln, end, c, ec, s, sl in zip(fn, line, end_line, col, end_col, source, source_line)
        ]
        self.first_lines = {self.frames[i]: functions[fn[i]][3] for i in range(len(fn))}
        deltas, frames = self.column(), self.column()
        stacks = [()]
        for node, (delta, frame) in enumerate(zip(deltas, frames), 1):
            assert delta > 0
            stacks.append((*stacks[node - delta], self.frames[frame]))
        self.nodes, self.stacks = stacks, [stacks[node] for node in self.column()]
        self.waits = [self.about["waits"][wait - 1] if wait else None for wait in self.column()]  # of each stack
        self.samples, *self.others = (self.samples_of(each) for each in [self.about, *self.about.get("others", [])])
        assert self.at == len(self.data)

    def samples_of(self, about):
        samples, unit = [], self.about["unit_ns"]
        self.waited = []  # of each sample of the type that was read last
        for thread, _, _ in self.about["threads"]:
            now = 0
            for step, reported, stack, more, flags, label in zip(*(self.column() for _ in range(6))):
                now += step
                if about["unit"] == "nanoseconds":
                    weight = (step + (reported >> 1 ^ -(reported & 1))) * unit
                else:
                    weight = reported * about["weight_unit"]
                assert weight >= 0
                time = self.about["start_ns"] + now * unit
                self.waited.append(self.waits[stack])
                samples.append((thread, time, weight, self.stacks[stack], more + 1, flags, label))
        return samples

    def column(self):
        n, width = struct.unpack_from("<IB", self.data, self.at)
        self.at += 5
        values = [0] * n
        for plane in range(width):
            values = [value | byte << 8 * plane for value, byte in zip(values, self.data[self.at : self.at + n])]
            self.at += n
        return values


def expected(profile, thread=None):
    """The same samples as the model has them, thread by thread."""
    labels, ids = profile.column("label"), set(profile.match_threads(thread))
    samples = [
        (s.thread, s.timestamp_ns, s.weight, tuple(map(tuple, s.frames)), s.count, s.flags, labels[i])
        for i, s in enumerate(profile.samples())
        if s.thread in ids
    ]
    return sorted(samples, key=lambda sample: sample[0])


def test_every_sample_is_in_the_page(data):
    profile = Profile(data)
    read = Page(page(profile))
    assert read.samples == expected(profile)
    assert read.about["unit_ns"] == 1000
    assert read.about["threads"] == [[0, 70, "Main"], [1, 71, "#wor;ker"]]
    assert read.about["stats"]["expected"] == 17
    assert read.about["losses"] == [["x", "x", 4]]
    assert {frame[1] for frame in read.frames} >= {NO_FRAMES.qualname, TRUNCATION.qualname}
    lines = {(row.qualname, row.line) for row in profile.functions() if row.line}
    assert {(frame[1], line) for frame, line in read.first_lines.items() if line} == lines


@pytest.mark.parametrize("thread", [None, "Main"])
def test_every_sample_of_every_type_is_in_the_page(thread):
    writer = Writer(events=EVENTS)
    for i in range(300):
        stack = [("main", "main", "/m.py", 1, 2), [("f", "f", "/x.py", 10, 11), ("g", "g", "/x.py", 20, 21)][i % 2]]
        if i % 3:
            writer.sample(stack, 6000 + 1000 * i, 1000, i % 2)
        else:
            writer.value([*stack, ("h", "h", "/h.py", 5, i)], 6000 + 1000 * i, 17 * i, i % 2, 2, 0, None, 1)
    writer.flush()
    writer.json(b"T", [{"id": 0, "tid": 1, "name": "Main"}, {"id": 1, "tid": 2, "name": "other"}])
    writer.json(b"A", {"taken": 4, "losses": {}, "events": {"page-faults": {"taken": 6, "losses": {"queue_full": 2}}}})
    profile = Profile(writer.data)
    faults = profile.of("page-faults")
    read = Page(page(profile, thread=thread))
    assert read.samples == expected(profile, thread) and read.others == [expected(faults, thread)]
    [other] = read.about["others"]
    assert (other["unit"], other["weight_unit"], other["header"]["event"]) == ("faults", 1, "page-faults")
    assert [each["measured"] for each in (read.about, other)] == ["CPU time", "faults"]
    assert read.about["stats"]["taken"] == 4 and other["stats"]["taken"] == 6
    assert [(key, ticks) for key, _, ticks in other["losses"]] == [("queue_full", 2)]
    alone = Page(page(faults, thread=thread))
    assert alone.samples == expected(faults, thread) and "others" not in alone.about
    time = Page(page(profile.of("time"), thread=thread))
    assert time.samples == expected(profile, thread) and "others" not in time.about


def test_numbers_beyond_32_bits_keep_their_sums():
    rng = random.Random(1)
    weights = [rng.randrange(1 << 40) for _ in range(1000)]
    profile = Profile("".join(f"a;b{i % 7} {weight}\n" for i, weight in enumerate(weights)).encode())
    read = Page(page(profile))
    unit = read.about["weight_unit"]
    assert unit == 1000
    assert sum(sample[2] for sample in read.samples) == pytest.approx(sum(profile.column("weight")), abs=unit)


OFF, HOLDER = 4, "worker (8) in Store.save (store.py:40)"
WAITS = (
    # stack, us, thread, flags, reason, on, by -> what the page says of it
    ("main", 1000, 0, 0, "running", None, 0, None),
    ("main", 1000, 0, OFF, "sleep", None, 0, ["sleep", "", ""]),
    ("main", 2000, 0, OFF, "io", "socket 10.0.0.3:5432", 0, ["input or output", "socket 10.0.0.3:5432", ""]),
    ("save", 500, 1, HOLDS_GIL, "running", None, 0, None),
    ("main", 3000, 0, OFF, "gil", None, 2, ["the GIL", "", HOLDER]),
    ("main", 1000, 0, OFF, "lock", None, 2, ["a lock", "", HOLDER]),
    ("main", 1000, 0, OFF, "lock", None, 0, ["a lock", "", ""]),
    ("main", 1000, 0, OFF, "running", None, 0, ["unknown", "", ""]),
)


def waiting(**header):
    writer = Writer(mode="wall", **header)
    stacks = {"main": [("main", "main", "/srv/app.py", 1, 9)], "save": [("save", "Store.save", "/srv/store.py", 40, 44)]}
    at = 10_000
    for name, us, thread, flags, reason, on, by, _ in WAITS:
        at += us
        writer.sample(stacks[name], at, us, thread=thread, flags=flags, reason=REASONS.index(reason), on=on, by=by)
    writer.flush()
    writer.json(b"T", [{"id": 0, "tid": 7, "name": "Main"}, {"id": 1, "tid": 8, "name": "worker"}])
    return Profile(writer.data)


def test_what_was_waited_for_is_in_the_page_with_its_holder():
    profile = waiting()
    read = Page(page(profile))
    assert read.samples == expected(profile)
    by_thread = [row for thread in (0, 1) for row in WAITS if row[2] == thread]
    assert [wait and wait[:3] for wait in read.waited] == [row[-1] for row in by_thread]
    did = [[frame[1] for frame in read.nodes[wait[3]]] for wait in read.waited if wait and wait[2]]  # its holder, meanwhile
    assert did == [["Store.save"]] * 2 and all(wait[3] == 0 for wait in read.waited if wait and not wait[2])
    alone = Page(page(profile, thread="worker"))
    assert alone.samples == expected(profile, "worker") and alone.waited == [None]


def test_of_cpu_time_and_of_frames_that_say_it_nothing_is_waited_for(data):
    for profile in (Profile(data), explained(waiting())):
        read = Page(page(profile))
        assert read.samples == expected(profile) and read.about["waits"] == []


def test_one_thread_alone(data):
    profile = Profile(data)
    read = Page(page(profile, thread="Main"))
    assert read.samples == expected(profile, "Main")
    assert [name for _, _, name in read.about["threads"]] == ["Main"]
    with pytest.raises(BadOption, match="no thread matches 'nobody'; the profile has: #wor;ker, Main"):
        page(profile, thread="nobody")


def test_a_thread_without_samples_has_none():
    writer = Writer()
    writer.sample([("f", "f", "/f.py", 1, 1)], 6000, 1000)
    writer.flush()
    writer.json(b"T", [{"id": 0, "tid": 1, "name": "busy"}, {"id": 1, "tid": 2, "name": "idle"}])
    profile = Profile(writer.data)
    read = Page(page(profile))
    assert read.samples == expected(profile)
    assert [name for _, _, name in read.about["threads"]] == ["busy", "idle"]


def test_labels_and_markers(data):
    profile = Profile(data)
    columns = profile._columns()
    columns["label_sets"] = [{}, {"request": "</script>"}]
    columns["label"] = [0, 1, 0, 0, 1, 1, 0]
    columns["markers"] = [Marker("gc", 1, 6_000_000, 250_000, {"generation": 2}), Marker("gc", 9, 1, 1, {})]
    read = Page(page(profile))
    assert read.samples == expected(profile)
    assert read.about["label_sets"] == columns["label_sets"]
    assert read.about["markers"] == [["gc", 1, 1000, 250, {"generation": 2}]]  # that of a thread without a place is left out


def large(samples):
    """A busy thread with jitter, one that sleeps between, one that is blocked; drifting clocks, weights from 0 up."""
    draw = random.Random(1)
    writer = Writer()
    clocks = [5_000.0, 5_000.0, 5_000.0]
    stacks = [[("f", "f", "/f.py", 1, 1 + i % 9), ("g", "g", "/g.py", 1, 1 + i)] for i in range(40)]
    for _ in range(samples):
        thread = draw.choice((0, 0, 1, 2))
        step = (draw.gauss(100, 7), draw.choice((100.0, 5000.0)), 1000.0)[thread]
        clocks[thread] += max(1.0, step)
        weight = (step * 1.003, draw.choice((0, 1, 3, 100)), step)[thread]
        writer.sample(draw.choice(stacks), int(clocks[thread]), max(0, int(weight)), thread, count=1 + (thread == 2) * 9)
    writer.flush()
    return Profile(writer.data)


def test_rounding_does_not_add_up(monkeypatch):
    monkeypatch.setattr(html, "_FINE_SAMPLES", 0)
    profile = large(6000)
    read = Page(page(profile))
    assert read.about["unit_ns"] == 10_000
    true, shown = expected(profile), read.samples
    assert [sample[0:1] + sample[3:] for sample in shown] == [sample[0:1] + sample[3:] for sample in true]
    sums = defaultdict(lambda: [0, 0])
    for (thread, time, weight, *_), (_, shown_time, shown_weight, *_) in zip(true, shown):
        assert 0 <= time - shown_time < 10_000
        sums[thread][0] += weight
        sums[thread][1] += shown_weight
        assert abs(sums[thread][0] - sums[thread][1]) < 20_000


def test_times_fit_32_bits_however_long_the_run():
    writer = Writer()
    for hour in range(30):
        writer.sample([("f", "f", "/f.py", 1, 1)], 5_000 + hour * 3_600_000_000, 1000)
    writer.flush()
    read = Page(page(Profile(writer.data)))
    assert read.about["unit_ns"] == 100_000
    assert [sample[1] - 5_000_000 for sample in read.samples] == [hour * 3_600_000_000_000 for hour in range(30)]


NAMES = [
    "<script>alert(1)</script>", "</script><script>window.hacked = 1</script>", "\"'&;--><!--", "\ud800 alone",
    "\U0001f600 \u202e\u0000\n\r\t", "x" * 10_000,
    "%SPPROF_DATA%",
]  # fmt: skip


def hostile():
    writer = Writer(argv=NAMES, python=NAMES[1])
    for i, name in enumerate(NAMES):
        writer.sample([(name, name, name, 1, 1)], 6000 + 1000 * i, 1000, thread=i)
    writer.flush()
    writer.json(b"T", [{"id": i, "tid": 1, "name": name} for i, name in enumerate(NAMES)])
    writer.json(b"A", {"expected": 9, "taken": 7, "dropped": 2, "losses": {NAMES[1]: 2}})
    return writer.data


def test_nothing_in_a_name_is_html():
    profile = Profile(hostile())
    data = page(profile)
    read = Page(data)  # which checks that there is nothing but base64 between the page's own two halves
    assert read.samples == expected(profile)
    assert [name for _, _, name in read.about["threads"]] == NAMES
    assert read.about["header"]["argv"] == NAMES
    for name in NAMES[:3]:
        assert name.encode() not in data


def sourced(tmp_path, known=None, **header):
    text = "def f(x):\n    return '</script>' + x  # \u20ac\n"
    (tmp_path / "hot.py").write_text("# -*- coding: latin-1 -*-\n# \u00e9\n", encoding="latin-1")
    (tmp_path / "cold.py").write_text(text, encoding="utf-8")
    (tmp_path / "broken.py").write_bytes(b"\xff\xfe\x00")
    if not (tmp_path / "pipe.py").exists():
        os.mkfifo(tmp_path / "pipe.py")
    writer = Writer(**header)
    for i, name in enumerate(["hot", "hot", "cold", "broken", "pipe", "gone", "nul\0"]):
        writer.sample([(name, name, str(tmp_path / f"{name}.py"), 1, 1)], 6000 + 1000 * i, 1000)
    writer.sample([("f", "f", "<string>", 1, 1)], 16000, 1000)
    writer.flush()
    for file, digest in (known or {}).items():
        writer.block(b"F", f"{digest} {file}".encode())
    return Profile(writer.data), text


@pytest.mark.skipif(os.name == "nt", reason="Windows has no named pipes among its files")
def test_sources_are_those_that_can_be_read(tmp_path, monkeypatch):
    profile, text = sourced(tmp_path)
    about = Page(page(profile, sources=True)).about
    hot, cold = str(tmp_path / "hot.py"), str(tmp_path / "cold.py")
    assert about["sources"] == {hot: "# -*- coding: latin-1 -*-\n# \u00e9\n", cold: text}
    assert about["changed"] == []
    assert Page(page(profile, sources=False)).about["sources"] == {}
    monkeypatch.setattr(_sources, "CAP", 30)  # the hottest first
    assert list(Page(page(profile, sources=True)).about["sources"]) == [hot]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no named pipes among its files")
def test_a_source_that_was_changed_after_the_run_began_is_named(tmp_path):
    profile, _ = sourced(tmp_path, start_unix_ns=1_600_000_000_000_000_000)
    os.utime(tmp_path / "cold.py", (1_500_000_000, 1_500_000_000))
    assert Page(page(profile, sources=True)).about["changed"] == [str(tmp_path / "hot.py")]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no named pipes among its files")
def test_only_text_that_the_profile_knows_is_in_a_page(tmp_path):
    """Unasked: a profile shows the text of a reader's file only if its maker could read that text."""
    hot, cold, secret = (str(tmp_path / f"{name}.py") for name in ("hot", "cold", "broken"))

    def made(known):
        return sourced(tmp_path, known, start_unix_ns=1_600_000_000_000_000_000)

    foreign, text = made({})
    about = Page(page(foreign)).about
    assert (about["sources"], about["changed"]) == ({}, [])
    assert about["without"][hot] == about["without"][secret] == _sources.UNKNOWN
    assert about["without"]["<string>"] == "it is no file"
    digest = hashlib.sha256(text.encode()).hexdigest()
    forged, _ = made({hot: digest, cold: digest, secret: "\xe9" * 64})
    about = Page(page(forged)).about
    assert about["sources"] == {cold: text} and about["changed"] == []
    assert about["without"][hot] == about["without"][secret] == _sources.CHANGED
    about = Page(page(forged, sources=True)).about
    assert list(about["sources"]) == [hot, cold] and about["changed"] == [hot]
    about = Page(page(forged, sources=False)).about
    assert (about["sources"], about["without"]) == ({}, {})
    formats.write(filtered(forged, stop_ns=1 << 60), (out := io.BytesIO()), "spprof", formats.Options())
    assert Page(page(Profile(out.getvalue()))).about["sources"] == {cold: text}


def test_the_first_hash_of_a_file_counts(tmp_path):
    """It is the oldest one; and what is no hash vouches for nothing."""
    (tmp_path / "a.py").write_text("text", encoding="utf-8")
    file, digest = str(tmp_path / "a.py"), hashlib.sha256(b"text").hexdigest()
    for first, second, shown in ((digest, "0" * 64, {file: "text"}), ("0" * 64, digest, {}), ("", "", {}), (digest[:32], "", {})):
        writer = Writer()
        writer.sample([("f", "f", file, 1, 1)], 6000, 1000)
        writer.flush()
        for each in (first, second):
            writer.block(b"F", f"{each} {file}".encode())
        assert Page(page(Profile(writer.data))).about["sources"] == shown


def test_inlined_native_frames_keep_their_sources():
    writer = Writer(native="yes")
    native = ("deflate", "deflate", "/lib/libz.so.1", 0x100, 0x123, 0, -1, -1, 1)
    writer.sample([("f", "f", "/f.py", 1, 2), native], 6000, 1000)
    writer.flush()
    writer.json(b"L", {"frames": {"1": [["deflate", "/src/deflate.c", 10], ["<inlined>", "/src/deflate.h", 3]]}})
    profile = Profile(writer.data)
    read = Page(page(profile))
    assert read.samples == expected(profile)
    assert read.samples[0][3][-1][8:] == ("/src/deflate.h", 3)


def test_empty_profile():
    writer = Writer()
    writer.flush()
    read = Page(page(Profile(writer.data)))
    assert (read.samples, read.frames, read.stacks, read.about["end"]) == ([], [], [], None)


def spprof(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "spprof", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, env={**os.environ, **environment},
    )  # fmt: skip


@pytest.mark.skipif(os.name == "nt", reason="the browser is chosen by a variable on POSIX systems alone")
def test_convert_and_open(path, tmp_path):
    out = tmp_path / "out.html"
    assert spprof("convert", str(path), "-o", str(out)).returncode == 0
    assert Page(out.read_bytes()).samples == expected(Profile.load(path))
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {seen}\n')
    browser.chmod(0o755)
    opened = spprof("open", str(path), BROWSER=f"{browser} %s", TMPDIR=str(tmp_path))
    assert opened.returncode == 0 and "no text of source files" in opened.stderr  # `path` is of no machine
    shown = opened.stdout.strip()
    assert seen.read_text().strip() == "file://" + shown
    assert Page(open(shown, "rb").read()).samples == expected(Profile.load(path))
    assert stat.S_IMODE(os.stat(shown).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(shown)).st_mode) == 0o700
    assert spprof("open", shown, BROWSER=f"{browser} %s").stdout.strip() == shown
    kept = spprof("open", str(path), "-o", str(tmp_path / "kept.html"), "--no-browser", "--thread", "Main")
    assert kept.stdout.strip() == str(tmp_path / "kept.html")
    assert Page((tmp_path / "kept.html").read_bytes()).samples == expected(Profile.load(path), "Main")


def test_run_gives_a_page(tmp_path):
    out = tmp_path / "run.html"
    code = "import spprof\nwanted = spprof.stats()['taken'] + 50\nwhile spprof.stats()['taken'] < wanted: sum(range(9999))"
    done = spprof("run", "-q", "-o", str(out), "-c", code)
    assert (done.returncode, done.stdout) == (0, "")
    read = Page(out.read_bytes())
    assert any(sample[3][-1][1:3] == ("<module>", "<string>") for sample in read.samples)
    stats = read.about["stats"]
    assert sum(sample[4] for sample in read.samples) == stats["taken"] + stats["repeated"] >= 50
    assert read.about["end"]["reason"] and read.about["header"]["mode"] == "cpu"


@pytest.mark.skipif(os.name == "nt", reason="the browser is chosen by a variable on POSIX systems alone")
def test_open_says_what_is_wrong(path, tmp_path):
    other = tmp_path / "other.html"
    other.write_text("<p>hello")
    damaged = tmp_path / "damaged.spprof"
    damaged.write_bytes(path.read_bytes()[:-3])
    for arguments, code, words in [
        (["open", str(other)], 2, "not a page that spprof wrote"),
        (["open", str(tmp_path / "none.spprof")], 2, "No such file"),
        (["open", str(tmp_path / "none.html")], 2, "No such file"),
        (["open", str(path), "-o", str(tmp_path / "no" / "where.html")], 2, "cannot write"),
        (["open", str(damaged), "--no-browser"], 0, "damaged.spprof: "),
        (["open", str(path)], 1, "no browser could be started"),
    ]:
        done = spprof(*arguments, BROWSER="/nonexistent/browser %s", PATH="/nonexistent")
        assert done.returncode == code, done.stderr
        assert words in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="files have no largest size there")
def test_open_leaves_no_folder_where_the_page_cannot_be_written(path, tmp_path, monkeypatch):
    import resource

    from spprof.cli import main
    from spprof.cli import open as opens

    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(opens.tempfile, "tempdir", str(tmp_path / "scratch"))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))
    try:
        assert main(["open", str(path), "--no-browser"]) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir(tmp_path / "scratch") == []


@pytest.mark.parametrize("verb", ["convert", "open"])
def test_help_names_the_page(verb):
    assert "html" in spprof(verb, "--help").stdout
