"""The tasks of asyncio that `spprof dump PID` prints: those that the program itself says, by `asyncio.all_tasks()` and what its
coroutines say, and from 3.14 on by asyncio's call graph. Of this Python and, from this one, of all others at hand."""

import json
import random
import re
import subprocess
import sys
import time

import pytest
from test_dump_process import LATE_S, OWN, PYTHONS, each_python, start  # noqa: F401

from spprof.outside.dump import dump
from spprof.outside.layouts import LAYOUTS

# Tasks that each wait for something, chosen at random among `kinds`; what they say of themselves, when none runs any more.
PROGRAM = """
import asyncio, gc, json, random

source = random.Random({seed})
new = sys.version_info >= (3, 11)
loops, kept = [], []

async def sleeps(others): await asyncio.sleep(1e6)
async def future(others): await asyncio.get_running_loop().create_future()
async def event(others): await asyncio.Event().wait()
async def queue(others): await asyncio.Queue().get()
async def semaphore(others): await asyncio.Semaphore(0).acquire()
async def other(others): await source.choice(others)
async def gather(others): await asyncio.gather(*source.sample(others, min(3, len(others))))
async def nested(others): await asyncio.gather(asyncio.gather(*source.sample(others, 1)), asyncio.sleep(1e6))
async def wait(others): await asyncio.wait(set(source.sample(others, min(3, len(others)))))
async def shield(others): await asyncio.shield(source.choice(others))
async def limited(others): await asyncio.wait_for(sleeps(others), 1e6)
async def ticks(others):
    await sleeps(others)
    yield 1
async def generator(others):
    async for one in ticks(others):
        pass
async def comprehension(others): return [one async for one in ticks(others)]
async def first(others): await ticks(others).__anext__()
async def deep(others, n=None):
    n = source.randrange(30) if n is None else n
    await (deep(others, n - 1) if n else source.choice(leaves)(others))
class Awaitable:
    def __init__(self, others): self.others = others
    def __await__(self): return sleeps(self.others).__await__()
async def awaitable(others): await Awaitable(others)
leaves = [sleeps, future, event, queue, semaphore]
kinds = leaves + [generator, comprehension, first, deep, awaitable, limited]
above = kinds + [other, gather, nested, wait, shield]
if new:
    exec('''
async def group(others):
    async with asyncio.TaskGroup() as group:
        for _ in range(source.randrange(1, 3)):
            group.create_task(sleeps(others))
''')
    above.append(group)

def unwrapped(awaited):
    while type(awaited).__name__ in ("coroutine_wrapper", "async_generator_asend", "anext_awaitable"):
        awaited = next(one for one in gc.get_referents(awaited)
                       if type(one).__name__ in ("coroutine", "async_generator", "async_generator_asend", "coroutine_wrapper"))
    return awaited

def chain(coroutine):
    found = []
    while coroutine is not None:
        prefix = next((one for one in ("cr", "gi", "ag") if hasattr(coroutine, one + "_frame")), None)
        if prefix is None:
            break
        frame = getattr(coroutine, prefix + "_frame")
        found.append((frame.f_code.co_name, frame.f_lineno))
        coroutine = unwrapped(getattr(coroutine, dict(cr="cr_await", gi="gi_yieldfrom", ag="ag_await")[prefix]))
    return found[::-1]

def parents(awaited_by):
    found = []
    for graph in awaited_by:
        is_task = isinstance(graph.future, asyncio.Task)
        found += [graph.future.get_name()] if is_task else parents(graph.awaited_by)
    return sorted(set(found))

def says(loop):
    tasks = asyncio.all_tasks(loop)
    said = dict((task.get_name(), chain(task.get_coro())) for task in tasks)
    graphs = None
    if sys.version_info >= (3, 14):
        graphs = dict((task.get_name(), parents(asyncio.capture_call_graph(task).awaited_by)) for task in tasks)
    print(json.dumps([said, graphs]), flush=True)

async def main(name):
    for number in range({count}):
        kind = source.choice(above if kept else leaves)
        kept.append(asyncio.create_task(kind(kept[-20:]), name=f"{{name}}{{number}}"))
    for _ in range(20):
        await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    loop.call_soon(loop.call_soon, says, loop)
    await asyncio.sleep(1e6)
"""


def said_by(process):
    return json.loads(process.stdout.readline())


def named(loop):
    return {task.name: task for task in loop.tasks.values()}


def right(seed, count, python, begin):
    """The tasks of a random program are those that it says."""
    process = begin(PROGRAM.format(seed=seed, count=count) + 'asyncio.run(main("t"))\n', python)
    said, graphs = said_by(process)
    found = settled(process)
    (loop,) = found.tasks.loops
    tasks = named(loop)
    assert (found.tasks.left, found.tasks.damaged, found.tasks.refused, loop.sure, loop.tid) == (0, 0, "", True, process.pid)
    assert set(tasks) == set(said) and len(tasks) == len(loop.tasks)
    for name, task in tasks.items():
        assert [[frame.name.rpartition(".")[2], frame.line] for frame in task.frames] == said[name], name
    if graphs is not None:
        above = {name: [] for name in tasks}
        for name, task in tasks.items():
            for child in task.awaits:
                above[loop.tasks[child].name].append(name)
        assert {name: sorted(parents) for name, parents in above.items()} == graphs


def settled(process):
    """The dump when the loop waits."""
    late = time.monotonic() + LATE_S
    while True:
        found = dump(process.pid)
        if found.tasks.loops and all(loop.sure for loop in found.tasks.loops):
            return found
        assert time.monotonic() < late, found


@each_python
def test_tasks_are_those_that_the_program_says(python, start):  # noqa: F811
    right(1, 100, python, start)


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(50))
def test_tasks_of_random_programs(seed, start):  # noqa: F811
    right(seed, 1000, random.Random(seed).choice(list(PYTHONS)), start)


WHO = """
import asyncio
kept = []
def begin(coroutine, name):
    kept.append(asyncio.ensure_future(coroutine))
    kept[-1].set_name(name)
    return kept[-1]
async def sleeps(): await asyncio.sleep(1e6)
async def awaits(task): await task
async def gathers(*tasks): await asyncio.gather(*tasks)
async def some(*tasks): await asyncio.wait(tasks)
async def shields(task): await asyncio.shield(task)
async def holds(lock):
    async with lock:
        await asyncio.sleep(1e6)
async def wants(lock):
    async with lock:
        pass
async def condition(lock):
    async with lock:
        await asyncio.Condition(lock).wait()
async def ready():
    while True: await asyncio.sleep(0)
async def main():
    lock, released = asyncio.Lock(), asyncio.Lock()
    shared = begin(sleeps(), "shared")
    begin(awaits(shared), "a"), begin(shields(shared), "b"), begin(some(shared, begin(sleeps(), "c1")), "c")
    begin(gathers(asyncio.gather(begin(awaits(shared), "d1")), begin(sleeps(), "d2")), "d")
    begin(sleeps(), "e1").add_done_callback(lambda done, task=shared: task), begin(awaits(kept[-1]), "e")
    def says(done): return shared
    kept[-2].add_done_callback(says)
    begin(holds(lock), "holder"), begin(wants(lock), "waiter")
    begin(condition(released), "condition")
    await asyncio.sleep(0)
    begin(holds(released), "second")
    await asyncio.sleep(0)
    begin(wants(released), "third")
    for _ in range(5): await asyncio.sleep(0)
    print("", flush=True)
    await asyncio.sleep(1e6)
asyncio.run(main())
"""


@each_python
def test_which_task_awaits_which(python, start):  # noqa: F811
    process = start(WHO, python)
    process.stdout.readline()
    (loop,) = settled(process).tasks.loops
    tasks = named(loop)
    awaits = {name: sorted(loop.tasks[child].name for child in task.awaits) for name, task in tasks.items() if task.awaits}
    assert awaits == {"a": ["shared"], "b": ["shared"], "c": ["c1", "shared"], "d": ["d1", "d2"], "d1": ["shared"], "e": ["e1"]}
    owners = {name: [loop.tasks[owner].name for owner in task.owners] for name, task in tasks.items() if task.owners}
    assert owners == {"waiter": ["holder"], "third": ["second"]} and loop.cycles == []
    words = {name: re.sub("0x[0-9a-f]+", "...", task.does) for name, task in tasks.items()}
    assert words == {
        "Task-1": "sleeps", "shared": "sleeps", "a": "awaits shared", "b": "awaits shared", "c": words["c"], "c1": "sleeps",
        "d": "awaits d1, d2", "d1": "awaits shared", "d2": "sleeps", "e": "awaits e1", "e1": "sleeps",
        "holder": "sleeps", "waiter": "waits for the Lock at ...",
        "condition": "waits for the Condition at ...", "second": "sleeps", "third": "waits for the Lock at ...",
    }  # fmt: skip
    assert words["c"] in ("awaits c1, shared", "awaits shared, c1")


@each_python
def test_a_task_that_keeps_the_loop(python, start):  # noqa: F811
    process = start(
        "import asyncio\nasync def inner(): os.read(0, 1)\nasync def wants(lock):\n    async with lock: pass\n"
        "async def keeps(lock):\n    async with lock:\n        await asyncio.sleep(0)\n        await inner()\n"
        "async def main():\n    lock = asyncio.Lock()\n"
        "    keeper = asyncio.ensure_future(keeps(lock))\n    waiter = asyncio.ensure_future(wants(lock))\n"
        "    await asyncio.sleep(0)\n    await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0), keeper)\n"
        "asyncio.run(main())\n", python
    )  # fmt: skip
    late = time.monotonic() + LATE_S
    while True:
        found = dump(process.pid)
        words = sorted(task.does for loop in found.tasks.loops for task in loop.tasks.values())
        if "runs" in words and found.threads[0].does.startswith("waits in read"):
            break
        assert time.monotonic() < late, found
    (loop,) = found.tasks.loops
    waiter = next(task for task in loop.tasks.values() if task.does.startswith("waits for the Lock"))
    assert words[:3] == ["awaits Task-2, Task-4, Task-5", "has not begun", "has not begun"] and words[3] == "runs"
    assert [loop.tasks[owner].does for owner in waiter.owners] == ["runs"]
    assert [frame.name for frame in found.threads[0].frames][:2] == ["inner", "keeps"]


@each_python
def test_subclasses_and_tasks_that_begin_at_once(python, start):  # noqa: F811
    """Those of a task factory, in debug mode."""
    process = start("""
import asyncio
class Own(asyncio.Task): pass
async def awaits(task): await (task or asyncio.sleep(1e6))
async def main():
    loop = asyncio.get_running_loop()
    first = loop.create_task(awaits(None), name="first")
    if hasattr(asyncio, "eager_task_factory"):
        loop.set_task_factory(asyncio.eager_task_factory)
    eager = loop.create_task(awaits(first), name="eager")
    own = Own(awaits(eager), loop=loop, name="own")
    for _ in range(5): await asyncio.sleep(0)
    print("", flush=True)
    await own
asyncio.run(main(), debug=True)
""", python)  # fmt: skip
    process.stdout.readline()
    (loop,) = settled(process).tasks.loops
    tasks = named(loop)
    awaits = {name: [loop.tasks[child].name for child in task.awaits] for name, task in tasks.items()}
    assert awaits == {"Task-1": ["own"], "own": ["eager"], "eager": ["first"], "first": []}


@each_python
def test_loops_of_several_threads(python, start):  # noqa: F811
    process = start(PROGRAM.format(seed=7, count=5) + """
kept_of = threading.local()
def run(name):
    if name: threading.Thread(target=run, args=(name[1:],)).start()
    asyncio.run(sleepers(name))
async def sleepers(name):
    mine = [asyncio.ensure_future(sleeps([])) for _ in range(len(name) + 1)]
    for one in mine: one.set_name(name)
    await asyncio.sleep(0)
    print("", flush=True)
    await asyncio.gather(*mine)
run("xx")
""", python)  # fmt: skip
    for _ in range(3):
        process.stdout.readline()
    found = settled(process)
    loops = found.tasks.loops
    assert sorted(len(loop.tasks) for loop in loops) == [2, 3, 4]
    assert {loop.tid for loop in loops} == {thread.tid for thread in found.threads}
    for loop in loops:
        frames = next(thread.frames for thread in found.threads if thread.tid == loop.tid)
        assert any(frame.name == "run" for frame in frames)
        assert sorted({len(task.name) for task in loop.tasks.values() if task.frames[0].name == "sleep"}) == [len(loop.tasks) - 2]


@each_python
def test_damaged_tasks_cost_themselves(python, start):  # noqa: F811
    at = LAYOUTS[python.rstrip("d")]
    process = start(WHO.replace('print("", flush=True)', f"""
    import ctypes
    for name, place in (("a", {at["task_name"] - 8}), ("d2", {at["task_name"]}), ("c1", {at["task_name"] - 16})):
        task = next(task for task in kept if task.get_name() == name)
        ctypes.c_uint64.from_address(id(task) + place).value = 0x123456
    print("", flush=True)
""".strip()), python)  # fmt: skip
    process.stdout.readline()
    found = settled(process)
    (loop,) = found.tasks.loops
    tasks = named(loop)
    assert found.tasks.damaged == 1 and "a" not in tasks and len(tasks) == 15
    assert tasks["?"].does == "sleeps" and tasks["c1"].does == "awaits what cannot be read"
    assert [loop.tasks[child].name for child in tasks["d1"].awaits] == ["shared"]


def test_tasks_of_an_unknown_layout_are_refused(start, monkeypatch):  # noqa: F811
    process = start(WHO)
    process.stdout.readline()
    layout = LAYOUTS[OWN.rstrip("d")]
    size = layout["task_size"]
    monkeypatch.setitem(layout, "task_size", size + 8)
    found = dump(process.pid)
    assert found.tasks == ([], 0, 0, f"its tasks have {size} bytes, and this spprof knows those of {size + 8}")


def test_more_tasks_than_there_is_time_for(start, monkeypatch):  # noqa: F811
    process = start(WHO)
    process.stdout.readline()
    settled(process)
    monkeypatch.setattr("spprof.outside.dump.READ_S", 0.0)
    assert dump(process.pid).tasks == ([], 16, 0, "")


def test_the_command_prints_the_tree(start):  # noqa: F811
    process = start(WHO)
    process.stdout.readline()
    settled(process)

    def printed(*options):
        command = [sys.executable, "-m", "spprof", "dump", str(process.pid), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8")
        return [line for line in done.stdout.splitlines() if not re.match(r" +\S+ \(.*:\d+\)$", line)]

    lines = printed()
    assert re.fullmatch(r"16 tasks of the event loop of \S+ \(\d+\)", lines[4])
    assert "a: awaits shared" in lines and "    shared: sleeps, awaited by a, b, c and d1" not in lines
    assert "    shared: sleeps, awaited by a, b, c, d1" in lines and lines.count("    shared (above)") == 2
    assert any(re.fullmatch(r"waiter: waits for the Lock at 0x[0-9a-f]+, which holder has", line) for line in lines)
    assert printed("--thread", str(process.pid)) == lines and "16 tasks" not in " ".join(printed("--thread", "nobody"))
