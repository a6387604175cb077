"""The ten slow programs of examples/slow: the place that is to blame is named by what one types first. The answers are here."""

import re
import shutil
import sys
from pathlib import Path

import pytest
from switches import core_of_linux

SLOW = Path(__file__).resolve().parents[2] / "examples" / "slow"
WALL = ("--mode", "wall")
pytestmark = [
    pytest.mark.skipif(not core_of_linux(), reason="why a thread waits is known on Linux alone"),
    pytest.mark.skipif(not SLOW.is_dir(), reason="the tests were taken out of the tree"),
    pytest.mark.statistical("the place has most of the time by far; a machine so full that it has not may fail"),
]

# Code knows its class, or the function around it, from 3.11 on.
QUALIFIED = sys.version_info >= (3, 11)
MONTH, STOCK, LEDGER, DOCUMENT = (rf"{name}\." if QUALIFIED else "" for name in ("Month", "Stock", "Ledger", "Document"))
SMOOTHED, THUMBNAIL = (
    (r"_smoothed\S*", "(shrink|picture)") if QUALIFIED else ("<listcomp>", r"<(listcomp|genexpr)>\s+\(thumbnails")
)

# Program, options of the recording, the verb, and what its text says.
ANSWERS = {
    "cpu": ("invoices.py", (), "why", rf"1\. {MONTH}is_booked \(invoices\.py:\d+\) itself: [\d.]+%"),
    "lock": ("warehouse.py", WALL, "why",
        rf"1\. {STOCK}take \(warehouse\.py:\d+\) itself: .*\n +of it .* waiting for a lock\n"
        rf" +the lock was held meanwhile by {STOCK}note \(warehouse\.py:\d+\): .*\n +of it .* at line \d+:\s+with self\.lock:"),
    "GIL": ("thumbnails.py", WALL, "why",
        rf"(?s)\d\. {THUMBNAIL}.* of MainThread: .* waiting\s+for\s+the\s+GIL\s+\(.*\s+held\s+by\s.*{THUMBNAIL}"),
    "loop": ("gateway.py", (), "why", r"1\. .*derived \(gateway\.py:\d+\)"),
    "import": ("convert.py", (), "why",
        rf"1\. {SMOOTHED} \(tables/rates\.py:\d+\) itself: (.*\n)+? +while tables\.rates is imported"),
    "child": ("archive.py", WALL, "why",
        r"1\. subprocess, called by packed \(archive\.py:\d+\): .*\n +of it .* (in input or output|waiting for a child process)"),
    "input": ("ledger.py", (), "why",
        rf"1\. {LEDGER}line \(ledger\.py:\d+\) itself: .*\n +of it .* line \d+:.*self\.file\.read\(1\)"),
    "memory": ("catalogue.py", (), "why",
        rf"1\. {DOCUMENT}add \(catalogue\.py:\d+\) itself: .*\n +of it .* line \d+:\s.*\+ page\]"),
    "library": ("search.py", (), "why", r"1\. re, called by is_in \(search\.py:\d+\)"),
}  # fmt: skip


@pytest.fixture
def spprof(run_python, tmp_path):
    shutil.copytree(SLOW, tmp_path, dirs_exist_ok=True)
    return lambda *words: run_python("-m", "spprof", *words, cwd=tmp_path)


@pytest.mark.parametrize("fault", ANSWERS)
def test_the_place_is_named(fault, spprof):
    if fault == "GIL" and not getattr(sys, "_is_gil_enabled", lambda: True)():
        pytest.skip("no thread waits for the GIL where there is none")
    program, options, verb, says = ANSWERS[fault]
    spprof("run", "-q", "-o", "p.spprof", *options, program)
    text = spprof(verb, "p.spprof").out
    assert re.search(says, text), text


def test_what_a_change_made_slower_is_named(spprof):
    for version in "before", "after":
        spprof("run", "-q", "-o", f"{version}.spprof", f"{version}/prices.py")
    text = spprof("diff", "before.spprof", "after.spprof").out
    assert re.search(r"^ self, A .*\n.* \* .* rounded \(after/prices\.py:\d+\)$", text, re.M), text


def test_where_it_is_imported_is_in_the_summary(spprof):
    """Of a slow import the name of the module, too."""
    spprof("run", "-q", "-o", "p.spprof", "convert.py")
    assert re.search(r"import tables\.rates", spprof("report", "p.spprof").out)
