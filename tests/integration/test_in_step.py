"""No interval lies: programs in step with the kernel's tick at each phase of it, for every clock that the system permits, with
perf events and without. Linux, whose clocks are looked at by that tick or are not. That all time at the tick is unknown, and no
other, is judged exactly of one short run of each clock in test_time.py."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from refused import CALLS

from spprof import Profile, _core

TESTS = Path(__file__).resolve().parent.parent
PHASES, SECONDS = 8, 0.4
# With perf events refused the signal of the ticks may be another one.
CASES = [(clock, False) for clock in ("perf", "perf-user", "signal", "timer")] + [("signal", True), ("timer", True)]
PROGRAMS = ["busy", "naps"]
# All of them together fail by chance less than once in a hundred thousand runs (Bonferroni).
LEVEL = 1 - 1e-5 / (len(CASES) * len(PROGRAMS) * PHASES * 2)

pytestmark = [
    pytest.mark.skipif(not CALLS, reason="the numbers of the system calls are not known here"),
    pytest.mark.statistical("all intervals together: 1 in 100,000 by chance (Bonferroni)"),
]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case[0] + ("-refused" if case[1] else ""))
def case(request):
    try:
        _core.choose_clock(request.param[0])
    except PermissionError:
        pytest.skip("the system refuses this clock")
    return request.param


@pytest.fixture(scope="module", params=PROGRAMS)
def runs(case, request, tmp_path_factory):
    """Of each phase the profile, the program's CPU time, and that of its two functions."""
    clock, refused = case
    folder = tmp_path_factory.mktemp("in_step")
    command = [sys.executable, TESTS / "targets" / "in_step.py", folder, clock, str(PHASES), str(SECONDS), request.param]
    if refused:
        command = [sys.executable, TESTS / "refused.py", "perf_event_open", *command]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=200)
    profiles = [Profile.load(folder / f"{phase}.spprof") for phase in range(PHASES)]
    assert {profile.clock for profile in profiles} == {clock}
    return list(zip(profiles, json.loads(done.stdout)))


def shares(profile, truth):
    """Of each function its true share, what is shown for it, and what would be if samples at the tick were as good as others."""
    own = {row.name: row.self_weight for row in profile.functions()}
    whole = profile.whole()
    for name, took in zip("ab", truth[1:]):
        yield name, took / truth[0], whole.share(own.get(name, 0), LEVEL), whole.sampled(own.get(name, 0), LEVEL)


def misses(runs, widened):
    found = []
    for phase, (profile, truth) in enumerate(runs):
        for name, true, shown, plain in shares(profile, truth):
            one = shown if widened else plain
            if not one.low <= true <= one.high:
                found.append(f"phase {phase} {name}: {true:.3f} not in {one.low:.3f} .. {one.high:.3f}, {len(profile)} samples")
    return found


def test_the_interval_holds_the_truth(runs):
    assert misses(runs, widened=True) == []


def test_time_at_the_tick_is_unknown_and_no_other(case, runs):
    unknown = [profile.whole().unknown_share for profile, _ in runs]
    if case[0] == "timer":  # which may meet no instant of a program that naps at each tick
        assert {one for one, (profile, _) in zip(unknown, runs) if len(profile)} == {1.0}
        assert all(profile.confidence_interval(0) == (0.0, 1.0) for profile, _ in runs)
    elif case[0] == "perf-user":
        assert max(unknown) < 0.5, "it is the kernel's time alone"
    else:
        assert unknown == [0.0] * PHASES


def test_without_the_widening_it_would_not_hold(case, runs):
    """Else the test above could not fail."""
    if case[0] != "timer":
        pytest.skip("a question of the clock that is in step")
    assert misses(runs, widened=False) != []
