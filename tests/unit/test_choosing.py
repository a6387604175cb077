"""`--focus`, `--hide`, `--show` of report, why, convert and open, on stacks whose figures are worked out by hand."""

from __future__ import annotations

import re

import pytest
from test_html import Page
from test_owntree import DUMPS, FIND, LOAD, LOOP, MAIN, PANDAS, READ, ROW, ZLIB, profile_of

from spprof import BadOption, Profile
from spprof.cli import main
from spprof.report.choosing import chosen

STACKS = (
    ([MAIN, LOAD, READ, LOOP], 300), ([MAIN, LOAD, READ], 100), ([MAIN, LOAD, DUMPS], 150), ([MAIN, LOAD, ZLIB], 50),
    ([MAIN, ROW], 200), ([MAIN, FIND, PANDAS], 100), ([READ], 100),
)  # fmt: skip


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.spprof").write_bytes(profile_of(*STACKS).raw())
    return "p.spprof"


@pytest.fixture
def stacks(file, capsysbinary):
    """What `convert` makes of it with these options: a stack's names -> its samples."""

    def made(*options):
        assert main(["convert", file, "-f", "collapsed", "-o", "-", "--merge-threads", *options]) == 0
        lines = capsysbinary.readouterr().out.decode().splitlines()
        rows = {}
        for line in lines:
            stack, _, number = line.rpartition(" ")
            names = tuple(name.split(" ")[0] for name in stack.split(";"))
            rows[names] = rows.get(names, 0) + int(number)
        return rows

    return made


def test_focus_keeps_whole_stacks(stacks):
    assert stacks("--focus", "Row.parse") == {("<module>", "Row.parse"): 200}
    assert stacks("--focus", "pandas") == {
        ("<module>", "load", "read_csv", "loop"): 300, ("<module>", "load", "read_csv"): 100,
        ("<module>", "_find_and_load", "<module>"): 100, ("read_csv",): 100,
    }  # fmt: skip
    assert sum(stacks("--focus", "libz*", "--focus", "dumps").values()) == 200


def test_what_is_hidden_is_its_callers(stacks):
    assert stacks("--hide", "pandas", "--hide", "importlib") == {
        ("<module>", "load"): 400, ("<module>", "load", "dumps"): 150, ("<module>", "load", "deflate"): 50,
        ("<module>", "Row.parse"): 200, ("<module>",): 100, ("[no",): 100,
    }  # fmt: skip
    assert stacks("--show", "/app/*", "--show", "json") == {
        ("<module>", "load"): 450, ("<module>", "load", "dumps"): 150, ("<module>", "Row.parse"): 200, ("<module>",): 100,
        ("[no",): 100,
    }  # fmt: skip
    assert stacks("--focus", "load", "--hide", "row.py", "--show", "loop") == {("loop",): 300, ("[no",): 300}


def test_every_verb_takes_them(file, capsys, tmp_path):
    options = ["--focus", "load", "--hide", "pandas"]
    assert main(["report", file, *options]) == 0
    text = capsys.readouterr().out
    assert text.startswith("Only stacks with load, what is not pandas; the tick stats are the whole profile's.\n")
    assert "600 samples" in text and "read_csv" not in text and re.search(r"0\.400 s +66\.7% .*load", text)
    assert main(["report", file, "--format", "tree", *options]) == 0
    assert "loop" not in capsys.readouterr().out
    assert main(["why", file, *options]) == 0
    text = capsys.readouterr().out
    assert "load (/app/shop/__init__.py:3) itself: 66.7%" in text and "p.spprof --focus load --hide pandas --callers" in text
    assert main(["convert", file, "-o", "p.svg", *options]) == 0
    picture = (tmp_path / "p.svg").read_text()
    assert "only stacks with load, what is not pandas" in picture and "read_csv" not in picture and "dumps" in picture
    assert main(["open", file, "--no-browser", "-o", "p.html", *options]) == 0
    about = Page((tmp_path / "p.html").read_bytes()).about
    assert about["warning"].startswith("Only stacks with load, what is not pandas; ") and "read_csv" not in about["strings"]
    assert main(["open", "p.html", "--no-browser", *options]) == 2


def test_a_copy_of_the_file_has_its_whole_stacks(file, capsys, tmp_path):
    assert main(["convert", file, "-o", "q.spprof", "--hide", "load"]) == 2
    assert "do not fit the format spprof" in capsys.readouterr().err
    assert main(["convert", file, "-o", "q.spprof", "--focus", "load"]) == 0
    assert sum(Profile.load("q.spprof").column("count")) == 600


def test_what_names_nothing_is_said(file, capsys):
    assert main(["report", file, "--hide", "lode"]) == 2
    assert "'lode' (* and ? are allowed); there is load" in capsys.readouterr().err


def test_of_several_processes_one_may_lack_it():
    one, other = profile_of(([MAIN, LOAD], 1)), profile_of(([MAIN, ROW], 1))
    first, second = chosen([one, other], ["load"])
    assert len(first) == 1 and second == set()
    with pytest.raises(BadOption):
        chosen([other], ["load"])


def test_all_types_of_samples_are_shaped(file):
    """What one type shows, all do."""
    from spprof.model.shaping import shaped

    profile = Profile.load(file)
    (ids,) = chosen([profile], ["pandas"])
    part = shaped(profile, ids, "words")
    assert part.header["part"] == "words" and len(part) == len(profile)
    assert all(len(each.aggregate()) == len(part.aggregate()) for each in part.each_type())


def test_brackets_of_a_name_are_themselves(tmp_path):
    """As of operators of C++, and of folders."""
    profile = profile_of(([MAIN, ("at", "Row::operator[](int)", "/app/[id]/row.py", 1, 2)], 10), ([MAIN, ROW], 5))
    for pattern in ("Row::operator[](int)", "*operator[]*", "/app/[id]/row.py", "/app/[id]/*"):
        (found,) = chosen([profile], [pattern])
        assert [profile.frame(id).name for id in found] == ["at"]
