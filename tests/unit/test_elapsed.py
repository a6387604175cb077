"""What a summary says of time on and off the CPU: the words, and the time that several processes took together."""

import pytest
from spprof_file import Writer

from spprof import Profile
from spprof.report.tick_stats import elapsed, tick_stats, used_by_others

SECOND = 1_000_000_000


def profile_of(wall, cpu, began=None, ready=0.0, others=0.0, **header):
    if began is not None:
        header["start_unix_ns"] = int((1_000_000 + began) * SECOND)
    writer = Writer(**header)
    writer.sample([("f", "f", "a.py", 1, 2)], 6000, 1000)
    writer.flush()
    stats = {"clock": "perf", "expected": 1, "taken": 1, "repeated": 0, "losses": {}}
    times = {"wall_ns": wall, "cpu_ns": cpu, "first_thread_ready_ns": ready, "children_cpu_ns": others}
    writer.json(b"A", {**stats, **{key: int(seconds * SECOND) for key, seconds in times.items()}})
    return Profile(writer.data)


def said(*profiles):
    return next(line for line in tick_stats(profiles) if line.startswith("On CPU"))


@pytest.mark.parametrize(
    "runs, seconds",
    [
        ([(3, 0)], 3),
        ([(10, 0), (2, 1), (2, 4)], 10),  # children of a program
        ([(2, 0), (2, 2), (2, 4)], 6),  # one after the other
        ([(2, 4), (3, 0), (2, 2)], 6),
        ([(1, 0), (1, 3600)], 2),  # and none in between
    ],
)
def test_time_of_several_processes_is_counted_once(runs, seconds):
    assert elapsed([profile_of(took, 0, began) for took, began in runs]) == seconds * SECOND
    assert elapsed([profile_of(took, 0) for took, _ in runs]) == max(took for took, _ in runs) * SECOND  # nobody knows when


def test_more_than_one_processor_is_no_percentage():
    assert said(profile_of(3, 2.4)) == "On CPU: 2.40 s of 3.00 s elapsed (80%)."
    assert said(profile_of(3, 2.4, 0), profile_of(3, 1.86, 0)) == "On CPU: 4.26 s in 3.00 s elapsed (1.42 processors)."
    assert said(profile_of(3, 2.4, 0), profile_of(3, 1.86, 3)) == "On CPU: 4.26 s of 6.00 s elapsed (71%)."


def test_what_the_rest_was():
    """A machine that was busy is no reason to look for where the program waited; what is more than that is."""
    assert said(profile_of(3, 0.9)).endswith("(30%). The rest it did not run: `--mode wall` shows where.")
    assert "--mode" not in said(profile_of(3, 0.9, mode="wall"))
    busy = " For 2.00 s its main thread was ready and had no processor: the machine was busy with others."
    assert said(profile_of(3, 0.9, ready=2.0)).endswith("(30%)." + busy)
    assert said(profile_of(3, 2.0, ready=2.0)).endswith("(67%)." + busy)
    both = said(profile_of(3, 0.5, ready=2.0))
    assert both.endswith(busy + " The rest, 0.50 s, it waited: `--mode wall` shows where.")
    of_all = said(profile_of(3, 0.9, 0, ready=1.5), profile_of(3, 0.5, 0, ready=2.0))
    assert of_all.endswith("(47%)." + busy.replace("2.00 s its main thread was", "3.50 s main threads were"))
    for nothing in (profile_of(3, 2.9, ready=0.09), profile_of(3, 0.05, ready=1), profile_of(3, 2, ready=1, mode="wall")):
        assert "processor" not in said(nothing)


def test_what_other_processes_used():
    """Of a program whose children are not recorded; of several profiles they may be these."""
    busy, idle = (profile_of(3, 0.5, others=seconds, begun="run") for seconds in (2.0, 0.1))
    assert list(used_by_others([busy])) == [
        "Other processes that the program started used 2.00 s of CPU time (recorded only by --subprocesses)."
    ]
    later = profile_of(3, 0.5, others=2.0, begun="attach")  # it may have waited for one that ran for hours
    assert not any(
        list(used_by_others(each)) for each in ([idle], [busy, idle], [later], [profile_of(3, 3, others=0.5, begun="run")])
    )


@pytest.mark.parametrize("name, view", [("tasks", "--tasks"), ("gc", "--gc"), ("page-faults", "--type page-faults")])
def test_other_samples_are_shown_by_the_view_of_their_kind(name, view):
    """`--type tasks` shows where tasks wait, not what held the loop meanwhile."""
    events = [
        {"type": 0, "name": "time", "unit": "nanoseconds", "period": 1_000_000},
        {"type": 5, "name": name, "unit": "nanoseconds", "period": 10_000_000},
    ]
    assert f"There are samples of {name} too: `spprof report {view}`." in list(tick_stats([profile_of(1, 1, events=events)]))
