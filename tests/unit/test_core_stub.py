"""src/spprof/_core.pyi, by which mypy checks the package, says what the extension has."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from spprof import _core

STUB = Path(__file__).resolve().parents[2] / "src" / "spprof" / "_core.pyi"
if not STUB.exists():
    pytest.skip("the tests were taken out of the tree", allow_module_level=True)
TREE = ast.parse(STUB.read_text(encoding="utf-8")).body
FUNCTIONS = {node.name: node.args for node in TREE if isinstance(node, ast.FunctionDef)}
TYPES_ALONE = {"LabelSet"}  # made by a function, in no place of the module
COUNTS = {"no": 0, "one": 1}


def test_the_names_are_those_of_the_module():
    named = set(FUNCTIONS) | {node.name for node in TREE if isinstance(node, ast.ClassDef)}
    named |= {node.target.id for node in TREE if isinstance(node, ast.AnnAssign)}
    assert named - TYPES_ALONE == {name for name in dir(_core) if not name.startswith("__")}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions_take_as_many_arguments_as_they_say(name):
    """A function of C that is given too many says how many it takes, and does nothing."""
    parameters = FUNCTIONS[name]
    with pytest.raises(TypeError, match="given") as raised:
        getattr(_core, name)(*[None] * 30)
    taken = re.search(r"takes (?:exactly |at most )?(\w+) arguments?", str(raised.value))[1]
    assert int(COUNTS.get(taken, taken)) == len(parameters.args)
