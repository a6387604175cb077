"""tools/wheels: an environment that runs share is not made again while one of them uses it."""

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

fcntl = pytest.importorskip("fcntl", reason="it builds wheels for systems that have flock")
TOOLS = Path(__file__).resolve().parents[2] / "tools"
if not TOOLS.exists():
    pytest.skip("the tools are not here", allow_module_level=True)


@pytest.fixture
def wheels(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(TOOLS))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = SourceFileLoader("wheels", str(TOOLS / "wheels"))
    module = module_from_spec(spec_from_loader("wheels", loader))
    loader.exec_module(module)
    module.VENVS = tmp_path / "venvs"
    return module


def free(lock, kind):
    """Whether another run could have the lock now."""
    with open(lock, "w") as file:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_an_environment_is_made_alone_and_stays_while_it_is_used(wheels, monkeypatch, tmp_path):
    wanted = tmp_path / "wanted.txt"
    wanted.write_text("meson\n")
    lock, made = tmp_path / "venvs" / "one.lock", []

    def run(command, **_):
        assert not free(lock, fcntl.LOCK_SH)  # nobody uses it half made
        if command[1:3] == ["-m", "venv"]:
            made.append(command[0])
            command[3].mkdir()

    monkeypatch.setattr(wheels, "run", run)
    for _ in range(2):
        assert wheels.venv("one", "python-a", wanted) == tmp_path / "venvs" / "one"
        assert made == ["python-a"]
        assert free(lock, fcntl.LOCK_SH) and not free(lock, fcntl.LOCK_EX)  # another run uses it, and does not make it again
    while wheels.IN_USE:  # as when the run ends
        wheels.IN_USE.pop().close()
    assert free(lock, fcntl.LOCK_EX)
    wheels.venv("one", "python-b", wanted)
    wanted.write_text("meson==1\n")
    while wheels.IN_USE:
        wheels.IN_USE.pop().close()
    wheels.venv("one", "python-b", wanted)
    assert made == ["python-a", "python-b", "python-b"]
    while wheels.IN_USE:
        wheels.IN_USE.pop().close()
