"""Clocks that the program froze or replaced: freezegun, time-machine and many a fixture do so. Ours go on."""

from __future__ import annotations

import calendar
import logging
import random
import re
import time

import pytest

import spprof
from spprof import _core
from spprof.integrations import web
from spprof.integrations.wsgi import SpprofMiddleware

pytest_plugins = ["pytester"]

CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "thread_time")
really_sleep = time.sleep


@pytest.fixture
def frozen(monkeypatch):
    for name in CLOCKS:
        monkeypatch.setattr(time, name, lambda: 4711)
    monkeypatch.setattr(time, "gmtime", lambda *given: time.struct_time((1999, 1, 1, 0, 0, 0, 0, 1, 0)))
    monkeypatch.setattr(time, "strftime", lambda *given: "frozen")


def test_the_cores_clocks_are_the_systems():
    before = time.time_ns()
    assert before <= _core.unix_ns() + 16_000_000  # Windows' clock goes in steps
    first = _core.now_ns()
    really_sleep(0.01)
    assert _core.now_ns() - first >= 9_000_000


def test_the_header_says_when(frozen):
    before = _core.unix_ns()
    spprof.start()
    profile = spprof.stop()
    assert before <= profile.header["start_unix_ns"] <= _core.unix_ns()


def test_a_requests_time(frozen, tmp_path, caplog):
    def app(environ, start_response):
        really_sleep(0.05)
        return [b"done"]

    wrapped = SpprofMiddleware(app, slower_than=0.04, folder=tmp_path, format="collapsed")
    quick = SpprofMiddleware(lambda environ, start_response: [b"done"], slower_than=3600.0, folder=tmp_path / "quick")
    before = web._when(_core.unix_ns() - 10**9)
    with caplog.at_level(logging.WARNING, "spprof"):
        wrapped({"REQUEST_METHOD": "GET", "PATH_INFO": "/slow"}, lambda *given: None)
        wrapped.recorder.finish()
        quick({"REQUEST_METHOD": "GET", "PATH_INFO": "/quick"}, lambda *given: None)
        quick.recorder.finish()
    assert not caplog.records and not (tmp_path / "quick").exists()
    (file,) = tmp_path.iterdir()
    when, seconds = re.fullmatch(r"(\d{8}T\d{6})-GET-slow-([\d.]+)s-[0-9a-f]{12}\.collapsed", file.name).groups()
    assert before <= when <= web._when(_core.unix_ns()) and float(seconds) >= 0.05


def test_times_in_names_are_the_calendars():
    rng = random.Random(4711)
    moments = [0, 951_782_400, 951_868_799, 951_868_800, 4_107_542_399, *(rng.randrange(300 * 365 * 86400) for _ in range(2000))]
    for seconds in moments:
        when = web._when(seconds * 10**9 + 999_999_999)
        parts = re.fullmatch(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)", when).groups()
        assert calendar.timegm(tuple(map(int, parts))) == seconds


SUITE = """\
import time
import pytest

really_sleep = time.sleep

@pytest.fixture(scope="session", autouse=True)
def frozen():
    real = {name: getattr(time, name) for name in CLOCKS}
    for name, clock in real.items():
        setattr(time, name, lambda value=clock(): value)
    yield
    for name, clock in real.items():
        setattr(time, name, clock)

def test_long():
    really_sleep(0.3)

def test_short():
    really_sleep(0.1)
"""


@pytest.mark.parametrize("option", ["--spprof", "--spprof=test"])
def test_the_plugins_times(option, pytester, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(test_suite=SUITE.replace("CLOCKS", repr(CLOCKS)))
    result = pytester.runpytest_subprocess("-p", "spprof.integrations.pytest_plugin", option, timeout=100)
    result.assert_outcomes(passed=2)
    times = {name: float(took) for took, name in re.findall(r"^([\d.]+) s  test_suite.py::(\w+)$", result.stdout.str(), re.M)}
    assert times["test_long"] >= 0.3 and times["test_short"] >= 0.1  # a sleep is never shorter
    assert result.stdout.str().count("  test_long (test_suite.py:16)") == 1
