"""Tasks that wait: each sample's chain of coroutines, its reason and the tasks that await it, against what the program itself saw
(targets/waiting_tasks.py). A task that moves has been seen in each chain that it can be in; all others stand still."""

import pytest
from judging import until_seen
from ran import TARGETS

from spprof.model.waits import things


def judged(profile, truth):
    """The tasks that were seen; fails with the first sample that says what was not so."""
    tasks = profile.of("tasks")
    columns = tasks._columns()
    strings, on = columns["strings"], things(columns)
    rows = zip(tasks, tasks.column("reason"), tasks.column("waits_on"), tasks.column("awaited_by"))
    seen = set()
    for sample, reason, waits_on, by in rows:
        if sample.task not in truth:  # the program's own, which runs what looks at the others
            continue
        of = truth[sample.task]
        chain = [[frame.name, frame.line] for frame in sample.frames]
        assert chain in of["chains"], f"{sample.task}: {chain} is none of {of['chains']}"
        assert tasks.reasons[reason] in of["reasons"], f"{sample.task}: {tasks.reasons[reason]}"
        assert on[waits_on] == of["on"], f"{sample.task}: {on[waits_on]}"
        awaiters = sorted(strings[by - 1].split(", ")) if by else []
        assert awaiters == of["awaited_by"], f"{sample.task}: {awaiters}"
        seen.add(sample.task)
    return seen


def test_a_sample_of_a_waiting_task_says_what_the_task_says(run_python, tmp_path):
    found, to_see = set(), {"A moves"}
    for seconds in until_seen(found, to_see, seconds=1):
        ran = run_python(TARGETS / "waiting_tasks.py", "out.spprof", seconds)
        truth = ran.json["truth"]
        to_see |= set(truth)
        found |= judged(ran.profile, truth)


@pytest.mark.statistical(1e-6)
@pytest.mark.parametrize("number", [30, 3000, 100_000])
def test_the_time_of_all_tasks_whatever_their_number(run_python, tmp_path, number):
    ran = run_python(TARGETS / "many_tasks.py", "out.spprof", number, 2)
    tasks = ran.profile.of("tasks")
    in_function = dict.fromkeys(("naps", "queues"), 0)
    for sample in tasks:
        if sample.frames[0].name in in_function:
            in_function[sample.frames[0].name] += sample.weight
    truth, found = number * ran.json["took"] * 1e9, sum(in_function.values())
    assert abs(found - truth) < 0.05 * truth, (found / truth, ran.json)
    # Some 150 draws of 30 or 32; where not all are drawn, three of ten are these, so 5 sigma are 0.035.
    assert abs(in_function["naps"] / found - 0.3) < 0.05, in_function
