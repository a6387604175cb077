"""Exact counts of calls, against cProfile's and against a twin in Python."""

from __future__ import annotations

import cProfile
import ctypes
import gc
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
import types
from collections import Counter
from pathlib import Path

import pytest

import spprof

MONITORS = sys.version_info >= (3, 12)
TESTS = Path(__file__).resolve().parent.parent
TARGET = TESTS / "targets" / "counted.py"


def module_at(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


counted = module_at(TARGET)
OURS = os.path.dirname(spprof.__file__)


@pytest.fixture(autouse=True)
def no_garbage():
    """Finalizers run where a collection happens to be due."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    assert not spprof.is_active()
    nothing_is_armed()


def nothing_is_armed():
    assert sys.getprofile() is None
    if MONITORS:
        for tool in (2, 3, 4, 5):
            assert sys.monitoring.get_tool(tool) != "spprof"
        assert all(sys.monitoring.get_events(tool) == 0 for tool in (3, 4) if sys.monitoring.get_tool(tool))


def counts_of(work, calls=True):
    """What spprof counts while `work` runs."""
    spprof.start(calls=calls)
    try:
        work()
    finally:
        profile = spprof.stop()
    assert profile.calls is not None and not profile.calls.missing
    return profile.calls


def is_foreign(file):
    """Of neither counter; and not what runs when the last reference goes, which a counter may have."""
    own = ("cProfile.py", "_weakrefset.py", "weakref.py")
    return not file.startswith(OURS) and file not in (__file__, "~") and os.path.basename(file) not in own


def by_function(calls):
    """Both new and resumed generators: cProfile does not separate the two."""
    found = Counter()
    for call in calls.rows:
        if not call.function.native and is_foreign(call.function.file):
            found[call.function.file, call.function.line, call.function.name] += call.calls + call.resumes
    return found


def by_place(calls):
    found = Counter()
    for call in calls.rows:
        caller = call.caller
        if is_foreign(call.function.file) and not call.function.native:
            where = (caller.file, caller.name, call.line) if caller and is_foreign(caller.file) else None
            found[call.function.file, call.function.name, call.function.line, where] += call.calls + call.resumes
    return found


def of_cprofile(work):
    profile = cProfile.Profile(builtins=False)
    profile.enable()
    try:
        work()
    finally:
        profile.disable()
    found = Counter()
    for entry in profile.getstats():  # pstats would keep one of several code objects of the same name and line
        if not isinstance(entry.code, str) and is_foreign(entry.code.co_filename):
            found[entry.code.co_filename, entry.code.co_firstlineno, entry.code.co_name] += entry.callcount
    return found


def closed_because_watched(case):
    """From 3.13 on the close of a generator that is at a plain yield runs nothing of it, unless somebody listens for its end, as
    cProfile and sys.setprofile do: what only they see of each function, recorded by callbacks in Python."""
    if sys.version_info < (3, 13):
        return Counter()
    found = [Counter(), Counter()]
    monitoring, events = sys.monitoring, sys.monitoring.events
    for number, more in enumerate((events.PY_UNWIND, 0)):

        def thrown(code, *others, into=found[number]):
            into[code.co_filename, code.co_firstlineno, code.co_name] += 1

        monitoring.use_tool_id(5, "closed_because_watched")
        monitoring.register_callback(5, events.PY_THROW, thrown)
        monitoring.register_callback(5, events.PY_UNWIND, lambda *others: None)
        monitoring.set_events(5, events.PY_THROW | more)
        try:
            case()
        finally:
            monitoring.set_events(5, 0)
            monitoring.free_tool_id(5)
    return found[0] - found[1]


def flat(places):
    """The same by function as cProfile names it."""
    found = Counter()
    for (file, name, line, _), count in places.items():
        found[file, line, name] += count
    return found


class Twin:
    """A profile function in Python."""

    def __init__(self):
        self.found = Counter()

    def __call__(self, frame, event, argument):
        if event == "call" and is_foreign(frame.f_code.co_filename):
            code, back = frame.f_code, frame.f_back
            where = None
            if back is not None and is_foreign(back.f_code.co_filename):
                where = (back.f_code.co_filename, back.f_code.co_name, back.f_lineno or 0)
            self.found[code.co_filename, code.co_name, code.co_firstlineno, where] += 1

    def run(self, work):
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            work()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        return self.found


@pytest.mark.parametrize("case", counted.CASES, ids=lambda case: case.__name__)
def test_counts_are_cprofiles(case):
    case()  # what is imported and cached at the first time
    expected = of_cprofile(case)
    assert by_function(counts_of(case)) == expected - closed_because_watched(case)
    assert expected


def test_counts_of_jumps_are_cprofiles():
    """Out of deep recursion, of generators, of handlers, of loops without an end."""
    jumps = module_at(TESTS / "torture" / "cases" / "jumps.py")

    def work():
        jumps.main(1)

    work()
    assert by_function(counts_of(work)) == of_cprofile(work) - closed_because_watched(work)


LAZILY = {  # a name that is loaded when it is first used, in line 3
    "LazyLoader": """
def go():
    return lazily.use(4) + lazily.use(1)
spec = importlib.util.find_spec("lazily")
spec.loader = importlib.util.LazyLoader(spec.loader)
lazily = sys.modules["lazily"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lazily)
""",
    "lazy import": """
def go():
    return lazily.use(4) + lazily.use(1)
lazy import lazily
""",
    "lazy from": """
def go():
    return use(4) + use(1)
lazy from lazily import use
""",
}


@pytest.mark.parametrize("kind", LAZILY)
def test_counts_of_a_lazy_import_are_cprofiles(kind, tmp_path, monkeypatch):
    """Its loading is called by the line that first uses it, with all that the module's own body calls."""
    if kind != "LazyLoader" and sys.version_info < (3, 15):
        pytest.skip("PEP 810 is of 3.15")
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "lazily.py"
    file.write_text("def leaf():\n    return 1\n\ndef use(n):\n    return sum([leaf() for _ in range(n)])\n\nuse(3)\n")
    code = compile(LAZILY[kind], str(tmp_path / "user.py"), "exec")

    def is_loaded():
        module = sys.modules.get("lazily")
        return module is not None and "use" in object.__getattribute__(module, "__dict__")

    def work():
        sys.modules.pop("lazily", None)
        names = {"importlib": importlib, "sys": sys}
        exec(code, names)
        assert not is_loaded()
        assert names["go"]() == 5 and is_loaded()

    work(), work()  # what is cached at the first time
    found = counts_of(work)
    assert by_function(found) == of_cprofile(work) - closed_because_watched(work)
    assert {f.name: n for f, (n, _) in found.functions().items() if f.file == str(file)} == {
        "<module>": 1, "use": 3, "leaf": 8, **({"<listcomp>": 3} if sys.version_info < (3, 12) else {}),
    }  # fmt: skip
    assert by_place(found) == Twin().run(work)
    sys.modules.pop("lazily", None)


@pytest.mark.parametrize("case", counted.CASES, ids=lambda case: case.__name__)
def test_places_are_those_of_a_twin(case):
    case()
    expected, found = Twin().run(case), by_place(counts_of(case))
    watched = closed_because_watched(case)
    assert flat(found) == flat(expected) - watched
    assert not found - expected  # no place is another one
    if not watched:
        assert found == expected


# As `python -m tests.torture.counts` does it with all.
AGAINST = {
    "at-once": "counted.threads,counted.event_loops,libraries.pools,libraries.tasks,libraries.databases",
    "apart": "counted.generators,counted.callbacks_from_c,libraries.parsers,libraries.pickles,libraries.enumerations",
    "cProfile": "counted.coroutines,libraries.encoders,libraries.data_classes,libraries.logs",
}


@pytest.mark.parametrize("how", AGAINST)
def test_counts_are_those_of_an_oracle_in_c(tmp_path, how):
    """A profile function in a module of its own, in a process of its own."""
    include = Path(sysconfig.get_path("include"))
    if shutil.which("cc") is None or not (include / "Python.h").exists():
        pytest.skip("no C compiler, or no Python.h")
    library = tmp_path / "counter.so"
    command = ["cc", "-shared", "-fPIC", f"-I{include}", str(TESTS / "native" / "counter.c"), "-o", str(library)]
    subprocess.run(command, check=True)
    command = [sys.executable, str(TESTS / "torture" / "counting.py"), str(library), AGAINST[how], how]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=120)
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]  # others are a program's
    assert [one["name"] for one in said] == AGAINST[how].split(",")
    assert [(one["name"], one["differ"], one["missing"]) for one in said if one["differ"] or one["missing"]] == []
    assert all(one["calls"] for one in said)


def of(calls, name):
    """Calls and resumes of a function of the target."""
    return {function.name: both for function, both in calls.functions().items() if function.file == str(TARGET)}[name]


def test_resumes_are_no_calls():
    def work():
        list(counted.counting(7))
        for _ in counted.counting(3):
            pass
        one = counted.counting(2)
        next(one)
        with pytest.raises(KeyError):
            one.throw(KeyError)

    calls = counts_of(work)
    assert of(calls, "counting") == (3, 7 + 3 + 1)
    assert of(calls, "leaf") == (11, 0)


def test_every_thread_is_counted():
    n = 8
    calls = counts_of(lambda: counted.threads(n))
    assert of(calls, "work_in_thread") == (2 * n, 0)
    assert of(calls, "leaf") == (sum(range(n)) + 100 * n, 0)
    assert of(calls, "fibonacci") == (2 * n * 15, 0)


def test_threads_that_run_at_the_start_are_counted():
    go, done = threading.Event(), threading.Event()

    def wait():
        ready.set()
        go.wait()
        for i in range(1000):
            counted.leaf(i)
        done.set()

    ready = threading.Event()
    thread = threading.Thread(target=wait)
    thread.start()
    ready.wait()

    def work():
        go.set()
        done.wait()

    calls = counts_of(work)
    thread.join()
    assert of(calls, "leaf") == (1000, 0)
    nothing_is_armed()


def test_raw_threads_are_counted():
    import _thread

    def work():
        for _ in range(20):
            lock = _thread.allocate_lock()
            lock.acquire()
            _thread.start_new_thread(lambda lock=lock: (counted.leaf(), lock.release()), ())
            lock.acquire()

    assert of(counts_of(work), "leaf") == (20, 0)


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="with a GIL all threads have one table")
def test_a_thread_keeps_its_table_when_another_ones_ends_on_it():
    """As where a thread's state is cleared by another thread: of each call from then on it would claim another one."""
    kept, borrowed = [], ctypes.pythonapi.PyThreadState_GetDict
    borrowed.restype = ctypes.c_void_p

    def dict_here():
        return ctypes.cast(borrowed(), ctypes.py_object).value

    def work():
        thread = threading.Thread(target=lambda: kept.append((counted.leaf(), dict_here())[1]))
        thread.start()
        thread.join()
        counted.leaf()
        own = dict_here()["spprof.calls"]
        assert kept.pop().pop("spprof.calls") is not own  # that is the end of it
        counted.leaf()
        counted.leaf()
        assert dict_here()["spprof.calls"] is own

    assert of(counts_of(work), "leaf") == (4, 0)


def test_functions_in_c():
    def work():
        some = []
        for i in range(9):
            some.append(i)
        len(some), len("a")
        str.upper("a"), "b".upper()

    calls = counts_of(work, "c")
    mine = {
        call.function.qualname: call.calls
        for call in calls.rows
        if call.function.native and call.caller and call.caller.file == __file__
    }
    assert (mine["list.append"], mine["builtins.len"], mine["str.upper"]) == (9, 2, 2)
    assert not any(call.function.native for call in counts_of(work).rows)


@pytest.mark.skipif(sys.version_info < (3, 13), reason="not each way of calling it has an event")
def test_a_function_in_c_as_a_method_of_an_object():
    def work():
        method, none = types.MethodType(len, "abc"), ()
        assert method() + method(*none) == 6

    assert calls_in_c(counts_of(work, "c"), "builtins.len") == 2


def test_a_method_in_c_is_its_own_types_whichever_is_first():
    class Own(dict):
        pass

    def work():
        first, second = Own().get, {}.get
        first(1), second(1)

    calls = counts_of(work, "c")
    assert (calls_in_c(calls, "dict.get"), calls_in_c(calls, "Own.get")) == (2, 0)


def test_a_method_of_a_metaclass_is_its_own_types_and_new_is_none_of_a_types():
    class First:
        pass

    class Second:
        pass

    def work():
        First.mro(), Second.mro()
        int.__new__(int), tuple.__new__(tuple)

    calls = counts_of(work, "c")
    assert (calls_in_c(calls, "type.mro"), calls_in_c(calls, "First.mro")) == (2, 0)
    assert (calls_in_c(calls, "__new__"), calls_in_c(calls, "int.__new__")) == (2, 0)


def test_what_spprof_asks_of_asyncio_is_no_call_of_the_programs():
    import asyncio  # whose tasks spprof looks at between two instructions of the program

    assert asyncio
    calls = counts_of(lambda: [counted.leaf() for _ in range(10_000)])
    assert {call.function.file for call in calls.rows if not call.function.file.startswith(OURS)} <= {__file__, str(TARGET)}


def test_a_pause_is_not_counted():
    spprof.start(calls=True)
    counted.leaf()
    spprof.pause()
    counted.leaf()
    spprof.resume()
    counted.leaf()
    profile = spprof.stop()
    assert of(profile.calls, "leaf") == (2, 0)


def test_after_the_stop_nothing_is_armed():
    for calls in (True, "c"):
        counts_of(counted.plain, calls)
        nothing_is_armed()
    spprof.start()
    assert sys.getprofile() is None
    assert spprof.stop().calls is None


def test_two_runs_share_nothing():
    """Nor do threads that outlive one."""
    go, done = threading.Semaphore(0), threading.Semaphore(0)

    def serve():
        for _ in range(3):
            go.acquire()
            counted.plain()
            done.release()

    def work():
        counted.leaf()
        go.release()
        done.acquire()

    thread = threading.Thread(target=serve)
    thread.start()
    found = [of(counts_of(work), "leaf") for _ in range(3)]
    thread.join()
    assert found == [(13, 0)] * 3


def test_code_objects_that_died_are_not_taken_for_others():
    def work():
        for i in range(2000):
            names = {}
            exec(f"def made_{i}(): pass\nmade_{i}()", names)

    calls = counts_of(work)
    made = {f.name: n for f, n in calls.functions().items() if f.name.startswith("made_")}
    assert len(made) == 2000 and set(made.values()) == {(1, 0)}


def test_cprofile_and_we_at_once():
    both = []
    calls = counts_of(lambda: both.append(of_cprofile(counted.generators)))
    counting = str(TARGET), counted.counting.__code__.co_firstlineno, "counting"
    assert by_function(calls)[counting] == both[0][counting] > 0


def test_a_profile_function_of_the_programs_and_we_at_once():
    twin = Twin()
    calls = counts_of(lambda: twin.run(counted.plain))
    assert of(calls, "leaf") == (12, 0) and sum(twin.found.values()) == 13


def calls_in_c(calls, name):
    """Of a function in C by this file."""
    found = [call.calls for call in calls.rows if call.function.qualname == name and call.caller and call.caller.file == __file__]
    return sum(found)


@pytest.mark.skipif(MONITORS, reason="from 3.12 on both count")
def test_a_profile_function_of_the_programs_wins_functions_in_c_and_that_is_said():
    spprof.start(calls="c")
    hash("a")
    sys.setprofile(lambda *event: None)
    hash("b"), counted.leaf()
    sys.setprofile(None)
    calls = spprof.stop().calls
    assert calls_in_c(calls, "builtins.hash") == 1 and of(calls, "leaf") == (1, 0)
    assert calls.threads_taken == 1 and "profile function" in calls.missing


@pytest.mark.skipif(MONITORS, reason="from 3.12 on both count")
def test_a_profile_function_that_was_there_first_stays():
    twin = Twin()
    sys.setprofile(twin)
    try:
        spprof.start(calls="c")
        counted.leaf()
        assert sys.getprofile() is twin
        calls = spprof.stop().calls
    finally:
        sys.setprofile(None)
    assert calls.threads_taken == 1 and twin.found and of(calls, "leaf") == (1, 0)


@pytest.mark.skipif(MONITORS, reason="from 3.12 on the two do not meet")
def test_a_program_may_put_our_profile_function_back():
    spprof.start(calls="c")
    ours = sys.getprofile()
    sys.setprofile(None)
    hash("a")
    sys.setprofile(ours)
    for _ in range(10):
        hash("b")
    del ours
    calls = spprof.stop().calls
    assert calls_in_c(calls, "builtins.hash") in (9, 10)  # it is put back at the first event
    assert sys.getprofile() is None


@pytest.mark.skipif(MONITORS, reason="from 3.12 on nobody evaluates frames for us")
def test_an_evaluator_of_frames_that_takes_our_place_is_said():
    """As a debugger's does, and ends: what is called meanwhile is not counted."""
    set_to = ctypes.pythonapi._PyInterpreterState_SetEvalFrameFunc
    set_to.argtypes, set_to.restype = [ctypes.c_void_p, ctypes.c_void_p], None
    interpreter = ctypes.pythonapi.PyInterpreterState_Get
    interpreter.restype = ctypes.c_void_p
    spprof.start(calls=True)
    counted.leaf()
    set_to(interpreter(), ctypes.cast(ctypes.pythonapi._PyEval_EvalFrameDefault, ctypes.c_void_p))
    counted.leaf()
    calls = spprof.stop().calls
    assert of(calls, "leaf") == (1, 0) and calls.threads_taken == 1 and "evaluator" in calls.missing
    assert of(counts_of(counted.leaf), "leaf") == (1, 0)


def test_calls_deeper_than_the_stack():
    """From 3.11 on a program's calls may go deeper than the C stack: it is not counting that ends it."""
    if sys.version_info < (3, 11):
        pytest.skip("there the C stack is the limit")
    depth, limit, size = 20_000, sys.getrecursionlimit(), threading.stack_size(1 << 20)
    sys.setrecursionlimit(depth + 1000)
    done = []
    thread = threading.Thread(target=lambda: done.append(counted.mutual_a(depth)))
    spprof.start(calls=True)
    try:
        thread.start()
        thread.join()
        counted.leaf()
    finally:
        calls = spprof.stop().calls
        sys.setrecursionlimit(limit)
        threading.stack_size(size)
    assert done == [0] and of(calls, "leaf") == (1, 0)
    found = of(calls, "mutual_a")[0] + of(calls, "mutual_b")[0]
    if MONITORS:
        assert found == depth + 1 and not calls.missing
    else:
        assert 100 < found < depth and calls.threads_taken == 1 and "nearly full stack" in calls.missing


@pytest.mark.skipif(not MONITORS, reason="before, C code has no depth of its own")
@pytest.mark.parametrize("more", range(4))
def test_calls_to_the_last_that_c_code_may_make(more):
    """What hears a call needs none of the depth that CPython allows C code: one of these begins at the last."""

    class Shown:
        shown = 0

        def __repr__(self):
            Shown.shown += 1
            return repr(self)

    deep = Shown()
    for _ in range(more):
        deep = [deep]
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10**6)

    def work():
        with pytest.raises(RecursionError):
            repr(deep)

    try:
        calls = counts_of(work)
    finally:
        sys.setrecursionlimit(limit)
    twin = Shown.shown
    assert twin > 100
    assert {f.qualname.rpartition(".")[2]: n for f, n in calls.functions().items() if f.file == __file__}["__repr__"] == (twin, 0)
    if sys.version_info < (3, 14):  # later the depth is that of the stack in bytes
        Shown.shown = 0
        sys.setrecursionlimit(10**6)
        try:
            work()
        finally:
            sys.setrecursionlimit(limit)
        assert Shown.shown == twin


@pytest.mark.skipif(not MONITORS, reason="sys.monitoring is of 3.12")
def test_other_tools_keep_their_ids():
    taken = [tool for tool in (2, 3, 4, 5) if sys.monitoring.get_tool(tool) is None]
    for tool in taken[:-1]:
        sys.monitoring.use_tool_id(tool, "other")
    try:
        assert of(counts_of(counted.leaf), "leaf") == (1, 0)
        sys.monitoring.use_tool_id(taken[-1], "other")
        with pytest.raises(spprof.Unsupported, match=r"are taken \(other, other, other, other\)"):
            spprof.start(calls=True)
        assert not spprof.is_active()
    finally:
        for tool in taken:
            if sys.monitoring.get_tool(tool):
                sys.monitoring.free_tool_id(tool)


@pytest.mark.skipif(not MONITORS, reason="sys.monitoring is of 3.12")
def test_coverage_and_we_at_once():
    """A tool that is called for each place once, as coverage does."""
    monitoring, events, started = sys.monitoring, sys.monitoring.events, Counter()

    def hear(code, *others):
        started[code.co_name] += 1
        return monitoring.DISABLE

    if monitoring.get_tool(monitoring.COVERAGE_ID) is not None:
        pytest.skip("coverage is measuring these tests")
    monitoring.use_tool_id(monitoring.COVERAGE_ID, "other")
    try:
        for event in (events.PY_START, events.LINE):
            monitoring.register_callback(monitoring.COVERAGE_ID, event, hear)
        monitoring.set_events(monitoring.COVERAGE_ID, events.PY_START | events.LINE)
        monitoring.restart_events()
        calls = counts_of(counted.plain)
    finally:
        monitoring.set_events(monitoring.COVERAGE_ID, 0)
        monitoring.free_tool_id(monitoring.COVERAGE_ID)
    assert of(calls, "leaf") == (12, 0)
    assert started["leaf"] == 2  # its beginning and its line


def test_a_trace_function_is_left_alone():
    lines = []

    def trace(frame, event, argument):
        if frame.f_code is counted.plain.__code__ and event == "line":
            lines.append(frame.f_lineno)
        return trace

    def work():
        sys.settrace(trace)
        counted.plain()
        sys.settrace(None)

    work()
    alone, lines[:] = len(lines), []
    assert of(counts_of(work), "leaf") == (12, 0)
    assert len(lines) == alone > 0
