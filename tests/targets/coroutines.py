"""asyncio: tasks, gather, async for, async with, async comprehensions."""
# foreign: _run > leaf walk main spread
# foreign: run run_until_complete run_forever _run_once > main

import asyncio


def work(n):
    return sum(range(n))


async def leaf(n):
    work(n)  # -> work
    await asyncio.sleep(0)  # -> sleep
    return work(n + 1)  # -> work


async def numbers(n):
    for i in range(n):
        yield await leaf(i)  # -> leaf


class Guard:
    async def __aenter__(self):
        await leaf(3)  # -> leaf
        return self

    async def __aexit__(self, *error):
        work(5)  # -> work


async def walk(n):
    total = 0
    async with Guard():  # -> Guard.__aenter__ Guard.__aexit__
        async for i in numbers(n):  # -> numbers BaseEventLoop._asyncgen_firstiter_hook
            total += i  # ->  3.9: Guard.__aexit__
    return total


async def spread(n):
    return [x async for x in numbers(n)]  # -> numbers BaseEventLoop._asyncgen_firstiter_hook spread.<locals>.<listcomp>


async def main():
    await asyncio.gather(walk(4), leaf(2), spread(3))  # -> gather walk leaf spread
    return await leaf(7)  # -> leaf


def step():
    asyncio.run(main())  # -> run __getattr__ main
