"""A thread's clock begins again: functions before and after have what the thread's own clock says, and nothing crosses over."""

import signal

import pytest
from ran import TARGETS

from spprof import _core
from spprof.model import OFF_CPU

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGURG"), reason="the ways are those of Linux")
WAYS = ["pause", "signal", "stopped", "fork"]
CLOCKS = ["signal", "perf", "timer"]


def is_there(clock):
    try:
        _core.choose_clock(clock)
    except OSError:
        return False
    return True


@pytest.mark.statistical(
    "1 in 1,000,000 by chance: 5 standard deviations of 2.4 ms, since each step to the next sample is drawn; a busy machine may "
    "lose more"
)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_functions_on_both_sides_have_what_they_ran(mode, clock, way, run_python, tmp_path):
    if not is_there(clock):
        pytest.skip(f"the system refuses the clock {clock}")
    ran = run_python("-W", "ignore", TARGETS / "stop_and_go.py", tmp_path / "out.spprof", mode, clock, way)
    truth, weights = ran.json, {}
    for sample in ran.profile.samples():
        for name in {frame.name for frame in sample.frames} & {*truth, "between"}:
            if not sample.flags & OFF_CPU:
                weights[name] = weights.get(name, 0) + sample.weight
    step = 10_000_000 if clock == "timer" else 0  # the kernel's tick
    off = {name: (weights.get(name, 0) - ns) / 1e6 for name, ns in truth.items()}
    assert {name: ms for name, ms in off.items() if abs(ms) * 1e6 > 12_000_000 + step} == {}
    assert "between" not in weights
