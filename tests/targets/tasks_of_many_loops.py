"""Six loops, each of which changes the table of running tasks all the time (before Python 3.14 it is one for all), while a task
of each computes."""

import asyncio
import sys
import threading
import time

import spprof


def computes(until):
    while time.perf_counter() < until:
        pass


async def worker(until):
    while time.perf_counter() < until:
        computes(time.perf_counter() + 0.0005)
        await asyncio.sleep(0)


async def hops(until):
    while time.perf_counter() < until:
        await asyncio.sleep(0)


async def tasks(until):
    await asyncio.gather(
        asyncio.create_task(worker(until), name="worker"),
        *[asyncio.create_task(hops(until), name="hop") for _ in range(3)],
    )


path, mode, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
until = time.perf_counter() + seconds
spprof.start(0.1, mode, output_path=path)
threads = [threading.Thread(target=lambda: asyncio.run(tasks(until))) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
spprof.stop()
