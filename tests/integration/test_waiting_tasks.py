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


# A tree of a thousand tasks: task n awaits task n // 2, and the first one sleeps. And some that many tasks await, each.
TREE, AWAITED, MANY = 1000, 10, 20
PROGRAM = """
import asyncio, sys, time
import spprof
tree, awaited, many, seconds = *map(int, sys.argv[2:5]), float(sys.argv[5])
async def sleeps(): await asyncio.sleep(100000)
async def awaits(task): await task
async def main():
    def begin(name, coroutine):
        tasks.append(asyncio.create_task(coroutine, name=name))
        return tasks[-1]
    tasks = [None]
    begin("T1", sleeps())
    for n in range(2, tree + 1): begin(f"T{n}", awaits(tasks[n // 2]))
    for n in range(awaited):
        one = begin(f"A{n}", sleeps())
        for i in range(many): begin(f"M{n}.{i}", awaits(one))
    await asyncio.sleep(0.1)
    spprof.start(output_path=sys.argv[1], mode="wall", events=["time", "tasks"])
    end = time.monotonic() + seconds
    while time.monotonic() < end: await asyncio.sleep(0.001)  # of a program that sleeps, tasks are drawn less often
    spprof.stop()
    for task in tasks[1:]: task.cancel()
    await asyncio.wait(tasks[1:])
asyncio.run(main())
"""
AWAITERS_MOST = 16  # of which a sample has the names


def test_a_tree_of_a_thousand_tasks_is_whole(run_python, tmp_path):
    """From task to task, up to the one that all await. What a sample costs does not grow with those that await its task."""
    lines = [[f"T{n >> up}" for up in range(n.bit_length())] for n in range(TREE // 2 + 1, TREE + 1)]  # from each leaf
    found, on_of = set(), {}
    for seconds in until_seen(found, {"one of many", "a line"}, seconds=2):
        tasks = run_python("-c", PROGRAM, "out.spprof", TREE, AWAITED, MANY, seconds).profile.of("tasks")
        strings, on = tasks._columns()["strings"], things(tasks._columns())
        for sample, waits_on, by in zip(tasks, tasks.column("waits_on"), tasks.column("awaited_by")):
            kind, number = sample.task[:1], sample.task[1:].partition(".")[0]
            awaiters = set(strings[by - 1].split(", ")) if by else set()
            names = [frame.name for frame in sample.frames]
            if kind == "T" and number.isdecimal():
                n = int(number)
                assert names == (["awaits"] if n > 1 else ["sleeps", "sleep"]), sample
                assert on[waits_on] == (f"T{n // 2}" if n > 1 else "")
                assert awaiters == {f"T{child}" for child in (2 * n, 2 * n + 1) if child <= TREE}
            elif kind == "A":
                assert len(awaiters) == AWAITERS_MOST and awaiters < {f"M{number}.{i}" for i in range(MANY)}
                found.add("one of many")
            elif kind == "M":
                assert (names, on[waits_on], awaiters) == (["awaits"], f"A{number}", set())
            found.add(sample.task)
            on_of[sample.task] = on[waits_on]
        whole = next((line for line in lines if found.issuperset(line)), [])
        found |= {"a line"} if whole else set()
    assert [on_of[name] for name in whole] == [*whole[1:], ""]
