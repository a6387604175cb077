"""uvloop: a server and 40 clients on loopback, timers, an executor, a subprocess, and a signal of the program's own."""

import asyncio
import hashlib
import os
import signal
import sys
import time

import uvloop
from _truth import burn, part

PYPI = ["uvloop"]


async def serve(reader, writer):
    while True:
        line = await reader.readline()  # -> *
        if not line:
            break
        burn(300)
        writer.write(line[::-1])  # -> *
        await writer.drain()  # -> *
    writer.close()  # -> *


async def client(port, n):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)  # -> *
    good = 0
    for i in range(n):
        writer.write(b"%d\n" % i)  # -> *
        good += await reader.readexactly(len(b"%d\n" % i)) is not None  # -> *
        if i % 10 == 0:
            await asyncio.sleep(0.001)  # -> *
    writer.close()  # -> *
    await writer.wait_closed()  # -> *
    return good


def hashed(n):
    return hashlib.pbkdf2_hmac("sha256", b"word", b"salt", n)[0]


def blocked(n):
    time.sleep(n)
    return n


def heavy(n):
    return burn(n)


async def work():
    loop, alarms = asyncio.get_running_loop(), []
    loop.add_signal_handler(signal.SIGUSR1, alarms.append, 1)  # -> *
    server = await asyncio.start_server(serve, "127.0.0.1", 0)  # -> *
    port = server.sockets[0].getsockname()[1]  # -> *
    jobs = [loop.run_in_executor(None, hashed, 20000 + i) for i in range(10)]  # -> *
    sleeps = [loop.run_in_executor(None, blocked, 0.02) for _ in range(10)]  # -> *
    clients = await asyncio.gather(*(client(port, 50) for _ in range(40)))  # -> *
    os.kill(os.getpid(), signal.SIGUSR1)
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", "print(6 * 7)", stdout=asyncio.subprocess.PIPE)  # -> *
    said, _ = await child.communicate()  # -> *
    while not alarms:
        await asyncio.sleep(0.001)  # -> *
    with part("heavy"):  # -> *
        total = heavy(6000000)
    print(sum(clients), await asyncio.gather(*jobs), sum(await asyncio.gather(*sleeps)), said, alarms, total)  # -> *
    server.close()  # -> *
    await server.wait_closed()  # -> *


def main():
    loop = uvloop.new_event_loop()  # -> *
    loop.run_until_complete(work())  # -> * serve client work
    loop.close()  # -> *


if __name__ == "__main__":
    main()
