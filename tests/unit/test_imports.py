"""`spprof report --imports`, beside what the modules themselves measured."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys

import pytest
from spprof_file import Writer

from spprof.cli import main
from spprof.report.imports import LOADING, module_name

# A module's own time, measured by itself, without what it imports.
MODULE = """
import time
began = time.thread_time()
for _ in range({rounds}): sum(range(20000))
took = time.thread_time() - began
{imports}
"""

# One that goes on until it was sampled: no other thread is sampled, so all these samples are its own.
UNTIL_SAMPLED = """
import spprof
wanted = spprof.stats()["taken"] + 10
while spprof.stats()["taken"] < wanted: sum(range(2000))
took = 0
{imports}
"""
NAMES = {(0, "app"), (1, "shop"), (2, "shop.price"), (3, "tax")}


def modules(text):
    """(depth, name) -> (total ns, own ns)."""
    found = {}
    row = r"^ +([\d.]+) (m?s) +[\d.]+% ±\S+ +([\d.]+) (m?s)  ( *)(\S.*)$"
    units = {"s": 1e9, "ms": 1e6}
    for total, kind, own, own_kind, indent, name in re.findall(row, text, re.M):
        found[len(indent) // 2, name] = float(total) * units[kind], float(own) * units[own_kind]
    return found


def imported(folder, text):
    """The times that the modules of a program measured, and those in the report."""
    package = folder / "shop"
    package.mkdir()
    (package / "__init__.py").write_text(text.format(rounds=300, imports="from . import price"))
    (package / "price.py").write_text(text.format(rounds=600, imports="import tax"))
    (folder / "tax.py").write_text(text.format(rounds=900, imports=""))
    (folder / "app.py").write_text(
        "import sys\n"
        "def later():\n  import shop\n"
        "later()\n"
        "print({name: sys.modules[name].took for name in ('shop', 'shop.price', 'tax')})\n"
    )

    def spprof(*command):
        reported = {**os.environ, "PYTHONIOENCODING": "utf-8"}
        return subprocess.run(
            [sys.executable, "-m", "spprof", *command], cwd=folder, stdout=subprocess.PIPE, timeout=120, check=True,
            env=reported, encoding="utf-8",
        ).stdout  # fmt: skip

    took = ast.literal_eval(spprof("run", "-q", "-o", "p.spprof", "app.py"))
    return took, spprof


def test_modules_are_below_those_that_import_them(tmp_path):
    _, spprof = imported(tmp_path, UNTIL_SAMPLED)
    reported = spprof("report", "--imports", "--min-share", "0", "p.spprof")
    found = modules(reported)
    assert [each for each in found if each in NAMES] == sorted(NAMES), reported  # spprof may have been sampled too
    assert all(found[each][1] > 0 for each in NAMES - {(0, "app")}), reported


@pytest.mark.statistical("one in 10,000 by chance: 5 % of some 1,800 samples are four deviations; a full machine adds nothing")
def test_times_are_those_that_modules_measure(tmp_path):
    took, spprof = imported(tmp_path, MODULE)
    reported = spprof("report", "--imports", "--min-share", "3", "p.spprof")
    found = modules(reported)
    assert {each for each in found if each[1] != LOADING} == NAMES
    whole = found[0, "app"][0]
    for depth, name in (1, "shop"), (2, "shop.price"), (3, "tax"):
        assert found[depth, name][1] == pytest.approx(1e9 * took[name], abs=0.05 * whole), (name, reported)
    assert found[2, "shop.price"][0] == pytest.approx(1e9 * (took["shop.price"] + took["tax"]), abs=0.05 * whole)


def test_by_hand(tmp_path, capsys):
    """Functions that run while a module is imported are its; so is an import within one of them."""

    def frame(name, file, line=1):
        return (name, name, file, line, line)

    app, a, b = (frame("<module>", f"/usr/lib/python3.12/{name}.py") for name in ("app", "a", "pack/__init__"))
    system = frame("_find_and_load", "<frozen importlib._bootstrap>")
    native = ("read", "read", "/lib/libc.so.6", 1, 1, 0, -1, -1, 1)
    writer = Writer(native="yes")
    stacks = [
        ([app], 1000), ([app, frame("f", "/x.py")], 200), ([app, system], 30), ([app, system, native], 4),
        ([app, system, a], 5000), ([app, system, a, frame("g", "/x.py"), system, b], 600), ([frame("thread", "/x.py")], 70),
        ([app, system, frame("finder", "/x.py")], 8),
    ]  # fmt: skip
    for at, (stack, weight) in enumerate(stacks):
        writer.sample(stack, 20000 * (at + 1), 10 * weight)
    writer.flush()
    (tmp_path / "p.spprof").write_bytes(writer.data)
    assert main(["report", "--imports", "--min-share", "0", str(tmp_path / "p.spprof")]) == 0
    assert modules(capsys.readouterr().out) == {
        (0, "app"): (68.42e6, 12e6), (1, "a"): (56e6, 50e6), (2, "pack"): (6e6, 6e6), (1, LOADING): (0.42e6, 0.42e6),
    }  # fmt: skip
    assert main(["report", "--imports", "--min-share", "50", str(tmp_path / "p.spprof")]) == 0
    assert list(modules(capsys.readouterr().out)) == [(0, "app"), (1, "a")]
    for refused in ["--format", "markdown"], ["--by", "file"]:
        assert main(["report", "--imports", *refused, str(tmp_path / "p.spprof")]) == 2


def test_no_imports(tmp_path, capsys):
    (tmp_path / "p.spprof").write_bytes(Writer().data)
    assert main(["report", "--imports", str(tmp_path / "p.spprof")]) == 0
    assert "No module was imported" in capsys.readouterr().out


@pytest.mark.parametrize(
    "file, name",
    [("shop/price.py", "shop.price"), ("shop/__init__.py", "shop"), ("/usr/lib/python3.12/http/server.py", "http.server"),
     ("/srv/app.py", "/srv/app.py"), ("C:\\srv\\app.py", "C:\\srv\\app.py"), ("<string>", "<string>"),
     ("__init__.py", "__init__")],
)  # fmt: skip
def test_names_of_modules(file, name):
    assert module_name(file) == name
