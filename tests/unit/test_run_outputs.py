"""What becomes of the files of a run with children that is one file in the end: only what that file has wholly is removed."""

from __future__ import annotations

import argparse
import errno
import fnmatch
import os
import subprocess
import sys

import pytest
from spprof_file import Writer

from spprof import Profile, formats
from spprof.launching.outputs import Outputs
from spprof.launching.run import Run

fcntl = pytest.importorskip("fcntl")

FRAME = ("f", "f", "/app/x.py", 1, 2)


class Ended:
    """A run whose program has ended, with quiet output as o.collapsed."""

    def __init__(self, folder):
        self.folder = folder
        self.run = Run.__new__(Run)
        self.run.lost = False
        self.run.options = argparse.Namespace(quiet=True)
        self.run.conversion = formats.Options()
        self.run.outputs = Outputs(str(folder / "o.collapsed"), None, "x.py", True, False)
        self.run.outputs.started(1)
        self.own = self._write(self.run.outputs.stream, "run", 1)

    def child(self, pid, ended=True, **header):
        return self._write(f"{self.run.outputs.stem}.{pid}.spprof", "child", pid, ended, **header)

    def _write(self, path, begun, pid, ended=True, **header):
        writer = Writer(run=self.run.outputs.run, begun=begun, pid=pid, **header)
        writer.sample([FRAME], 5100, 100)
        writer.flush()
        if ended:
            writer.json(b"E", {"stop_ns": 6_000_000, "reason": "exit"})
        with open(path, "wb") as file:
            file.write(writer.data)
        return os.path.basename(path)

    def left(self):
        """The files, when the result is where it was asked for."""
        self.run._finish(None, False)
        return set(os.listdir(self.folder))


@pytest.fixture
def ended(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Ended(tmp_path)


def gone():
    """The id of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return process.pid


def test_files_that_the_result_has_wholly_are_removed(ended):
    ended.child(2)
    assert ended.left() == {"o.collapsed"}


def test_a_child_that_ends_while_the_result_is_made_keeps_its_file(ended, monkeypatch):
    ended.child(2)
    growing = ended.child(3, ended=False)
    child = open(growing, "r+b")
    fcntl.flock(child, fcntl.LOCK_EX)
    convert = Outputs._convert

    def and_end(*arguments):
        convert(*arguments)
        child.close()

    monkeypatch.setattr(Outputs, "_convert", and_end)
    assert ended.left() == {"o.collapsed", growing}


def test_without_locks_the_files_of_children_that_live_stay_as_they_are(ended, monkeypatch):
    def flock(file, how):
        raise OSError(errno.ENOLCK, "")

    monkeypatch.setattr(fcntl, "flock", flock)
    ended.child(gone(), ended=False)
    growing = ended.child(os.getpid(), ended=False)
    before = os.path.getsize(growing)
    ended.run.outputs.finish("exit")
    assert ended.left() == {"o.collapsed", growing} and os.path.getsize(growing) == before


def test_a_child_that_cannot_be_read_costs_only_itself(ended, capsys):
    ended.child(2)
    unreadable = ended.child(3, version=99)
    assert ended.left() == {"o.collapsed", unreadable}
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"spprof: the result is without {unreadable}, which stays: ") and not ended.run.lost


def test_where_the_result_lacks_something_all_files_stay(ended, monkeypatch, capsys):
    monkeypatch.setattr(Profile, "_timed_imports", lambda profile: [])
    child = ended.child(2)
    assert ended.left() == {"o.collapsed", ended.own, child}
    (line,) = capsys.readouterr().err.splitlines()
    assert "o.collapsed does not have the times of imports" in line and child in line and ended.own in line


def test_where_there_is_no_result_all_files_are_named(ended, monkeypatch, capsys):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "it is full")

    monkeypatch.setattr(Outputs, "_convert", full)
    child = ended.child(2)
    assert ended.left() == {ended.own, child} and ended.run.lost
    assert capsys.readouterr().err.splitlines()[-1] == f"spprof: the profile is in {ended.own} {child}"


@pytest.mark.parametrize("given", ["t/arch.spprof", None])
def test_the_files_of_many_children_are_a_pattern_that_finds_them_all(tmp_path, monkeypatch, given):
    """Also the program's own, which -o has named like none of its children's."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").mkdir()
    run = Run.__new__(Run)
    run.outputs = Outputs(given, None, "arch", True, False)
    run.outputs.started(1)
    paths = [run.outputs.stream, *(f"{run.outputs.stem}.{pid}.spprof" for pid in range(2, 30))]
    words = run._files(paths).split()
    found = [path for word in words for path in paths if fnmatch.fnmatchcase(os.path.relpath(path), word)]
    assert sorted(found) == sorted(paths) and len(words) <= 2
