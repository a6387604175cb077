"""How `spprof dump PID` prints the tasks of an event loop: bounded, each once, with all that await it."""

from __future__ import annotations

import random
import sys

import pytest

if sys.platform != "linux":
    pytest.skip("spprof reads other processes on Linux alone", allow_module_level=True)
from spprof.outside.coroutines import Chain
from spprof.outside.dump import Dump, Thread
from spprof.outside.stacks import Frame
from spprof.outside.tasks import Loop, Reader, Task, Tasks, _Seen, _Wait, cycles, listed
from spprof.outside.text import lines_of
from spprof.outside.tree import Tree

FRAME = Frame("f", "/x/app.py", 1)


def task(name, awaits=(), does="sleeps", frames=(FRAME,), owners=(), cut=""):
    return Task(name, does, list(frames), cut, list(awaits), list(owners))


def lines(tasks, loops_cycles=(), sure=True):
    return list(Tree(Loop(7, tasks, list(loops_cycles), sure)).lines("main (7)"))


def deadlocks(tasks, loops_cycles):
    return list(Tree(Loop(7, tasks, loops_cycles)).deadlocks())


def test_a_diamond_keeps_all_parents():
    found = lines({1: task("top", [2, 3]), 2: task("left", [4]), 3: task("right", [4]), 4: task("shared")})
    assert found == [
        "\n4 tasks of the event loop of main (7)", "", "top: sleeps", "    f (/x/app.py:1)", "    left: sleeps",
        "        f (/x/app.py:1)", "        shared: sleeps, awaited by left, right", "            f (/x/app.py:1)",
        "    right: sleeps", "        f (/x/app.py:1)", "        shared (above)",
    ]  # fmt: skip


def test_tasks_that_await_each_other_are_printed_once():
    tasks = {1: task("a", [2]), 2: task("b", [1]), 3: task("c", [3])}
    assert [line.strip() for line in lines(tasks, [[1, 2], [3]]) if "app.py" not in line] == [
        "3 tasks of the event loop of main (7)", "", "a: sleeps", "b: sleeps", "a (above)", "", "c: sleeps", "c (above)",
    ]  # fmt: skip
    assert deadlocks(tasks, [[1, 2], [3]]) == [
        "\nDeadlock of tasks:", "    a waits for b at f (/x/app.py:1)", "    b waits for a at f (/x/app.py:1)",
        "\nDeadlock of tasks:", "    c waits for c at f (/x/app.py:1)",
    ]  # fmt: skip


def test_a_culprit_is_a_line_of_the_programs_own():
    frames = [Frame("acquire", "/lib/asyncio/locks.py", 5), Frame("mine", "/x/app.py", 9)]
    assert "    a waits for a at mine (/x/app.py:9)" in deadlocks({1: task("a", frames=frames)}, [[1]])
    assert "    a waits for a" in deadlocks({1: task("a", frames=())}, [[1]])


def test_tasks_that_are_alike_are_printed_once():
    tasks = {number: task(f"Task-{number}") for number in range(100_000)}
    alike = "    (and 99,999 more like it: Task-1, Task-2, Task-3 and 99,996 more tasks)"
    assert lines(tasks)[2:] == ["Task-0: sleeps", "    f (/x/app.py:1)", alike]
    tasks[100_000] = task("parent", range(100_000))
    found = lines(tasks)
    assert found[2:4] == ["parent: sleeps", "    f (/x/app.py:1)"] and len(found) == 7


def test_tasks_that_differ_are_bounded():
    tasks = {number: task(f"t{number}", frames=[Frame("f", "app.py", number)] * 200) for number in range(1000)}
    found = lines(tasks)
    assert found[-1] == "\n(500 more tasks are not printed)" and len(found) < 500 * 104
    assert found.count("    (100 more frames)") == 500


def test_a_long_chain_and_many_shared_tasks_are_bounded():
    assert len(lines({number: task(str(number), [number + 1] if number < 9999 else []) for number in range(10_000)})) < 1100
    tasks = {number: task(str(number), range(1000, 2000)) for number in range(1000)}
    tasks.update({number: task(str(number), does=str(number)) for number in range(1000, 2000)})
    assert len(lines(tasks)) < 2000


@pytest.mark.parametrize("seed", range(20))
def test_each_task_is_printed_or_counted(seed):
    source, count = random.Random(seed), 300
    tasks = {}
    for number in range(count):
        tasks[number] = task(f"t{number}", source.sample(range(count), source.choice((0, 0, 1, 3))), does=str(number))
    found = lines(tasks)
    titles = [line.strip().split(":")[0] for line in found if line.strip().startswith("t") and ": " in line]
    left = [int(line.split()[0][1:]) for line in found if line.endswith("more tasks are not printed)")]
    assert len(titles) == len(set(titles)) and len(titles) + sum(left) == count


def test_names_do_not_command_the_terminal():
    assert not any("\x1b" in line or "\n" in line[1:] for line in lines({1: task("a\x1b[31m\nb", does="awaits \x1b[0m")}))


@pytest.mark.parametrize(
    "names, text",
    [(["a"], "a"), (["a", "b", "c", "d"], "a, b, c, d"), (["a", "b", "c", "d", "e"], "a, b, c and 2 more tasks")],
)
def test_lists(names, text):
    assert listed(names) == text


@pytest.mark.parametrize(
    "needs, expected",
    [
        ({1: [2], 2: [3], 3: [1]}, [[1, 2, 3]]),
        ({1: [2, 3], 2: [4], 3: [4], 4: []}, []),
        ({1: [2, 3], 2: [1], 3: [1]}, [[1, 2], [1, 3]]),
        ({1: [1]}, [[1]]),
        ({1: [2], 2: [3], 3: [2], 4: [1]}, [[2, 3]]),
        ({number: [number + 1] for number in range(100_000)}, []),
    ],
)
def test_cycles(needs, expected):
    assert cycles(needs) == expected


def test_what_was_not_read_is_said():
    thread = Thread(7, "main", "runs", False, [], "", True, True, 0, "", False, ())
    loops = [Loop(7, {1: task("a")}, [], False), Loop(0, {2: task("b")}, [])]
    found = list(lines_of(Dump(7, "3.11.2", [thread], [], Tasks(loops, 1234, 5, "its tasks have 8 bytes")), "app.py"))
    assert found[2:] == [
        "\n1 task of the event loop of main (7)", "(it ran while they were read: they may be of different moments)", "",
        "a: sleeps", "    f (/x/app.py:1)", "\n1 task of an event loop that does not run", "", "b: sleeps", "    f (/x/app.py:1)",
        "\n(1,234 more tasks were not read: reading them ends after 2 s)", "\n(5 tasks could not be read)",
        "\n(its tasks have 8 bytes)",
    ]  # fmt: skip
    assert "b: sleeps" not in lines_of(Dump(7, "3.11.2", [thread], [], Tasks(loops)), "app.py", "main")


def test_deadlocks_come_before_the_stacks():
    """They are the answer, and stacks of many threads are long. Not only those of the threads that are asked for."""

    def thread(tid, name, owner):
        return Thread(tid, name, "waits for the lock at 0x1", False, [FRAME], "", True, True, owner, "lock", True, ())

    loop = Loop(7, {1: task("a", [2]), 2: task("b", [1])}, [[1, 2]])
    both = Dump(7, "3.11.2", [thread(7, "main", 8), thread(8, "other", 7)], [[7, 8]], Tasks([loop]))
    expected = [
        "\nDeadlock:", "    main (7) waits for other (8) at f (/x/app.py:1)",
        "    other (8) waits for main (7) at f (/x/app.py:1)", "\nDeadlock of tasks:",
        "    a waits for b at f (/x/app.py:1)", "    b waits for a at f (/x/app.py:1)",
    ]  # fmt: skip
    found = list(lines_of(both, "app.py"))
    assert found[1:7] == expected and found[7].startswith("\nmain (7): ") and "Deadlock" not in "".join(found[7:])
    assert list(lines_of(both, "app.py", "none of that name"))[1:7] == expected


def test_a_task_that_awaits_many_is_read_in_one_go(monkeypatch):
    """Each comparison of two addresses is counted: with all of those before it, they were half of a square."""
    compared = []

    class Address(int):
        __hash__ = int.__hash__

        def __eq__(self, other):
            compared.append(other)
            return int.__eq__(self, other)

    number, future = 1000, 7
    chain = Chain("waits", [], 0, "")
    seen = {Address(100 + n): _Seen(1, "", chain, 0, [future]) for n in range(number)}
    parent = Address(99)
    seen[parent] = _Seen(1, "", chain, future, [])
    reader = object.__new__(Reader)
    monkeypatch.setattr(reader, "_reached", lambda callbacks, *_: set(callbacks))
    awaits = reader._awaits(seen, {address: _Wait("", []) for address in seen})
    assert [int(one) for one in awaits[parent]] == list(range(100, 100 + number))
    assert len(compared) < 50 * number
