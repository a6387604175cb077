"""pstats files, read by the real `pstats`."""

import io
import pstats

import pytest
from conftest import LIBRARY, any_name, named, render

from spprof import BadOption, Profile

MAIN, A, B = ("/app/x;y.py", 1, "<module>"), ("/app/x;y.py", 10, "A.a"), ("/app/%\n.py", 20, "b")
CUT, NONE = ("~", 0, "[truncated]"), ("~", 0, "[no Python frames]")


@pytest.fixture
def opened(tmp_path):
    def open_stats(profile, **options):
        path = tmp_path / "p.pstats"
        path.write_bytes(render(profile, "pstats", **options))
        return pstats.Stats(str(path), stream=io.StringIO())

    return open_stats


def seconds(*ms):
    return pytest.approx([each / 1000 for each in ms])


def test_functions_and_callers(opened, data):
    stats = opened(Profile(data))
    figures = {key: (value[:2], list(value[2:4])) for key, value in stats.stats.items()}
    assert figures == {
        MAIN: ((4, 4), seconds(0.1, 1.31)),
        A: ((4, 4), seconds(1.21, 4.21)),  # 0.2 + 1 + 3 + 0.01: recursion counts once
        B: ((10, 10), seconds(3.5, 4.51)),
        CUT: ((1, 1), seconds(0, 3)),
        NONE: ((1, 1), seconds(0.001, 0.001)),
    }
    callers = {key: {caller: (v[0], v[1], [v[2], v[3]]) for caller, v in value[4].items()} for key, value in stats.stats.items()}
    assert callers == {
        MAIN: {},
        CUT: {},
        NONE: {},
        A: {MAIN: (3, 3, seconds(0.2, 1.21)), B: (2, 2, seconds(1.01, 1.01)), CUT: (1, 1, seconds(0, 3))},
        B: {A: (3, 3, seconds(3, 4.01))},
    }


def test_it_prints(opened, data):
    stats = opened(Profile(data))
    stats.sort_stats("tottime").print_stats()
    stats.print_callers("A.a")
    stats.print_callees("A.a")
    text = stats.stream.getvalue()
    assert "20 function calls in 0.005 seconds" in text
    assert "10    0.004    0.000    0.005    0.000 /app/%\n.py:20(b)" in text
    assert "1    0.000    0.003  [truncated]" in text
    assert "/app/x;y.py:10(A.a)  ->       3    0.003    0.004  /app/%\n.py:20(b)" in text


def test_one_thread_and_none(opened, data):
    assert set(opened(Profile(data), thread="#*").stats) == {B, NONE}
    with pytest.raises(BadOption, match="no thread matches"):
        opened(Profile(data), thread="nobody")


def test_native_functions_of_one_library_are_one(opened, native):
    stats = opened(native, merge_threads=True, lines=False).stats
    deflate = LIBRARY, 0, "deflate"
    assert stats[deflate][:2] == (2, 2) and list(stats[deflate][2:4]) == seconds(3, 3)
    assert set(stats[deflate][4]) == {("/app/f.py", 1, "f")}


@any_name
def test_any_name(opened, name):
    stats = opened(named(name))
    stats.print_stats().print_callers().print_callees()
    shown = name.encode("utf-8", "backslashreplace").decode()
    key = (f"{shown}?", 1, shown)
    assert list(stats.stats[key][:4]) == [2, 2, pytest.approx(5e-6), pytest.approx(15e-6)]
