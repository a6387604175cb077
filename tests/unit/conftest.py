"""Files that many tests read."""

from __future__ import annotations

import io
import shutil
from array import array

import pytest
from browser import real_browser  # noqa: F401 (a fixture)
from spprof_file import Writer
from switches import switch

from spprof import Profile, formats
from spprof.model import Marker

MAIN = ("<module>", "<module>", "/app/x;y.py", 1)
A = ("a", "A.a", "/app/x;y.py", 10)
B = ("b", "b", "/app/%\n.py", 20)


def small_writer():
    """Two threads; recursion, truncation, a waiting thread, an empty stack; two blocks. Weights in us, easy to add up."""
    root, a, b = (*MAIN, 3), (*A, 11, 12, 4, 9), (*B, 20)
    writer = Writer(start_ns=5_000_000)
    writer.sample([root], 5100, 100)
    writer.sample([root, a], 5300, 200)
    writer.sample([root, a, b, a], 6300, 1000, flags=2)
    writer.flush()
    writer.sample([b], 9000, 500, thread=1, count=7, flags=4)
    writer.sample([], 9001, 1, thread=1)
    writer.sample([a, b], 9300, 3000, flags=1)
    writer.sample([root, a, b, (*A, 13)], 9301, 10)
    writer.flush()
    writer.json(b"T", [{"id": 0, "tid": 70, "name": "Main"}, {"id": 1, "tid": 71, "name": ""}])
    writer.json(b"T", [{"id": 1, "tid": 71, "name": "#wor;ker"}])
    writer.json(b"A", {"clock": "perf", "expected": 17, "taken": 7, "repeated": 6, "losses": {"x": 4}, "dropped": 4})
    writer.json(b"E", {"stop_ns": 10_000_000, "reason": "stop"})
    return writer


@pytest.fixture
def data():
    return small_writer().data


@pytest.fixture
def path(tmp_path, data):
    file = tmp_path / "small.spprof"
    file.write_bytes(data)
    return file


def required(tool, what=""):
    """Path of a program that a test needs. Without it the test is skipped, but fails where all are to be there (CI)."""
    path = shutil.which(tool)
    if path is None:
        reported = f"{what or tool} is needed"
        pytest.fail(reported) if switch("SPPROF_REQUIRE_BROWSER") else pytest.skip(reported)
    return path


def render(profile, format, **options):
    out = io.BytesIO()
    formats.write(profile, out, format, formats.Options(**options))
    return out.getvalue()


@pytest.fixture
def marked(data):
    """The small profile with labels and two GC runs, one in each thread."""
    profile = Profile(data)
    columns = profile._columns()
    columns["label_sets"] = [{}, {"request": "/a"}, {"request": "/b", "user": "\u00e9"}]
    columns["label"] = memoryview(array("I", [0, 1, 1, 2, 0, 1, 2]))
    columns["markers"] = [
        Marker("gc", 0, 5_250_000, 30_500, {"generation": 2, "collected": 7, "uncollectable": 0}),
        Marker("gc", 1, 8_900_000, 50_000, {"generation": 0, "collected": 1, "uncollectable": 3}),
    ]
    return profile


LIBRARY = "/usr/lib/libz.so.1"


@pytest.fixture
def native():
    """Two addresses of one native function below a Python function, and a library whose build id is known."""
    writer = Writer(native="yes", argv=["app.py"], start_unix_ns=1_700_000_000_000_000_000)
    python = ("f", "f", "/app/f.py", 1, 2)
    writer.sample([python, ("deflate", "deflate", LIBRARY, 0x100, 0x123, 0, -1, -1, 1)], 6000, 1000)
    writer.sample([python, ("deflate", "deflate", LIBRARY, 0x100, 0x145, 0, -1, -1, 1)], 7000, 2000)
    writer.sample([("[native unpaired]", "[native unpaired]", "", 0, 0, 0, -1, -1, 1), python], 8000, 4000, flags=16)
    writer.flush()
    writer.block(b"O", b"00ff17 " + LIBRARY.encode() + b"\0")
    return Profile(writer.data)


NAMES = [
    "",
    "a\nb",
    "a\r\nb",
    "a b 3",
    "(1) x",
    "#c",
    "100%",
    '"<script>\\',
    "\x85",
    "\u2028",
    "\u00e9\U0001f600",
    "\udcff",
    "x" * 10_000,
]

any_name = pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name[:9]))


def named(name):
    """A profile whose function, file and thread have this name; the function calls itself and one that is called f."""
    writer = Writer()
    frame = (name, name, name + "?", 1, 1)
    writer.sample([frame, frame], 6000, 5)
    writer.sample([frame, ("f", "f", "f.py", 1, 1)], 6010, 10)
    writer.flush()
    writer.json(b"T", [{"id": 0, "tid": 4, "name": name}])
    return Profile(writer.data)
