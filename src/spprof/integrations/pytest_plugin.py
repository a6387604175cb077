"""`pytest --spprof`. Every run of pytest loads this where spprof is installed, so all else is imported when it is asked for."""

from __future__ import annotations

import sys

import pytest

TYPE_CHECKING = False  # see spprof/__init__.py
if TYPE_CHECKING:
    from typing import Any


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("spprof", "profiles of tests (spprof)")
    group.addoption("--spprof", action="store_const", const="session", help="profile the whole session, as one")
    # Names with a value in them: an optional value would take the path that follows `--spprof`.
    group.addoption("--spprof=session", dest="spprof", action="store_const", const="session", help="the same")
    group.addoption("--spprof=test", dest="spprof", action="store_const", const="test", help="profile each test for itself")
    group.addoption("--spprof-dir", default="spprof-profiles", metavar="DIR", help="where profiles go (default spprof-profiles)")
    group.addoption("--spprof-mode", choices=("wall", "cpu"), help="all time (default) or time on the processor")
    group.addoption("--spprof-event", action="append", metavar="NAME", help="as `spprof run --event` (default time); again: both")
    group.addoption("--spprof-rate", default=1000.0, type=float, metavar="HZ", help="samples a second (default 1000)")
    group.addoption("--spprof-format", default="spprof", metavar="FORMAT", help="as `spprof convert -f` (default spprof)")


def pytest_plugin_registered(plugin: Any, manager: Any) -> None:
    """`-p spprof.integrations.pytest_plugin` (or PYTEST_PLUGINS) where spprof is installed, and so has an entry point: once is
    enough, and twice is an error of pytest's."""
    if plugin is sys.modules[__name__]:
        for name in ("spprof", __name__):
            if not manager.has_plugin(name):
                manager.set_blocked(name)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: Any) -> None:
    if config.getoption("spprof"):
        from .pytest_session import begin

        begin(config)
