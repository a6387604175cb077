"""Python code on another C stack than its thread's, a coroutine's: its stacks are whole, and its time is its own. Linux."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from judging import until_seen
from switches import switch

SOURCE = Path(__file__).resolve().parent.parent / "native" / "coroutine.c"
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="ucontext of Linux's C libraries"),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc makes the library"),
]
PLACES = {"below": 0x10000000000, "somewhere": 0, "above": 0x7FFFFF000000}
PROGRAM = """
import ctypes, json, sys, time, spprof
def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:  # read when it may have been used up: docs/troubleshooting.md, "Hardly any samples"
        until = time.monotonic() + end - time.thread_time()
        while time.monotonic() < until: sum(range(500))
def spend(name, seconds):
    clock = time.thread_time if mode == "cpu" else time.monotonic
    began = clock()
    burn(seconds)
    spent[name] = clock() - began
def inner():
    yield spend("inside", each)
def inside(): list(map(lambda _: list(inner()), [1]))
def before(): spend("before", each)
def after(): spend("after", each)
spent = {}
library, place, native, mode, clock, out = ctypes.CDLL(sys.argv[1]), *sys.argv[2:-1]
each = float(sys.argv[-1])
library.call_inside.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
callback = ctypes.CFUNCTYPE(None)(inside)
spprof.start(1, mode, out, native=native == "True", clock=clock)
before()
if library.call_inside(ctypes.cast(callback, ctypes.c_void_p), int(place)) != 0: sys.exit("no memory there")
after()
spprof.stop()
print(json.dumps([spent, spprof.stats()]))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    made = tmp_path_factory.mktemp("coroutine") / "coroutine.so"
    subprocess.run(["gcc", "-O2", "-g", "-shared", "-fPIC", "-o", made, SOURCE], check=True)
    return made


def weights_of(run_python, tmp_path, library, seconds, place, native, mode, clock):
    """The program's run, its weights and what it spent. Each sample in `burn` has the whole stack of one of the three."""
    if place == "below" and switch("SPPROF_SANITIZED"):
        pytest.skip("AddressSanitizer's own memory lies there")
    ran = run_python("-c", PROGRAM, library, PLACES[place], native, mode, clock, tmp_path / "out.spprof", seconds)
    weights = dict.fromkeys(ran.json[0], 0)
    for sample in ran.profile.samples():
        names = [frame.name for frame in sample.frames if not frame.native and frame.file == "<string>"]
        of = [name for name in names if name in weights]
        if "burn" not in names:
            continue
        assert len(of) == 1 and names[0] == "<module>", f"impossible: {names}"
        if of == ["inside"]:
            assert names[:6] == ["<module>", "inside", "<lambda>", "inner", "spend", "burn"], f"impossible: {names}"
        weights[of[0]] += sample.weight
    return ran, weights


CLOCKS = [("cpu", "auto"), ("cpu", "signal"), ("cpu", "timer"), ("wall", "auto")]
ONCE = [(place, native, "cpu", "auto") for place in PLACES for native in (False, True)]
ONCE += [("somewhere", True, *clock) for clock in CLOCKS[1:]]


@pytest.mark.parametrize("place, native, mode, clock", ONCE)
def test_python_on_another_stack_has_whole_stacks(run_python, tmp_path, library, place, native, mode, clock):
    seen, to_see = set(), {"before", "inside", "after"}
    for seconds in until_seen(seen, to_see, 0.05):
        ran, weights = weights_of(run_python, tmp_path, library, seconds, place, native, mode, clock)
        stats = ran.json[1]
        assert stats["expected"] == stats["taken"] + stats["repeated"] + sum(stats["losses"].values()), stats
        seen |= {name for name, weight in weights.items() if weight}


@pytest.mark.statistical("not measured: 5 % and two steps of the clock are allowed; a full machine may be further off")
@pytest.mark.parametrize("place", list(PLACES))
@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("mode, clock", CLOCKS)
def test_python_on_another_stack_has_its_own_time(run_python, tmp_path, library, place, native, mode, clock):
    ran, weights = weights_of(run_python, tmp_path, library, 0.3, place, native, mode, clock)
    spent, stats = ran.json
    refused = sum(n for key, n in stats["losses"].items() if key.startswith("bad_"))
    assert refused <= 1 + stats["taken"] * 0.01, json.dumps(stats["losses"])
    # Two steps of the timer's clock. What a full machine lets `signal` come late is spread over 16 samples, beyond an end too.
    near = 0.08 if ran.profile.clock == "signal" else 0.025
    for name, seconds in spent.items():
        assert weights[name] / 1e9 == pytest.approx(seconds, rel=0.05, abs=near), (name, weights, spent)
