"""What tests/tries.py makes of tests that fail now and then."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TRIES = Path(__file__).resolve().parent.parent / "tries.py"
MADE_UP = """
import os, pytest
from pathlib import Path

def times(name):
    "How often it was asked for, this time too."
    with open(name, "a") as file:
        file.write("x")
    return os.path.getsize(name)

@pytest.fixture(scope="module")
def made():
    return times("made")

def test_right(): times("right")
def test_third(made): assert made == 3
def test_second(made): assert made >= 2
def test_never(): assert False
def test_skipped_later(made):
    if made > 1: pytest.skip("no")
    assert False
def test_dies(made):
    if made == 2: os._exit(1)
    assert False
"""


@pytest.fixture
def tries(tmp_path):
    (tmp_path / "test_it.py").write_text(MADE_UP)
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # those of this environment take a second to import
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def run(*arguments):
        command, both = [sys.executable, TRIES, *arguments], {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(command, cwd=tmp_path, env=env, text=True, **both)
        reported = [line for line in done.stdout.splitlines() if line.startswith(("UNSTABLE", "FAILED")) and " of 3" in line]
        return done.returncode, reported, done.stdout

    run.times = lambda name: len((tmp_path / name).read_text())
    return run


@pytest.mark.parametrize("arguments", [["-x"], ["-p", "no:cacheprovider"]], ids=lambda arguments: "".join(arguments))
def test_what_passes_in_the_third_try_has_passed_and_is_reported(tries, arguments):
    """Also with -x, by which a first failure ends a run, and without a cache, as tools/matrix has it."""
    code, reported, out = tries(*arguments, "-k", "right or third or second")
    assert code == 0, out
    assert reported == ["UNSTABLE test_it.py::test_third: failed 2 of 3", "UNSTABLE test_it.py::test_second: failed 1 of 3"]
    assert tries.times("right") == 1, "what passed is not tried again"
    assert tries.times("made") == 3, "each try has fixtures of its own"


def test_what_passes_at_once_is_tried_once(tries):
    assert tries("-k", "right")[:2] == (0, [])
    assert tries.times("right") == 1


def test_what_fails_three_times_has_failed(tries):
    code, reported, out = tries("-k", "never or second")
    assert code == 1, out
    assert sorted(reported) == ["FAILED test_it.py::test_never: failed 3 of 3", "UNSTABLE test_it.py::test_second: failed 1 of 3"]


@pytest.mark.parametrize("name", ["skipped_later", "dies"])
def test_what_is_skipped_or_ends_the_process_in_a_later_try_has_not_passed(tries, name):
    assert tries("-k", name)[0] == 1
    assert tries.times("made") == 2, "and is not tried again"


@pytest.mark.parametrize("arguments, code", [(["--no-such-option"], 4), (["no_such_file.py"], 4), (["-k", "nothing"], 5)])
def test_what_is_no_failure_of_a_test_is_final(tries, arguments, code):
    assert tries(*arguments)[:2] == (code, [])
