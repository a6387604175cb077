"""What the tests in a real browser share. They need `make browser` (npm), node and Chromium; with SPPROF_REQUIRE_BROWSER=1 the
absence of one fails instead of skipping."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from switches import switch

BROWSER = Path(__file__).resolve().parent.parent / "browser"
SPEEDSCOPE = BROWSER / "node_modules" / "speedscope" / "dist" / "release"
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
_installed = SPEEDSCOPE.exists() and (BROWSER / "node_modules" / "playwright-core").exists()


@pytest.fixture(scope="session")
def real_browser():
    """That there is one; before all that a test opens in it."""
    if not (_installed and CHROMIUM and shutil.which("node")):
        reported = "`make browser`, Chromium and node are needed"
        pytest.fail(reported, pytrace=False) if switch("SPPROF_REQUIRE_BROWSER") else pytest.skip(reported)


# Of a module. The gate has neither Chromium nor packages from npm: what it can see of these files is tested without them too.
BROWSER_MARKS = [pytest.mark.stress, pytest.mark.usefixtures("real_browser")]


def needs_browser(test):
    """Of one test."""
    for mark in BROWSER_MARKS:
        test = mark(test)
    return test


def environment():
    """Of a driver. A sanitizer's runtime is for Python, not for node and Chromium."""
    return {**{name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}, "CHROMIUM": CHROMIUM or ""}


def seen_by(driver, *arguments):
    """What a driver of tests/browser/ saw: it prints JSON."""
    done = subprocess.run(
        ["node", str(BROWSER / driver), *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240, env=environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)
