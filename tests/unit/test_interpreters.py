"""What cannot read tools/interpreters.py, the list of interpreters, says what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "interpreters.py"
if not TOOL.exists():
    pytest.skip("the tests were taken out of the tree", allow_module_level=True)


def listed(kind):
    return subprocess.run([sys.executable, str(TOOL), kind], check=True, stdout=subprocess.PIPE, text=True).stdout.split()


def test_each_released_interpreter_has_a_layout_and_no_other():
    layouts = {re.sub(r"^layout_3(\w+)$", r"3.\1", path.stem) for path in (ROOT / "csrc" / "py").glob("layout_3*.h")}
    assert {name for name in layouts if "_" not in name} == set(listed("released"))


def test_pip_and_cibuildwheel_take_the_released_ones():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    released = listed("released")
    assert f'requires-python = ">={released[0]},<3.{int(released[-1].rstrip("t")[2:]) + 1}"' in text
    built = re.search(r'^build = "(.*)"$', text, re.M)[1].split()
    of_itself = re.search(r"CIBW_BUILD: (\S+)", (ROOT / ".github" / "workflows" / "wheels.yml").read_text(encoding="utf-8"))[1]
    assert sorted([*built, of_itself]) == sorted(f"cp{name.replace('.', '')}-*" for name in released)


def test_one_page_names_the_first_and_the_last_one():
    """The README names the first one and has a link to it."""
    released = listed("released")
    span = f"{released[0]} to {released[-1].rstrip('t')}"
    assert span in (ROOT / "docs" / "platforms.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert released[0] in readme and "](docs/platforms.md)" in readme and span not in readme


def test_the_table_of_layouts_has_a_row_for_each():
    rows = re.findall(r"^\| (3\.\w+) \| `(layout_\w+\.h)`", (ROOT / "docs" / "layouts.md").read_text(encoding="utf-8"), re.M)
    assert rows == [(name, f"layout_{name.replace('.', '')}.h") for name in listed("released")]


def test_no_workflow_has_a_list_of_its_own():
    for workflow in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        assert not re.search(r'"3\.\w+", *"3\.', workflow.read_text(encoding="utf-8")), workflow.name
