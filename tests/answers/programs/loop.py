"""An event loop: one coroutine computes and holds it up."""

import asyncio


def parsed(text):
    total = 0
    for letter in text:
        total = (total * 31 + ord(letter)) % 65521
    return total


async def imports(number):
    for _ in range(12):
        parsed("abcdefgh" * 20_000)
        await asyncio.sleep(0)


async def heartbeat():
    while True:
        await asyncio.sleep(0.01)


async def main():
    beat = asyncio.create_task(heartbeat(), name="heartbeat")
    await asyncio.gather(*(asyncio.create_task(imports(i), name=f"import-{i}") for i in range(4)))
    beat.cancel()


asyncio.run(main())
