"""Files that many tests read."""

from __future__ import annotations

import pytest
from spprof_file import Writer

MAIN = ("<module>", "<module>", "/app/x;y.py", 1)
A = ("a", "A.a", "/app/x;y.py", 10)
B = ("b", "b", "/app/%\n.py", 20)


def small_writer():
    """Two threads; recursion, truncation, a standing thread, an empty stack; two blocks. Weights in us, easy to add up."""
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
