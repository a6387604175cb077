"""What a command line starts, by its words alone: src/spprof/launching/commands.py."""

import os

import pytest

from spprof.launching import commands

posix = pytest.mark.skipif(os.name == "nt", reason="Windows starts programs in another way")

WORDS = [
    ("python x.py a", False, ("script", ["x.py", "a"])),
    ("python3.13t -X dev -W ignore -OO x.py -I", False, ("script", ["x.py", "-I"])),
    ("python -Xdev -m mod -S", False, ("module", ["mod", "-S"])),
    ("python -mmod a", False, ("module", ["mod", "a"])),
    ("python -Im mod", True, ("module", ["mod"])),
    ("python -sE -c code", True, ("code", ["code"])),
    ("python -S -", True, ("script", ["-"])),
    ("python -- x.py", False, ("script", ["x.py"])),
    ("python", False, ("script", ["python"])),
]


@pytest.mark.parametrize("words, closed, target", WORDS, ids=[row[0] for row in WORDS])
def test_what_an_interpreter_runs(words, closed, target):
    assert (commands.is_closed(words.split()), commands.target(words.split())) == (closed, target)


@posix
def test_first_lines_are_followed_to_python(tmp_path, monkeypatch):
    def made(name, text, mode=0o755):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
        return str(tmp_path / name)

    monkeypatch.setenv("PATH", str(tmp_path))
    python = made("python", "")
    tool, split = made("tool", f"#! {python} -I\n"), made("split", "#!/usr/bin/env -S python -E -s\n")
    by_env, by_tool, shell = (
        made("by-env", "#!/usr/bin/env python\n"),
        made("by-tool", f"#!{tool}\n"),
        made("shell", "#!/bin/sh\n"),
    )
    loop = made("loop", f"#!{tmp_path}/loop\n")
    assert commands.followed([tool, "a"]) == [python, "-I", tool, "a"]
    assert commands.followed([split, "a"]) == [python, "-E", "-s", split, "a"]
    assert commands.followed([by_env]) == [python, by_env]
    assert commands.followed([by_tool]) == [python, "-I", tool, by_tool]
    assert commands.followed(["/usr/bin/env", "A=1", "tool", "a"]) == [python, "-I", tool, "a"]
    for words in ([shell], ["/usr/bin/env"], ["/usr/bin/env", "-i", "python"], ["/usr/bin/env", "nosuch"], [loop]):
        assert commands.followed(words) == []


@posix
def test_a_word_is_what_a_shell_takes_it_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name, text in (
        ("bin/tool", "#!x\n"),
        ("bin/both", "#!x\n"),
        ("both", "#!x\n"),
        ("binary", "\0"),
        ("bin/binary", "\0"),
        ("text", ""),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "plain.py").write_text("#!x\n")
    (tmp_path / "tool").mkdir()
    commanded = {"tool": "bin/tool", "binary": "bin/binary", "./both": "./both", "bin/tool": "bin/tool", "./binary": "./binary"}
    for word, file in commanded.items():
        assert os.path.samefile(commands.found(word), tmp_path / file)
    for word in ("both", "plain.py", "./plain.py", "./text", "./tool", "nosuch", "-"):
        assert commands.found(word) == ""
