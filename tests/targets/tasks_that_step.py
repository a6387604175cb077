"""A task in another thread steps all the time. Prints how many of so many runs (argument) refused tasks, each time while the
main thread asks that task what it is."""

import asyncio
import json
import sys
import threading

import spprof

begun = threading.Event()
stop = False


async def steps():
    loop = asyncio.get_running_loop()
    while not stop:
        future = loop.create_future()
        loop.call_soon(future.set_result, None)
        await future
        begun.set()


thread = threading.Thread(target=lambda: asyncio.run(steps()))
thread.start()
begun.wait()
refused = 0
for _ in range(int(sys.argv[1])):
    spprof.start(mode="wall")
    for _ in range(1000):
        pass
    spprof.stop()
    refused += spprof.stats()["tasks_unknown"]
stop = True
thread.join()
print(json.dumps({"refused": refused}))
