"""served.py: a server for attaching.py. It prints its number and its port, and answers lines: `here N` on asyncio's loop,
`thread N` on a pool, `state` with what an attachment may not leave. Ends when its standard input does."""

import asyncio
import json
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

THREADS = 2


def work(n):
    return sum([i * i % 7 for i in range(n)])


def hum():
    """Work that nobody asks for, now and then."""
    while not ended.wait(0.002):
        work(2000)


def state():
    monitoring = getattr(sys, "monitoring", None)
    core = sys.modules.get("spprof._core")
    spprof = sys.modules.get("spprof")
    return {
        "profile": repr(sys.getprofile()),
        "trace": repr(sys.gettrace()),
        "tools": [monitoring.get_tool(i) for i in range(6)] if monitoring else [],
        "handlers": {int(one): repr(signal.getsignal(one)) for one in signal.valid_signals()},
        "threads": sorted(one.name for one in threading.enumerate()),
        "active": bool(core and spprof.is_active()),
        "stats": spprof.stats() if core else {},
    }


async def answer(reader, writer):
    loop = asyncio.get_running_loop()
    async for line in reader:
        words = line.split()
        if words[0] == b"state":
            said = json.dumps(state())
        elif words[0] == b"thread":
            said = str(await loop.run_in_executor(pool, work, int(words[1])))
        else:
            said = str(work(int(words[1])))
        writer.write(said.encode() + b"\n")
        await writer.drain()
    writer.close()


async def serve():
    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=1 << 20)
    both = threading.Barrier(THREADS + 1)
    for _ in range(THREADS):  # now: threads that begin later would be taken for the attachment's
        pool.submit(both.wait)
    both.wait()
    print(os.getpid(), server.sockets[0].getsockname()[1], flush=True)
    done = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, lambda: os.read(0, 1) or done.set())
    await done.wait()
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})  # those of clients, which have gone


ended = threading.Event()
pool = ThreadPoolExecutor(THREADS)
threading.Thread(target=hum, name="hum").start()
try:
    asyncio.run(serve())
finally:
    ended.set()
