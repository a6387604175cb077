"""Requests in tasks, threads and pools: requested.py OUT SECONDS. Prints what each was, when it ran, and which functions ran for it."""

import asyncio
import concurrent.futures
import contextvars
import json
import sys
import threading
import time

import spprof


def works(function):
    """The function, which works for some ms of the clock."""
    text = f"def {function}():\n end = time.monotonic() + 0.004\n while time.monotonic() < end: sum(range(100))"
    names = {"time": time}
    exec(text, names)
    return names[function]


class Truth:
    """Times around a request: it began between the first two, and ended between the last two."""

    def __init__(self, **labels):
        self.labels = labels

    def __enter__(self):
        before = time.monotonic_ns()
        self.block = spprof.request(**self.labels)
        self.block.__enter__()
        labels = spprof.current_labels()
        truth.append([labels, before, time.monotonic_ns()])
        self.own = truth[-1]
        return labels["request"]

    def __exit__(self, *error):
        self.own.append(time.monotonic_ns())
        self.block.__exit__(*error)
        self.own.append(time.monotonic_ns())


truth, functions = [], {}


async def served(number, pool):
    """Each way in which work is passed on, each by a function that works for this request alone."""

    def mine(way):
        name = f"{way}_{number}"
        functions[name] = id
        return works(name)

    with Truth(route=f"/{number % 2}") as id:
        loop = asyncio.get_running_loop()
        mine("awaits")()
        await asyncio.sleep(0)

        async def step():
            mine("task")()

        await asyncio.create_task(step())
        await asyncio.gather(*(step() for _ in range(2)))
        await asyncio.to_thread(mine("to_thread"))
        await loop.run_in_executor(pool, contextvars.copy_context().run, mine("executor"))
        thread = threading.Thread(target=contextvars.copy_context().run, args=(mine("thread"),))
        thread.start()
        thread.join()
        await asyncio.sleep(0)
    name = f"outside_{number}"
    functions[name] = None
    works(name)()


async def serve(seconds):
    ends, number = time.monotonic() + seconds, 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        while time.monotonic() < ends:
            await asyncio.gather(served(number, pool), served(number + 1, pool))
            number += 2


spprof.start(0.1, "wall", sys.argv[1])
asyncio.run(serve(float(sys.argv[2])))
with Truth(request="mine"):
    with Truth(inner="1"):
        pass
open_one = spprof.request()
open_one.__enter__()
spprof.stop()
open_one.__exit__(None, None, None)
print(json.dumps({"truth": truth, "functions": functions}))
