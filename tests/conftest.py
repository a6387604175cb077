"""What all tests share: running programs under the interpreter that runs the tests."""

import os
import signal

import pytest
from ran import TARGETS, runner

# A job started in the background of a shell ignores SIGINT and SIGQUIT, by nohup SIGHUP, and so would all programs that the tests
# start and send these to.
signal.signal(signal.SIGINT, signal.default_int_handler)
for other in ("SIGQUIT", "SIGHUP"):
    if hasattr(signal, other):
        signal.signal(getattr(signal, other), signal.SIG_DFL)

# `spprof run` says that it does not use an active environment, which that of another checkout may be.
os.environ.pop("VIRTUAL_ENV", None)


def pytest_collection_modifyitems(items):
    for item in items:
        for mark in item.iter_markers("statistical"):
            if not mark.args:
                raise pytest.UsageError(f"{item.nodeid}: a statistical test states its odds of failing by chance")


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
