"""Patterns of names: what they match, and that each place which takes one means the same by it."""

import pytest
from spprof_file import Writer

from spprof import Profile
from spprof.cli import main
from spprof.model.patterns import is_like


@pytest.mark.parametrize(
    "text, pattern, fits",
    [
        ("worker", "worker", True),
        ("worker", "work", False),
        ("worker-12", "worker-?", False),
        ("worker-12", "worker-*", True),
        ("pool[3]", "pool[3]", True),
        ("pool[3]", "pool[?]", True),
        ("pool3", "pool[3]", False),
        ("a[!b]c", "a[!b]*", True),
        ("axc", "a[!b]*", False),
        ("]a[", "]*[", True),
        ("Row[int].parse", "*[int].parse", True),
        ("a\nb", "a*b", True),
        ("Worker", "worker", False),
        ("", "*", True),
    ],
)
def test_brackets_are_themselves(text, pattern, fits):
    assert is_like(text, pattern) is fits


def test_a_thread_and_a_function_with_brackets(tmp_path, capsys):
    writer = Writer(mode="cpu")
    for thread, name in enumerate(["load[a]", "loada"]):
        writer.sample([("<module>", "<module>", "x.py", 1, 1), (name, name, "x.py", 2, 3)], 6_000, 1_000, thread)
    writer.flush()
    writer.json(b"T", [{"id": 0, "tid": 7, "name": "pool[a]"}, {"id": 1, "tid": 8, "name": "poola"}])
    path = tmp_path / "p.spprof"
    path.write_bytes(writer.data)
    profile = Profile.load(path)
    assert [profile.match_threads(pattern) for pattern in ("pool[a]", "pool[*", "pool*", "8")] == [[0], [0], [0, 1], [1]]
    assert main(["report", str(path), "--callers", "load[a]"]) == 0
    assert "loada" not in capsys.readouterr().out
    assert main(["report", str(path), "--thread", "pool[?]"]) == 0
    text = capsys.readouterr().out
    assert "load[a]" in text and "loada" not in text
