"""tools/gdb.py reads what gdb finds in a program that is sampled."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from switches import switch

HELPER = Path(__file__).resolve().parents[2] / "tools" / "gdb.py"
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux" or not HELPER.exists(), reason="gdb on Linux, and the tree"),
    pytest.mark.skipif(switch("SPPROF_SANITIZED"), reason="the sanitizer's library would be preloaded into gdb, too"),
]
PROGRAM = """
import spprof
spprof.start(rate=1000)
while True:
    sum(range(1000))
"""


def test_gdb_shows_the_records_that_wait_in_a_queue(tmp_path):
    """Stopped where the drain thread is about to take a record, so there is one, and it was not changed."""
    if not shutil.which("gdb"):
        assert not switch("SPPROF_REQUIRE_HOSTS"), "gdb is missing"
        pytest.skip("gdb is missing")
    commands = [
        "set auto-load no",
        f"source {HELPER}",
        "set breakpoint pending on",
        "break spp_queue_take",
        "run",
        "spprof-threads",
        'python gdb.execute(f"spprof-queue {gdb.selected_inferior().pid}")',
        "kill",
    ]
    arguments = [word for command in commands for word in ("-ex", command)]
    done = subprocess.run(
        ["gdb", "-nx", "-batch", *arguments, "--args", sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
    )
    (waiting,) = re.findall(r"^slot 0  tid \d+  armed .* (\d+) words wait$", done.stdout, re.M)
    records = re.findall(r"^at \d+: \d+ ns, weight \d+ ns, depth (\d+), flags \S+, (\d+) new frames$", done.stdout, re.M)
    frames = re.findall(r"^    (?:code|native|resolved)\W", done.stdout, re.M)
    assert records, done.stdout + done.stderr
    assert len(frames) == sum(int(fresh) for _, fresh in records)
    assert 3 * len(records) + len(frames) == int(waiting)
    assert "read to the end" in done.stdout
