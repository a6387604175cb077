"""Packages that spprof works in: extra `hosts` of pyproject.toml."""

from __future__ import annotations

import importlib

import pytest
from switches import switch


def host(*names):
    """The packages; without one of them a test is skipped, or fails if SPPROF_REQUIRE_HOSTS is set (CI, where they are)."""
    if switch("SPPROF_REQUIRE_HOSTS"):
        return [importlib.import_module(name) for name in names]
    return [pytest.importorskip(name, reason=f"{name} is not installed (pip install '.[hosts]')") for name in names]
