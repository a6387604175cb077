"""Names of files that fit."""

import pytest

from spprof.files.names import fitting


def test_a_short_name_stays():
    assert fitting("script", ".spprof") == "script.spprof"
    assert fitting("x" * 248, ".spprof") == "x" * 248 + ".spprof"


@pytest.mark.parametrize("letter", ["x", "\u00e9", "\u65e5", "\U0001f600"])
def test_a_long_one_is_cut_to_fit_and_stays_its_own(letter):
    names = [fitting(letter * 300 + end, ".4711.spprof") for end in "ab"]
    assert len(set(names)) == 2
    for name in names:
        assert 240 < len(name.encode()) <= 255 and name.startswith(letter * 10) and name.endswith(".4711.spprof")
    assert len(fitting(letter * 300, ".html", 140).encode()) <= 140


def test_bytes_that_are_no_text():
    assert len(fitting("\udcff" * 300, ".spprof").encode("utf-8", "surrogateescape")) <= 255
    assert fitting("\ud800" * 300, ".spprof").endswith(".spprof")
