"""Other people's libraries that tests check our files with: the extra `consumers` of pyproject.toml."""

from __future__ import annotations

from importlib import import_module

import pytest
from switches import switch


def needed(module: str):
    """The module; without it the tests of the calling file are skipped, or fail where SPPROF_REQUIRE_CONSUMERS=1 (in CI)."""
    if switch("SPPROF_REQUIRE_CONSUMERS"):
        return import_module(module)
    return pytest.importorskip(module, reason=f"{module} is needed: pip install '.[consumers]'")
