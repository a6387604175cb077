"""The tree of the user's own code, on profiles whose figures are worked out by hand, and whose code a file is."""

from __future__ import annotations

import json
import re
import sys

import pytest
from spprof_file import Writer

from spprof import Profile
from spprof.cli import main
from spprof.report import native_calls, owners
from spprof.report.owners import IMPORTS, MINE, Owners
from spprof.report.paths import tails
from spprof.report.summary import summary

LIB, SITE = "/usr/lib/python3.12", "/srv/venv/lib/python3.12/site-packages"


def frame(name, file, first=1, kind=0):
    return (name.rpartition(".")[2], name, file, first, first if not kind else 0x100, 0, -1, -1, kind)


MAIN = frame("<module>", "/app/run.py")
LOAD = frame("load", "/app/shop/__init__.py", 3)
ROW = frame("Row.parse", "/app/shop/row.py", 9)
READ, LOOP = frame("read_csv", SITE + "/pandas/io.py"), frame("loop", SITE + "/pandas/core/loop.py")
DUMPS = frame("dumps", LIB + "/json/__init__.py")
FIND = frame("_find_and_load", "<frozen importlib._bootstrap>")
PANDAS, NUMPY = frame("<module>", SITE + "/pandas/__init__.py"), frame("<module>", SITE + "/numpy/__init__.py")
SHOP = frame("<module>", "/app/shop/__init__.py")
ZLIB = frame("deflate", "/usr/lib/libz.so.1", kind=1)


def profile_of(*stacks, **header):
    """Each stack with its milliseconds, and perhaps its flags."""
    writer, at = Writer(**header), 6000
    for stack, ms, *flags in stacks:
        for _ in range(ms):
            at += 1000
            writer.sample(stack, at, 1000, flags=flags[0] if flags else 0)
    writer.flush()
    return Profile(writer.data)


def tree_of(profile, *patterns, **more):
    """Rows: depth, time and words."""
    text = summary([profile], mine=patterns, **more).split("By self")[0]
    rows = re.findall(r"^ +([\d.]+ m?s) +[\d.]+% ±\S+ ( +[\d.]+ m?s)?  ( *)(\S.*)$", text, re.M)
    return [(len(indent) // 2, time, words) for time, _, indent, words in rows]


def test_a_script_that_only_calls_a_package_hints_at_mine():
    """Of libraries that are installed alone, and only if most of the time is in one: else the tree has the answer."""

    def hints(*stacks, mine=()):
        return [line for line in summary([profile_of(*stacks)], mine=mine).splitlines() if "--mine" in line]

    most = ([MAIN, LOAD, READ, LOOP], 300), ([MAIN, LOAD], 100)
    assert hints(*most) == ["Most of it is in pandas: --mine pandas shows its functions like yours."]
    assert hints(*most, mine=["pandas"]) == []
    assert hints(([MAIN, READ, LOOP], 300), ([MAIN, READ, LOOP, ROW], 301)) == []
    assert hints(([MAIN, DUMPS], 300)) == hints(([READ, LOOP], 300)) == []


def test_native_time_has_the_users_own_line_too(tmp_path, capsys):
    wrapped, direct = [MAIN, LOAD, READ, LOOP, ZLIB], [MAIN, ZLIB]
    profile = profile_of((wrapped, 300), (direct, 200), ([READ, ZLIB], 100), native="yes")
    table = summary([profile], shown="calls").splitlines()
    at = next(n for n, line in enumerate(table) if "loop (" in line)
    assert table[at].endswith("> deflate [libz.so.1]") and table[at + 1].strip() == "called by load (/app/shop/__init__.py:3)"
    at = next(n for n, line in enumerate(table) if "<module> (/app/run.py:1) >" in line)
    assert "called by" not in table[at + 1] and sum("called by" in line for line in table) == 1
    rows = json.loads(native_calls.as_json([profile], None, None))["rows"]
    assert [(row["qualname"], row["own"] and row["own"]["qualname"], row["weight"]) for row in rows] == [
        ("loop", "load", 300_000_000), ("<module>", "<module>", 200_000_000), ("read_csv", None, 100_000_000),
    ]  # fmt: skip


def test_what_is_called_in_libraries_is_one_line_each():
    profile = profile_of(
        ([MAIN, LOAD, READ, LOOP], 300), ([MAIN, LOAD, READ], 100), ([MAIN, LOAD, READ, LOOP, ROW], 200),
        ([MAIN, LOAD, DUMPS], 150), ([MAIN, LOAD, ZLIB], 50), ([MAIN, LOAD], 100),
    )  # fmt: skip
    assert tree_of(profile) == [
        (0, "0.900 s", "/app/run.py > load (/app/shop/__init__.py:3)"),
        (1, "0.600 s", "pandas"),
        (2, "0.200 s", "Row.parse (/app/shop/row.py:9)"),
        (1, "0.150 s", "json"),
        (1, "0.050 s", "libz.so.1"),
    ]
    assert (1, "0.600 s", "read_csv (pandas/io.py:1)") in tree_of(profile, "pandas")
    assert [words for _, _, words in tree_of(profile, shown="python")][1:] == ["pandas", "Row.parse (/app/shop/row.py:9)", "json"]


def test_imports_are_one_line_each():
    profile = profile_of(
        ([MAIN, FIND], 100), ([MAIN, FIND, PANDAS], 200), ([MAIN, FIND, PANDAS, FIND, NUMPY], 300),
        ([MAIN, FIND, SHOP, LOAD], 150), ([MAIN, FIND, SHOP, FIND, PANDAS], 50),
        ([MAIN, LOAD, READ, FIND, NUMPY], 100), ([MAIN], 100),
    )  # fmt: skip
    assert tree_of(profile) == [
        (0, "1.000 s", "/app/run.py"),
        (1, "0.500 s", "import pandas"),
        (1, "0.200 s", "import /app/shop/__init__.py"),
        (2, "0.150 s", "load (/app/shop/__init__.py:3)"),
        (2, "0.050 s", "import pandas"),
        (1, "0.100 s", "load (/app/shop/__init__.py:3) > pandas"),
        (1, "0.100 s", "import (finding modules)"),
    ]


def test_comprehensions_are_their_callers():
    """They have frames before Python 3.12 alone: a line of theirs would push the name of an import out of its line."""
    rates, made = frame("<dictcomp>", "/app/shop/__init__.py", 4), frame("<dictcomp>.<listcomp>", "/app/shop/__init__.py", 4)
    each = frame("load.<locals>.<setcomp>", "/app/shop/__init__.py", 5)
    later = frame("load.<locals>.<genexpr>", "/app/shop/__init__.py", 6)
    below = [MAIN, FIND, SHOP, rates, made, LOAD]
    assert tree_of(profile_of(([*below, each], 300), ([*below, each, READ], 100), ([*below, later], 100), ([each], 100))) == [
        (0, "0.500 s", "run.py > ... > load (shop/__init__.py:3)"),
        (1, "0.100 s", "pandas"),
        (1, "0.100 s", "<genexpr> (/app/shop/__init__.py:6)"),
    ]


def test_a_recursion_is_one_node_with_the_figures_of_the_table():
    """Whichever way it goes, and through a library too."""
    walk, visit = frame("walk", "/app/w.py", 1), frame("visit", "/app/w.py", 5)
    profile = profile_of(([MAIN, walk, visit, DUMPS, walk, visit, walk], 500), ([MAIN, walk, visit], 200), ([MAIN, walk], 300))
    rows = [(0, "1.000 s", "/app/run.py > walk (/app/w.py:1)"), (1, "0.700 s", "visit (/app/w.py:5)"), (2, "0.500 s", "json")]
    assert tree_of(profile) == rows
    totals = {row.qualname: row.total_weight for row in profile.functions()}
    assert (totals["walk"], totals["visit"]) == (1_000_000_000, 700_000_000)


BLACK, CLICK = frame("patched_main", SITE + "/black/__init__.py"), frame("main", SITE + "/click/core.py")
FORMAT = frame("format_file", SITE + "/black/concurrency.py", 5)
SCRIPT, GIVEN = frame("<module>", "/srv/venv/bin/black"), frame("<module>", "<string>")
SPAWN = frame("spawn_main", LIB + "/multiprocessing/spawn.py")


def test_a_command_that_somebody_else_wrote_has_its_own_tree():
    """That of the package which calls all others; its workers begin elsewhere."""
    command = [SCRIPT, BLACK, CLICK, FORMAT]
    profile = profile_of((command, 300), ([*command, DUMPS], 100), ([GIVEN, SPAWN, FORMAT], 500), ([GIVEN, SPAWN, CLICK], 100))
    assert "The code of black, and what it calls:" in summary([profile])
    assert tree_of(profile) == [
        (0, "0.600 s", "<string> > multiprocessing"),
        (1, "0.500 s", "format_file (black/concurrency.py:5)"),
        (0, "0.400 s", "black > ... > click > format_file (concurrency.py:5)"),
        (1, "0.100 s", "json"),
    ]


@pytest.mark.parametrize("own", [MAIN, GIVEN])
def test_where_some_code_is_the_users_the_tree_is_of_that(own):
    profile = profile_of(([SCRIPT, BLACK, CLICK], 500), ([own, READ], 100))
    assert "Your own code, and what it calls:" in summary([profile])


def test_a_chain_names_the_place_whatever_has_to_go():
    """The user's function that is asked for is in each line, even alone; a local function is called what it is."""
    nested = frame("handle.<locals>.<genexpr>", "/app/shop/commands.py", 8)
    names = ["Application.dispatch_request", "Controller.handle_all_of_it", "Repository.load_everything"]
    for count in range(len(names) + 1):
        for last in ROW, frame("a_name_that_is_long_for_one_line", "/app/shop/__init__.py", 4):
            calls = [frame(name, f"/app/shop/{n}.py") for n, name in enumerate(names[:count])]
            [row] = tree_of(profile_of(([*calls, last, READ], 100)))
            assert last[1] in row[2] and f":{last[3]})" in row[2]
    handle = frame("handle", "/app/shop/commands.py", 2)
    rows = tree_of(profile_of(([MAIN, handle, nested, ROW], 60), ([MAIN, handle, DUMPS], 40)))
    assert rows[1][2] == "<genexpr> > Row.parse (/app/shop/row.py:9)"


def test_it_has_about_twenty_lines_and_the_largest_calls():
    stacks = [([MAIN, frame(f"f{n}", "/app/run.py", n)], 30 + n) for n in range(1, 30)]
    rows = tree_of(profile_of(*stacks))
    assert len(rows) == 18 and [words for _, _, words in rows[1:]] == [f"f{n} (/app/run.py:{n})" for n in range(29, 12, -1)]


def test_it_has_80_columns_and_paths_that_nothing_else_ends_with():
    deep = "/srv/" + "long/" * 12
    calls = [frame("Controller.handle_request", deep + "a/views.py"), frame("Repository.load_all", deep + "b/views.py", 7)]
    [row] = tree_of(profile_of(([MAIN, *calls], 100)))
    assert row[2] == "run.py > ... > Repository.load_all (b/views.py:7)" and len(row[2]) <= 80 - 25
    assert tails(["/a/x/__init__.py", "/a/y/__init__.py", "/a/y/z.py", "z.py"]) == {
        "/a/x/__init__.py": "x/__init__.py", "/a/y/__init__.py": "y/__init__.py", "/a/y/z.py": "y/z.py", "z.py": "z.py",
    }  # fmt: skip


def test_wall_time_says_what_was_off_cpu():
    text = summary([profile_of(([MAIN, LOAD], 100, 4), ([MAIN, LOAD], 50), ([MAIN, ROW], 50), mode="wall")])
    assert re.search(r"^ +total +off CPU +function$", text, re.M)  # also without a processor, which is no waiting
    assert re.search(r"^ +0\.150 s +75\.0% ±\S+ +0\.100 s +load \(", text, re.M)
    assert re.search(r"^ +0\.050 s +25\.0% ±\S+ +0\.000 s +Row\.parse \(", text, re.M)


def test_without_code_of_the_users_there_is_no_tree():
    assert "Your own code" not in summary([profile_of(([READ, LOOP], 100))])
    assert "Your own code" not in summary([profile_of(([MAIN], 100))], by="line")


def test_the_table_ends_where_rows_say_nothing_but_has_the_users_own():
    small = [([MAIN, LOAD, frame(f"g{n}", SITE + "/pandas/g.py", n)], 1) for n in range(1, 40)]
    profile = profile_of(([MAIN, LOAD, READ], 900), *small, ([MAIN, ROW, READ], 100), ([MAIN, LOAD, DUMPS], 30))
    table = summary([profile]).split("By self time:")[1]
    names = re.findall(r"^ +[\d.]+ m?s .* (\S+) \(", table, re.M)
    assert names == ["read_csv", "dumps", "<module>", "load", "Row.parse"] and "39 more (--limit)" in table
    assert len(re.findall(r"^ +[\d.]+ m?s ", summary([profile], limit=20).split("By self time:")[1], re.M)) == 20


@pytest.mark.parametrize(
    "file, native, owner",
    [
        ("/app/x.py", False, MINE),
        ("/app/lib/x.py", False, MINE),
        (SITE + "/pandas/x.py", False, "pandas"),
        (SITE + "/six.py", False, "six"),
        (LIB + "/json/decoder.py", False, "json"),
        (LIB + "/lib-dynload/_json.cpython-312-x86_64-linux-gnu.so", True, "_json"),
        (SITE + "/numpy.libs/libopenblas.so", True, "numpy"),
        ("/usr/lib/libz.so.1", True, "libz.so.1"),
        ("/usr/lib/libpython3.12.so.1.0", True, None),
        ("<frozen importlib._bootstrap_external>", False, IMPORTS),
        ("<frozen runpy>", False, "runpy"),
        ("/srv/venv/bin/black", False, "black"),
        ("/home/me/bin/tool", False, MINE),
        ("<string>", False, None),
        ("<stdin>", False, MINE),
        ("<ipython-input-1-abc>", False, MINE),
        ("", False, None),
    ],
)
def test_whose_a_file_is(file, native, owner):
    assert Owners([SITE + "/pandas/x.py", LIB + "/json/decoder.py"]).of(file, native) == owner


@pytest.mark.parametrize("pattern", ["pandas", "pandas/*", "pan*", SITE + "/pandas/*"])
def test_patterns_make_code_the_users(pattern):
    assert Owners([], [pattern]).of(SITE + "/pandas/x.py", False) == MINE
    assert Owners([], [pattern]).of(SITE + "/numpy/x.py", False) == "numpy"


def test_code_without_a_file_is_its_callers():
    make, command = frame("__init__", "<string>", 2), frame("<module>", "<string>")
    profile = profile_of(([command, make], 500), ([MAIN, READ, make], 600))
    assert tree_of(profile) == [(0, "0.600 s", "/app/run.py > pandas"), (0, "0.500 s", "<string> > __init__ (<string>:2)")]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is of 3.11")
@pytest.mark.parametrize(
    "text, found",
    [
        ('[tool.spprof]\nmine = ["pandas", "x/*"]', ["a", "pandas", "x/*"]),
        ("[tool.spprof]\nmine = 3", ["a"]),
        ("[tool]\nspprof = 3", ["a"]),
        ("[tool", ["a"]),
    ],
)
def test_pyproject_names_more(tmp_path, monkeypatch, text, found):
    (tmp_path / "below").mkdir()
    (tmp_path / "pyproject.toml").write_text(text)
    monkeypatch.chdir(tmp_path / "below")
    assert owners.patterns(["a"]) == found


def test_the_newest_profile_is_taken_and_named(tmp_path, monkeypatch, capsys, data):
    import os

    monkeypatch.chdir(tmp_path)
    for verb in ("report", "open"):
        assert main([verb]) == 2
        assert "no .spprof file is in this folder" in capsys.readouterr().err
    for age, name in enumerate(("b.spprof", "a.spprof", "c.spprof")):
        (tmp_path / name).write_bytes(data)
        os.utime(name, (1_000_000 - age, 1_000_000 - age))
    assert main(["report"]) == 0
    reported = capsys.readouterr()
    assert reported.err == "spprof: b.spprof, the newest here\n" and reported.out.endswith("\n  spprof open b.spprof\n")
    assert main(["open", "--no-browser"]) == 0
    opened = capsys.readouterr()
    assert opened.out.rstrip().endswith("b.html") and "b.spprof, the newest here" in opened.err
