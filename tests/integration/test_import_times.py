"""Exact times of imports, against -X importtime of the same interpreter."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import time
from collections import Counter

import pytest

import spprof
from spprof.cli import main
from spprof.model.imports import never_called


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """A package and modules around it; gone again afterwards."""
    files = {
        "outer_m.py": "import inner_m, package_m.deep.leaf_m\nfrom package_m import sibling_m\nused = inner_m.used\n",
        "inner_m.py": "import time\nimport small_m\ndef used(): return 1\ntime.sleep(0.02)\n",
        "small_m.py": "def helper(): pass\nhelper()\n",
        "package_m/__init__.py": "",
        "package_m/deep/__init__.py": "import small_m\n",
        "package_m/deep/leaf_m.py": "class Leaf:\n    def __init__(self): pass\n",
        "package_m/sibling_m.py": "try:\n    import not_there_m\nexcept ImportError:\n    pass\nimport broken_or_not_m\n",
        "broken_or_not_m.py": "import importlib\nimportlib.import_module('late_m')\n",
        "late_m.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0].endswith("_m")]:
        del sys.modules[name]


EXPECTED = [
    (0, "outer_m"), (1, "inner_m"), (2, "small_m"), (1, "package_m.deep.leaf_m"), (2, "package_m.deep"), (3, "package_m"),
    (1, "package_m.sibling_m"), (2, "not_there_m"), (2, "broken_or_not_m"), (3, "late_m"),
]  # fmt: skip


def tree(rows):
    depths = []
    for row in rows:
        depths.append(0 if row.parent < 0 else depths[row.parent] + 1)
    return [(depth, row.name) for depth, row in zip(depths, rows)]


def test_the_tree_and_its_times(modules):
    spprof.start(imports=True)
    before = time.monotonic_ns()
    import outer_m

    after = time.monotonic_ns()
    profile = spprof.stop()
    rows = [row for row in profile.imports if row.name.split(".")[0].endswith("_m")]
    first = profile.imports.index(rows[0])
    assert tree([row._replace(parent=row.parent - first if row.parent >= first else -1) for row in rows]) == EXPECTED
    by_name = {row.name: row for row in rows}
    assert by_name["outer_m"].total_ns <= after - before
    assert by_name["inner_m"].self_ns >= 20_000_000  # it sleeps for so long
    assert sum(row.self_ns for row in rows) == by_name["outer_m"].total_ns
    assert all(0 <= row.self_ns <= row.total_ns and before <= row.began_ns <= after for row in rows)
    assert [row.name for row in rows if row.failed] == ["not_there_m"]
    assert by_name["inner_m"].file == str(modules / "inner_m.py") and by_name["not_there_m"].file == ""
    assert outer_m.used() == 1


def test_equal_to_importtime(tmp_path):
    """Order and nesting of a program that imports much by statements."""
    program = "import http.server, xml.dom.minidom, asyncio.base_events, unittest.mock, sqlite3.dbapi2\n"
    source, path = tmp_path / "x.py", tmp_path / "p.spprof"
    source.write_text("import sys; sys.stderr.write('begin\\n'); sys.stderr.flush()\n" + program + "sys.stderr.write('end\\n')\n")
    command = [sys.executable, "-X", "importtime", "-m", "spprof", "run", "-q", "--imports", "-o", str(path), str(source)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 0
    printed = done.stderr.rpartition("begin\n")[2].partition("end\n")[0]
    lines = re.findall(r"^import time: +(\d+) \| +(\d+) \|( *)(\S+)$", printed, re.M)
    theirs = [(len(indent) // 2, name, int(own), int(total)) for own, total, indent, name in lines]
    rows = spprof.Profile.load(path).imports
    depths = [depth for depth, _ in tree(rows)]
    ours = sorted(zip(depths, rows), key=lambda each: (each[1].began_ns + each[1].total_ns, -each[0]))
    wanted = {name for _, name, *_ in theirs}
    ours = [each for each in ours if each[1].name in wanted]
    assert len(theirs) > 50
    assert [row.name for _, row in ours] == [name for _, name, *_ in theirs]
    assert [depth for depth, _ in ours] == [depth - theirs[-1][0] + ours[-1][0] for depth, *_ in theirs]
    below = {}  # depth -> microseconds and number of the imports whose parent is yet to come
    for (_, row), (depth, _, _, total) in zip(ours, theirs):
        within, n = below.pop(depth + 1, (0, 0))
        assert within - n <= row.total_ns / 1000 <= total + 1  # ours is within theirs, and has theirs of what it imports
        known = below.get(depth, (0, 0))
        below[depth] = known[0] + total, known[1] + 1


def test_the_flame_graph_is_that_of_the_exact_times(modules, tmp_path):
    """Of each frame, that is each import, the time with what is below it."""
    path, out = tmp_path / "p.spprof", tmp_path / "p.collapsed"
    spprof.start(imports=True, output_path=path)
    import outer_m  # noqa: F401

    rows = spprof.stop().imports
    assert main(["convert", str(path), "--imports", "--weight", "value", "--merge-threads", "-o", str(out)]) == 0
    found = Counter()
    for line in out.read_text().splitlines():
        stack, _, number = line.rpartition(" ")
        names = [re.sub(r" \[failed\]| \(.*\)", "", each) for each in stack.split(";")]
        for depth in range(len(names)):
            found[tuple(names[: depth + 1])] += int(number)
    stacks, wanted = [], Counter()
    for row in rows:
        stacks.append((*(stacks[row.parent] if row.parent >= 0 else ()), row.name))
        wanted[stacks[-1]] += row.total_ns
    assert found == wanted and ("outer_m", "package_m.sibling_m", "broken_or_not_m", "late_m") in found


def test_it_is_gone_after_the_stop(modules):
    loader = sys.modules["_frozen_importlib"]
    original = loader._find_and_load
    spprof.start(imports=True)
    assert loader._find_and_load is not original
    profile = spprof.stop()
    assert loader._find_and_load is original
    import late_m  # noqa: F401

    assert "late_m" not in [row.name for row in profile.imports]
    spprof.start()
    assert loader._find_and_load is original
    assert spprof.stop().imports is None


def test_tracebacks_are_as_ever(modules):
    spprof.start(imports=True)
    try:
        with pytest.raises(ModuleNotFoundError) as caught:
            import not_there_m  # noqa: F401
    finally:
        spprof.stop()
    assert [entry.name for entry in caught.traceback] == ["test_tracebacks_are_as_ever"]


def test_modules_that_nobody_called(modules):
    spprof.start(imports=True, calls=True)
    import outer_m

    outer_m.used()
    profile = spprof.stop()
    names = [row.name for row in never_called(profile.imports, profile.calls) if row.name.split(".")[0].endswith("_m")]
    assert set(names) == {
        "outer_m", "small_m",
        "package_m", "package_m.deep", "package_m.deep.leaf_m", "package_m.sibling_m", "broken_or_not_m", "late_m"
    }  # fmt: skip


def test_the_report(tmp_path, capsys):
    source, path = tmp_path / "x.py", tmp_path / "p.spprof"
    source.write_text("import colorsys\n")
    command = [sys.executable, "-m", "spprof", "run", "-q", "--imports", "-o", str(path), str(source)]
    assert subprocess.run(command, timeout=120).returncode == 0
    assert main(["report", str(path), "--imports", "--min-share", "0"]) == 0
    text = capsys.readouterr().out
    assert "imports took" in text and re.search(r"ms +\S+ ms  colorsys$", text, re.M) and "With --calls, too" in text
    assert main(["report", str(path), "--imports", "--thread", "x"]) != 0
    command[5:5] = ["--calls"]
    assert subprocess.run(command, timeout=120).returncode == 0
    assert main(["report", str(path), "--imports"]) == 0
    lazy = capsys.readouterr().out.partition("No other file called a function")[2]
    assert "colorsys" in lazy
