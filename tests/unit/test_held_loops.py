"""What held the event loop of a task that is ready: at its instant, by the samples of the loop's thread."""

import pytest

from spprof.model import held_loops
from spprof.model.blame import NOBODY
from spprof.model.held_loops import READY, Hold
from spprof.model.records import OFF_CPU

MS = 1_000_000
BEFORE, AFTER = 3, 7  # stacks


def held(instant, *time):
    """What holds the loop at an instant in ms; of each sample of its thread the end, the weight, the flags and the stack."""
    ready = {"thread": [0], "time_ns": [int(instant * MS)], "weight": [5]}
    names = ("time_ns", "weight", "flags", "keys")
    columns = dict(zip(names, map(list, zip(*((int(end * MS), int(weight * MS), *rest) for end, weight, *rest in time)))))
    columns.update(thread=[0] * len(time), task=columns["keys"])
    [(place, hold, ns)] = held_loops.holds(ready, [READY], columns, MS)
    assert (place, ns) == (0, 5) and hold.thread == 0 and hold.task == max(hold.stack, 0)
    return hold.stack


@pytest.mark.parametrize(
    "instant, time, stack",
    [
        (10.2, [(10, 1, 0, BEFORE), (11, 1, 0, AFTER)], BEFORE),  # a sample of what ran is an instant
        (10.8, [(10, 1, 0, BEFORE), (11, 1, 0, AFTER)], AFTER),
        (10.2, [(10, 1, 0, BEFORE), (14, 4, OFF_CPU, AFTER)], AFTER),  # off the CPU it is a time
        (12.0, [(10, 1, 0, BEFORE), (14, 1.5, OFF_CPU, AFTER)], AFTER),
        (11.0, [(10, 1, 0, BEFORE), (14, 1.5, OFF_CPU, AFTER)], BEFORE),
        (20.0, [(10, 1, 0, BEFORE)], BEFORE),
        (20.1, [(10, 1, 0, BEFORE)], NOBODY),  # too far
    ],
)
def test_the_nearest_says_it(instant, time, stack):
    assert held(instant, *time) == stack


def test_without_samples_of_time_nobody_is_known():
    ready = {"thread": [4], "time_ns": [MS], "weight": [5]}
    assert list(held_loops.holds(ready, [READY], None, MS)) == [(0, Hold(4, 0, NOBODY), 5)]
