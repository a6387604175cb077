"""Threads that hand over to each other all the time: handover.py lock|queue|gil|pool|asyncio N

A lock that four threads contend for, items through a queue and back, eight threads that take the GIL from each other, a pool's
tasks, calls of asyncio.to_thread. N: turns, items, calls."""

import sys

import says

how, n = sys.argv[1], int(sys.argv[2])


def lock() -> None:
    import threading

    mutex, left = threading.Lock(), iter(range(n))

    def work() -> None:
        while True:
            with mutex:
                if next(left, None) is None:
                    return

    together([work] * 4)


def queue() -> None:
    import queue

    there, back = queue.SimpleQueue(), queue.SimpleQueue()

    def echo() -> None:
        for _ in range(n):
            back.put(there.get())

    def ask() -> None:
        for i in range(n):
            there.put(i)
            back.get()

    together([echo, ask])


def gil() -> None:
    sys.setswitchinterval(0.0001)

    def work() -> None:
        for _ in range(n // 8):
            sum(range(100))

    together([work] * 8)


def pool() -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as workers:
        for _ in workers.map(abs, range(n)):
            pass


def asyncio() -> None:
    import asyncio

    async def main() -> None:
        for _ in range(n):
            await asyncio.to_thread(abs, 1)

    asyncio.run(main())


def together(functions: list) -> None:
    import threading

    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


with says.work():
    {"lock": lock, "queue": queue, "gil": gil, "pool": pool, "asyncio": asyncio}[how]()
