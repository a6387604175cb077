"""pprof files, read by the real `go tool pprof`; and the protobuf encoder beside the library `protobuf`."""

import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from conftest import LIBRARY, NAMES, render, required
from spprof_file import Writer

from spprof import Profile, __version__
from spprof.formats import _protobuf

# Newer releases of Go build the tool when it is first used: from what they have, and once, in the user's cache. That may take
# minutes, so the gate asks our own reader of such files (test_readers.py) and the test below.
ENVIRONMENT = {**os.environ, "GOTOOLCHAIN": "local", "GOPROXY": "off", "GOFLAGS": "", "TZ": "UTC"}


pytestmark = pytest.mark.timeout(1500)


@pytest.fixture
def pprof(tmp_path):
    """Runs `go tool pprof` on a profile; gives its stdout."""
    go = required("go", "go (for `go tool pprof`)")

    def run(profile, *arguments, **options):
        path = tmp_path / "p.pb.gz"
        path.write_bytes(render(profile, "pprof", **options))
        command = [go, "tool", "pprof", *arguments, str(path)]
        done = subprocess.run(command, capture_output=True, timeout=1200, env=ENVIRONMENT, cwd=tmp_path)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    return run


def top(text):
    """Function -> flat and cumulative value as printed."""
    rows = text[text.index("cum%") :].split("\n", 1)[1]
    return {m[3]: (m[1], m[2]) for m in re.finditer(r"^ *(\S+) +\S+% +\S+% +(\S+) +\S+%  ((?:.|\n )*?)$", rows, re.M)}


@pytest.mark.stress
def test_top(pprof, data):
    profile = Profile(data)
    text = pprof(profile, "-top", "-nodefraction=0", "-unit=us")
    assert "File: x.py" in text and "Type: cpu" in text and "Duration: 5ms, Total samples = 4811us" in text
    assert f"spprof {__version__}" in text and "dropped: 4" in text
    assert {name: row for name, row in top(text).items() if "\n" not in name} == {
        "b": ("3500us", "4510us"),
        "A.a": ("1210us", "4210us"),
        "<module>": ("100us", "1310us"),
        "[no Python frames]": ("1us", "1us"),
        "[truncated]": ("0", "3000us"),
    }
    counts = top(pprof(profile, "-top", "-nodefraction=0", weight="samples"))
    assert counts["b"] == ("8", "10") and counts["A.a"] == ("3", "4")


@pytest.mark.stress
def test_threads_and_labels(pprof, marked):
    text = pprof(marked, "-tags", "-unit=us")
    parts = re.findall(r"^ *(\w+): Total.*\n((?: +\S.*\n)*)", text, re.M)
    tags = {key: set(re.findall(r"([\d.]+us) \(.*?\): (.*)", rest)) for key, rest in parts}
    assert tags == {
        "thread": {("4310us", "Main"), ("501us", "#wor;ker")},
        "thread_id": {("4310us", "70us"), ("501us", "71us")},  # the unit that was asked for
        "request": {("4200us", "/a"), ("510us", "/b")},
        "user": {("510us", "é")},
    }


@pytest.mark.stress
def test_lines_places_and_comments(pprof, data):
    raw = pprof(Profile(data), "-raw")
    assert "PeriodType: cpu nanoseconds\nPeriod: 1000000\nDuration: 5ms" in raw
    assert "samples/count cpu/nanoseconds[dflt]" in raw
    assert re.search(r"M=1 A.a /app/x;y.py:11(:5)? s=10\(a\)", raw) and re.search(r"M=1 A.a /app/x;y.py:13(:0)? s=10\(a\)", raw)
    # a waiting thread: all its ticks
    assert re.search(r"^ +7 +500000: \d+ \n +thread:\[#wor;ker\]\n +thread_id:\[71\]", raw, re.M)
    merged = pprof(Profile(data), "-raw", merge_threads=True, lines=False)
    assert "thread" not in merged and len(re.findall("M=1 A.a", merged)) == 1
    assert "thread:[Main]" not in pprof(Profile(data), "-raw", thread="#*")


@pytest.mark.stress
def test_native_functions_have_mapping_address_and_build_id(pprof, native):
    raw = pprof(native, "-raw")
    assert "Time: 2023-11-14 22:13:20" in raw
    assert re.search(rf"^\d: 0x0/0x146/0x0 {LIBRARY} 00ff17 \[FN\]", raw, re.M)
    assert len(re.findall(r"0x1(?:23|45) M=2 deflate", raw)) == 2
    assert top(pprof(native, "-top", "-nodefraction=0", "-unit=us"))["deflate"] == ("3000us", "3000us")
    assert "0x123" not in pprof(native, "-raw", lines=False)


def fetch(address):
    """A page of a server that is starting."""
    until = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(address, timeout=30) as page:
                return page.read().decode()
        except urllib.error.URLError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


@pytest.mark.stress
def test_the_web_page(pprof, data, tmp_path):
    """-http on a free port of the loopback, one page fetched, ended by its process."""
    pprof(Profile(data), "-raw")
    command = [required("go"), "tool", "pprof", "-no_browser", "-http=127.0.0.1:", str(tmp_path / "p.pb.gz")]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=ENVIRONMENT, start_new_session=True)
    try:
        (address,) = re.findall(r"^Serving web UI on (http://\S+:\d+)$", server.stdout.readline().decode().strip())
        page = fetch(f"{address}/top")
    finally:
        os.killpg(server.pid, signal.SIGTERM)  # `go tool` starts pprof as a child: the group is both
        server.wait(30)
        server.stdout.close()
    assert "A.a" in page and "Total samples = 4.81ms" in page


@pytest.mark.stress
def test_any_name(pprof):
    writer = Writer()
    for step, name in enumerate(NAMES):
        writer.sample([(name, name, f"{name}?", 1, 7)], 6000 + step, 1)
    writer.flush()
    shown = [name.encode("utf-8", "backslashreplace").decode() for name in NAMES]
    raw = pprof(Profile(writer.data), "-raw")
    assert all(f" M=1 {name} {name}?:7" in raw for name in shown)
    assert f"100% of {len(NAMES)}us total" in pprof(Profile(writer.data), "-top", "-lines", "-nodefraction=0", "-unit=us")


@pytest.mark.stress
def test_an_empty_profile(pprof):
    assert "samples/count cpu/nanoseconds[dflt]" in pprof(Profile(Writer().data), "-raw")


def test_the_same_profile_gives_the_same_bytes(data):
    assert render(Profile(data), "pprof") == render(Profile(data), "pprof")


VALUES = [0, 1, 127, 128, 300, 2**31, 2**63 - 1, -1, -(2**63)]


def test_the_encoder_beside_the_library():
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, struct_pb2, wrappers_pb2

    for value in VALUES:
        assert _protobuf.number(1, value) == wrappers_pb2.Int64Value(value=value).SerializeToString()
    assert _protobuf.number(1, 2**64 - 1) == wrappers_pb2.UInt64Value(value=2**64 - 1).SerializeToString()
    for text in ("a", "é😀", "x" * 1000):
        assert _protobuf.text(1, text) == wrappers_pb2.StringValue(value=text).SerializeToString()
    assert wrappers_pb2.StringValue.FromString(_protobuf.text(1, "\udcff")).value == "\\udcff"
    path = descriptor_pb2.SourceCodeInfo.Location(path=[1, 200, 0], span=[])  # both are packed
    assert _protobuf.packed(1, [1, 200, 0]) + _protobuf.packed(2, []) == path.SerializeToString()
    nested = struct_pb2.ListValue(values=[struct_pb2.Value(bool_value=True), struct_pb2.Value(string_value="")])
    assert _protobuf.data(1, _protobuf.number(4, 1)) + _protobuf.data(1, _protobuf.text(3, "")) == nested.SerializeToString()
