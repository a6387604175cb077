"""What each verb that reads a profile says of a path that is none: one line with what to do, and exit code 2."""

import os

import pytest

from spprof.cli import main

READERS = {
    "report": ["report"],
    "why": ["why"],
    "open": ["open", "--no-browser"],
    "convert": ["convert", "-o", "x.svg"],
    "diff": ["diff"],
    "symbolize": ["symbolize"],
}
SAID = {
    "none.spprof": "No such file or directory",
    "wrong.spprof": "not a .spprof file",
    "folder": "folder is a folder: give a file in it",
    "prog.py": "prog.py: not a .spprof file",
    "4711": "4711 is a process id, and a file is wanted",
    "--nosuch": "there is no option --nosuch",
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.spprof").write_text("hello world\n")
    (tmp_path / "prog.py").write_text("x = 1\n")  # which is a collapsed stack, too
    (tmp_path / "folder").mkdir()


def failed(words, capsys):
    try:
        code = main(words)
    except SystemExit as end:  # argparse
        code = end.code
    return code, capsys.readouterr()


@pytest.mark.parametrize("verb", READERS)
@pytest.mark.parametrize("path", SAID)
def test_a_path_that_is_no_profile(place, capsys, verb, path):
    files = ["a.spprof", "b.spprof"] if path.startswith("-") else [path] * 2
    code, said = failed([*READERS[verb], *files[: 1 + (verb == "diff")], *[path] * path.startswith("-")], capsys)
    (line,) = said.err.splitlines()
    assert code == 2 and said.out == "" and line.startswith("spprof") and SAID[path] in line
    assert path != "prog.py" or verb == "symbolize" or line.endswith("but a program: `spprof run` takes a profile of it")


@pytest.mark.parametrize("verb", READERS)
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root and Windows open every file")
def test_a_profile_that_may_not_be_read(place, capsys, verb):
    os.chmod("wrong.spprof", 0)
    code, said = failed([*READERS[verb], *["wrong.spprof"] * (2 if verb == "diff" else 1)], capsys)
    assert code == 2 and said.err.count("\n") == 1 and "wrong.spprof: Permission denied" in said.err
