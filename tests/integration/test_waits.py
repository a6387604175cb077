"""Calls that wait are not ended by a tick, nor early: of seven kinds (bench/calls.c), by clock, beside the run alone. Of
1,400 in the gate, of 20,000 in the long form."""

import json
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ran import runner
from refused import CALLS
from switches import core_of_linux
from test_calls import tool

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE, TARGET, REFUSED = ROOT / "bench" / "calls.c", ROOT / "bench" / "targets" / "calls.py", ROOT / "tests" / "refused.py"
FEW, MANY = 1_400, 20_000
KERNEL = tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])
KINDS = ["nanosleep", "select", "futex", "semaphore", "poll", "epoll_wait", "recv"]
pytestmark = pytest.mark.skipif(not core_of_linux(), reason="elsewhere ticks are no signals")


def what_became_of_them(folder, library, times, *around):
    """By kind of call: how many there were, and how many were ended, early, or failed."""
    says = folder / "says.json"
    runner(folder)(*around, TARGET, library, times, env={"BENCH_SAYS": str(says)})
    return json.loads(says.read_text())["kinds"]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    made = tmp_path_factory.mktemp("library") / "calls.so"
    subprocess.run([tool("gcc", "it makes a library"), "-O2", "-shared", "-fPIC", "-o", made, SOURCE], check=True)
    return made


@pytest.fixture(scope="module")
def alone(tmp_path_factory, library):
    """By how many there are."""
    ran = {}

    def run(times):
        if times not in ran:
            ran[times] = what_became_of_them(tmp_path_factory.mktemp("alone"), library, times)
        return ran[times]

    return run


def profiled(folder, library, times, clock, *options):
    """The same with a profiler. Perf events are refused to clocks that do not need them."""
    probe = [sys.executable, "-c", f"from spprof import _core; _core.choose_clock({clock!r})"]
    refused = subprocess.run(probe, stderr=subprocess.PIPE, text=True)
    if refused.returncode:
        assert "PermissionError" in refused.stderr, refused.stderr
        pytest.skip(f"the system refuses the clock {clock}")
    around = [REFUSED, "perf_event_open", sys.executable] if clock in ("signal", "timer") and CALLS else []
    run = [
        *options,
        "-m",
        "spprof",
        "run",
        "-q",
        "--clock",
        clock,
        "--rate",
        "10000",
        "-f",
        "spprof",
        "-o",
        folder / "out.spprof",
    ]
    kinds = what_became_of_them(folder, library, times, *around, *run)
    import spprof

    profile = spprof.Profile.load(folder / "out.spprof")
    assert profile.clock == clock
    return kinds, profile.stats["taken"]


# Those that promise it (docs/clocks.md). Before Linux 6.16 ticks of perf-trap come as those of perf.
CLOCKS = ["perf-trap", "signal", "timer"] if KERNEL >= (6, 16) else ["signal", "timer"]
SHORT = [pytest.param((clock, FEW), id=clock) for clock in CLOCKS]
LONG = [pytest.param((clock, MANY), id=f"{clock}-{MANY}", marks=pytest.mark.stress) for clock in CLOCKS]


@pytest.fixture(scope="module", params=SHORT + LONG)
def watched(request, tmp_path_factory, library):
    clock, times = request.param
    kinds, taken = profiled(tmp_path_factory.mktemp(clock), library, times, clock)
    # In the long form a run without ticks would say nothing. How many there are is the machine's affair: on a full one the looks
    # of the clock `signal` come after twenty threads that switch all the time.
    assert times == FEW or taken > 50
    return clock, times, kinds


@pytest.mark.parametrize("kind", KINDS)
def test_no_call_is_ended_or_early(alone, watched, kind):
    _, times, kinds = watched
    one, before = kinds[kind], alone(times)[kind]
    assert one["calls"] == before["calls"] > times / 14
    assert (one["ended"], one["early"], one["failed"]) == (before["ended"], before["early"], before["failed"])


def test_no_call_is_ended_where_faulthandler_is_on(tmp_path, alone, library):
    """As under pytest and with -X dev. Its handlers are of signals that end the process, not a call."""
    kinds, _ = profiled(tmp_path, library, FEW, "signal", "-X", "faulthandler")
    ended = {kind: one["ended"] - alone(FEW)[kind]["ended"] for kind, one in kinds.items()}
    assert not any(ended.values()), ended
