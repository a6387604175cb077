"""Tests that tools name, to run them or to leave them out: one that has another name by now is neither run nor left out."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "tools").is_dir():
    pytest.skip("the tests were taken out of the tree", allow_module_level=True)
NAMED = re.compile(r"(?:tests/integration/|\")(test_\w+\.py)::(test_\w+)")


@pytest.mark.parametrize("tool", ["aarch64", "check", "matrix"])
def test_every_test_that_is_named_is_there(tool):
    named = NAMED.findall((ROOT / "tools" / tool).read_text())
    assert named
    for file, name in named:
        assert f"\ndef {name}(" in (ROOT / "tests" / "integration" / file).read_text(), f"{file}::{name}"
