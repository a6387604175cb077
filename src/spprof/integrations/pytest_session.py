"""What `pytest --spprof` does: one profile of the session, or one of each test; the slowest tests in pytest's summary."""

from __future__ import annotations

import os
import re
import threading
import zlib
from typing import Any, Dict, Generator, List, NamedTuple, Optional, Tuple

import pytest

from .. import _core, formats
from ..errors import SpprofError
from ..files.names import fitting
from ..files.output import Output
from ..files.profile import Profile
from ..model.filtering import filtered
from ..recording import api
from ..recording.options import Options, usual_mode
from ..report.paths import short

LONGEST = 140  # bytes of a file's name: eCryptfs takes 143
TESTS, LINES = 5, 3  # shown in the summary; of lines, those that took 1 % of their test at least


class Slow(NamedTuple):
    """One of the slowest tests. `profile` holds it, or all tests and is to be cut."""

    seconds: float
    test: str
    start_ns: int
    stop_ns: int
    profile: Optional[Profile]


def begin(config: Any) -> None:
    """Arranges for it, in this process or in its workers (pytest-xdist). Raises UsageError for a bad option."""
    name = config.getoption("spprof_format")
    if name not in formats.FORMATS:
        raise pytest.UsageError(f"--spprof-format: {name!r} does not exist: choose one of {', '.join(formats.FORMATS)}")
    worker = getattr(config, "workerinput", None)
    if worker is None:
        config.pluginmanager.register(Summary(config), "spprof-summary")
        if config.getoption("dist", "no") != "no" and config.getoption("tx", None):
            return  # tests run in workers
    config.pluginmanager.register(Profiling(config, worker["workerid"] if worker else ""), "spprof-session")


def _chosen(config: Any) -> Tuple[List[str], str]:
    """Events and mode."""
    events: List[str] = config.getoption("spprof_event") or ["time"]
    return events, config.getoption("spprof_mode") or usual_mode(events)


class Profiling:
    """In the process that runs tests."""

    def __init__(self, config: Any, worker: str) -> None:
        self.config = config
        self.worker = worker
        self.thread = str(threading.get_native_id())
        self.each = config.getoption("spprof") == "test"
        self.format = config.getoption("spprof_format")
        self.folder = os.path.join(str(config.invocation_params.dir), config.getoption("spprof_dir"))
        self.slowest: List[Slow] = []
        self.files = 0
        self.problems: List[str] = []
        try:
            events, mode = _chosen(config)
            self.options = Options(rate=config.getoption("spprof_rate"), mode=mode, events=events)
            os.makedirs(self.folder, exist_ok=True)
            self._start("session")  # from here on, to profile what pytest imports
            if self.each:
                api.stop()  # it works
        except (SpprofError, OSError) as error:
            raise pytest.UsageError(f"--spprof: {error}") from None

    def _path(self, what: str, extension: str) -> str:
        """`session`, or a test's own name, distinct from names that look alike; of each worker for itself."""
        plain = re.sub(r"[^\w.\[\]-]+", "_", what)
        if self.each and plain != what:
            plain += f"-{zlib.crc32(what.encode('utf-8', 'backslashreplace')):08x}"
        return os.path.join(self.folder, fitting(plain, (f".{self.worker}" if self.worker else "") + extension, LONGEST))

    def _start(self, what: str) -> None:
        path = None if self.format != "spprof" or (self.each and what == "session") else self._path(what, ".spprof")
        if path is not None:
            Output(path, "spprof")  # which refuses to replace what is none
        api.begin(self.options, path)

    def _stop(self, what: str) -> Optional[Profile]:
        try:
            profile = api.stop()
            if self.format != "spprof":
                profile.save(self._path(what, formats.FORMATS[self.format].extension), self.format)
        except (SpprofError, OSError) as error:
            self.problems.append(f"{what}: {error}")
            return None
        self.files += 1
        return profile

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: Any) -> Generator[None, object, object]:
        test = item.nodeid
        if self.each:
            try:
                self._start(test)
            except (SpprofError, OSError) as error:
                self.problems.append(f"{test}: {error}")
        start = _core.now_ns()
        try:
            return (yield)
        finally:
            stop = _core.now_ns()
            profile = self._stop(test) if self.each else None
            if profile is not None or not self.each:
                self.slowest.append(Slow((stop - start) / 1e9, test, start, stop, profile))
                self.slowest.sort(key=lambda slow: -slow.seconds)
                del self.slowest[TESTS:]

    def pytest_sessionfinish(self, session: Any) -> None:
        whole = None if self.each else self._stop("session")
        report = {"tests": [self._shown(slow, whole) for slow in self.slowest], "files": self.files, "problems": self.problems}
        if self.worker:
            self.config.workeroutput["spprof"] = report
        else:
            session.config.pluginmanager.getplugin("spprof-summary").reports.append(report)

    def _shown(self, slow: Slow, whole: Optional[Profile]) -> Dict[str, Any]:
        profile = slow.profile if slow.profile is not None else whole
        lines: List[str] = []
        if profile is not None:
            part = filtered(profile, thread=self.thread, start_ns=slow.start_ns, stop_ns=slow.stop_ns)
            rows = part.functions(by="line")
            weight = sum(row.self_weight for row in rows) or 1
            for row in rows[:LINES]:
                if row.self_weight >= 0.01 * weight:
                    place = f" ({short(row.file)}:{row.line})" if row.line else ""
                    lines.append(f"{_amount(row.self_weight, part.unit)} {row.self_weight / weight:6.1%}  {row.qualname}{place}")
        return {"seconds": slow.seconds, "test": slow.test, "lines": lines}


def _amount(weight: int, unit: str) -> str:
    return f"{weight / 1e9:9.3f} s" if unit == "nanoseconds" else f"{weight:11,}"


class Summary:
    """In the process that prints: the slowest tests of all processes."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.reports: List[Dict[str, Any]] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """xdist's: a worker has ended."""
        report = getattr(node, "workeroutput", {}).get("spprof")
        self.reports += [report] if report else []

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        write = terminalreporter.write_line
        terminalreporter.section("slowest tests, by spprof")
        tests = sorted((test for report in self.reports for test in report["tests"]), key=lambda test: -test["seconds"])
        for test in tests[:TESTS]:
            write(f"{test['seconds']:.3f} s  {test['test']}")
            for line in test["lines"]:
                write("  " + line)
        for problem in (problem for report in self.reports for problem in report["problems"]):
            write(f"spprof: {problem}", yellow=True)
        events, mode = _chosen(self.config)
        kind = {"wall": "wall time", "cpu": "CPU time"}[mode] if "time" in events else events[0].partition("=")[0]
        write(f"Lines: {kind} of the thread that runs the tests. Profiles in {self.config.getoption('spprof_dir')}: "
              f"{sum(report['files'] for report in self.reports)} files.")  # fmt: skip
