"""Hangs of ten kinds, each in a thread and at a depth that a seed chooses: `spprof dump` names the thread, what it waits for and
the line, and the process does not notice. Some of this Python; a hundred, of all at hand, in the stress test."""

import os
import random
import signal
import time

import pytest
from test_dump_process import LATE_S, OWN, PYTHONS, start  # noqa: F401

from spprof.outside.dump import dump

# What hangs, in a function hang() at the line that has #here; and what else the program has.
HANGS = {
    "gil": ("    sum(range(1 << 62))  #here", ""),
    "cycle": ("    with locks[0]:\n        begin.wait()\n        with locks[1]:  #here\n            pass", """
import random
count = {count}
locks, begin = [threading.Lock() for _ in range(count)], threading.Barrier(count)
def other(i):
    with locks[i]:
        begin.wait()
        with locks[(i + 1) % count]:  #other
            pass
for i in range(1, count): threading.Thread(target=other, args=(i,), daemon=True).start()
"""),
    "import": ("    import slow  #here", """
import types
slow_begun = threading.Event()
open(os.path.join(os.path.dirname(__file__), "slow.py"), "w").write(
    "import os, __main__\\n__main__.slow_begun.set()\\nos.read(0, 1)\\n")
def importer():
    import slow
threading.Thread(target=importer, daemon=True).start()
slow_begun.wait()
"""),
    "fork": ("    lock.acquire()  #here", """
lock = threading.Lock()
lock.acquire()
if os.fork():
    os.wait()
    os._exit(0)
print(os.getpid(), flush=True)
"""),
    "stopped": ("    signal.raise_signal(signal.SIGSTOP)  #here", "import signal\n"),
    "queue": ("    queue.Queue().get()  #here", "import queue\n"),
    "socket": ("    near.recv(1)  #here", """
import socket
listener = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(listener.getsockname())
far = listener.accept()[0]
print(listener.getsockname()[1], flush=True)
"""),
    "child": ("    os.waitpid(child.pid, 0)  #here", """
import subprocess
child = subprocess.Popen(["cat"], stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
"""),
    "join": ("    thread.join()  #here", """
def waits():
    os.read(0, 1)  #other
thread = threading.Thread(target=waits, daemon=True)
thread.start()
"""),
    "asyncio": ("    asyncio.run(main({count}))  #here", ""),
}  # fmt: skip
# Tasks that hang, named t0, t1, ... and at the line that has #task: what each does; whether they are in a cycle; the body.
ASYNCIO = {
    "future": ("awaits a Future", False, "    await asyncio.get_running_loop().create_future()  #task"),
    "cycle": ("awaits t", True, "    await asyncio.sleep(0)\n    await tasks[(i + 1) % len(tasks)]  #task"),
    "group": ("awaits Task-", True, "    await asyncio.sleep(0)\n"
              "    await asyncio.gather(asyncio.sleep(0), through(tasks[(i + 1) % len(tasks)]))  #task"),
    "locks": ("waits for the Lock at", True, "    async with locks[i]:\n        await asyncio.sleep(0)\n"
              "        async with locks[(i + 1) % len(locks)]:  #task\n            pass"),
    "itself": ("waits for the Lock at", True, "    async with locks[i]:\n        async with locks[i]:  #task\n            pass"),
    "queue": ("waits for the Queue at", False, "    await asyncio.Queue().get()  #task"),
}  # fmt: skip
TASKS = """
import asyncio
tasks, locks = [], []
async def through(task): return await task
async def step(i):
{step}
async def inner(i, n):
    return await (inner(i, n - 1) if n else step(i))
async def main(count):
    locks.extend(asyncio.Lock() for _ in range(count))
    for i in range(count):
        tasks.append(asyncio.ensure_future(inner(i, {depth})))
        tasks[-1].set_name("t%d" % i)
    await asyncio.wait(tasks)
"""
BEGINS = {
    "gil": "runs", "cycle": "waits for the lock at", "import": "waits for the import lock of slow", "stopped": "is stopped",
    "fork": "waits for the lock at", "queue": "waits for the lock at", "socket": "waits in recv", "join": "waits for the lock at",
    "child": "waits for a child process", "asyncio": "waits in epoll",
}  # fmt: skip


def program(kind, source):
    """Its text: hang() is called through some functions, in the main thread or another one."""
    body, more = HANGS[kind]
    if kind == "asyncio":
        more = TASKS.format(step=ASYNCIO[source.choice(list(ASYNCIO))][2], depth=source.randrange(20))
    count = str(source.choice((2, 3)))
    body, more = body.replace("{count}", count), more.replace("{count}", count)
    depth = source.randrange(20)
    text = f"{more}\ndef hang():\n{body}\ndef deep(n):\n    return deep(n - 1) if n else hang()\n"
    if kind == "fork" or source.random() < 0.5:
        return text + f"deep({depth})\n"
    return text + f"outer = threading.Thread(target=deep, args=({depth},))\nouter.start()\nouter.join()\n"


def line_of(script, mark):
    with open(script) as file:
        return next(number for number, line in enumerate(file, 1) if line.rstrip().endswith(mark))


def has(thread, function, line):
    return any((frame.name, frame.line) == (function, line) for frame in thread.frames)


def fault(kind, found, script, said, python):
    """What the dump does not name, or ''."""
    here = line_of(script, "#here")
    culprits = [thread for thread in found.threads if has(thread, "hang", here)]
    if len(culprits) != 1 or not culprits[0].does.startswith(BEGINS[kind]) or not culprits[0].sure:
        return "the thread"
    if kind != "gil" and any(thread.does.startswith(("runs", "waits for the GIL")) for thread in found.threads):
        return "that nobody runs any more"
    culprit, threads = culprits[0], {thread.tid: thread for thread in found.threads}
    if kind == "gil" and culprit.holds_gil != ("t" not in python):
        return "the GIL"
    if kind == "cycle":
        (cycle,) = found.cycles or [[]]
        other = line_of(script, "#other")
        if culprit.tid not in cycle or not all(has(threads[tid], "other", other) for tid in cycle if tid != culprit.tid):
            return "the cycle"
    if kind == "import" and not (culprit.owner and has(threads[culprit.owner], "<module>", 3)):
        return "who imports"
    if kind == "fork" and not culprit.does.endswith("and no other thread is there to release it"):
        return "that nobody can release it"
    if kind == "queue" and not any(frame.name.endswith("get") and "queue" in frame.file for frame in culprit.frames):
        return "the queue"
    if kind == "socket" and not culprit.does.endswith(f"a socket to 127.0.0.1:{said}"):
        return "the peer"
    if kind == "child" and f"process, {said}:" not in culprit.does:
        return "the child"
    if kind == "asyncio" and not names_tasks(found, script):
        return "the tasks"
    if kind == "join" and not any(has(thread, "waits", line_of(script, "#other")) for thread in found.threads):
        return "the thread that is joined"
    return ""


def names_tasks(found, script):
    """Whether the tasks that hang are named, with what they wait for."""
    with open(script) as file:
        text = file.read()
    line = line_of(script, "#task")
    begins, is_cycle, _ = next(row for row in ASYNCIO.values() if row[2] in text)
    tasks = [task for loop in found.tasks.loops for task in loop.tasks.values() if task.name.startswith("t")]
    cycles = [{loop.tasks[one].name for one in cycle} for loop in found.tasks.loops for cycle in loop.cycles]
    return (
        len(tasks) in (2, 3)
        and all(task.does.startswith(begins) for task in tasks)
        and all(("step", line) in [(frame.name, frame.line) for frame in task.frames] for task in tasks)
        and all(any(task.name in cycle for cycle in cycles) == is_cycle for task in tasks)
    )


def switches(pid):
    """How often each thread was woken, and whether a debugger has it."""
    found = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/status") as file:
            found[tid] = [line for line in file if "ctxt_switches" in line or line.startswith(("TracerPid", "State"))]
    return found


def named(kind, seed, python, begin):
    """How long the dump took that named it; and whether the process was as before."""
    process = begin(program(kind, random.Random(seed)), python)
    said = int(process.stdout.readline()) if kind in ("fork", "socket", "child") else 0
    pid = said if kind == "fork" else process.pid
    late = time.monotonic() + LATE_S  # a limit that only a hang reaches
    try:
        while True:
            found = dump(pid)
            wrong = fault(kind, found, process.args[1], said, python)
            if not wrong:
                break
            assert time.monotonic() < late, (wrong, found)
        before, begun = switches(pid), time.monotonic()
        assert not fault(kind, dump(pid), process.args[1], said, python)
        return time.monotonic() - begun, kind == "gil" or switches(pid) == before
    finally:
        if pid != process.pid:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("kind", HANGS)
def test_a_hang_is_named(kind, start):  # noqa: F811
    _, unchanged = named(kind, 1, OWN, start)
    assert unchanged, "it was woken"


@pytest.mark.parametrize("which", ASYNCIO)
def test_a_hang_of_tasks_is_named(which, start, monkeypatch):  # noqa: F811
    monkeypatch.setattr(f"{__name__}.ASYNCIO", {which: ASYNCIO[which]})
    named("asyncio", 1, OWN, start)


@pytest.mark.stress
@pytest.mark.parametrize("seed", range(100))
def test_a_hundred_hangs_are_named(seed, start, record_property):  # noqa: F811
    kind, python = list(HANGS)[seed % 10], list(PYTHONS)[seed // 10 % len(PYTHONS)]
    seconds, unchanged = named(kind, seed, python, start)
    for name, value in (("kind", kind), ("python", python), ("seconds", seconds), ("unchanged", unchanged)):
        record_property(name, value)
    assert unchanged, (kind, python)


@pytest.mark.parametrize(
    "text",
    [
        "lock = threading.Lock()\nlock.acquire()\nlock.acquire(timeout=1e5)\n",
        "import multiprocessing\nlock = multiprocessing.Lock()\nlock.acquire()\nlock.acquire()\n",
    ],
    ids=["timeout", "of another process"],
)
def test_a_wait_that_may_end_is_not_called_hopeless(text, start):  # noqa: F811
    process = start(text)
    late = time.monotonic() + LATE_S
    while True:
        (main,) = dump(process.pid).threads
        if main.does.startswith("waits for the lock at") and main.frames[0].file.endswith("hang.py"):
            break
        assert time.monotonic() < late, main
    assert "release" not in main.does
