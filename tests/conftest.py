"""What all tests share: running programs under the interpreter that runs the tests."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

# A job started in the background of a shell ignores SIGINT, and so would all programs that the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

TARGETS = Path(__file__).resolve().parent / "targets"


class Ran:
    """A program that ran: its code, output, and the profile that it left."""

    def __init__(self, code, out, err, path):
        self.code, self.out, self.err, self.path = code, out, err, path

    @property
    def json(self):
        return json.loads(self.out.splitlines()[-1])

    @property
    def profile(self):
        import spprof

        return spprof.Profile.load(self.path)


def runner(folder):
    """run_python for a profile in this folder."""

    def run(*args, ok=True, timeout=240, cwd=None, env=None, **options):
        result = subprocess.run(
            [sys.executable, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout,
            cwd=cwd or folder, env={**os.environ, **(env or {})}, text=True, **options,
        )  # fmt: skip
        if ok:
            assert result.returncode == 0, f"exit {result.returncode}\n{result.stdout[-2000:]}\n{result.stderr[-4000:]}"
        return Ran(result.returncode, result.stdout, result.stderr, folder / "out.spprof")

    return run


@pytest.fixture
def run_python(tmp_path):
    """run_python(*args, ok=True): runs this interpreter; its profile is expected in tmp_path/out.spprof."""
    return runner(tmp_path)


@pytest.fixture(scope="module")
def run_once(tmp_path_factory):
    """run_once(target, *args): tests/targets/TARGET.py, run once for all tests of a module that ask for the same."""
    ran = {}

    def run(target, *args):
        if (target, *args) not in ran:
            folder = tmp_path_factory.mktemp(target)
            ran[(target, *args)] = runner(folder)(TARGETS / f"{target}.py", folder / "out.spprof", *args)
        return ran[(target, *args)]

    return run


@pytest.fixture
def drive(run_python, tmp_path):
    """drive(target, mode, clock, interval_ms, seconds, max_depth): runs tests/targets/TARGET.py under drive.py."""

    def run(target, mode="cpu", clock="auto", interval_ms=0.1, seconds=2.0, max_depth=512):
        return run_python(
            TARGETS / "drive.py", TARGETS / f"{target}.py", tmp_path / "out.spprof", mode, clock, interval_ms, seconds,
            max_depth, timeout=120 + 20 * seconds,
        )  # fmt: skip

    return run
