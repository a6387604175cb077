"""So many tasks of asyncio that wait, three of ten in `naps` and the others in `queues`, for a time. Prints how long that was, and
how much of the time the event loop was late."""

import asyncio
import json
import sys
import time

import spprof

NUMBER, SECONDS = int(sys.argv[2]), float(sys.argv[3])
late = []


async def naps():
    await asyncio.sleep(1000)


async def queues(event):
    await event.wait()


async def beats():
    while True:
        due = time.perf_counter() + 0.002
        await asyncio.sleep(0.002)
        late.append(time.perf_counter() - due)


async def main():
    event = asyncio.Event()
    tasks = [asyncio.create_task(naps() if i % 10 < 3 else queues(event)) for i in range(NUMBER)]
    await asyncio.sleep(0.1)
    heart = asyncio.create_task(beats())
    spprof.start(output_path=sys.argv[1], mode="wall", events=["time", "tasks"])
    began = time.perf_counter()
    await asyncio.sleep(SECONDS)
    took = time.perf_counter() - began
    spprof.stop()
    heart.cancel()
    late.sort()
    print(
        json.dumps(
            {"took": took, "stats": spprof.stats(), "late_us": [late[len(late) * q // 1000] * 1e6 for q in (500, 900, 990)]}
        )
    )
    for task in tasks:
        task.cancel()


asyncio.run(main())
