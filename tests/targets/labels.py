"""Functions that run under known labels only: labels.py OUT MODE. Prints which, and when each request ran."""

import asyncio
import contextvars
import gc
import json
import sys
import threading
import time

import spprof


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:  # read when it may have been used up: docs/troubleshooting.md, "Hardly any samples"
        until = time.monotonic() + end - time.thread_time()
        while time.monotonic() < until:
            sum(range(100))


def red():
    burn(0.02 * more)


def blue():
    burn(0.02 * more)


def plain():
    burn(0.02 * more)


def deep():
    burn(0.1 * more)


def threaded():
    burn(0.1 * more)


def napping():
    time.sleep(0.1 * more)


def handle():
    burn(0.001)


def stepped():
    for _ in range(3):
        burn(0.02 * more)
        yield


async def colour(function, others, **labels):
    for i in range(others):
        contextvars.ContextVar(f"other {i}").set(i)
    with spprof.label(**labels):
        for _ in range(5):
            function()
            await asyncio.sleep(0)
    plain()


async def both():
    plain()
    await asyncio.gather(colour(red, 0, task="red"), colour(blue, 700, task="blue", ünïcode='"\\\n\udcff'))


def thread():
    with spprof.label(a="outer", b=1):
        threaded()
        with spprof.label(a="inner", c=None):
            deep()
        threaded()
        napping()
    plain()


def requests(spans):
    """More sets of labels than fit into what is kept at a time: each dies when its request ends."""
    for number in range(300 * more):
        began = time.monotonic_ns()
        with spprof.label(request=number):
            handle()
        spans.append((began, time.monotonic_ns()))


def collect(truth):
    events = []
    gc.callbacks.append(lambda phase, about: events.append((phase, time.monotonic_ns(), about["generation"], about["collected"])))
    for generation in (2, 0, 1, 2):
        ring = [None]
        ring[0] = ring
        del ring
        gc.collect(generation)
    gc.callbacks.pop()
    truth += [(a[1], b[1], *b[2:]) for a, b in zip(events[::2], events[1::2])]


spans, collections = [], []
spprof.start(0.1, sys.argv[2], sys.argv[1])
more = 10 if spprof.stats()["clock"] == "timer" else 1  # its ticks are the kernel's, 4 to 10 ms apart
asyncio.run(both())
threads = [threading.Thread(target=thread, name="t"), threading.Thread(target=requests, args=(spans,), name="r")]
for each in threads:
    each.start()
for each in threads:
    each.join()
with spprof.label(generator="driver"):  # a generator runs in the context of the code that steps it
    steps = stepped()
    next(steps)
    next(steps)
gc.disable()
collect(collections)
in_list = spprof._core.collection in gc.callbacks
spprof.stop()
print(json.dumps({"spans": spans, "collections": collections, "tid": threading.get_native_id(),
                  "hooked": [in_list, spprof._core.collection in gc.callbacks], "current": spprof.current_labels()}))
