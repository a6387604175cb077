"""Tasks that wait: a pool of two connections for eight clients."""

import asyncio


async def query():
    await asyncio.sleep(0.1)


async def client(connections):
    for _ in range(4):
        async with connections:
            await query()


async def main():
    connections = asyncio.Semaphore(2)
    await asyncio.gather(*(asyncio.create_task(client(connections), name=f"client-{i}") for i in range(8)))


asyncio.run(main())
