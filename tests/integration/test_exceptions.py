"""Exact counts of exceptions, against known numbers and against a twin in Python."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from pathlib import Path

import pytest
from test_counts import module_at, nothing_is_armed

import spprof

TESTS = Path(__file__).resolve().parent.parent
OURS = os.path.dirname(spprof.__file__)
raising = module_at(TESTS / "targets" / "raises.py")
monitors = pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with 3.12")


@pytest.fixture(autouse=True, scope="module")
def imported():
    """What a profile's end imports raises exceptions."""
    if sys.version_info >= (3, 12):
        counted(raising.same_frame)


@pytest.fixture(autouse=True)
def no_garbage():
    """Finalizers run where a collection happens to be due."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    assert not spprof.is_active()
    nothing_is_armed()


def counted(work, **options):
    spprof.start(exceptions=True, **options)
    try:
        work()
    finally:
        profile = spprof.stop()
    assert profile.exceptions is not None and not profile.exceptions.missing
    return profile


def places(profile):
    """Rows of programs, without what the profiler itself raises."""
    found = Counter()
    for row in profile.exceptions.rows:
        caught = row.caught_by and (row.caught_by.file, row.caught_by.name, row.caught_line)
        if not row.raised_by.file.startswith(OURS):
            found[row.type, row.raised_by.file, row.raised_by.name, row.raised_line, caught, row.how] += row.number
    return found


class Twin:
    """Callbacks in Python that keep each exception, so that no other one has its identity."""

    def __init__(self):
        self.kept, self.rows, self.flying, self.held = [], {}, {}, {}
        self.lock = threading.Lock()

    @staticmethod
    def line_of(code, offset):
        return next((line for start, end, line in code.co_lines() if end > offset and line), 0)

    def place(self, frame):
        return frame and (frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno or 0)

    def raised(self, code, offset, error):
        frame, me = sys._getframe(1), threading.get_ident()
        with self.lock:
            if (id(error), me) in self.flying and self.flying[id(error), me][1] is frame:
                self.flying[id(error), me][1] = None
                return
            name = type(error).__qualname__
            home = type(error).__module__
            key = (name if home == "builtins" else f"{home}.{name}", *self.place(frame))
            self.kept.append(error)
            flight = [len(self.kept), None]
            self.rows[flight[0]] = (*key, self.place(frame), "c")
            self.flying[id(error), me] = flight

    def left(self, code, offset, error):
        frame, me = sys._getframe(1).f_back, threading.get_ident()
        with self.lock:
            flight = self.flying.get((id(error), me))
            if flight is not None:
                flight[1] = frame
                self.rows[flight[0]] = (*self.rows[flight[0]][:4], self.place(frame), "c" if frame else "left")

    def handled(self, code, offset, error):
        me = threading.get_ident()
        with self.lock:
            flight = self.flying.pop((id(error), me), None)
            if flight is not None:
                where = (code.co_filename, code.co_name, self.line_of(code, offset))
                self.rows[flight[0]] = (*self.rows[flight[0]][:4], where, "handler")
                self.held[id(error), sys._getframe(1)] = flight

    def again(self, code, offset, error):
        with self.lock:
            flight = self.held.pop((id(error), sys._getframe(1)), None)
            if flight is not None:
                flight[1] = None
                self.flying[id(error), threading.get_ident()] = flight

    def run(self, work):
        monitoring, events = sys.monitoring, sys.monitoring.events
        monitoring.use_tool_id(5, "twin")
        heard = {events.RAISE: self.raised, events.PY_UNWIND: self.left, events.EXCEPTION_HANDLED: self.handled}
        heard[events.RERAISE] = self.again
        for event, callback in heard.items():
            monitoring.register_callback(5, event, callback)
        monitoring.set_events(5, sum(heard))
        try:
            work()
        finally:
            monitoring.set_events(5, 0)
            for event in heard:
                monitoring.register_callback(5, event, None)
            monitoring.free_tool_id(5)
        return Counter(row for row in self.rows.values() if row[1] != __file__)


@monitors
@pytest.mark.parametrize("case", raising.CASES, ids=lambda case: case.__name__)
def test_equal_to_a_twin(case):
    case()
    ours = places(counted(case))
    twins = Twin().run(case)
    assert without_locks(ours) == without_locks(twins)
    assert without_locks(ours)  # or nothing was compared


def without_locks(counts):
    """Not the KeyErrors of importlib's weak dicts of locks, which live longer where a twin keeps what was raised."""
    return Counter({row: n for row, n in counts.items() if row[:2] != ("KeyError", "<frozen importlib._bootstrap>")})


def here(counts):
    """What the target itself raised: (type, function) and (function or None, how) to count."""
    result = Counter()
    for (kind, file, name, _, caught, how), n in counts.items():
        if os.path.basename(file) == "raises.py":
            result[kind, name, caught and caught[1], how] += n
    return result


@monitors
@pytest.mark.parametrize("case, expected", [
    ("same_frame", {("KeyError", "same_frame", "same_frame", "handler"): 10}),
    ("through_frames", {("raises.Own", "fail", "through_frames", "handler"): 1}),
    ("second_clause", {("raises.Own.Inner", "fail", "second_clause", "handler"): 1}),
    ("again", {("ValueError", "fail", "again", "handler"): 1}),
    ("named_again", {("ValueError", name, "named_again", "handler"): 1 for name in ("fail", "named_again")}),
    ("finally_goes_on", {("ValueError", "fail", "finally_goes_on", "handler"): 1}),
    ("exit_ends_it", {("ValueError", "fail", "within", "handler"): 1}),
    ("same_object_twice", {("ValueError", "same_object_twice", "same_object_twice", "handler"): 4}),
    ("iterator_in_python", {("StopIteration", "__next__", "iterator_in_python", "c"): 2}),
    ("swallowed_by_c", {("AttributeError", "__getattr__", "swallowed_by_c", "c"): 10}),
    ("constructors", {("raises.Own", "__init__", "constructors", "handler"): 20}),
    ("in_threads", {("ValueError", "fail", "work", "handler"): 200}),
    ("generators", {("StopIteration", "generators", "generators", "handler"): 1}),
])  # fmt: skip
def test_known_numbers(case, expected):
    run = getattr(raising, case)
    assert here(places(counted(run))) == expected
    profile = counted(lambda: [run() for _ in range(3)])
    assert here(places(profile)) == {key: 3 * n for key, n in expected.items()}


@monitors
def test_lines_frames_and_time():
    profile = counted(lambda: raising.through_frames(30))
    (row,) = (row for row in profile.exceptions.rows if row.type == "raises.Own")
    source = (TESTS / "targets" / "raises.py").read_text().splitlines()
    assert source[row.raised_line - 1].strip() == 'raise kind("no")'
    assert source[row.caught_line - 1].strip() == "except Own:"
    assert row.frames == 32 and row.ns > 0  # fail, and down 31 times
    assert row.raised_by.qualname == "fail" and row.caught_by.qualname == "through_frames"


@monitors
def test_beside_calls_times_and_another_tool():
    """Each has a tool of its own."""
    profiles, twin = [], Twin()
    rows = twin.run(lambda: profiles.append(counted(raising.again, calls=True, time=f"{raising.__name__}:*")))
    target = Counter({row: n for row, n in rows.items() if os.path.basename(row[1]) == "raises.py"})
    assert target == Counter({row: n for row, n in places(profiles[0]).items() if os.path.basename(row[1]) == "raises.py"})
    assert sum(target.values()) == 1
    assert {f.name: n for f, (n, _) in profiles[0].calls.functions().items()}["fail"] == 1
    assert {timed.function.name: (timed.calls, timed.raised) for timed in profiles[0].times.functions}["fail"] == (1, 1)


@monitors
def test_beside_coverage():
    coverage = pytest.importorskip("coverage")
    traced = coverage.Coverage(data_file=None, include=[str(TESTS / "targets" / "raises.py")], config_file=False)
    traced.start()
    try:
        profile = counted(raising.through_frames, calls=True)
    finally:
        traced.stop()
    assert here(places(profile)) == {("raises.Own", "fail", "through_frames", "handler"): 1}
    assert {f.name: n for f, (n, _) in profile.calls.functions().items()}["down"] == 31
    assert traced.get_data().lines(str(TESTS / "targets" / "raises.py"))


@monitors
def test_paused_and_flushed(tmp_path):
    path = tmp_path / "p.spprof"
    spprof.start(exceptions=True, output_path=path)
    raising.same_frame()
    spprof.flush()
    flushed = places(spprof.Profile.load(path))
    spprof.pause()
    raising.same_frame()
    spprof.resume()
    raising.same_frame()
    profile = spprof.stop()
    row = ("KeyError", "same_frame", "same_frame", "handler")
    assert (here(flushed)[row], here(places(profile))[row]) == (10, 20)
    assert here(places(spprof.Profile.load(path)))[row] == 20


@monitors
def test_a_type_is_named_when_it_is_gone():
    def work():
        kind = type("Brief", (Exception,), {"__module__": "some.where"})
        try:
            raise kind
        except Exception:
            pass

    assert {row.type for row in counted(work).exceptions.rows} == {"some.where.Brief"}


@monitors
def test_a_program_to_its_end(tmp_path):
    """Also what nobody catches, and a child's own counts."""
    source, path = tmp_path / "x.py", tmp_path / "p.spprof"
    source.write_text(
        textwrap.dedent("""
        import os
        def fails():
            raise LookupError
        for _ in range(7):
            try:
                fails()
            except LookupError:
                pass
        if hasattr(os, "fork") and os.fork() == 0:
            try:
                fails()
            except LookupError:
                os._exit(0)
        raise OSError("the end")
    """)
    )
    command = [sys.executable, "-m", "spprof", "run", "-q", "--exceptions", "-o", str(path), str(source)]
    assert subprocess.run(command, stderr=subprocess.DEVNULL, timeout=120).returncode == 1
    counts = places(spprof.Profile.load(path))
    found = {(kind, name, how): n for (kind, file, name, _, _, how), n in counts.items() if file == str(source)}
    assert found == {("LookupError", "fails", "handler"): 7, ("OSError", "<module>", "left"): 1}


@monitors
def test_all_that_is_counted_exactly_at_once():
    """Each of these has an id of its own."""

    def fails():
        raise KeyError

    def catches():
        try:
            fails()
        except KeyError:
            return True

    chosen = f"{__name__}:*catches"
    spprof.start(calls=True, time=[chosen], lines=[chosen], exceptions=True)
    try:
        catches()
    finally:
        profile = spprof.stop()
    (raised,) = [row for row in profile.exceptions.rows if row.raised_by.name == "fails"]
    (timed,), (lined,) = profile.times.functions, profile.line_counts.functions
    (calls,) = [row.calls for row in profile.calls.rows if row.function.name == "catches"]
    assert (raised.number, timed.calls, lined.calls, calls) == (1, 1, 1, 1)


@monitors
@pytest.mark.parametrize("free, options", [((), {}), ((3,), {"calls": True}), ((3, 2), {"calls": True, "time": "a:b"})])
def test_without_a_free_tool(free, options):
    taken = [tool for tool in (2, 3, 4, 5) if tool not in free]
    for tool in taken:
        sys.monitoring.use_tool_id(tool, "test")
    try:
        with pytest.raises(spprof.Unsupported, match="exceptions cannot be counted: the ids 2 to 5 of sys"):
            spprof.start(exceptions=True, **options)
        assert not spprof.is_active() and [sys.monitoring.get_tool(tool) for tool in free] == [None] * len(free)
    finally:
        for tool in taken:
            sys.monitoring.free_tool_id(tool)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="3.12 and later can")
def test_older_versions_refuse(tmp_path):
    with pytest.raises(spprof.Unsupported, match=r"sys.monitoring came with 3.12. Run the program with Python 3.12 or later"):
        spprof.start(exceptions=True)
    command = [sys.executable, "-m", "spprof", "run", "--exceptions", "-o", str(tmp_path / "p.spprof"), "-c", "print('ran')"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode != 0 and "3.12 or later" in done.stderr and done.stdout == ""
    assert not list(tmp_path.iterdir())
