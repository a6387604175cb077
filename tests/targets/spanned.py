"""Spans of OpenTelemetry in tasks, threads and pools that overlap: spanned.py OUT MODE SECONDS. Each function works in one span
alone; prints which, as the program itself sees it. With `late`, the library is imported when the profile is being taken."""

import asyncio
import concurrent.futures
import contextvars
import json
import sys
import threading
import time

import spprof

truth = {}
late = "late" in sys.argv
if late:
    spprof.start(0.1, sys.argv[2], sys.argv[1])

from opentelemetry import trace  # noqa: E402
from opentelemetry.context import attach, detach, set_value  # noqa: E402

try:
    from opentelemetry.sdk.trace import TracerProvider

    trace.set_tracer_provider(TracerProvider())
except ImportError:  # the interface alone: its spans record nothing, but have ids
    pass
tracer = trace.get_tracer("test")
numbers = iter(range(1 << 30))


def ids():
    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}-{context.span_id:016x}" if context.span_id else ""


def span():
    """A span of the library's own; where only its interface is there, one with ids of all sizes."""
    number = next(numbers)
    if hasattr(trace.get_tracer_provider(), "add_span_processor") and number % 2:
        return tracer.start_as_current_span(f"span {number}")
    sizes = ((1 << 127) + number, (1 << 63) + number), (1 + number, 1 + number), ((1 << 64) + number, (1 << 31) + number)
    context = trace.SpanContext(*sizes[number % 3], is_remote=bool(number % 2))
    return trace.use_span(trace.NonRecordingSpan(context))


def work():
    end = time.perf_counter() + 0.0005
    while time.perf_counter() < end:
        sum(range(200))
    time.sleep(0.0003)


def runs(name):
    """Works in a function of that name, which notes the span that is current."""
    scope = {"work": work, "truth": truth, "ids": ids}
    exec(f"def {name}():\n truth[{name!r}] = ids()\n work()\n work()", scope)
    return scope[name]


async def served(name, pool):
    loop = asyncio.get_running_loop()
    runs(f"before_{name}")()
    with span():
        runs(f"outer_{name}")()
        await asyncio.sleep(0)
        with span():
            runs(f"inner_{name}")()
            await asyncio.gather(*(asyncio.create_task(child(f"{name}_{i}")) for i in range(2)))
            await loop.run_in_executor(pool, contextvars.copy_context().run, runs(f"executor_{name}"))
        await asyncio.to_thread(runs(f"tothread_{name}"))
        runs(f"again_{name}")()
    runs(f"after_{name}")()


async def child(name):
    runs(f"inherited_{name}")()
    await asyncio.sleep(0)
    with span():
        runs(f"child_{name}")()


async def serve(ends):
    turn = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        while time.monotonic() < ends:
            await asyncio.gather(*(served(f"{turn}_{i}", pool) for i in range(3)))
            turn += 1


def thread(number, ends):
    turn = 0
    for i in range(number * 40):  # tries of different depths
        contextvars.ContextVar(f"other {i}").set(i)
    while time.monotonic() < ends:
        runs(f"thread_{number}_{turn}")()
        token = attach(set_value(f"key {turn}", turn))  # a context has more than a span
        with span() as current:
            vars(current)  # from here on its attributes are in a dict
            runs(f"inthread_{number}_{turn}")()
        detach(token)
        turn += 1


if not late:
    spprof.start(0.1, sys.argv[2], sys.argv[1])
ends = time.monotonic() + float(sys.argv[3])
threads = [threading.Thread(target=thread, args=(number, ends)) for number in range(2)]
for each in threads:
    each.start()
asyncio.run(serve(ends))
for each in threads:
    each.join()
spprof.stop()
print(json.dumps({"truth": truth}))
