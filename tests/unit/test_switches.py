"""The tests' own switches: `SPPROF_REQUIRE_BROWSER=0` must mean no."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from switches import switch

TESTS = Path(__file__).resolve().parent.parent
REQUIRE = {
    "SPPROF_REQUIRE_BROWSER": lambda: importlib.import_module("conftest").required("no-such-program"),
    "SPPROF_REQUIRE_CONSUMERS": lambda: importlib.import_module("others").needed("no_such_package"),
    "SPPROF_REQUIRE_HOSTS": lambda: importlib.import_module("hosts").host("no_such_package"),
}


@pytest.mark.parametrize("word", ["", "0", "false", "False", "no", "NO", " 0 "])
def test_these_words_mean_no(monkeypatch, word):
    monkeypatch.setenv("SPPROF_TRIED", word)
    assert not switch("SPPROF_TRIED")


@pytest.mark.parametrize("word", ["1", "true", "yes", "on", "2", "00"])
def test_all_others_mean_yes(monkeypatch, word):
    monkeypatch.setenv("SPPROF_TRIED", word)
    assert switch("SPPROF_TRIED")


def test_what_is_not_there_means_no(monkeypatch):
    monkeypatch.delenv("SPPROF_TRIED", raising=False)
    assert not switch("SPPROF_TRIED")


@pytest.mark.parametrize("name", REQUIRE)
def test_what_is_missing_is_skipped_unless_it_is_required(monkeypatch, name):
    from _pytest.outcomes import Failed, Skipped

    monkeypatch.syspath_prepend(TESTS / "integration")  # where `hosts` is
    monkeypatch.setenv(name, "0")
    with pytest.raises(Skipped):
        REQUIRE[name]()
    monkeypatch.setenv(name, "1")
    with pytest.raises((Failed, ImportError)):
        REQUIRE[name]()


def test_no_file_reads_a_switch_in_another_way():
    names = r"SPPROF_REQUIRE_\w+|SPPROF_SANITIZED|TORTURE_NATIVE|TORTURE_FAULTS"
    read = re.compile(
        rf"""environ\.get\(\s*["'](?:{names})|getenv\(\s*["'](?:{names})|["'](?:{names})["'] (?:not )?in os\.environ"""
    )
    files = [path for path in TESTS.rglob("*.py") if path != Path(__file__).resolve()]
    assert not [str(path) for path in files if read.search(path.read_text(encoding="utf-8"))]
