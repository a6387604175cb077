"""Tasks of asyncio, each of which works in a function that no other runs. Prints which function ran under which name, as the
program itself sees it."""

import asyncio
import json
import sys
import threading
import time

import spprof

NAMES = ["red", "blü", "тёмный", "🐍🐍", "", "x" * 300]
truth = {}
ended = []  # loops whose tasks found nothing wrong
stop = False


def function(name):
    """A function of its own name, which says what task runs it, and computes and sleeps there."""
    text = f"def {name}(): note({name!r}); work(); time.sleep(0.0005); work()"
    scope = {"note": note, "work": work, "time": time}
    exec(text, scope)
    return scope[name]


def note(name):
    task = asyncio.current_task()
    seen = truth.setdefault(name, task.get_name())
    assert seen == task.get_name(), "the program is wrong"


def work():
    end = time.perf_counter() + 0.0005
    while time.perf_counter() < end:
        sum(range(200))


async def worker(first, second, renamed, named):
    if named or sys.version_info[:2] == (3, 13):
        await asyncio.sleep(0)  # an eager task begins before it has its name (of 3.13 also one that is given none: "None")
    while not stop:
        first()
        await asyncio.sleep(0)
        if renamed is not None:
            before = asyncio.current_task().get_name()
            asyncio.current_task().set_name(renamed)
            await asyncio.sleep(0)
            second()
            asyncio.current_task().set_name(before)


class Own(asyncio.Task):
    pass


async def gathered(prefix, factory):
    asyncio.get_running_loop().slow_callback_duration = 60
    if factory is not None:
        asyncio.get_running_loop().set_task_factory(factory)
    tasks = []
    for i, name in enumerate([*NAMES, None, None]):
        first, second = function(f"{prefix}_{i}_first"), function(f"{prefix}_{i}_second")
        task = asyncio.ensure_future(worker(first, second, f"{prefix} renamed {i}" if i % 2 else None, name is not None))
        if name is not None:
            task.set_name(prefix + name if name else name)
        tasks.append(task)
    await asyncio.get_running_loop().run_in_executor(None, outside)
    await asyncio.gather(*tasks)


def outside():
    """A thread without a loop."""
    while not stop:
        work()
        time.sleep(0.0005)


def in_thread(prefix, factory):
    asyncio.run(gathered(prefix, factory))
    ended.append(prefix)


def main():
    global stop
    spprof.start(output_path=sys.argv[1], mode=sys.argv[2])
    factories = {"plain": None, "own": lambda loop, coro, **rest: Own(coro, loop=loop, **rest)}
    if hasattr(asyncio, "eager_task_factory"):
        factories["eager"] = asyncio.eager_task_factory
    threads = [threading.Thread(target=in_thread, args=each) for each in factories.items()]
    for thread in threads:
        thread.start()
    time.sleep(float(sys.argv[3]))
    stop = True
    for thread in threads:
        thread.join()
    taken = len(spprof.stop())
    assert len(ended) == len(threads), ended
    print(json.dumps({"truth": truth, "taken": taken}))


main()
