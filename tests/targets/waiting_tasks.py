"""Tasks of asyncio that wait, in two event loops, beside some that move and hold the loops up. Prints what the program itself saw:
of each task by name the chains of coroutines that it was in, why it waited there, and the tasks that awaited it."""

import asyncio
import gc
import json
import socket
import sys
import threading
import time
import types

import spprof

truth = {}
stop = threading.Event()
ready = threading.Barrier(3)
begun = threading.Event()
FOREVER = 100000


def chain_of(task):
    """The slow twin: names and lines from the outermost coroutine to the innermost."""
    chain, at = [], task.get_coro()
    while at is not None:
        kind = next((kind for kind in ("cr", "gi", "ag") if hasattr(at, kind + "_frame")), None)
        if kind is None:  # what `__await__` or `asend` returned
            inside = [each for each in gc.get_referents(at) if hasattr(each, "cr_frame") or hasattr(each, "ag_frame")]
            at = inside[0] if inside else None
            continue
        frame = getattr(at, kind + "_frame")
        if frame is None:
            break
        chain.append([frame.f_code.co_name, frame.f_lineno])
        at = getattr(at, {"cr": "cr_await", "gi": "gi_yieldfrom", "ag": "ag_await"}[kind])
    return chain


def awaiters_of(task):
    if hasattr(asyncio, "capture_call_graph"):
        found, open_ = set(), list(asyncio.capture_call_graph(task).awaited_by or ())
        while open_:
            each = open_.pop()
            if isinstance(each.future, asyncio.Task):
                found.add(each.future.get_name())
            else:
                open_ += each.awaited_by or ()
        return sorted(found)
    return sorted(each.get_name() for each in asyncio.all_tasks() if each._fut_waiter is task)


def look(task, reasons, on="", awaited_by=None):
    """Keeps what is seen of a task now. Before 3.14 asyncio does not say who awaits a task by way of `gather` and the like, so
    `awaited_by` says it. From then on its own word is the truth: of `gather` it is the task that called it, whoever awaits that."""
    by = awaiters_of(task) if awaited_by is None or hasattr(asyncio, "capture_call_graph") else awaited_by
    of = truth.setdefault(task.get_name(), {"chains": [], "reasons": reasons, "on": on, "awaited_by": by})
    chain = chain_of(task)
    if chain and chain not in of["chains"]:
        of["chains"].append(chain)


async def sleeps():
    await asyncio.sleep(FOREVER)


async def deep(n):
    if n > 0:
        await deep(n - 1)
    else:
        await sleeps()


async def locks(lock):
    async with lock:
        await asyncio.sleep(FOREVER)


async def gets(queue):
    while True:
        await queue.get()


async def reads(reader):
    await reader.read(1)


async def awaits(other):
    try:
        await other
    finally:
        pass


async def waits(tasks):
    await asyncio.wait(tasks)


async def shields(task):
    await asyncio.shield(task)


async def limits(task):
    await asyncio.wait_for(task, FOREVER)


async def groups(prefix, begun):
    async with asyncio.TaskGroup() as group:
        for i in range(2):
            task = group.create_task(sleeps(), name=f"{prefix}grouped {i}")
            begun.append((task, ["sleep"], "", [prefix + "groups"]))


async def jobs():
    await asyncio.get_running_loop().run_in_executor(None, stop.wait)


class Awaitable:
    def __init__(self, future):
        self.future = future

    def __await__(self):
        return self.inner().__await__()

    async def inner(self):
        return await self.future


async def wraps(future):
    await Awaitable(future)


@types.coroutine
def old_style(future):
    yield from future


async def old(future):
    for _ in iter(lambda: True, False):
        await old_style(future)


async def numbers(future):
    yield 1
    await future
    yield 2


async def loops_over(future):
    async for number in numbers(future):
        assert number == 1


async def step_a():
    await asyncio.sleep(0.001)


async def step_b():
    asyncio.get_running_loop().call_soon(look, asyncio.current_task(), ["sleep", "loop"])  # before its next step
    await asyncio.sleep(0)
    await asyncio.sleep(0.001)


async def moves():
    while True:
        await step_a()
        await step_b()


async def hogs():
    while True:
        await asyncio.sleep(0.003)
        time.sleep(0.003)
        await asyncio.sleep(0.003)
        end = time.perf_counter() + 0.003
        while time.perf_counter() < end:
            sum(range(100))


async def brief():
    await asyncio.sleep(0.002)


async def breeds(prefix):
    loop, number = asyncio.get_running_loop(), 0
    while True:
        number += 1
        for _ in range(20):
            task = loop.create_task(brief())
            task.set_name(f"{prefix}brief")
            look(task, ["sleep", "loop"])  # it has not begun
        await asyncio.sleep(0.001)


async def loop_main(prefix):
    loop = asyncio.get_running_loop()
    loop.slow_callback_duration = 60
    still, moving = [], []

    def begin(name, coroutine, reason, on="", to=still, by=None):
        task = loop.create_task(coroutine)
        task.set_name(prefix + name)
        to.append((task, [reason], on, by and [prefix + each for each in by]))
        return task

    lock, future = asyncio.Lock(), loop.create_future()
    pair = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=pair[0])
    begin("sleeps", sleeps(), "sleep")
    begin("deep", deep(20), "sleep")
    begin("holds", locks(lock), "sleep")
    begin("locks", locks(lock), "lock")
    begin("gets", gets(asyncio.Queue()), "lock")
    begin("reads", reads(reader), "io")
    begin("jobs", jobs(), "job")
    begin("future", awaits(future), "future")
    begin("wraps", wraps(future), "future")
    begin("old", old(future), "future")
    begin("over", loops_over(future), "future")
    child = begin("child", sleeps(), "sleep")
    for i in range(3):
        begin(f"parent {i}", awaits(child), "task", prefix + "child")
    both = [begin(f"leaf {i}", sleeps(), "sleep", by=["gathers 0", "gathers 1"]) for i in range(2)]
    gathering = asyncio.gather(*both)
    for i in range(2):
        begin(f"gathers {i}", awaits(gathering), "future")
    waited = [begin(f"waited {i}", sleeps(), "sleep", by=["waits"]) for i in range(2)]
    begin("waits", waits(waited), "task")
    begin("shields", shields(begin("shielded", sleeps(), "sleep", by=["shields"])), "future")
    limited = begin("limited", sleeps(), "sleep", by=["limits"])
    begin("limits", limits(limited), "task", prefix + "limited" if sys.version_info >= (3, 12) else "")
    if sys.version_info >= (3, 11):
        begin("groups", groups(prefix, still), "task")
    for i in range(60):
        begin(f"many {i}", sleeps(), "sleep")
    await asyncio.sleep(0.01)
    for each in still:
        look(*each)
    ready.wait()
    begun.wait()
    begin("moves", moves(), "sleep", to=moving)
    begin("hogs", hogs(), "sleep", to=moving)
    begin("breeds", breeds(prefix), "sleep", to=moving)
    for _, reasons, *_ in moving:
        reasons.append("loop")
    while not stop.is_set():
        for each in moving:
            look(*each)
        for task in asyncio.all_tasks():
            if task.get_name() == prefix + "brief":
                look(task, ["sleep", "loop"])
        await asyncio.sleep(0.0005)
    ready.wait()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    writer.close()
    pair[1].close()


def main():
    threads = [threading.Thread(target=lambda prefix=prefix: asyncio.run(loop_main(prefix))) for prefix in ("A ", "B ")]
    for thread in threads:
        thread.start()
    ready.wait()
    spprof.start(output_path=sys.argv[1], mode="wall", events=["time", "tasks"])
    begun.set()
    time.sleep(float(sys.argv[2]))
    spprof.stop()
    stats = spprof.stats()
    stop.set()
    ready.wait()
    for thread in threads:
        thread.join()
    print(json.dumps({"truth": truth, "stats": stats}))


main()
