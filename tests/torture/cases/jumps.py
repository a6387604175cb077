"""Stacks that jump: generators and async generators closed mid-way, exceptions through many frames, RecursionError, tracing."""

import asyncio
import sys

UNITS = 40
DEEP = True
TRACED = True


def work(n):
    return sum([i * 2 for i in range(n)])


def generator(depth):
    try:
        yield work(40)
        if depth:
            yield from generator(depth - 1)
    finally:
        work(10)


def closed(units):
    total = 0
    for i in range(units * 300):
        made = generator(12)
        for _ in range(i % 14):
            total += next(made, 0)  # -> generator
        made.close()  # -> generator
        total += sum(work(k) for k in range(5))
    return total


async def numbers(n):
    for i in range(n):
        work(30)
        yield i
        await asyncio.sleep(0)  # -> sleep


async def consumer(n):
    total = 0
    async for i in numbers(n):  # -> *
        total += i
        if i == n // 2:
            break  # -> *
    return total  # -> *


async def many(units):
    sums = await asyncio.gather(*[consumer(10 + i % 7) for i in range(units * 20)])  # -> gather
    return sum(sums)


def raises(depth):
    if depth == 0:
        work(50)
        raise ValueError(depth)
    try:
        raises(depth - 1)
    finally:
        work(5)


def caught(units):
    n = 0
    for _ in range(units * 60):
        try:
            raises(30)
        except ValueError:
            n += 1
    return n


def endless(n):
    return endless(n + 1) + 1


def recursion(units):
    n = 0
    for _ in range(units * 8):
        try:
            endless(0)
        except RecursionError:
            n += 1
    return n


def tracer(frame, event, argument):
    return tracer


def traced(units):
    sys.settrace(tracer)
    try:
        return sum([work(20) for _ in range(units * 200)])  # -> tracer
    finally:
        sys.settrace(None)  # -> tracer


ANYWHERE = {"tracer", "<lambda>"}  # by the interpreter, at calls, lines and returns


def main(units):
    result = [closed(units), asyncio.run(many(units)), caught(units), recursion(units), traced(units)]  # -> *
    if sys.version_info >= (3, 12):
        seen = []
        tool = sys.monitoring
        tool.use_tool_id(3, "torture")
        tool.register_callback(3, tool.events.PY_START, lambda code, offset: seen.append(1))
        tool.set_events(3, tool.events.PY_START)
        result.append(caught(units))  # -> caught <lambda>
        tool.set_events(3, 0)
        tool.free_tool_id(3)
        result.append(len(seen) > 100)
    return [*result[:3], recursion(1) > 0, *result[4:]]
