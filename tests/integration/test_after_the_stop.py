"""After the stop nothing is left of what counted: no event, no callback, no profile function, no evaluator of frames."""

from __future__ import annotations

import ctypes
import dis
import gc
import importlib
import queue
import sys
import threading
from time import monotonic

import pytest

import spprof

MONITORS = sys.version_info >= (3, 12)
LONGEST = 60  # seconds until something must have happened
OPTIONS = {"calls": {"calls": True}, "calls-c": {"calls": "c"}, "imports": {"imports": True}}
if MONITORS:
    OPTIONS["calls-hot"] = {"calls": "hot"}
    OPTIONS["time"] = {"time": f"{__name__}:*"}
    OPTIONS["lines"] = {"lines": f"{__name__}:*"}
    OPTIONS["exceptions"] = {"exceptions": True}


def step(n):
    total = 0
    for i in range(n):
        try:
            total += len({i: i}[i % 7])
        except (KeyError, TypeError):
            total += 1
    return total


class Thread:
    """One that lives as long as a test, and does what it is asked to."""

    def __init__(self):
        self.asked, self.answers = queue.Queue(), queue.Queue()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        for does in iter(self.asked.get, None):
            self.answers.put(does())

    def __call__(self, does):
        self.asked.put(does)
        return self.answers.get(timeout=LONGEST)


def codes():
    return [one.__code__ for one in gc.get_objects() if type(one) is type(step)]  # isinstance() asks objects of other tests


def callbacks():
    """Of the ids that are free: which events have a callback, and which code objects an event."""
    found = []
    monitoring = sys.monitoring
    names = [name for name in dir(monitoring.events) if name.isupper() and name != "NO_EVENTS"]
    for tool in range(6):
        if monitoring.get_tool(tool) is not None:
            continue
        monitoring.use_tool_id(tool, "test_after_the_stop")
        for name in names:
            if monitoring.register_callback(tool, getattr(monitoring.events, name), None) is not None:
                found.append((tool, name))
        found += [(tool, code.co_qualname) for code in codes() if monitoring.get_local_events(tool, code)]
        if monitoring.get_events(tool):
            found.append((tool, "everywhere"))
        monitoring.free_tool_id(tool)
    return found


def evaluator():
    api = ctypes.pythonapi
    api.PyInterpreterState_Get.restype = api._PyInterpreterState_GetEvalFrameFunc.restype = ctypes.c_void_p
    api._PyInterpreterState_GetEvalFrameFunc.argtypes = [ctypes.c_void_p]
    return api._PyInterpreterState_GetEvalFrameFunc(api.PyInterpreterState_Get())


def state(thread):
    """What listens, and how. The instructions of a function are put right when it is next called."""
    step(10)
    functions = [sys.getprofile, sys.gettrace]
    found = {
        "functions": [each() for each in functions] + [thread(each) for each in functions],
        "loader": importlib._bootstrap._find_and_load,
        "gc": list(gc.callbacks),
    }
    if not MONITORS:
        return {**found, "evaluator": evaluator()}
    instructions = [one.opname for one in dis.get_instructions(step, adaptive=True) if one.opname.startswith("INSTRUMENTED")]
    tools = [sys.monitoring.get_tool(tool) for tool in range(6)]
    return {**found, "callbacks": callbacks(), "instrumented": instructions, "tools": tools}


def armed_by_hot():
    tool = next(tool for tool in (4, 3, 2) if sys.monitoring.get_tool(tool) == "spprof")
    return sys.monitoring.get_local_events(tool, step.__code__) != 0


@pytest.mark.parametrize("which", OPTIONS)
def test_nothing_listens_any_more(which):
    thread = Thread()
    before = state(thread)
    spprof.start(**OPTIONS[which])
    try:
        until = monotonic() + LONGEST
        step(1000)
        assert thread(lambda: step(1000)) == step(1000)
        while which == "calls-hot" and not armed_by_hot():
            step(1000)
            assert monotonic() < until
        during = state(thread)
    finally:
        spprof.stop()
    after = state(thread)
    thread.asked.put(None)
    assert after == before
    assert during != after  # what is looked at does show it
